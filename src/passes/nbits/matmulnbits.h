// Room: the pass `quantize`: weights of MatMul, Gemm and Gather -> blockwise 2, 4 or 8 bit codes.
//
//   qoperator   MatMul(x, W)     -> com.microsoft.MatMulNBits(x, codes, scales[, zeros])
//               Gemm(x, W, c)    -> MatMulNBits · [Mul alpha] · [Add c]
//               Gather(W, i)     -> com.microsoft.GatherBlockQuantized(codes, i, scales[, zeros])
//   qdq         Op(…, W, …)      -> Op(…, DequantizeLinear(codes, scales[, zeros]), …)
//
// Names, attributes, and the order of initializers and nodes are those of onnxruntime's
// MatMulNBitsQuantizer wherever that writes something valid; docs/quantize.md lists formats, names,
// reason words and what we do differently. Needs: the type of nothing (a declared rank of x spares
// the Reshape behind weights with leading dims of 1). Promises: every other value as it was.
#ifndef WEIR_MATMULNBITS_H
#define WEIR_MATMULNBITS_H

#include "passes/nbits/size_budget.h"
#include "passes/pass.h"
#include "passes/questions/name_filter.h"
#include "targets/targets.h"

enum matmulnbits_algorithm {
  MATMULNBITS_DEFAULT,
  MATMULNBITS_RTN,
  MATMULNBITS_K_QUANT,
  MATMULNBITS_K_QUANT_BEST,
  MATMULNBITS_HQQ,
  MATMULNBITS_GPTQ,
  MATMULNBITS_AWQ
};
// Operators, as bits of a mask.
enum matmulnbits_op { MATMULNBITS_MATMUL = 1, MATMULNBITS_GEMM = 2, MATMULNBITS_GATHER = 4 };

struct matmulnbits_scheme {
  uint32_t bits;  // 2, 4, 8
  uint32_t block; // 16, 32, 64, 128, 256; 0: all of a column is one block (qdq only)
  bool symmetric;
  enum matmulnbits_algorithm algorithm; // other than the default: qoperator, MatMul and Gemm
};
bool matmulnbits_scheme_same(const struct matmulnbits_scheme *a,
                             const struct matmulnbits_scheme *b);

// PATTERN=bits4:g64:sym: what it says of a tensor instead of the scheme.
struct matmulnbits_override {
  struct name_pattern pattern;
  bool has_bits, has_block, has_symmetric;
  struct matmulnbits_scheme scheme;
};

// What becomes of weights that miss a gate: 8 bits, left alone, a failure.
enum matmulnbits_gate_action { MATMULNBITS_RAISE, MATMULNBITS_SKIP, MATMULNBITS_FAIL };

struct matmulnbits_options {
  struct name_filter names;    // of nodes and tensors; the first member: name_filter.h
  const struct target *target; // what it is for (targets.h); NULL: nobody said
  struct matmulnbits_scheme scheme;
  bool block_given; // not the usual one: nobody needs to be told of a better one
  bool qdq;
  uint32_t op_types; // enum matmulnbits_op
  struct matmulnbits_override *overrides;
  uint32_t n_overrides;
  uint32_t accuracy_level; // 0: not written
  bool level_of_target;    // then it is written to nodes of 4 bits only
  uint64_t min_elements;
  // Decided by measurements: one more read of the weights, through env->ask.
  uint64_t budget; // bytes of the whole output; 0: none
  struct matmulnbits_scheme *candidates;
  uint32_t n_candidates; // what the budget picks from, where --tensor says nothing
  struct size_budget_gate *gates;
  uint32_t n_gates;
  enum matmulnbits_gate_action gate_action;
  const char *ranges;  // the file of statistics, for gptq and awq
  bool skip_nonfinite; // weights with NaN or infinities are left alone; else the run refuses them
};

// "PATTERN=bits4:g64:sym": any of bits2|bits4|bits8, g16…g256|channel, sym|asym, in any order,
// behind the last '='. ERR_USAGE for anything else. The pattern is compiled:
// name_pattern_done(&out->pattern).
int matmulnbits_override_parse(const char *text, struct matmulnbits_override *out, struct arena *a,
                               struct err *err);
// "4:64", "8:128:sym", "4:channel:asym", "4:64:sym:rtn": bits, block size and, in any order, sym
// (else asymmetric) and an algorithm. Where it names none, *out keeps its own, but of 8 bits and
// hqq, which do not go together: there it is the default. ERR_USAGE for anything else.
int matmulnbits_candidate_parse(struct span text, struct matmulnbits_scheme *out, struct err *err);
const char *matmulnbits_algorithm_name(enum matmulnbits_algorithm algorithm); // "default", "rtn", …
// The same words of a scheme: "4:64", "8:128:sym", "4:64:rtn".
const char *matmulnbits_scheme_text(const struct matmulnbits_scheme *s, struct arena *a);
// ERR_USAGE for options that do not go together.
int matmulnbits_options_check(const struct matmulnbits_options *options, struct err *err);

// Quantizes all that the options choose, in all graphs and functions. Each node of the chosen types
// is reported to env->site, patterns without a match to env->warn. The options' patterns count
// their matches. A budget is the result's output_limit; one that nothing fits by the count gives the
// smallest pick, and whoever plans it sees whether that is true.
// ERR_USAGE for options that do not go together; ERR_FAIL if qdq needs a newer opset and a node of
// the model does not mean the same there. Nothing is edited on failure.
int pass_matmulnbits(struct pass_env *env, struct matmulnbits_options *options, struct err *err);

// The opset that a model has to have for all that the options may pick; 0: any.
int64_t matmulnbits_opset(const struct matmulnbits_options *options);

// What one candidate would make of one weight. The candidates of a weight follow one another, in
// the order of the options; those that there is no operator for (a Gather's) are left out.
struct matmulnbits_measurement {
  bool first;         // of its weight
  struct span tensor; // name of the weight
  const int64_t *dims;
  uint32_t rank;
  enum dtype dtype;
  uint64_t source_bytes;
  struct matmulnbits_scheme scheme;
  uint64_t bytes; // of codes, scales and zero points
  struct figures figures;
};
struct matmulnbits_listener {
  void (*each)(void *ctx, const struct matmulnbits_measurement *row);
  void *ctx;
};
// Measures all candidates of the options on every weight that they choose, and edits nothing: one
// streaming read through env->ask. Strings hold during the call. Sites are reported as by the
// pass.
int matmulnbits_measure(struct pass_env *env, struct matmulnbits_options *options,
                        const struct matmulnbits_listener *to, struct err *err);

// Bytes of codes, scales and zero points of `columns` columns of k elements of so many bytes (block
// not 0).
uint64_t matmulnbits_bytes(const struct matmulnbits_scheme *s, uint64_t k, uint64_t columns,
                           uint64_t width);

// What the pass would find with this scheme (block not 0), the default algorithm and form, and these
// operators (enum matmulnbits_op), without a look at an element: nodes, the weights they share, and the bytes of
// those. Kept: of weights that one of the other operators uses too, so that the original stays.
struct matmulnbits_survey {
  uint64_t nodes, weights;
  uint64_t bytes_before, bytes_after; // after: codes, scales and zero points
  uint64_t bytes_kept;
};
void matmulnbits_survey(const struct model *m, const struct matmulnbits_scheme *scheme,
                        uint32_t op_types, struct matmulnbits_survey *out);
enum { MATMULNBITS_ALL_OPS = MATMULNBITS_MATMUL | MATMULNBITS_GEMM | MATMULNBITS_GATHER };

#endif
