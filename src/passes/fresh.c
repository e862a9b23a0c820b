// Names for new values.
//
// A name has to be new in its graph, in those around it (scopes) and in those inside (shadowing is not
// allowed), and functions may be inlined: so it is new in the whole model. Two weights called "w", one
// in each of two functions, want the same name; the number to try next is remembered by the wanted
// name, so that a thousand of them do not try each other's numbers again. Names are never given back
// while a pass runs.
#include "fresh.h"

void fresh_done(struct fresh *f) {
  table_free(f->numbers, f->cap, sizeof *f->numbers);
  *f = (struct fresh){0};
}

static bool id_is_taken(const struct model *m, uint32_t id) {
  return id != NO_ID && id < m->n_name_values && m->name_values[id] != NO_ID;
}

bool fresh_is_taken(const struct model *m, struct span name) {
  return id_is_taken(m, model_find_name(m, name));
}

static uint32_t *next_number(struct fresh *f, uint32_t id) {
  if (id >= f->n) {
    f->numbers = table_grow(f->numbers, &f->cap, (size_t)id + 1, sizeof *f->numbers);
    memset(f->numbers + f->n, 0, (id + 1 - f->n) * sizeof *f->numbers);
    f->n = id + 1;
  }
  return &f->numbers[id];
}

struct span fresh_name(struct fresh *f, struct model *m, struct arena *a, const char *wanted) {
  uint32_t id = model_find_name(m, span_str(wanted));
  if (!id_is_taken(m, id)) return span_str(wanted);
  uint32_t *number = next_number(f, id);
  char *name;
  do
    name = arena_printf(a, "%s_%u", wanted, ++*number);
  while (fresh_is_taken(m, span_str(name)));
  return span_str(name);
}
