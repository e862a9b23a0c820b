// Inside the evaluator: error figures by chunks of elements (eval.h says what is told).
#ifndef WEIR_EVAL_FIGURES_H
#define WEIR_EVAL_FIGURES_H

#include "eval_parts.h"

enum { EVAL_PAIRS = 512 }; // pairs that are brought into form at once

// Are this recipe's elements told of, in this range or in another one's?
bool eval_figures_watches(const struct eval_task *t, uint32_t id);
// Is the next element that is to be told of among these elements of recipe `id`?
bool eval_figures_wants(const struct eval_task *t, uint32_t id, uint64_t first, uint64_t n);
// Elements [first, first + n) and what they are stored as, after eval_figures_wants of the same.
// ERR_MODEL if one that is quantized is not finite.
int eval_figures_add(struct eval_task *t, uint64_t first, const double *v, const double *w,
                     size_t n, struct err *err);
// The same of floats and their codes. False if one of them is not finite: what is wanted from there
// on is left to eval_figures_add.
bool eval_figures_add_codes(struct eval_task *t, uint64_t first, const float *v,
                            const uint8_t *codes, size_t n, const struct kernels_stored *stored);
bool eval_figures_add_scaled(struct eval_task *t, uint64_t first, const float *v,
                             const uint8_t *codes, size_t n, const struct kernels_scaled *scaled);
// n <= EVAL_PAIRS elements of float32, float16 or bfloat16 as floats, from any address.
void eval_figures_floats(enum dtype type, const void *in, size_t n, float *out);
// n <= EVAL_PAIRS elements of a float type as doubles, from any address.
void eval_figures_widen(enum dtype type, const void *in, size_t n, double *out);
#endif
