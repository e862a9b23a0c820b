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
//
// A graph may list nodes before what makes their inputs, which runtimes take. Its nodes are numbered as they can run, so that
// what stands before another here never needs it, and anew after each node that came: NUMBERED_MOST times and no more. After that
// a node without a number stands before nothing, which a warning says: passes leave what wants more as it is. kit_running takes
// no part in this count.
#include "passes/kit/inside/kit_inside.h"

static const uint64_t STRIDE = UINT64_C(1) << 40, STEP = UINT64_C(1) << 20;

static uint64_t *position_of(struct kit *k, uint32_t node) {
  struct kit_inside *in = k->in;
  if (node >= in->n_position) TABLE_ADD(in, position, k->m->n_nodes - in->n_position);
  return &in->position[node];
}

enum { NUMBERED_MOST = 64 }; // times, of a graph that is not sorted

static struct kit_order *order_of(struct kit *k, uint32_t graph) {
  struct kit_inside *in = k->in;
  if (graph >= in->n_orders) TABLE_ADD(in, orders, k->m->n_graphs - in->n_orders);
  return &in->orders[graph];
}

// The node of the graph that uses the value, itself or by a body of its; NO_ID: that was the last use.
static uint32_t next_user(struct kit *k, uint32_t graph, struct kit_use *u) {
  while (kit_use(k, u)) {
    const uint32_t user = kit_node_around(k, u->node, graph);
    if (user != NO_ID) return user;
  }
  return NO_ID;
}

static bool is_sorted(struct kit *k, uint32_t graph) {
  const struct model *m = k->m;
  for (uint32_t i = m->graphs[graph].first_node, user; i != NO_ID; i = m->nodes[i].next)
    for (uint32_t slot = 0; slot < m->nodes[i].n_out; slot++) {
      const uint32_t value = kit_out(k, i, slot);
      if (value == NO_ID) continue;
      for (struct kit_use u = kit_uses(k, value); (user = next_user(k, graph, &u)) != NO_ID;)
        if (*position_of(k, user) <= *position_of(k, i)) return false;
    }
  return true;
}

// How many uses each node of the graph waits for. Counters of other graphs are not touched: a model may have as many bodies
// as nodes.
static uint32_t *count_waits(struct kit *k, uint32_t graph) {
  const struct model *m = k->m;
  struct kit_inside *in = k->in;
  if (in->n_waits < m->n_nodes) TABLE_ADD(in, waits, m->n_nodes - in->n_waits);
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next)
    in->waits[i] = 0;
  for (uint32_t i = m->graphs[graph].first_node, user; i != NO_ID; i = m->nodes[i].next)
    for (uint32_t slot = 0; slot < m->nodes[i].n_out; slot++) {
      const uint32_t value = kit_out(k, i, slot);
      if (value == NO_ID) continue;
      for (struct kit_use u = kit_uses(k, value); (user = next_user(k, graph, &u)) != NO_ID;)
        in->waits[user]++;
    }
  return in->waits;
}

// As they can run: a node when all that it waits for has a number; those that are ready, in the order of the list.
static void number_as_they_run(struct kit *k, uint32_t graph, uint64_t step) {
  const struct model *m = k->m;
  struct kit_inside *in = k->in;
  uint32_t *waits = count_waits(k, graph);
  uint64_t at = 0;
  in->n_ready = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next)
    if (waits[i] == 0) *TABLE_PUSH(in, ready) = i;
  for (uint32_t next = 0, user; next < in->n_ready; next++) {
    const uint32_t node = in->ready[next];
    *position_of(k, node) = at += step;
    in->order_steps++;
    for (uint32_t slot = 0; slot < m->nodes[node].n_out; slot++) {
      const uint32_t value = kit_out(k, node, slot);
      if (value == NO_ID) continue;
      for (struct kit_use u = kit_uses(k, value); (user = next_user(k, graph, &u)) != NO_ID;)
        if (--waits[user] == 0) *TABLE_PUSH(in, ready) = user;
    }
  }
}

