// Values: one row per (graph, name), found through a hash table, and the lists of their uses.
//
//   value_slots   open addressing, linear probing, at most 3/4 full; NO_ID: free
//
// Name ids are dense and follow the file, so names used together have neighbouring ids. The hash
// keeps runs of 16 of them together: a slot table of 4-byte ids then serves them from one cache
// line, which is what makes a million lookups cheap. Blocks land at random, so graphs with the same
// names do not pile up on each other.
//
// A dead value leaves the table (its name is free again). Removal moves later entries of the run
// back instead of leaving a mark, so lookups never slow down.
//
// Uses are doubly linked through m->refs: `first_use` of the value, `next` and `prev` of the slot.
#include "model.h"

#include <assert.h>

static uint32_t home_slot(const struct model *m, uint32_t graph, uint32_t name) {
  uint64_t x = ((uint64_t)graph << 32 | name >> 4) * 0x9e3779b97f4a7c15u;
  x ^= x >> 32;
  return ((uint32_t)x << 4 | (name & 15)) & (m->n_value_slots - 1);
}

static bool is_value(const struct model *m, uint32_t id, uint32_t graph, uint32_t name) {
  return m->values[id].name == name && m->values[id].graph == graph;
}

uint32_t model_value_in(const struct model *m, uint32_t graph, uint32_t name) {
  if (m->n_value_slots == 0) return NO_ID;
  const uint32_t mask = m->n_value_slots - 1;
  uint32_t at = home_slot(m, graph, name);
  while (m->value_slots[at] != NO_ID && !is_value(m, m->value_slots[at], graph, name))
    at = (at + 1) & mask;
  return m->value_slots[at];
}

uint32_t model_lookup(const struct model *m, uint32_t graph, uint32_t name) {
  while (graph != NO_ID) {
    uint32_t value = model_value_in(m, graph, name);
    if (value != NO_ID) return value;
    graph = m->graphs[graph].parent;
  }
  return NO_ID;
}

static void put_slot(struct model *m, uint32_t value) {
  uint32_t at = home_slot(m, m->values[value].graph, m->values[value].name);
  while (m->value_slots[at] != NO_ID) at = (at + 1) & (m->n_value_slots - 1);
  m->value_slots[at] = value;
}

static void refill_slots(struct model *m, uint32_t n) {
  table_free(m->value_slots, m->value_slots_cap, sizeof *m->value_slots);
  m->value_slots_cap = 0;
  m->value_slots = table_grow(NULL, &m->value_slots_cap, n, sizeof *m->value_slots);
  m->n_value_slots = n;
  memset(m->value_slots, 0xff, (size_t)n * sizeof *m->value_slots);
  for (uint32_t id = 0; id < m->n_values; id++)
    if (!(m->values[id].flags & VALUE_DEAD)) put_slot(m, id);
}

// Takes the entry of `value` out; entries behind it that it had pushed on move back.
static void drop_slot(struct model *m, uint32_t value) {
  const uint32_t mask = m->n_value_slots - 1;
  uint32_t hole = home_slot(m, m->values[value].graph, m->values[value].name);
  while (m->value_slots[hole] != value) {
    assert(m->value_slots[hole] != NO_ID);
    hole = (hole + 1) & mask;
  }
  for (uint32_t at = (hole + 1) & mask; m->value_slots[at] != NO_ID; at = (at + 1) & mask) {
    const struct model_value *v = &m->values[m->value_slots[at]];
    uint32_t home = home_slot(m, v->graph, v->name);
    // An entry may move back to the hole unless its home lies behind the hole.
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    m->value_slots[hole] = m->value_slots[at];
    hole = at;
  }
  m->value_slots[hole] = NO_ID;
}

uint32_t model_add_value(struct model *m, uint32_t graph, uint32_t name) {
  if (m->n_value_slots == 0) {
    refill_slots(m, 128);
  } else if (m->n_values >= m->n_value_slots / 4 * 3) {
    assert(m->n_value_slots < 1u << 31);
    refill_slots(m, m->n_value_slots * 2);
  }
  const uint32_t id = MODEL_ADD(m, values, 1);
  m->values[id] = (struct model_value){.name = name,
                                       .graph = graph,
                                       .def = NO_ID,
                                       .first_use = NO_ID,
                                       .info = NO_ID,
                                       .kind = VALUE_UNDEFINED};
  put_slot(m, id);
  return id;
}

void model_rename_value(struct model *m, uint32_t value, uint32_t name) {
  drop_slot(m, value);
  m->values[value].name = name;
  put_slot(m, value);
}

void model_kill_value(struct model *m, uint32_t value) {
  struct model_value *v = &m->values[value];
  assert(v->first_use == NO_ID && v->n_graph_outputs == 0 && !(v->flags & VALUE_DEAD));
  drop_slot(m, value);
  v->flags |= VALUE_DEAD;
  v->kind = VALUE_UNDEFINED;
  v->def = NO_ID;
}

void model_revive_value(struct model *m, uint32_t value) {
  struct model_value *v = &m->values[value];
  assert(v->flags & VALUE_DEAD && model_value_in(m, v->graph, v->name) == NO_ID);
  v->flags = 0;
  put_slot(m, value);
}

struct span model_value_name(const struct model *m, uint32_t value) {
  return value == NO_ID ? span_of("", 0) : model_name(m, m->values[value].name);
}

// ---- uses --------------------------------------------------------------------------------------

void model_link_use(struct model *m, uint32_t ref) {
  struct model_ref *r = &m->refs[ref];
  r->prev = r->next = NO_ID;
  if (r->value == NO_ID) return;
  struct model_value *v = &m->values[r->value];
  r->next = v->first_use;
  if (v->first_use != NO_ID) m->refs[v->first_use].prev = ref;
  v->first_use = ref;
}

void model_unlink_use(struct model *m, uint32_t ref) {
  struct model_ref *r = &m->refs[ref];
  if (r->value == NO_ID) return;
  if (r->prev != NO_ID) m->refs[r->prev].next = r->next;
  else m->values[r->value].first_use = r->next;
  if (r->next != NO_ID) m->refs[r->next].prev = r->prev;
  r->prev = r->next = NO_ID;
}

uint32_t model_use_count(const struct model *m, uint32_t value) {
  uint32_t n = m->values[value].n_graph_outputs;
  for (uint32_t ref = m->values[value].first_use; ref != NO_ID; ref = m->refs[ref].next) n++;
  return n;
}
