// The list of the family `tidy`, in the order in which `--pass tidy` runs it: what merges first, since
// it leaves behind what then goes.
#include "tidy.h"

const struct pass *const tidy_passes[] = {&tidy_equal_initializers, &tidy_common_subexpressions,
                                          &tidy_unused_nodes, &tidy_unused_initializers, NULL};
