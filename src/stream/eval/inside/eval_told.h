// Inside the evaluator: what eval_begin and eval_end do for figures.
#ifndef WEIR_EVAL_TOLD_H
#define WEIR_EVAL_TOLD_H

#include "eval_parts.h"

void eval_told_begin(struct eval_task *t);
int eval_told_end(struct eval_task *t, struct err *err);

#endif
