// The catalogue: the lists of the families, one behind the other. Whoever reads words, the command
// line and `weir passes` all look here, so that a pass is known everywhere by its row.
//
//   families.def ──▶ nbits_passes, cast_passes, … ──▶ passes_at(0 … passes_count() - 1)
//
// A name with a slash belongs to the family before it ("tidy/identity"), and the family's name
// stands for all of its passes; a name without one is a family of one pass. Passes of a family need
// not come from one list. Searching is a walk over the lists: there are hundreds of passes at most, and
// names are looked up once for each word of a user.
#include "passes.h"

#include "guess.h"

static const struct pass *const *const lists[] = {
#define FAMILY(stem) stem##_passes,
#include "families.def"
#undef FAMILY
};

enum { LISTS = sizeof lists / sizeof lists[0] };

uint32_t passes_count(void) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < LISTS; i++)
    for (const struct pass *const *p = lists[i]; *p; p++)
      n++;
  return n;
}

const struct pass *passes_at(uint32_t i) {
  for (uint32_t l = 0; l < LISTS; l++)
    for (const struct pass *const *p = lists[l]; *p; p++)
      if (i-- == 0) return *p;
  return NULL;
}

struct span passes_family(const struct pass *pass) {
  return span_of(pass->name, strcspn(pass->name, "/"));
}

bool passes_called(const struct pass *pass, struct span name) {
  return span_is(name, pass->name) || (pass->also && span_is(name, pass->also));
}

const struct pass *passes_named(struct span name, uint32_t k) {
  for (uint32_t l = 0; l < LISTS; l++)
    for (const struct pass *const *p = lists[l]; *p; p++)
      if ((passes_called(*p, name) || span_eq(name, passes_family(*p))) && k-- == 0) return *p;
  return NULL;
}

const struct pass *passes_find(struct span name) {
  const struct pass *p = passes_named(name, 0);
  return p && passes_called(p, name) ? p : NULL;
}

const struct pass *passes_known(struct span name, struct err *err) {
  struct arena scratch = {0};
  const struct pass *pass = passes_named(name, 0);
  if (pass) return pass;
  struct guess g = guess_start(arena_string(&scratch, name));
  for (uint32_t l = 0; l < LISTS; l++)
    for (const struct pass *const *p = lists[l]; *p; p++) {
      guess_try(&g, (*p)->name);
      guess_try(&g, arena_string(&scratch, passes_family(*p)));
    }
  err_fill(err, ERR_USAGE, "there is no pass '%s'", quote(name).s);
  if (g.best)
    err_fill_hint(err, "did you mean '%s'?", g.best);
  else
    err_fill_hint(err, "'weir passes' lists the passes");
  arena_free(&scratch);
  return NULL;
}
