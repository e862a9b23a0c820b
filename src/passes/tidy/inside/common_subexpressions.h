// One node in place of several that give the same.
#ifndef WEIR_COMMON_SUBEXPRESSIONS_H
#define WEIR_COMMON_SUBEXPRESSIONS_H

#include "passes/questions/name_filter.h"

struct common_subexpressions_result {
  uint64_t merged, held_back;
  uint64_t visited, compared; // nodes looked at, and how often one was compared with another
};

// Sites: converted "equal"; skipped, of a node that has an equal, "both_outputs", "output_of_body" or
// "hidden" (docs/tidy.md), or why `nodes` does not let it give way.
int common_subexpressions(struct pass_env *env, const struct name_filter *nodes,
                          struct common_subexpressions_result *result, struct err *err);

#endif
