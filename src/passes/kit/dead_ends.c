// Weights that were replaced, and the nodes that only led to them, go with their last use:
//
//   E ── Transpose ── Identity ── (nothing)      all three go
//   E ─┬─ Transpose ── (nothing)                 the Transpose goes
//      └─ Gather
//
// Only nodes without effect of their own are walked through: other dead code was the source's, and
// stays its affair. So do initializers that somebody outside may mean: those that callers may give,
// and in a model with training information all of the main graph, since its bindings name them. A
// sparse one is removed by no edit.
#include "dead_ends.h"

#include "weights.h"

bool dead_ends_unused(const struct model *m, uint32_t value) {
  return m->values[value].first_use == NO_ID && m->values[value].n_graph_outputs == 0;
}

static bool is_simple(const struct model *m, uint32_t node) {
  bool known = model_op_is(m, node, "Constant") || model_op_is(m, node, "Identity") ||
               model_op_is(m, node, "Transpose");
  return known && m->nodes[node].n_out == 1;
}

static void drop_initializer(struct edits *e, uint32_t value) {
  const struct model *m = e->m;
  const struct model_value *v = &m->values[value];
  const bool is_input = v->flags & VALUE_IS_INPUT;
  if (m->tensors[v->def].home != HOME_INITIALIZER) return;
  if (is_input && (m->ir_version >= WEIGHTS_FREE_IR || v->graph != m->main_graph)) return;
  if (m->n_trainings > 0 && v->graph == m->main_graph) return;
  edit_remove_tensor(e, v->def);
  if (is_input) edit_remove_graph_input(e, value);
}

void dead_ends_drop(struct edits *e, uint32_t value) {
  const struct model *m = e->m;
  while (value != NO_ID && dead_ends_unused(m, value)) {
    const struct model_value *v = &m->values[value];
    if (v->flags & VALUE_DEAD) return;
    if (v->kind == VALUE_INITIALIZER) {
      drop_initializer(e, value);
      return;
    }
    if (v->kind != VALUE_NODE_OUTPUT || !is_simple(m, v->def)) return;
    uint32_t node = v->def;
    uint32_t before = model_input(m, &m->nodes[node], 0);
    edit_remove_node(e, node);
    value = before;
  }
}

void dead_ends_drop_all(struct edits *e) {
  const struct model *m = e->m;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (!(t->flags & TENSOR_DEAD) && t->home == HOME_INITIALIZER) dead_ends_drop(e, t->owner);
  }
}
