// The passes of the family `tidy` that need code.
#ifndef WEIR_TIDY_H
#define WEIR_TIDY_H

#include "pass.h"

extern const struct pass tidy_equal_initializers, tidy_common_subexpressions, tidy_unused_nodes,
    tidy_unused_initializers, tidy_inputs_are_constant;

#endif
