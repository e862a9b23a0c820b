// Room: pointwise (1×1) Conv -> MatMul, so that quantizers that only know MatMul see these weights.
//
//   y = Conv(x, W[M,C,1(,1(,1))], b)
//
//   flat form                                         batched form
//   [Pad] [Slice] Transpose(NC…→N…C)                  [Pad] [Slice] Transpose
//   Reshape [-1,C] · MatMul Wᵀ[C,M] · Add b           MatMul Wᵀ[C,M] · Add b
//   Reshape [N,…,M] · Transpose(N…C→NC…)              Transpose
//
// The decisions, their order and the reason words are those of onnx-conv2matmul 0.1.1, which this
// replaces; without strict_compat the pass also converts where that tool gives up
// (docs/conv2matmul.md).
// Every Conv is reported to env->site, in all graphs (strict_compat: the main graph). Cannot fail on a
// loaded model. Needs: types of nothing. Promises: numbers equal within float rounding of the sum's order.
#ifndef WEIR_CONV2MATMUL_H
#define WEIR_CONV2MATMUL_H

#include "passes/pass.h"

// In the order of the words of the option.
enum conv2matmul_form { CONV2MATMUL_FLAT, CONV2MATMUL_BATCHED, CONV2MATMUL_AUTO };

struct conv2matmul_options {
  bool extended;        // pads and strides too (Pad and Slice before the MatMul)
  bool allow_dilation;  // dilations other than 1 (without effect on a 1×1 kernel)
  int64_t max_dilation; // 0: no limit
  bool strict_compat;   // decide, rewrite and keep exactly as the existing tool
  enum conv2matmul_form form;
};

// What the pass would do with one node, and why: a stable word.
struct conv2matmul_match {
  bool converts;
  const char *reason;
  bool used_extended_mode;           // as the report shows it
  uint32_t rank;                     // spatial
  int64_t channels_in, channels_out; // C, M
  int64_t pads[6];                   // befores then afters
  int64_t strides[3];
  bool padded, strided; // not all 0, not all 1
  struct model_constant weight;
  uint32_t bias; // value id, NO_ID: none
};
// Is the node a Conv at all? strict_compat takes one of any domain, as the existing tool does.
bool conv2matmul_looks_at(const struct model *m, uint32_t node,
                          const struct conv2matmul_options *options);
void conv2matmul_match(const struct model *m, uint32_t node,
                       const struct conv2matmul_options *options, struct conv2matmul_match *out);
// Bytes of the weights of all nodes that plain options would convert, each weight once.
uint64_t conv2matmul_weight_bytes(const struct model *m);

#endif
