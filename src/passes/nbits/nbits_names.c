// Names of nodes: runtimes want those of one graph to differ.
//
// A node made of "fc" is called fc_Q4, as the existing tool calls it, or fc_Q4_1 where its graph
// has a node of that name already. Names of values do not matter here, nor names in other graphs:
// two branches of an If may both have an fc. Nodes that are going to be replaced do not count.
//
//   slots   node + 1 · 0 · node + 1 · …    open addressing by (graph, name), at most half full
//
// The table is made with the first node, and holds 8 to 16 bytes a node of the model.
#include "nbits.h"

static uint64_t hash_of(uint32_t graph, uint32_t name) {
  const uint32_t key[2] = {graph, name};
  return span_hash(span_of(key, sizeof key));
}

// The slot of a live node of this graph and name, or the free one where it would be.
static uint32_t *find(const struct nbits_names *x, const struct model *m, uint32_t graph,
                      uint32_t name) {
  uint64_t at = hash_of(graph, name);
  for (;; at++) {
    uint32_t *slot = &x->slots[at & (x->n_slots - 1)];
    if (*slot == 0) return slot;
    const struct model_node *n = &m->nodes[*slot - 1];
    if (n->graph == graph && n->name == name && !(n->flags & NODE_DEAD)) return slot;
  }
}

static void put(struct nbits_names *x, const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  if (n->flags & NODE_DEAD || n->name == m->empty) return;
  uint32_t *slot = find(x, m, n->graph, n->name);
  if (*slot) return;
  *slot = node + 1;
  x->n_used++;
}

static bool is_going(const struct nbits_names *x, uint32_t node) {
  return node < x->n_going && x->going[node];
}

// Anew, with room for at least one node besides those of the model.
static void build(struct nbits_names *x, const struct model *m) {
  uint32_t n = 16;
  while (n / 2 < m->n_nodes + (uint64_t)1)
    n *= 2;
  TABLE_FREE(x, slots);
  x->slots_cap = 0;
  x->slots = table_grow(NULL, &x->slots_cap, n, sizeof *x->slots);
  memset(x->slots, 0, n * sizeof *x->slots);
  x->n_slots = n;
  x->n_used = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!is_going(x, i)) put(x, m, i);
}

void nbits_names_leave(struct nbits_names *x, const struct model *m, uint32_t node) {
  if (x->n_going == 0) {
    x->going = table_grow(NULL, &x->going_cap, (size_t)m->n_nodes + 1, sizeof *x->going);
    memset(x->going, 0, (size_t)m->n_nodes + 1);
    x->n_going = m->n_nodes;
  }
  x->going[node] = 1;
}

struct span nbits_names_new(struct nbits_names *x, struct model *m, struct arena *a, uint32_t graph,
                            struct span wanted) {
  if (x->n_slots == 0) build(x, m);
  uint32_t id = model_find_name(m, wanted);
  if (id == NO_ID || wanted.n == 0 || *find(x, m, graph, id) == 0) return wanted;
  uint32_t *number = numbers_behind(&x->numbers, id);
  struct span name;
  do {
    name = span_str(arena_printf(a, "%.*s_%u", (int)wanted.n, (const char *)wanted.at, ++*number));
    id = model_find_name(m, name);
  } while (id != NO_ID && *find(x, m, graph, id) != 0);
  return name;
}

void nbits_names_add(struct nbits_names *x, const struct model *m, uint32_t node) {
  if (x->n_slots == 0 || x->n_used + 1 > x->n_slots / 2) build(x, m);
  put(x, m, node);
}

void nbits_names_done(struct nbits_names *x) {
  TABLE_FREE(x, slots);
  TABLE_FREE(x, going);
  numbers_done(&x->numbers);
  *x = (struct nbits_names){0};
}
