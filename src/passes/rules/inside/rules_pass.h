// What stands behind the passes of the catalogue that are rules; the rows are made of the files of
// rules (compile_rules.py --catalogue).
#ifndef WEIR_RULES_PASS_H
#define WEIR_RULES_PASS_H

#include "passes/questions/name_filter.h"

// Every pass of rules has the same options, a struct name_filter.

// Runs the rules of n passes, by their names, to their common fixpoint: one walk for all of them.
int rules_pass_run(struct pass_env *env, const struct pass *const *passes, void *const *options,
                   uint32_t n, struct pass_result *results, struct err *err);

#endif