// Graphs of more than 2^23 nodes have smaller steps.
static uint64_t stride_of(const struct model *m) {
  return m->n_nodes < 1u << 23 ? STRIDE : (UINT64_C(1) << 63) / m->n_nodes;
}

static void number_as_listed(struct kit *k, uint32_t graph) {
  const struct model *m = k->m;
  const uint64_t step = stride_of(m);
  uint64_t at = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next) {
    *position_of(k, i) = at += step;
    k->in->order_steps++;
  }
}

// Does the list have a node before what makes its inputs? Looked at once: the graph is numbered as it is listed then.
static bool is_unsorted(struct kit *k, uint32_t graph) {
  struct kit_order *o = order_of(k, graph);
  if (o->looked) return o->unsorted;
  number_as_listed(k, graph);
  o->looked = true;
  return o->unsorted = !is_sorted(k, graph);
}

static void warn_of_order(struct kit *k) {
  kit_warn(
      k,
      arena_printf(&k->site,
                   "a graph is not in topological order, and was sorted %d times already: further "
                   "nodes that need the order are left unchanged",
                   NUMBERED_MOST),
      "'weir run IN OUT --pass topological-sort' sorts its nodes");
}

static void number(struct kit *k, uint32_t graph) {
  struct kit_order *o = order_of(k, graph);
  const bool looked = o->looked;
  if (!is_unsorted(k, graph)) {
    if (looked) number_as_listed(k, graph);
    return;
  }
  if (o->numbered < NUMBERED_MOST)
    number_as_they_run(k, graph, stride_of(k->m));
  else if (o->numbered == NUMBERED_MOST)
    warn_of_order(k);
  if (o->numbered <= NUMBERED_MOST) o->numbered++;
}

void kit_order_put(struct kit *k, uint32_t node) {
  const struct model_node *n = &k->m->nodes[node];
  if (k->in->n_position == 0) return; // nobody has asked yet
  *position_of(k, node) = 0;
  if (order_of(k, n->graph)->unsorted) return;
  const uint64_t before = n->prev == NO_ID ? 0 : *position_of(k, n->prev);
  const uint64_t behind = n->next == NO_ID ? before + 2 * STEP : *position_of(k, n->next);
  if ((before == 0 && n->prev != NO_ID) || behind == 0 || behind - before < 2) return;
  *position_of(k, node) = before + min_u64((behind - before) / 2, STEP);
}

uint32_t kit_node_around(const struct kit *k, uint32_t node, uint32_t graph) {
  const struct model *m = k->m;
  while (node != NO_ID && m->nodes[node].graph != graph)
    node = model_graph_node(m, m->nodes[node].graph);
  return node;
}

bool kit_before(struct kit *k, uint32_t a, uint32_t b) {
  if (a == NO_ID || b == NO_ID) return false;
  const uint32_t graph = k->m->nodes[a].graph;
  b = kit_node_around(k, b, graph);
  if (b == NO_ID || a == b) return false;
  if (*position_of(k, a) == 0 || *position_of(k, b) == 0) number(k, graph);
  return *position_of(k, a) != 0 && *position_of(k, a) < *position_of(k, b);
}

uint32_t kit_listed(const struct kit *k, uint32_t graph, struct arena *a, uint32_t **nodes) {
  const struct model *m = k->m;
  uint32_t n = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next)
    n++;
  *nodes = arena_alloc(a, (n + (size_t)1) * sizeof **nodes);
  n = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next)
    (*nodes)[n++] = i;
  return n;
}

uint32_t kit_running(struct kit *k, uint32_t graph, struct arena *a, uint32_t **nodes) {
  struct kit_inside *in = k->in;
  const uint32_t n = kit_listed(k, graph, a, nodes);
  if (!is_unsorted(k, graph)) return n;
  number_as_they_run(k, graph, stride_of(k->m));
  if (in->n_ready != n) return n; // a circle, which check has told of
  for (uint32_t i = 0; i < n; i++)
    (*nodes)[i] = in->ready[i];
  return n;
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
