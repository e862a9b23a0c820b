// Stems of names: for families of new names that nothing in the model has yet.
//
// A weight that becomes several tensors and nodes gives all of them names of one stem, so that they
// are seen to belong together: if any of them is taken, the whole family gets a number. Names of
// all graphs count, and of nodes as well as of values: a little stricter than ONNX asks for, and
// then no scope has to be thought about. Numbers that were tried behind a base are not tried again
// (numbers.h).
#include "stems.h"

#include <stdio.h>

void stems_init(struct stems *s, const struct model *m) {
  *s = (struct stems){.m = m};
}

void stems_done(struct stems *s) {
  numbers_done(&s->numbers);
}

struct span stems_join(struct span stem, const char *suffix, struct arena *a) {
  const size_t n = strlen(suffix);
  uint8_t *text = arena_alloc(a, stem.n + n + 1);
  if (stem.n > 0) memcpy(text, stem.at, stem.n);
  memcpy(text + stem.n, suffix, n + 1);
  return span_of(text, stem.n + n);
}

static bool is_free(const struct stems *s, struct span stem, const char *const *suffixes,
                    uint32_t n, struct arena *a) {
  for (uint32_t i = 0; i < n; i++)
    if (model_find_name(s->m, stems_join(stem, suffixes[i], a)) != NO_ID) return false;
  return true;
}

struct span stems_new(struct stems *s, struct span base, const char *const *suffixes, uint32_t n,
                      struct arena *a) {
  struct span stem = stems_join(base, "", a);
  const uint32_t name = model_find_name(s->m, base);
  uint32_t here = 0, *number = name == NO_ID ? &here : numbers_behind(&s->numbers, name);
  while (!is_free(s, stem, suffixes, n, a)) {
    char digits[16];
    snprintf(digits, sizeof digits, "_%u", ++*number);
    stem = stems_join(base, digits, a);
  }
  return stem;
}
