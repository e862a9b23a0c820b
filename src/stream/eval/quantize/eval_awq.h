// Inside the evaluator: scales for rows of weights, as the table of kinds asks for them.
#ifndef WEIR_EVAL_AWQ_H
#define WEIR_EVAL_AWQ_H

#include "eval_parts.h"

eval_elements_fn eval_awq_elements;

#endif
