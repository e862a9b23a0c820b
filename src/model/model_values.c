// Values: one row per (graph, name), found by name, and the lists of their uses.
//
//   name_values   by name id: the value of that name, in whichever graph had it first; NO_ID: none;
//                 ELSEWHERE: that one left, but other graphs may have one
//   value_slots   the others: open addressing by (graph, name), linear probing, at most 3/4 full
//
// Names are nearly always used in one graph, so nearly every question is answered by one look at
// name_values; a model with one graph has no slots at all. Name ids follow the file, which makes
// those looks almost sequential.
//
// A dead value leaves the table (its name is free again). Removal moves later entries of the run
// back instead of leaving a mark, so lookups never slow down.
//
// Uses are doubly linked through m->refs: `first_use` of the value, `next` and `prev` of the slot.
#include "model/model.h"

#include "model/inside/model_memory.h"

#include <assert.h>
#include <stdio.h>

#define ELSEWHERE (NO_ID - 1)

static uint32_t home_slot(const struct model *m, uint32_t graph, uint32_t name) {
  uint64_t x = ((uint64_t)graph << 32 | name) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(x >> 32) & (m->n_value_slots - 1);
}

static bool is_value(const struct model *m, uint32_t id, uint32_t graph, uint32_t name) {
  return m->values[id].name == name && m->values[id].graph == graph;
}

uint32_t model_value_in(const struct model *m, uint32_t graph, uint32_t name) {
  const uint32_t first = name < m->n_name_values ? m->name_values[name] : NO_ID;
  if (first == NO_ID || (first != ELSEWHERE && m->values[first].graph == graph)) return first;
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
    graph = model_graph_around(m, graph);
  }
  return NO_ID;
}

static void put_slot(struct model *m, uint32_t value) {
  uint32_t at = home_slot(m, m->values[value].graph, m->values[value].name);
  while (m->value_slots[at] != NO_ID)
    at = (at + 1) & (m->n_value_slots - 1);
  m->value_slots[at] = value;
}

static void grow_slots(struct model *m) {
  const uint32_t old_n = m->n_value_slots, n = old_n ? old_n * 2 : 64;
  const size_t old_cap = m->value_slots_cap;
  uint32_t *old = m->value_slots;
  assert(n != 0);
  m->value_slots_cap = 0;
  m->value_slots = table_grow(NULL, &m->value_slots_cap, n, sizeof *m->value_slots);
  m->n_value_slots = n;
  memset(m->value_slots, 0xff, (size_t)n * sizeof *m->value_slots);
  for (uint32_t i = 0; i < old_n; i++)
    if (old[i] != NO_ID) put_slot(m, old[i]);
  table_free(old, old_cap, sizeof *old);
}

static void grow_names(struct model *m, uint32_t name) {
  if (name < m->n_name_values) return;
  TABLE_ROOM(m, name_values, name + 1 - m->n_name_values);
  memset(m->name_values + m->n_name_values, 0xff,
         (name + 1 - m->n_name_values) * sizeof *m->name_values);
  m->n_name_values = name + 1;
}

// Makes the row findable under its (graph, name), which is free.
static void enter(struct model *m, uint32_t value) {
  const uint32_t name = m->values[value].name;
  grow_names(m, name);
  if (m->name_values[name] >= ELSEWHERE) {
    m->name_values[name] = value;
    return;
  }
  if (m->n_extra_values >= m->n_value_slots / 4 * 3) grow_slots(m);
  m->n_extra_values++;
  put_slot(m, value);
}

