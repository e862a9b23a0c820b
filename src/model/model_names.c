// Names: every distinct string of the model once.
//
//   name_bytes   conv1\0weight\0…        the strings, one behind the other, a NUL behind each
//   name_at      0     6       …        where string id begins; its length is the next one's start
//                                       less one
//   name_slots   open addressing, linear probing, at most 3/4 full; NO_ID: free
//
// Slots hold ids only: a name costs its bytes, 9 more, and 5 to 11 for its slot. Ids are given in
// order of first appearance, so a file read in order touches name_at and name_bytes almost in
// order too, and a lookup costs about one cache miss. When the table is full it is thrown away and
// refilled from name_bytes, so that growing never holds two of them.
#include "model.h"

#include <assert.h>

struct span model_name(const struct model *m, uint32_t name) {
  const uint64_t at = m->name_at[name];
  const uint64_t end = name + 1 < m->n_name_at ? m->name_at[name + 1] : m->name_bytes_n;
  return span_of(m->name_bytes + at, (size_t)(end - at - 1));
}

const char *model_name_str(const struct model *m, uint32_t name) {
  return (const char *)m->name_bytes + m->name_at[name];
}

// The slot that holds s, or the free one where it belongs.
static uint32_t find_slot(const struct model *m, struct span s) {
  const uint32_t mask = m->n_name_slots - 1;
  uint32_t at = (uint32_t)span_hash(s) & mask;
  while (m->name_slots[at] != NO_ID && !span_eq(model_name(m, m->name_slots[at]), s))
    at = (at + 1) & mask;
  return at;
}

static void refill_slots(struct model *m, uint32_t n) {
  table_free(m->name_slots, m->name_slots_cap, sizeof *m->name_slots);
  m->name_slots_cap = 0;
  m->name_slots = table_grow(NULL, &m->name_slots_cap, n, sizeof *m->name_slots);
  m->n_name_slots = n;
  memset(m->name_slots, 0xff, (size_t)n * sizeof *m->name_slots);
  for (uint32_t id = 0; id < m->n_name_at; id++) {
    // All names differ: the first free slot is the right one, without a look at the strings.
    uint32_t at = (uint32_t)span_hash(model_name(m, id)) & (n - 1);
    while (m->name_slots[at] != NO_ID) at = (at + 1) & (n - 1);
    m->name_slots[at] = id;
  }
}

static void make_room(struct model *m) {
  if (m->n_name_slots == 0) {
    refill_slots(m, 128);
  } else if (m->n_name_at >= m->n_name_slots / 4 * 3) {
    assert(m->n_name_slots < 1u << 31);
    refill_slots(m, m->n_name_slots * 2);
  }
}

static void append_bytes(struct model *m, struct span s) {
  // s may be a part of another name (a suffix added or cut): then it moves with the table.
  const uintptr_t base = (uintptr_t)m->name_bytes, from = (uintptr_t)s.at;
  const bool inside = m->name_bytes && from >= base && from - base < m->name_bytes_n;
  m->name_bytes =
      table_grow(m->name_bytes, &m->name_bytes_cap, m->name_bytes_n + s.n + 1, sizeof(uint8_t));
  const uint8_t *at = inside ? m->name_bytes + (from - base) : s.at;
  if (s.n) memcpy(m->name_bytes + m->name_bytes_n, at, s.n);
  m->name_bytes[m->name_bytes_n + s.n] = 0;
  m->name_bytes_n += s.n + 1;
}

uint32_t model_intern(struct model *m, struct span s) {
  make_room(m);
  const uint32_t slot = find_slot(m, s);
  if (m->name_slots[slot] != NO_ID) return m->name_slots[slot];
  const uint32_t id = MODEL_ADD(m, name_at, 1);
  m->name_at[id] = m->name_bytes_n;
  append_bytes(m, s);
  m->name_slots[slot] = id;
  return id;
}

uint32_t model_find_name(const struct model *m, struct span s) {
  return m->name_slots[find_slot(m, s)];
}
