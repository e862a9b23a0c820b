// Room: quantized models converted from one form to the other.
//
// requantize: quantized models from one form to another. What its parts share, and in which order they come:
//
//   fold          constants after QuantizeLinear, FakeQuantize and converted modules become stored codes     (requantize_fold.c)
//   to qoperator  DequantizeLinear → operator → QuantizeLinear becomes the operator on codes        (requantize_to_qoperator.c)
//   to qdq        the operator on codes becomes DequantizeLinear → operator → QuantizeLinear              (requantize_to_qdq.c)
//   biases        what is in QDQ form: a MatMul and the Add of its bias become a recipe of Neural Compressor (requantize_biases.c)
//
// The seam is run_requantize in requantize_passes.c: what folds comes first, and leaves DequantizeLinear of initializers, whose
// scales and zero points are initializers too; what changes the form asks only for those. Each part walks the model itself, and
// reports its own sites.
#ifndef WEIR_REQUANTIZE_H
#define WEIR_REQUANTIZE_H

#include "passes/kit/kit.h"

enum requantize_to { REQUANTIZE_QDQ, REQUANTIZE_QOPERATOR };
enum requantize_recipe { // as the words of --format, from 1 on
  REQUANTIZE_NO_RECIPE,
  REQUANTIZE_INT32_BIAS,
  REQUANTIZE_FP32_BIAS,
  REQUANTIZE_FP32_BIAS_QDQ,
};

struct requantize_options {
  struct name_filter nodes;
  enum requantize_to to;
  enum requantize_recipe recipe;
  bool qlinear; // --execution
};
// Are there to be operators on codes, which read the codes of weights themselves?
static inline bool requantize_makes_codes(const struct requantize_options *o) {
  return o->to == REQUANTIZE_QOPERATOR || o->recipe != REQUANTIZE_NO_RECIPE;
}

// The nodes of every graph, as they can run, into memory of *a; gives how many. Nodes that go later stay there, dead.
uint32_t requantize_nodes(struct kit *k, struct arena *a, uint32_t **nodes);
// Calls `visit` for the nodes of every graph, as they can run, that there were when it began: it may remove and make others.
void requantize_walk(struct kit *k, const struct requantize_options *options,
                     void (*visit)(struct kit *k, const struct requantize_options *options,
                                   uint32_t node));

// Constants after QuantizeLinear become stored codes, and what stands between codes and DequantizeLinear without doing
// anything goes. First of all parts.
void requantize_fold(struct kit *k, const struct requantize_options *options);

// Types are known (kit_infer). Nodes that the filter does not let through stay.
void requantize_to_qoperator(struct kit *k, const struct requantize_options *options);
// Has an operator on codes scales by channel? DequantizeLinear has them from opset 13 on.
enum { REQUANTIZE_CHANNELS_OPSET = 13 };
bool requantize_wants_channels(struct kit *k, const struct requantize_options *options);
void requantize_to_qdq(struct kit *k, const struct requantize_options *options);

// In a model in QDQ form. The reasons of its groups of edits are those of the row's `activations_in`.
#define REQUANTIZE_NOT_ROUNDED "not_rounded" // Q and DQ that went
#define REQUANTIZE_INT32 "int32_bias"
#define REQUANTIZE_FLOAT "float_bias"
void requantize_biases(struct kit *k, const struct requantize_options *options);

#endif
