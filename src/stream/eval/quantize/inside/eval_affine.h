// Inside the evaluator: quantization by tensor or channel (FORMAT_SHRINK, LEVELS, AFFINE).
#ifndef WEIR_EVAL_AFFINE_H
#define WEIR_EVAL_AFFINE_H

#include "kernels/kernels.h"
#include "stream/eval/core/eval_parts.h"

// Elements of a QUANTIZE row of those formats, through the box of its recipe. ERR_MODEL if the
// operand has elements that are NaN or infinite, or a range that its type cannot hold.
int eval_affine_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                         uint64_t count, uint8_t *out, struct err *err);

// How one tensor or channel is quantized (eval_affine_grid.c). What is stored as scale and zero
// point is `scale` and `zero`, rounded to the weight's type (AFFINE: zero is a code).
enum eval_affine_rule { EVAL_AFFINE_CONSTANT, EVAL_AFFINE_F16, EVAL_AFFINE_F32, EVAL_AFFINE_F64 };
struct eval_affine_grid {
  enum eval_affine_rule rule; // CONSTANT: codes are 0; the others: the arithmetic of the elements
  struct kernels_affine k;
  double scale, zero;
};
// From the smallest and largest element, both finite; lo > hi: there are none. False if no
// arithmetic can hold the range.
bool eval_affine_grid_of(const struct recipe_quantization *q, enum dtype type, double lo, double hi,
                         struct eval_affine_grid *g);

#endif
