// Room: the kinds of recipes that compute: rows of the evaluator's table (eval.c) name the functions that are here.
#ifndef WEIR_EVAL_MATH_H
#define WEIR_EVAL_MATH_H

#include "stream/eval/core/eval_parts.h"

eval_elements_fn eval_cast_elements;       // eval_cast.c
eval_elements_fn eval_reduce_elements;     // eval_reduce.c
eval_elements_fn eval_dequantize_elements; // eval_dequantize.c
eval_elements_fn eval_map_elements;        // eval_map.c
// Of a MAP row, which may hold operands in a box.
uint32_t eval_map_boxes(const struct eval *ev, uint32_t id, uint32_t *left);
// As eval_leaf_gathers and eval_leaf_gather, of a MAP row whose first operand of full size is such an
// extent.
bool eval_map_gathers(struct eval_task *t, const struct eval_fragments *f);
int eval_map_gather(struct eval_task *t, const struct eval_fragments *f, uint8_t *out,
                    struct err *err);

#endif
