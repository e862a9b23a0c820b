// Names for new values.
//
// A name has to be new in its graph, in those around it (scopes) and in those inside (shadowing is
// not allowed), and functions may be inlined: so it is new in the whole model. Two weights called
// "w", one in each of two functions, want the same name, and the second gets a number (numbers.h).
#include "fresh.h"

void fresh_done(struct fresh *f) {
  numbers_done(&f->numbers);
}

static bool id_is_taken(const struct model *m, uint32_t id) {
  return id != NO_ID && id < m->n_name_values && m->name_values[id] != NO_ID;
}

struct span fresh_name(struct fresh *f, struct model *m, struct arena *a, const char *wanted) {
  uint32_t id = model_find_name(m, span_str(wanted));
  if (!id_is_taken(m, id)) return span_str(wanted);
  uint32_t *number = numbers_behind(&f->numbers, id);
  char *name;
  do
    name = arena_printf(a, "%s_%u", wanted, ++*number);
  while (id_is_taken(m, model_find_name(m, span_str(name))));
  return span_str(name);
}
