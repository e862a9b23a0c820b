// Operators of nodes, in constant time.
//
//   node ─▶ (op_type: name id, domain: name id) ─▶ one look into a small hash table ─▶ enum op
//
// The table holds the operators whose names the model has, by name id: some hundred entries in one
// or two cache lines a question. Names are interned while passes run; a node whose names are newer
// than the table makes it be filled again, which happens as often as an operator's name is new.
//
// Where a function of the model has the name of an operator, ONNX leaves it to the runtime which of
// them a node means: it is none of the operators here. Operators of onnx_passes.ops are functions, whose
// meaning is published with their names: a model that has them brings their bodies, which may be written in several ways.
// One with other inputs, outputs or attributes than the operator's is a function of the model's own. Nor is a node with more
// inputs than its operator has in any version: what passes gather of a node's inputs has the operator's bounds.
#include "passes/kit/inside/kit_inside.h"

#include "schema/schema.h"

#include <assert.h>

static const struct kit_op_row rows[OPS] = {
    [OP_NONE] = {.name = ""},
#define KIT_OP(id, domain, name, min_in, max_in, flags)                                            \
  [OP_##id] = {name, KIT_##domain, min_in, max_in, flags},
#include "kit_ops.def"
#undef KIT_OP
};

static const char *const domains[KIT_DOMAINS] = {
    [KIT_ONNX] = "", [KIT_MICROSOFT] = "com.microsoft", [KIT_PASSES] = "onnx_passes.ops"};

const struct kit_op_row *kit_op_row(enum op op) {
  assert(op < OPS);
  return &rows[op];
}

const char *kit_domain_name(enum kit_domain domain) {
  return domains[domain];
}

enum op kit_op_named(struct span domain, struct span name) {
  if (span_is(domain, "ai.onnx")) domain.n = 0;
  for (enum op op = OP_NONE + 1; op < OPS; op++)
    if (span_is(name, rows[op].name) && span_is(domain, domains[rows[op].domain])) return op;
  return OP_NONE;
}

// ---- by name id --------------------------------------------------------------------------------

static struct kit_op_slot *slot_of(struct kit_inside *in, uint64_t key) {
  uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32) & (KIT_OP_SLOTS - 1);
  while (in->op_slots[at].key != 0 && in->op_slots[at].key != key)
    at = (at + 1) & (KIT_OP_SLOTS - 1);
  return &in->op_slots[at];
}

static uint64_t key_of(uint32_t name, enum kit_domain domain) {
  return (uint64_t)name * KIT_DOMAINS + domain + 1;
}

// Has the function what calls of the operator give?
static bool has_signature(const struct model *m, const struct model_function *f, enum op op) {
  const struct model_graph *g = &m->graphs[f->graph];
  const struct schema_operator *row =
      schema_operator_of(span_str(domains[rows[op].domain]), span_str(rows[op].name));
  const struct schema_signature *said = row ? schema_at(row, 1) : NULL;
  if (!said || g->n_inputs != rows[op].max_in || g->n_outputs != said->n_outputs) return false;
  for (uint32_t i = 0; i < f->n_attrs; i++)
    if (!schema_attribute_of(said, model_name(m, m->attrs[f->attrs + i].name))) return false;
  return true;
}

static void hide_behind_functions(struct kit *k) {
  const struct model *m = k->m;
  for (uint32_t i = 0; i < m->n_functions; i++) {
    const struct model_function *f = &m->functions[i];
    if (f->flags & FUNCTION_DEAD) continue;
    const enum op op = kit_op_named(model_name(m, f->domain), model_name(m, f->name));
    if (op != OP_NONE && (rows[op].domain != KIT_PASSES || !has_signature(m, f, op)))
      slot_of(k->in, key_of(f->name, rows[op].domain))->op = OP_NONE;
  }
}

static void look_up_names(struct kit *k) {
  static_assert(OPS <= KIT_OP_SLOTS / 2, "the table stays half empty");
  struct kit_inside *in = k->in;
  for (enum op op = OP_NONE + 1; op < OPS; op++) {
    const uint32_t name = model_find_name(k->m, span_str(rows[op].name));
    if (name == NO_ID) continue;
    const uint64_t key = key_of(name, rows[op].domain);
    *slot_of(in, key) = (struct kit_op_slot){key, op};
  }
  hide_behind_functions(k);
  for (int i = 0; i < KIT_DOMAINS; i++)
    in->domain[i] = model_find_name(k->m, span_str(domains[i]));
  in->ai_onnx = model_find_name(k->m, span_str("ai.onnx"));
  in->names_known = k->m->n_name_at;
}

enum op kit_op(struct kit *k, uint32_t node) {
  struct kit_inside *in = k->in;
  if (node == NO_ID) return OP_NONE;
  const struct model_node *n = &k->m->nodes[node];
  if (n->flags & NODE_DEAD) return OP_NONE;
  if (n->op_type >= in->names_known || n->domain >= in->names_known) look_up_names(k);
  enum kit_domain domain = KIT_ONNX;
  if (n->domain != in->domain[KIT_ONNX] && n->domain != in->ai_onnx) {
    do
      if (++domain == KIT_DOMAINS) return OP_NONE;
    while (n->domain != in->domain[domain]);
  }
  const enum op op = slot_of(in, key_of(n->op_type, domain))->op;
  if (n->n_in > rows[op].max_in && rows[op].max_in != KIT_ANY &&
      kit_n_in(k, node) > rows[op].max_in)
    return OP_NONE;
  return op;
}

uint32_t kit_maker(const struct kit *k, uint32_t value) {
  if (value == NO_ID) return NO_ID;
  const struct model_value *v = &k->m->values[value];
  return v->kind == VALUE_NODE_OUTPUT ? v->def : NO_ID;
}

enum op kit_maker_op(struct kit *k, uint32_t value) {
  return kit_op(k, kit_maker(k, value));
}

uint32_t kit_in(const struct kit *k, uint32_t node, uint32_t slot) {
  return node == NO_ID ? NO_ID : model_input(k->m, &k->m->nodes[node], slot);
}

uint32_t kit_out(const struct kit *k, uint32_t node, uint32_t slot) {
  return node == NO_ID ? NO_ID : model_output(k->m, &k->m->nodes[node], slot);
}

uint32_t kit_n_in(const struct kit *k, uint32_t node) {
  uint32_t n = k->m->nodes[node].n_in;
  while (n > 0 && kit_in(k, node, n - 1) == NO_ID)
    n--;
  return n;
}

uint32_t kit_n_out(const struct kit *k, uint32_t node) {
  uint32_t n = k->m->nodes[node].n_out;
  while (n > 0 && kit_out(k, node, n - 1) == NO_ID)
    n--;
  return n;
}
