// Passes of the catalogue that are sets of rules. Neighbours in a pipeline run together, as one walk
// to one fixpoint: of their book (the house's, or a user's: rules_own.h) the rules of their names may fire, and what each held back is
// told apart by counts. The catalogue's rows and the book come from the same files, so a row without
// rules is a mistake of the build and not of a user.
#include "passes/rules/inside/rules_pass.h"

#include "passes/rules/rules.h"

#include <assert.h>

// Which of the book's passes it is.
static uint32_t place_of(const struct rules_book *book, const struct pass *pass) {
  return pass->book ? pass->at : rules_named(book, span_str(pass->name));
}

int rules_pass_run(struct pass_env *env, const struct pass *const *passes, void *const *options,
                   uint32_t n, struct pass_result *results, struct err *err) {
  const struct rules_book *book = passes[0]->book ? passes[0]->book : &rules_house;
  const uint32_t most = rules_n_passes(book);
  bool *on = arena_zalloc(env->scratch, most * sizeof *on);
  struct rules_counts *counts = arena_zalloc(env->scratch, most * sizeof *counts);
  const struct name_filter **filters = arena_zalloc(env->scratch, most * sizeof *filters);
  const struct name_filter **given = arena_zalloc(env->scratch, n * sizeof *given);
  uint32_t n_given = 0;
  bool infers = false;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t pass = place_of(book, passes[i]);
    assert(pass < most && passes[i]->book == passes[0]->book);
    on[pass] = true;
    counts[pass].worn = results[i].worn;
    infers |= passes[i]->infers;
    if (name_filter_is_open(options[i])) continue;
    filters[pass] = given[n_given++] = options[i];
  }
  name_filter_warn(given, n_given, env);
  const struct rules_options o = {.passes = on,
                                  .filters = n_given ? filters : NULL,
                                  .cap = env->exactness,
                                  .infers = infers,
                                  .counts = counts};
  if (rules_run(book, env, passes[0]->name, &o, err)) return -1;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t pass = place_of(book, passes[i]);
    results[i].held_back = counts[pass].held;
    results[i].worn = counts[pass].worn;
  }
  return 0;
}
