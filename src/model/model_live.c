// From the outside in: a graph is live if what holds it is.
//
//   main graph, training                    always
//   function                                unless it was removed
//   attribute ◀── graph, tensor             if its node is, and the graph of that
//   default of a function's attribute       if the function is
//
// Enclosing graphs have lower ids than the graphs in them, so one walk is enough.
#include "model/model_live.h"

static bool begins_by(const struct model_graph *g, uint64_t off) {
  return g->src.len > 0 && g->src.off <= off;
}

// Loaded functions lie in the file in the order of their rows; those that edits made follow.
uint32_t model_live_function(const struct model *m, const struct model_attr *attr) {
  uint32_t i;
  BISECT(i, m->n_functions, begins_by(&m->graphs[m->functions[i].graph], attr->src.off));
  return i > 0 ? i - 1 : NO_ID;
}

static bool function_live(const struct model *m, uint32_t function) {
  return !(m->functions[function].flags & FUNCTION_DEAD);
}

bool model_live_node(const struct model *m, const bool *graphs, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  return !(n->flags & NODE_DEAD) && graphs[n->graph];
}

static bool attr_live(const struct model *m, const bool *graphs, uint32_t attr) {
  const struct model_attr *a = &m->attrs[attr];
  if (a->flags & ATTR_DEAD) return false;
  if (a->node != NO_ID) return model_live_node(m, graphs, a->node);
  const uint32_t function = model_live_function(m, a);
  return function == NO_ID || function_live(m, function);
}

bool model_live_tensor(const struct model *m, const bool *graphs, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->flags & TENSOR_DEAD) return false;
  if (t->home == HOME_ATTRIBUTE && t->owner != NO_ID) return attr_live(m, graphs, t->owner);
  return t->graph == NO_ID || graphs[t->graph];
}

const bool *model_live_graphs(const struct model *m, struct arena *a) {
  bool *live = arena_zalloc(a, m->n_graphs + (size_t)1);
  for (uint32_t i = 0; i < m->n_graphs; i++) {
    const struct model_graph *g = &m->graphs[i];
    if (g->kind == GRAPH_SUB)
      live[i] = g->owner != NO_ID && attr_live(m, live, g->owner);
    else
      live[i] = g->kind != GRAPH_FUNCTION || function_live(m, g->owner);
  }
  return live;
}
