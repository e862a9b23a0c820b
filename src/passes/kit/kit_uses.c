// Uses of values: the list of input slots that a value threads (model.h), and its listings as an
// output of its graph.
//
// A walk keeps the slot behind the one at hand, so that this one may be changed. Counts stop at
// their limit: whether a value has one use or a million is asked in the same time.
#include "passes/kit/inside/kit_inside.h"

struct kit_use kit_uses(const struct kit *k, uint32_t value) {
  const uint32_t first = value == NO_ID ? NO_ID : k->m->values[value].first_use;
  return (struct kit_use){.node = NO_ID, .slot = NO_ID, .next = first};
}

bool kit_use(const struct kit *k, struct kit_use *u) {
  if (u->next == NO_ID) return false;
  const struct model_ref *r = &k->m->refs[u->next];
  u->node = r->node;
  u->slot = u->next - k->m->nodes[r->node].refs;
  u->next = r->next;
  return true;
}

uint32_t kit_use_count(const struct kit *k, uint32_t value, uint32_t limit) {
  if (value == NO_ID) return 0;
  uint32_t n = k->m->values[value].n_graph_outputs;
  for (uint32_t u = k->m->values[value].first_use; u != NO_ID && n < limit; u = k->m->refs[u].next)
    n++;
  return n < limit ? n : limit;
}

uint32_t kit_constant_use_count(struct kit *k, uint32_t value, uint32_t limit) {
  struct model_constant c;
  struct {
    TABLE(uint32_t, rows);
  } names = {0};
  uint32_t n = 0;
  if (value == NO_ID || !model_resolve_constant(k->m, value, &c)) return 0;
  *TABLE_PUSH(&names, rows) = c.value;
  for (uint32_t i = 0; i < names.n_rows && n < limit; i++) {
    const uint32_t name = names.rows[i];
    n += k->m->values[name].n_graph_outputs;
    if (i > 0 && kit_unused(k, name)) n++;
    for (struct kit_use u = kit_uses(k, name); n < limit && kit_use(k, &u);)
      if (kit_op(k, u.node) != OP_Identity)
        n++;
      else if (kit_out(k, u.node, 0) != NO_ID)
        *TABLE_PUSH(&names, rows) = kit_out(k, u.node, 0);
  }
  TABLE_FREE(&names, rows);
  return n < limit ? n : limit;
}

bool kit_is_output(const struct kit *k, uint32_t value) {
  return value != NO_ID && k->m->values[value].n_graph_outputs > 0;
}

bool kit_unused(const struct kit *k, uint32_t value) {
  return kit_use_count(k, value, 1) == 0;
}

uint32_t kit_sole_user(const struct kit *k, uint32_t value) {
  if (value == NO_ID || kit_is_output(k, value)) return NO_ID;
  uint32_t node = NO_ID;
  for (uint32_t u = k->m->values[value].first_use; u != NO_ID; u = k->m->refs[u].next) {
    if (node != NO_ID && k->m->refs[u].node != node) return NO_ID;
    node = k->m->refs[u].node;
  }
  return node;
}

bool kit_is_empty(const struct kit *k, uint32_t tensor) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  for (uint32_t i = 0; i < t->rank; i++)
    if (model_dims(k->m, t)[i] == 0) return true;
  return false;
}

uint32_t kit_home(struct kit *k, uint32_t graph) {
  const struct model *m = k->m;
  while (m->graphs[graph].kind == GRAPH_SUB && m->graphs[graph].owner != NO_ID) {
    const uint32_t node = m->attrs[m->graphs[graph].owner].node;
    if (!kit_op_has(kit_op(k, node), KIT_GRAPHS)) break;
    graph = m->nodes[node].graph;
  }
  return graph;
}

bool kit_sees(struct kit *k, uint32_t graph, uint32_t value) {
  const struct model *m = k->m;
  if (value == NO_ID || m->values[value].flags & VALUE_DEAD) return false;
  const uint32_t of = m->values[value].graph;
  return model_lookup(m, graph, m->values[value].name) == value &&
         (of == graph || m->graphs[of].depth >= m->graphs[kit_home(k, graph)].depth);
}

bool kit_can_stand_in(struct kit *k, uint32_t value) {
  const struct model *m = k->m;
  const uint32_t graph = m->values[value].graph, around = model_graph_around(m, graph);
  if (around != NO_ID && model_lookup(m, around, m->values[value].name) != NO_ID) return false;
  for (uint32_t u = m->values[value].first_use; u != NO_ID; u = m->refs[u].next)
    if (!kit_sees(k, m->nodes[m->refs[u].node].graph, value)) return false;
  return true;
}
