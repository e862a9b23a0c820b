// The catalogue: passes.def and pass_options.def as tables. What reads words (pass_values.c), the
// command line and `weir passes` all look here, so that a pass is known everywhere by its rows.
#include "pass.h"

#include <assert.h>

static const struct pass_row pass_rows[PASSES] = {
#define PASS(stem, summary, about, needs, promises)                                                \
  [PASS_##stem] = {#stem, summary, about, needs, promises, check_##stem, run_##stem},
#include "passes.def"
#undef PASS
};

#define FOR(stem) (1u << PASS_##stem)
#define MEASURED 0 // of commands only
static const struct pass_option option_rows[PASS_OPTIONS] = {
#define PASS_OPTION(id, name, kind, metavar, preset, passes, help)                                 \
  [PASS_OPT_##id] = {name, PASS_##kind, metavar, preset, passes, help},
#include "pass_options.def"
#undef PASS_OPTION
};
#undef MEASURED
#undef FOR

static_assert(PASSES <= 32, "pass_option.passes has a bit for every pass");

const struct pass_row *pass_row(enum pass_id pass) {
  return &pass_rows[pass];
}

const struct pass_option *pass_option(enum pass_option_id option) {
  return &option_rows[option];
}

bool pass_option_belongs(enum pass_option_id option, enum pass_id pass) {
  return option_rows[option].passes >> pass & 1;
}

enum pass_id pass_by_name(struct span name) {
  uint32_t p = 0;
  while (p < PASSES && !span_is(name, pass_rows[p].name))
    p++;
  return p;
}
