// Which values keep their declarations, so that a runtime computes the same as before:
//
//   h = Expand(x, s)   Loop(trips, go) { sc = Relu(h) } ──▶ z      trips may be 0
//
// Without a trip ONNX Runtime makes z of the dims [0, …] and those that it knows of sc: better declarations of h or sc
// would change the shape of z. A node in a body may also be unable to run with its inputs (a branch for another rank, a Loop
// that never runs), and once their dims are declared, a runtime refuses the model. So nothing is declared for values that
// lead to the outputs of such Loops or to such nodes, in their own graphs and in the graphs around them.
#include "infer_left.h"

bool infer_left_has(const struct infer_left *l, uint32_t value) {
  return value < l->n_is && l->is[value];
}

void infer_left_free(struct infer_left *l) {
  TABLE_FREE(l, is);
  TABLE_FREE(l, visited);
  TABLE_FREE(l, waiting);
}

static void leave(struct infer_left *l, const struct model *m, uint32_t value) {
  if (value == NO_ID || m->values[value].kind == VALUE_INITIALIZER) return;
  if (l->n_is == 0) TABLE_ADD(l, is, m->n_values);
  if (l->is[value]) return;
  l->is[value] = 1;
  *TABLE_PUSH(l, waiting) = value;
}

// The outputs of a node's bodies, from number `from` on.
static void leave_bodies(struct infer_left *l, const struct model *m, uint32_t node,
                         uint32_t from) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD || (a->type != ATTR_GRAPH && a->type != ATTR_GRAPHS)) continue;
    for (uint32_t g = a->first; g < a->first + a->count; g++)
      for (uint32_t k = from; k < m->graphs[g].n_outputs; k++)
        leave(l, m, m->graph_io[m->graphs[g].outputs + k]);
  }
}

// The inputs of the node, and the outputs of its bodies.
static void leave_what_leads_to(struct infer_left *l, const struct model *m, uint32_t node) {
  if (l->n_visited == 0) TABLE_ADD(l, visited, m->n_nodes);
  if (l->visited[node]) return;
  l->visited[node] = 1;
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++)
    leave(l, m, model_input(m, &m->nodes[node], i));
  leave_bodies(l, m, node, 0);
}

static bool in_body(const struct model *m, uint32_t node) {
  return m->graphs[m->nodes[node].graph].kind == GRAPH_SUB;
}

static void look_at(struct infer_left *l, const struct model *m, struct infer *in, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  const bool onnx = model_name(m, n->domain).n == 0 || span_is(model_name(m, n->domain), "ai.onnx");
  if (onnx && span_is(model_name(m, n->op_type), "Loop") && n->n_in >= 2 &&
      n->n_out > n->n_in - 2 && infer_may_be_idle(in, node))
    leave_bodies(l, m, node, n->n_in - 1);
  if (!in_body(m, node) || !infer_cannot_run(in, node)) return;
  leave_what_leads_to(l, m, node);
  for (uint32_t i = 0; i < n->n_out; i++)
    leave(l, m, model_output(m, n, i));
}

void infer_left_find(struct infer_left *l, const struct model *m, struct infer *in) {
  for (uint32_t node = 0; node < m->n_nodes; node++)
    if (!(m->nodes[node].flags & NODE_DEAD)) look_at(l, m, in, node);
  while (l->n_waiting) {
    const uint32_t value = l->waiting[--l->n_waiting];
    const struct model_value *v = &m->values[value];
    if (v->kind == VALUE_NODE_OUTPUT) leave_what_leads_to(l, m, v->def);
    // The inputs of a body are those of its node.
    if (v->kind == VALUE_INPUT && v->graph != NO_ID && m->graphs[v->graph].kind == GRAPH_SUB)
      leave_what_leads_to(l, m, m->attrs[m->graphs[v->graph].owner].node);
  }
}
