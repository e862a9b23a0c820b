// Names: every distinct string of the model once.
//
//   name_bytes   conv1\0weight\0…        the strings, one behind the other, a NUL behind each
//   name_at      0     6       …        where string id begins; its length is the next one's start
//                                       less one
//   name_slots   (id, hash) · …         open addressing, linear probing, at most 5/8 full
//
// A slot keeps the hash beside the id, so that probing stays in one cache line and looks at a
// string only where the hashes agree: with millions of names, a lookup is about one cache miss. The
// slot of a name comes from the same 32 bits, so a table grows by walking the old one in order; old
// and new entries then lie in two moving places instead of at random.
//
// Strings take less than 4 GiB together: the border bounds the metadata of a file to half of that.
#include "model/model.h"

#include <assert.h>

struct span model_name(const struct model *m, uint32_t name) {
  const uint64_t at = m->name_at[name];
  const uint64_t end = name + 1 < m->n_name_at ? m->name_at[name + 1] : m->n_name_bytes;
  return span_of(m->name_bytes + at, (size_t)(end - at - 1));
}

const char *model_name_str(const struct model *m, uint32_t name) {
  return (const char *)m->name_bytes + m->name_at[name];
}

// Names that differ in their last character only (w_10 … w_19) get neighbouring slots: exporters
// number things, and a file that is read in order then finds ten of them in two cache lines.
static uint32_t hash_of(struct span s) {
  if (s.n == 0) return 0;
  const uint32_t block = (uint32_t)(span_hash(span_of(s.at, s.n - 1)) >> 16);
  return (block & ~15u) | (s.at[s.n - 1] & 15u);
}

// The slot that holds s, or the free one where it belongs.
static uint32_t find_slot(const struct model *m, struct span s, uint32_t hash) {
  const uint32_t mask = m->n_name_slots - 1;
  uint32_t at = hash & mask;
  for (; m->name_slots[at].id != NO_ID; at = (at + 1) & mask)
    if (m->name_slots[at].hash == hash && span_eq(model_name(m, m->name_slots[at].id), s)) break;
  return at;
}

// All names differ: the first free slot is the right one, without a look at the strings.
static void put_slot(struct model_name_slot *slots, uint32_t mask, struct model_name_slot slot) {
  uint32_t at = slot.hash & mask;
  while (slots[at].id != NO_ID)
    at = (at + 1) & mask;
  slots[at] = slot;
}

static void grow_slots(struct model *m, uint32_t n) {
  size_t cap = 0;
  struct model_name_slot *slots = table_grow(NULL, &cap, n, sizeof *slots);
  table_scatter(slots, cap, sizeof *slots);
  memset(slots, 0xff, (size_t)n * sizeof *slots);
  for (uint32_t i = 0; i < m->n_name_slots; i++)
    if (m->name_slots[i].id != NO_ID) put_slot(slots, n - 1, m->name_slots[i]);
  TABLE_FREE(m, name_slots);
  m->name_slots = slots;
  m->name_slots_cap = cap;
  m->n_name_slots = n;
}

uint32_t model_intern(struct model *m, struct span s) {
  if (m->n_name_slots == 0) {
    grow_slots(m, 128);
  } else if (m->n_name_at >= m->n_name_slots / 8 * 5) {
    assert(m->n_name_slots < 1u << 31);
    grow_slots(m, m->n_name_slots * 2);
  }
  const uint32_t hash = hash_of(s);
  const uint32_t slot = find_slot(m, s, hash);
  if (m->name_slots[slot].id != NO_ID) return m->name_slots[slot].id;
  const uint32_t id = TABLE_ADD(m, name_at, 1);
  assert(m->n_name_bytes <= UINT32_MAX);
  m->name_at[id] = (uint32_t)m->n_name_bytes;
  // s may be a part of another name (a suffix added or cut): then it moves with the table.
  const uintptr_t base = (uintptr_t)m->name_bytes, from = (uintptr_t)s.at;
  const bool inside = m->name_bytes && from >= base && from - base < m->n_name_bytes;
  TABLE_ROOM(m, name_bytes, s.n + 1);
  const uint8_t *at = inside ? m->name_bytes + (from - base) : s.at;
  if (s.n) memcpy(m->name_bytes + m->n_name_bytes, at, s.n);
  m->name_bytes[m->n_name_bytes + s.n] = 0;
  m->n_name_bytes += s.n + 1;
  m->name_slots[slot] = (struct model_name_slot){id, hash};
  return id;
}

uint32_t model_find_name(const struct model *m, struct span s) {
  return m->name_slots[find_slot(m, s, hash_of(s))].id;
}
