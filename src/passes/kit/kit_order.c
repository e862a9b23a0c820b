// Which node stands before which.
//
//   nodes      A ──────── B ──────── C          in the order list of their graph
//   position   2^40       2^41       3·2^40     when the graph was numbered
//                    X Y                        put before B later: 2^40 + 2^20, 2^40 + 2·2^20
//
// A graph is numbered when somebody first asks, in wide steps. What the kit puts between two nodes
// gets a number between theirs, near the one before, since most things are put one behind the
// other before the same node; where no number is left, or somebody else made the node, the graph is
// numbered again at the next question.
#include "kit_inside.h"

static const uint64_t STRIDE = UINT64_C(1) << 40, STEP = UINT64_C(1) << 20;

static uint64_t *position_of(struct kit *k, uint32_t node) {
  struct kit_inside *in = k->in;
  if (node >= in->n_position) TABLE_ADD(in, position, k->m->n_nodes - in->n_position);
  return &in->position[node];
}

static void number(struct kit *k, uint32_t graph) {
  const struct model *m = k->m;
  // Graphs of more than 2^23 nodes have smaller steps.
  const uint64_t step = m->n_nodes < 1u << 23 ? STRIDE : (UINT64_C(1) << 63) / m->n_nodes;
  uint64_t at = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next) {
    *position_of(k, i) = at += step;
    k->in->order_steps++;
  }
}

void kit_order_put(struct kit *k, uint32_t node) {
  const struct model_node *n = &k->m->nodes[node];
  if (k->in->n_position == 0) return; // nobody has asked yet
  *position_of(k, node) = 0;
  const uint64_t before = n->prev == NO_ID ? 0 : *position_of(k, n->prev);
  const uint64_t behind = n->next == NO_ID ? before + 2 * STEP : *position_of(k, n->next);
  if ((before == 0 && n->prev != NO_ID) || behind == 0 || behind - before < 2) return;
  *position_of(k, node) = before + min_u64((behind - before) / 2, STEP);
}

uint32_t kit_node_around(const struct kit *k, uint32_t node, uint32_t graph) {
  const struct model *m = k->m;
  while (node != NO_ID && m->nodes[node].graph != graph) {
    const struct model_graph *g = &m->graphs[m->nodes[node].graph];
    if (g->kind != GRAPH_SUB || g->owner == NO_ID) return NO_ID;
    node = m->attrs[g->owner].node;
  }
  return node;
}

bool kit_before(struct kit *k, uint32_t a, uint32_t b) {
  if (a == NO_ID || b == NO_ID) return false;
  const uint32_t graph = k->m->nodes[a].graph;
  b = kit_node_around(k, b, graph);
  if (b == NO_ID || a == b) return false;
  if (*position_of(k, a) == 0 || *position_of(k, b) == 0) number(k, graph);
  return *position_of(k, a) < *position_of(k, b);
}

// Are all that use what the node makes behind it? Those in other graphs than this one and its bodies do not count.
static bool is_before_users(struct kit *k, uint32_t node) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t value = model_output(m, n, i);
    for (uint32_t u = value == NO_ID ? NO_ID : m->values[value].first_use; u != NO_ID;
         u = m->refs[u].next)
      if (kit_node_around(k, m->refs[u].node, n->graph) != NO_ID &&
          !kit_before(k, node, m->refs[u].node))
        return false;
  }
  return true;
}

bool kit_sorted(struct kit *k, uint32_t graph) {
  for (uint32_t n = k->m->graphs[graph].first_node; n != NO_ID; n = k->m->nodes[n].next)
    if (!is_before_users(k, n)) return false;
  return true;
}

void kit_move(struct kit *k, uint32_t node, uint32_t before) {
  edit_move_node(k->e, node, before);
  kit_order_put(k, node);
}

bool kit_available(struct kit *k, uint32_t value, uint32_t graph, uint32_t before) {
  if (!kit_sees(k, graph, value)) return false;
  const struct model_value *v = &k->m->values[value];
  if (v->kind != VALUE_NODE_OUTPUT) return v->kind != VALUE_UNDEFINED;
  if (graph != v->graph) { // the node that holds the graph counts
    const struct model_graph *g = &k->m->graphs[graph];
    if (g->owner == NO_ID) return false;
    before = k->m->attrs[g->owner].node;
  }
  return before == NO_ID || kit_before(k, v->def, before);
}