// Takes the entry of `value` out; entries behind it that it had pushed on move back.
static void drop_slot(struct model *m, uint32_t value) {
  m->n_extra_values--;
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

static void leave(struct model *m, uint32_t value) {
  uint32_t *first = &m->name_values[m->values[value].name];
  if (*first != value)
    drop_slot(m, value);
  else
    *first = m->n_extra_values > 0 ? ELSEWHERE : NO_ID;
}

uint32_t model_add_value(struct model *m, uint32_t graph, uint32_t name) {
  const uint32_t id = TABLE_ADD(m, values, 1);
  m->values[id] = (struct model_value){.name = name,
                                       .graph = graph,
                                       .def = NO_ID,
                                       .first_use = NO_ID,
                                       .info = NO_ID,
                                       .kind = VALUE_UNDEFINED};
  enter(m, id);
  return id;
}

void model_rename_value(struct model *m, uint32_t value, uint32_t name) {
  leave(m, value);
  m->values[value].name = name;
  enter(m, value);
}

void model_kill_value(struct model *m, uint32_t value) {
  struct model_value *v = &m->values[value];
  assert(v->first_use == NO_ID && v->n_graph_outputs == 0 && !(v->flags & VALUE_DEAD));
  leave(m, value);
  v->flags |= VALUE_DEAD;
  v->kind = VALUE_UNDEFINED;
  v->def = NO_ID;
}

void model_revive_value(struct model *m, uint32_t value) {
  struct model_value *v = &m->values[value];
  assert(v->flags & VALUE_DEAD && model_value_in(m, v->graph, v->name) == NO_ID);
  v->flags = 0;
  enter(m, value);
}

struct span model_value_name(const struct model *m, uint32_t value) {
  return value == NO_ID ? span_of("", 0) : model_name(m, m->values[value].name);
}

struct node_words model_node_words(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  const struct span name = model_name(m, n->name);
  struct node_words words;
  snprintf(words.s, sizeof words.s, "node %s'%s' (%s)", name.n ? "" : "that makes ",
           quote(name.n ? name : model_value_name(m, model_output(m, n, 0))).s,
           quote(model_name(m, n->op_type)).s);
  return words;
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
  model_identity_changes(m, r->node);
  if (r->prev != NO_ID)
    m->refs[r->prev].next = r->next;
  else
    m->values[r->value].first_use = r->next;
  if (r->next != NO_ID) m->refs[r->next].prev = r->prev;
  r->prev = r->next = NO_ID;
}

uint32_t model_use_count(const struct model *m, uint32_t value) {
  uint32_t n = m->values[value].n_graph_outputs;
  for (uint32_t ref = m->values[value].first_use; ref != NO_ID; ref = m->refs[ref].next)
    n++;
  return n;
}

// ---- lists of outputs --------------------------------------------------------------------------

static void enter_listing(const struct model *m, uint32_t place, uint32_t value) {
  struct model_memory *k = m->memory;
  if (k->n_listed < m->n_values) TABLE_ADD(k, listed, m->n_values - k->n_listed);
  if (k->n_listings < m->n_graph_io) TABLE_ADD(k, listings, m->n_graph_io - k->n_listings);
  k->listing_steps++;
  if (k->listed[value] == 0) {
    k->listed[value] = place + 1;
    k->listings[place] = (struct model_listing){place, place};
    return;
  }
  const uint32_t first = k->listed[value] - 1, last = k->listings[first].prev;
  k->listings[place] = (struct model_listing){first, last};
  k->listings[last].next = k->listings[first].prev = place;
}

static void leave_listing(const struct model *m, uint32_t place, uint32_t value) {
  struct model_memory *k = m->memory;
  const struct model_listing at = k->listings[place];
  k->listing_steps++;
  k->listings[at.prev].next = at.next;
  k->listings[at.next].prev = at.prev;
  if (k->listed[value] == place + 1) k->listed[value] = at.next == place ? 0 : at.next + 1;
}

static void enter_listings(const struct model *m) {
  struct model_memory *k = m->memory;
  TABLES_FREE(k, listed, listings);
  k->listings_known = true;
  for (uint32_t graph = 0; graph < m->n_graphs; graph++) {
    const struct model_graph *g = &m->graphs[graph];
    for (uint32_t i = 0; i < g->n_outputs; i++)
      enter_listing(m, g->outputs + i, m->graph_io[g->outputs + i]);
  }
}

void model_listing_changes(struct model *m, uint32_t place, uint32_t old, uint32_t value) {
  if (!m->memory->listings_known) return;
  if (old != NO_ID) leave_listing(m, place, old);
  enter_listing(m, place, value);
}

void model_listings_moved(struct model *m) {
  m->memory->listings_known = false;
}

// How often its own graph lists the value, counted to `most`, and where first. Bodies that are gone may have
// listed it too.
static uint32_t listings_at_home(const struct model *m, uint32_t value, uint32_t most,
                                 uint32_t *first) {
  struct model_memory *k = m->memory;
  const struct model_graph *g = &m->graphs[m->values[value].graph];
  uint32_t n = 0;
  *first = NO_ID;
  if (m->values[value].n_graph_outputs == 0) return 0;
  if (!k->listings_known) enter_listings(m);
  const uint32_t begin = value < k->n_listed ? k->listed[value] : 0;
  for (uint32_t at = begin; at != 0 && n < most;) {
    const uint32_t place = at - 1;
    k->listing_steps++;
    if (place >= g->outputs && place - g->outputs < g->n_outputs && n++ == 0)
      *first = place - g->outputs;
    at = k->listings[place].next + 1;
    if (at == begin) break;
  }
  return n;
}

uint32_t model_next_listing(const struct model *m, uint32_t value) {
  uint32_t first;
  listings_at_home(m, value, 1, &first);
  return first;
}

bool model_listed_at_home(const struct model *m, uint32_t value) {
  uint32_t first;
  return listings_at_home(m, value, UINT32_MAX, &first) == m->values[value].n_graph_outputs;
}
