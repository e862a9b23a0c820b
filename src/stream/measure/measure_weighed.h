// What errors of weights cost outputs, by the second moments of what the weights are multiplied with.
#ifndef WEIR_MEASURE_WEIGHED_H
#define WEIR_MEASURE_WEIGHED_H

#include "stream/eval/shared/eval_cache.h"
#include "stream/measure/measure.h"
#include "tensor_stats/output_error.h"

// codes: of a QUANTIZE, QUANTIZE_BY or QUANTIZE_LINEAR row, also behind what only moves them. The weight W is the row's
// operand; E is what it is less what codes, scales and zero points stand for.
// by: what E is weighed by. Its dims have the operand's rank, and all of them but one are 1: that one is the axis
// of W that is multiplied.
//
//   doubles, second_moments_elements(K) of them   G = XᵀX, of a matrix with K rows (axis 0) or columns (axis 1), as second_moments.h has it
//   floats, K of them                   the diagonal of G; all other elements count as 0. Also of a Conv's weight [M,C,…], axis 1
//   one float                           G is that times the identity: the weight alone
struct measure_weighing {
  uint32_t codes, by;
};
bool measure_weighed_can(const struct recipes *r, uint32_t codes, uint32_t by);

// Of n such pairs (of which all can) into out[0..n), in their order. Sums are double, in one order for any number of workers,
// memory and instruction set. Recipes are added to *r: of scales, zero points, and of what they stand for. A worker
// holds a tile of G, a product of it and scratch besides: 5 MiB. Neighbours with the same weight and `by` share the work of the
// signal. An operand is read once a question, and twice where its scales need a look at all of it; G once for some hundred
// columns. file: takes the factors of second moments that GPTQ multiplies errors with (eval_cache.h). Afterwards the
// sources are checked to be unchanged. ERR_RETRY after a stop, ERR_MODEL for a weight that cannot be quantized.
int measure_weighed_run(struct recipes *r, struct sources *s, const struct measure_weighing *of,
                        uint32_t n, const struct work_options *options, struct eval_cache_file file,
                        struct output_error *out, struct measure_stats *stats, struct err *err);

#endif
