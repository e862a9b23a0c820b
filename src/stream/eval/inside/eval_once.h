// Inside the evaluator: codes that are moved about behind, made in their own order all the same.
#ifndef WEIR_EVAL_ONCE_H
#define WEIR_EVAL_ONCE_H

#include "eval_parts.h"

// What eval_begin does: are codes below `id` wanted in another order than their own? `id` is no
// RESHAPE.
void eval_once_begin(struct eval_task *t, uint32_t id);
// As eval_quantize_elements of t->once, from what is kept for all workers.
int eval_once_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out, struct err *err);
// Tells of the chunks that are wanted, from the next one on, as far as their figures are kept.
int eval_once_end(struct eval_task *t, struct err *err);

#endif
