// Inside the evaluator: codes that are moved about behind, made in their own order all the same.
#ifndef WEIR_EVAL_ONCE_H
#define WEIR_EVAL_ONCE_H

#include "eval_parts.h"

// As eval_quantize_elements of t->once, from what is kept for all workers.
int eval_once_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out, struct err *err);

#endif
