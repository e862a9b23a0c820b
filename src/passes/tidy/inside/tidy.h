// Room: dead code, common subexpressions, equal initializers, names and order; rules of the family `tidy` are in rules/book.
#ifndef WEIR_TIDY_H
#define WEIR_TIDY_H

#include "passes/pass.h"

extern const struct pass tidy_equal_initializers, tidy_common_subexpressions, tidy_unused_nodes,
    tidy_unused_initializers, tidy_inputs_are_constant,
    tidy_lift_initializers, tidy_topological_sort, tidy_unique_names, tidy_unused_functions,
    tidy_unused_opsets;

#endif
