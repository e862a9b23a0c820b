// Constant resolution: is this value known before the model runs, and which tensor is it?
//
//   initializer ──┐
//                 ├──▶ Identity ──▶ Identity ──▶ value      in this graph or an enclosing one
//   Constant ─────┘
//
// Inputs of nodes hold value ids that load resolved through the scopes, so following them walks
// out of subgraphs without a look at names. Left out: sparse constants (they have no dense bytes
// yet), initializers that a caller may override, attributes that refer to a function's attribute,
// and everything that would need arithmetic.
#include "model.h"

bool model_attr_is_constant(const struct model *m, const struct model_attr *a) {
  static const char *const names[] = {"value_float", "value_floats", "value_int",
                                      "value_ints",  "value_string", "value_strings"};
  if (a->node == NO_ID || a->flags & (ATTR_NEW | ATTR_DIRTY)) return false;
  const struct span name = model_name(m, a->name);
  if (name.n < 9 || memcmp(name.at, "value_", 6) != 0) return false;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (span_is(name, names[i])) return model_op_is(m, a->node, "Constant");
  return false;
}

// The tensor of a Constant node, or NO_ID.
static uint32_t constant_tensor(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD || a->ref_name != m->empty) continue;
    const bool tensor = a->type == ATTR_TENSOR && span_is(model_name(m, a->name), "value");
    if (tensor || model_attr_is_constant(m, a)) return a->first;
  }
  return NO_ID;
}

// An initializer that is also a graph input is only its default since IR version 4; before, every
// initializer had to be listed as an input.
static bool initializer_holds(const struct model *m, const struct model_value *v) {
  if (m->tensors[v->def].flags & TENSOR_SPARSE) return false;
  return !(v->flags & VALUE_IS_INPUT) || m->ir_version < 4;
}

static bool resolve_node(const struct model *m, uint32_t value, struct model_constant *out) {
  const uint32_t node = m->values[value].def;
  if (!model_op_is(m, node, "Constant") || model_output(m, &m->nodes[node], 0) != value)
    return false;
  const uint32_t tensor = constant_tensor(m, node);
  *out = (struct model_constant){.tensor = tensor, .value = value, .node = node};
  return tensor != NO_ID;
}

// The value that an Identity passes on as `value`, or NO_ID.
static uint32_t identity_source(const struct model *m, uint32_t value) {
  const uint32_t node = m->values[value].def;
  const struct model_node *n = &m->nodes[node];
  if (n->n_in != 1 || n->n_out != 1 || !model_op_is(m, node, "Identity")) return NO_ID;
  return model_input(m, n, 0);
}

bool model_resolve_constant(const struct model *m, uint32_t value, struct model_constant *out) {
  // A chain of Identity nodes is at most as long as there are nodes; a cycle ends here too.
  for (uint32_t steps = 0; value != NO_ID && steps <= m->n_nodes; steps++) {
    const struct model_value *v = &m->values[value];
    if (v->kind == VALUE_INITIALIZER) {
      *out = (struct model_constant){.tensor = v->def, .value = value, .node = NO_ID};
      return initializer_holds(m, v);
    }
    if (v->kind != VALUE_NODE_OUTPUT) return false;
    const uint32_t source = identity_source(m, value);
    if (source == NO_ID) return resolve_node(m, value, out);
    value = source;
  }
  return false;
}
