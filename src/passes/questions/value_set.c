#include "passes/questions/value_set.h"

enum { FIRST = 64 };

void value_set_put(struct value_set *s, uint64_t start, uint32_t value) {
  while (*value_set_slot(s, start))
    start++;
  value_set_fill(s, value_set_slot(s, start), value);
}

void value_set_fill(struct value_set *s, uint32_t *slot, uint32_t value) {
  if (*slot == 0) *TABLE_PUSH(s, filled) = (uint32_t)(slot - s->slots);
  *slot = value + 1;
}

void value_set_room(struct value_set *s, bool (*start)(void *ctx, uint32_t value, uint64_t *at),
                    void *ctx) {
  if (s->n_filled < s->n_slots / 2) return;
  struct value_set larger = {0};
  const uint32_t room = s->n_slots > 0 ? 2 * s->n_slots : FIRST;
  uint64_t at;
  TABLE_ADD(&larger, slots, room);
  for (uint32_t i = 0; i < s->n_slots; i++)
    if (s->slots[i] && start(ctx, s->slots[i] - 1, &at))
      value_set_put(&larger, at, s->slots[i] - 1);
  value_set_free(s);
  *s = larger;
}

void value_set_clear(struct value_set *s) {
  while (s->n_filled > 0)
    s->slots[s->filled[--s->n_filled]] = 0;
}

void value_set_free(struct value_set *s) {
  TABLES_FREE(s, slots, filled);
}
