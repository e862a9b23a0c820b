// A pass of the catalogue that is a set of rules: of the house's book only the rules of its name may
// fire. The catalogue's rows and the book come from the same files, so a row without rules is a
// mistake of the build and not of a user.
#include "rules_pass.h"

#include "rules.h"

#include <assert.h>

int rules_pass_run(struct pass_env *env, void *options, struct pass_result *result,
                   struct err *err) {
  (void)options; // rules have none
  const uint32_t n = rules_n_passes(&rules_house);
  const uint32_t pass = rules_named(&rules_house, span_str(env->pass->name));
  assert(pass < n);
  bool *passes = arena_zalloc(env->scratch, n * sizeof *passes);
  struct rules_counts *counts = arena_zalloc(env->scratch, n * sizeof *counts);
  passes[pass] = true;
  const struct rules_options o = {.passes = passes, .cap = env->exactness, .counts = counts};
  if (rules_run(&rules_house, env, env->pass->name, &o, err)) return -1;
  result->held_back += counts[pass].held;
  return 0;
}
