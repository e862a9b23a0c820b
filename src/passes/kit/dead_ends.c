// Weights that were replaced, and the nodes that only led to them, go with their last use:
//
//   E ── Transpose ── Identity ── (nothing)      all three go
//   E ─┬─ Transpose ── (nothing)                 the Transpose goes
//      └─ Gather
//
// Only nodes without effect of their own are walked through: other dead code was the source's, and
// stays its affair.
#include "dead_ends.h"

bool dead_ends_unused(const struct model *m, uint32_t value) {
  return m->values[value].first_use == NO_ID && m->values[value].n_graph_outputs == 0;
}

static bool is_simple(const struct model *m, uint32_t node) {
  bool known = model_op_is(m, node, "Constant") || model_op_is(m, node, "Identity") ||
               model_op_is(m, node, "Transpose");
  return known && m->nodes[node].n_out == 1;
}

void dead_ends_drop(struct edits *e, uint32_t value) {
  const struct model *m = e->m;
  while (value != NO_ID && dead_ends_unused(m, value)) {
    const struct model_value *v = &m->values[value];
    if (v->flags & VALUE_DEAD) return;
    if (v->kind == VALUE_INITIALIZER) {
      bool is_input = v->flags & VALUE_IS_INPUT;
      edit_remove_tensor(e, v->def);
      if (is_input) edit_remove_graph_input(e, value);
      return;
    }
    if (v->kind != VALUE_NODE_OUTPUT || !is_simple(m, v->def)) return;
    uint32_t node = v->def;
    uint32_t before = model_input(m, &m->nodes[node], 0);
    edit_remove_node(e, node);
    value = before;
  }
}
