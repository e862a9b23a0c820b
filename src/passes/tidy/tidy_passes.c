// The list of the family `tidy`, in the order in which `--pass tidy` runs it: what merges first, since
// it leaves behind what then goes. And those that are no part of it: since only a user can know that it
// is right, or since they change what most do not mind.
#include "passes/tidy/inside/tidy.h"

const struct pass *const tidy_passes[] = {&tidy_equal_initializers,
                                          &tidy_common_subexpressions,
                                          &tidy_unused_nodes,
                                          &tidy_unused_initializers,
                                          &tidy_inputs_are_constant,
                                          &tidy_lift_initializers,
                                          &tidy_topological_sort,
                                          &tidy_unique_names,
                                          &tidy_unused_functions,
                                          &tidy_unused_opsets,
                                          NULL};
