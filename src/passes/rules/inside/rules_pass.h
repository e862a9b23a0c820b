// What stands behind the passes of the catalogue that are rules; the rows are made of the files of
// rules (compile_rules.py --catalogue).
#ifndef WEIR_RULES_PASS_H
#define WEIR_RULES_PASS_H

#include "pass.h"

// Runs the rules of env->pass, by its name, to their fixpoint.
int rules_pass_run(struct pass_env *env, void *options, struct pass_result *result, struct err *err);

#endif
