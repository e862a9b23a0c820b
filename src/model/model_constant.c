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
#include "model/inside/model_memory.h"

bool model_attr_is_constant(const struct model *m, const struct model_attr *a) {
  static const char *const names[] = {"value_float", "value_floats", "value_int",
                                      "value_ints",  "value_string", "value_strings"};
  if (a->node == NO_ID || a->ref_name != m->empty) return false;
  if (a->flags & (ATTR_NEW | ATTR_DIRTY)) return false;
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

// ---- chains of Identity --------------------------------------------------------------------------
//
// Exporters leave an Identity or two behind a weight; a file may have a chain of a million, and a
// million nodes that use its end. Who walked far leaves, at every value on the way, where the way
// ended; the next one goes on from there. A node on a way that changes makes all shortcuts void,
// but for one at an end that nothing uses: no other way went through it.

enum { MOST_STEPS = 16 };

static uint32_t shortcut(const struct model *m, uint32_t value) {
  const struct model_memory *k = m->memory;
  if (value >= k->n_shortcuts || k->shortcuts[value].age != k->age) return NO_ID;
  return k->shortcuts[value].to;
}

static void leave_shortcuts(const struct model *m, uint32_t from, uint32_t to) {
  struct model_memory *k = m->memory;
  if (k->n_shortcuts < m->n_values) TABLE_ADD(k, shortcuts, m->n_values - k->n_shortcuts);
  for (uint32_t value = from; value != to && shortcut(m, value) == NO_ID;
       value = identity_source(m, value)) {
    k->shortcuts[value] = (struct model_shortcut){to, k->age};
    k->identity_steps++;
  }
}

void model_identity_changes(struct model *m, uint32_t node) {
  struct model_memory *k = m->memory;
  if (k->n_shortcuts == 0) return;
  const struct model_node *n = &m->nodes[node];
  const uint32_t value = model_output(m, n, 0);
  if (value == NO_ID || shortcut(m, value) == NO_ID) return;
  k->shortcuts[value].age = 0;
  if (m->values[value].first_use != NO_ID) k->age++;
}

// Where the Identity nodes begin that `value` is given by: a value of another node or of none. A
// chain is at most as long as there are nodes; NO_ID for a cycle, and for one that begins nowhere.
static uint32_t identity_origin(const struct model *m, uint32_t value) {
  uint32_t at = value, steps = 0;
  for (; steps <= m->n_nodes && m->values[at].kind == VALUE_NODE_OUTPUT; steps++) {
    const uint32_t known = shortcut(m, at);
    const uint32_t source = known != NO_ID ? known : identity_source(m, at);
    if (source == NO_ID) break;
    at = source;
  }
  m->memory->identity_steps += steps;
  if (steps > m->n_nodes) return NO_ID;
  if (steps > MOST_STEPS) leave_shortcuts(m, value, at);
  return at;
}

bool model_resolve_constant(const struct model *m, uint32_t value, struct model_constant *out) {
  if (value == NO_ID) return false;
  const uint32_t origin = identity_origin(m, value);
  if (origin == NO_ID) return false;
  const struct model_value *v = &m->values[origin];
  if (v->kind == VALUE_NODE_OUTPUT) return resolve_node(m, origin, out);
  if (v->kind != VALUE_INITIALIZER) return false;
  *out = (struct model_constant){.tensor = v->def, .value = origin, .node = NO_ID};
  return initializer_holds(m, v);
}

// ---- weights that nodes make ---------------------------------------------------------------------

void model_saw(struct model *m, uint32_t value, uint32_t tensor) {
  struct model_memory *k = m->memory;
  if (value >= k->n_seen && tensor == NO_ID) return;
  if (value >= k->n_seen) TABLE_ADD(k, seen, m->n_values - k->n_seen);
  k->seen[value] = tensor + 1;
}

void model_saw_nothing(struct model *m) {
  m->memory->n_seen = 0;
}

bool model_resolve_weight(const struct model *m, uint32_t value, struct model_constant *out) {
  if (model_resolve_constant(m, value, out)) return true;
  const struct model_memory *k = m->memory;
  if (value == NO_ID || value >= k->n_seen || k->seen[value] == 0) return false;
  if (m->values[value].kind != VALUE_NODE_OUTPUT) return false;
  *out = (struct model_constant){
      .tensor = k->seen[value] - 1, .value = value, .node = m->values[value].def};
  return true;
}
