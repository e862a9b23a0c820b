// A hash set of values that are equal in a sense that its user knows: slots, searched from a start that follows from
// what they are compared by.
//
//   value_set_room(&set, start_of, ctx);
//   for (uint64_t at = start;; at++) {
//     uint32_t *slot = value_set_slot(&set, at);
//     if (*slot == 0) break;                                 none: value_set_put
//     if (equal(*slot - 1, value)) return *slot - 1;
//   }
#ifndef WEIR_VALUE_SET_H
#define WEIR_VALUE_SET_H

#include "base/table.h"

struct value_set {
  TABLE(uint32_t, slots); // value + 1; 0: free. Their number is a power of two
  TABLE(
      uint32_t,
      filled); // those that are not free: a set that was large once is emptied in no more steps than it has values
};

// Room for one more value: half of the slots stay free. Where it grows, `start` says where the search for a value
// begins; false: nothing is known of it any more, and it goes.
void value_set_room(struct value_set *s, bool (*start)(void *ctx, uint32_t value, uint64_t *at),
                    void *ctx);
// Puts a value into the first free slot.
void value_set_put(struct value_set *s, uint64_t start, uint32_t value);
// Puts a value into a slot, free or not.
void value_set_fill(struct value_set *s, uint32_t *slot, uint32_t value);
// No value is in it; the slots stay.
void value_set_clear(struct value_set *s);
void value_set_free(struct value_set *s);

static inline uint32_t *value_set_slot(struct value_set *s, uint64_t at) {
  return &s->slots[at & (s->n_slots - 1)];
}

#endif
