// From a value to what it is made of, with a list of values that are still to be followed. A node is visited once.
//
//   x ──▶ Reshape ──▶ h        If(c) { MatMul(h, w) }      h, x and the shape lead to the MatMul; the inputs of a body
//                                                          are those of its node
//
// Initializers are known as they are, whoever asks: they lead nowhere.
#include "infer/infer_leads.h"

bool infer_leads_has(const struct infer_leads *l, uint32_t value) {
  return value < l->n_is && l->is[value];
}

void infer_leads_free(struct infer_leads *l) {
  TABLES_FREE(l, is, visited, waiting);
}

void infer_leads_add(struct infer_leads *l, const struct model *m, uint32_t value) {
  if (value == NO_ID || m->values[value].kind == VALUE_INITIALIZER) return;
  if (l->n_is < m->n_values) TABLE_ADD(l, is, m->n_values - l->n_is);
  if (l->is[value]) return;
  l->is[value] = 1;
  *TABLE_PUSH(l, waiting) = value;
}

void infer_leads_add_bodies(struct infer_leads *l, const struct model *m, uint32_t node,
                            uint32_t from) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD || (a->type != ATTR_GRAPH && a->type != ATTR_GRAPHS)) continue;
    for (uint32_t g = a->first; g < a->first + a->count; g++)
      for (uint32_t k = from; k < m->graphs[g].n_outputs; k++)
        infer_leads_add(l, m, m->graph_io[m->graphs[g].outputs + k]);
  }
}

// Adds the values that lead to the node, unless it has been visited before.
static void visit(struct infer_leads *l, const struct model *m, uint32_t node) {
  if (l->n_visited < m->n_nodes) TABLE_ADD(l, visited, m->n_nodes - l->n_visited);
  if (l->visited[node]) return;
  l->visited[node] = 1;
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++)
    infer_leads_add(l, m, model_input(m, &m->nodes[node], i));
  infer_leads_add_bodies(l, m, node, 0);
}

void infer_leads_add_node(struct infer_leads *l, const struct model *m, uint32_t node) {
  visit(l, m, node);
  for (uint32_t i = 0; i < m->nodes[node].n_out; i++)
    infer_leads_add(l, m, model_output(m, &m->nodes[node], i));
}

void infer_leads_follow(struct infer_leads *l, const struct model *m) {
  while (l->n_waiting) {
    const struct model_value *v = &m->values[l->waiting[--l->n_waiting]];
    if (v->kind == VALUE_NODE_OUTPUT) visit(l, m, v->def);
    if (v->kind == VALUE_INPUT && v->graph != NO_ID && m->graphs[v->graph].kind == GRAPH_SUB)
      visit(l, m, m->attrs[m->graphs[v->graph].owner].node);
  }
}
