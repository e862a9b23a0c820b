// Weights that were replaced, and the nodes that only led to them, go with their last use:
//
//   E ── Transpose ── Identity ── (nothing)      all three go, as do Cast, Reshape, Unsqueeze, Squeeze and Flatten
//   E ─┬─ Transpose ── (nothing)                 the Transpose goes
//      └─ Gather
//
// Only nodes without effect of their own are walked through: other dead code was the source's, and
// stays its affair. So do initializers that somebody outside may mean: those that callers may give,
// and in a model with training information all of the main graph, since its bindings name them. A
// sparse one is removed by no edit.
#include "passes/kit/dead_ends.h"

#include "passes/kit/weights.h"

static bool is_simple(const struct model *m, uint32_t node) {
  return m->nodes[node].n_out == 1 &&
         (weights_moved_by(m, node) || model_op_is(m, node, "Constant"));
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

// The value, and the node that made only it: what the node read first is in *before, and its shape or axes in *with.
static void drop_one(struct edits *e, uint32_t value, uint32_t *before, uint32_t *with) {
  const struct model *m = e->m;
  *before = *with = NO_ID;
  if (value == NO_ID) return;
  const struct model_value *v = &m->values[value];
  if (v->first_use != NO_ID || v->n_graph_outputs > 0 || v->flags & VALUE_DEAD) return;
  if (v->kind == VALUE_INITIALIZER) drop_initializer(e, value);
  if (v->kind != VALUE_NODE_OUTPUT || !is_simple(m, v->def)) return;
  const uint32_t node = v->def;
  *before = model_input(m, &m->nodes[node], 0);
  *with = model_input(m, &m->nodes[node], 1);
  edit_remove_node(e, node);
}

void dead_ends_drop(struct edits *e, uint32_t value) {
  while (value != NO_ID) {
    uint32_t with, other;
    drop_one(e, value, &value, &with);
    while (with != NO_ID)
      drop_one(e, with, &with, &other);
  }
}

void dead_ends_drop_all(struct edits *e) {
  const struct model *m = e->m;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (!(t->flags & TENSOR_DEAD) && t->home == HOME_INITIALIZER) dead_ends_drop(e, t->owner);
  }
}
