// Inside the evaluator: error figures by chunks of elements (eval.h says what is told).
#ifndef WEIR_EVAL_FIGURES_H
#define WEIR_EVAL_FIGURES_H

#include "eval_parts.h"

enum { EVAL_PAIRS = 512 }; // pairs that are brought into form at once

// What eval_expect does for recipes whose figures are told by chunks; and eval_finish.
void eval_figures_expect(struct eval *ev, uint32_t id, uint64_t off, uint64_t len);
int eval_figures_finish(struct eval *ev, struct err *err);

// Are this recipe's elements told of, in this range or in another one's?
bool eval_figures_watches(const struct eval *ev, uint32_t id);
// Is the next element that is to be told of among these elements of recipe `id`?
bool eval_figures_wants(const struct eval *ev, uint32_t id, uint64_t first, uint64_t n);
// Elements [first, first + n) and what they are stored as, after eval_figures_wants of the same. ERR_MODEL if
// one that is quantized is not finite.
int eval_figures_add(struct eval *ev, uint64_t first, const double *v, const double *w, size_t n,
                     struct err *err);
// n <= EVAL_PAIRS elements of a float type as doubles, from any address.
void eval_figures_widen(enum dtype type, const void *in, size_t n, double *out);
// Elements of a CAST recipe: before and after. Takes what is wanted of them.
int eval_figures_cast(struct eval *ev, uint32_t id, uint64_t first, const uint8_t *in,
                      const uint8_t *out, size_t n, struct err *err);
// Boxes of a recipe whose formats are blocks: what they hold is made again (eval_quantize.c).
void eval_quantize_forget(struct eval *ev, uint32_t id);

#endif
