// Finding operators and their signatures in the table.
//
//   (domain, op_type) ──▶ operator ──▶ versions 1, 7, 13 ──▶ the last that is not newer than the opset
//
// The table itself is made of *.ops while weir is built (compile_schema.py): sorted rows without a
// pointer to anything that is made at run time.
#include "schema/inside/schema_table.h"

static const struct schema_rule_row rules[SCHEMA_RULES] = {
    [SCHEMA_RULE_none] = {"none", ""},
#define SCHEMA_RULE(id, family, parameter) [SCHEMA_RULE_##id] = {family, parameter},
#include "schema_rules.def"
#undef SCHEMA_RULE
};

const struct schema_rule_row *schema_rule_row(enum schema_rule rule) {
  return &rules[rule];
}

const struct schema_operator *schema_all(uint32_t *n) {
  *n = schema_n_operators;
  return schema_operators;
}

static int compare(struct span a, const char *b) {
  const size_t n = strlen(b);
  const int order = memcmp(a.at, b, a.n < n ? a.n : n);
  if (order) return order;
  return a.n < n ? -1 : a.n > n;
}

const struct schema_operator *schema_operator_of(struct span domain, struct span op_type) {
  if (span_is(domain, "ai.onnx")) domain = span_str("");
  uint32_t low = 0, high = schema_n_operators;
  while (low < high) {
    const uint32_t at = low + (high - low) / 2;
    const struct schema_operator *op = &schema_operators[at];
    int order = compare(domain, op->domain);
    if (order == 0) order = compare(op_type, op->name);
    if (order == 0) return op;
    if (order < 0)
      high = at;
    else
      low = at + 1;
  }
  return NULL;
}

const struct schema_signature *schema_at(const struct schema_operator *op, int64_t version) {
  const struct schema_signature *found = NULL;
  for (uint32_t i = 0; i < op->n_versions && op->versions[i].since <= version; i++)
    found = &op->versions[i];
  return found;
}

const struct schema_signature *schema_signature_of(struct span domain, struct span op_type,
                                                   int64_t version) {
  const struct schema_operator *op = schema_operator_of(domain, op_type);
  return op ? schema_at(op, version) : NULL;
}

int64_t schema_newest(struct span domain) {
  if (span_is(domain, "ai.onnx")) domain = span_str("");
  for (uint32_t i = 0; i < schema_n_domains; i++)
    if (span_is(domain, schema_domains[i].name)) return schema_domains[i].newest;
  return 0;
}

const struct schema_attribute *schema_attribute_of(const struct schema_signature *s,
                                                   struct span name) {
  for (uint32_t i = 0; i < s->n_attributes; i++)
    if (span_is(name, s->attributes[i].name)) return &s->attributes[i];
  return NULL;
}

bool schema_output_follows(const struct model *m, uint32_t node, const struct schema_signature *s,
                           const struct schema_formal *out) {
  const struct model_node *n = &m->nodes[node];
  if (out->variable == SCHEMA_NO_VARIABLE) return false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const struct schema_formal *in = schema_input(s, i);
    if (in && in->variable == out->variable && model_input(m, n, i) != NO_ID) return true;
  }
  return false;
}

enum dtype schema_attribute_type(const struct model *m, uint32_t node,
                                 const struct schema_signature *s, uint32_t slot) {
  const struct schema_formal *out = schema_output(s, slot);
  if (!out || out->variable == SCHEMA_NO_VARIABLE || schema_output_follows(m, node, s, out))
    return DTYPE_UNDEFINED;
  for (uint32_t i = 0; i < s->n_attributes; i++) {
    const struct schema_attribute *known = &s->attributes[i];
    if (!known->says) continue;
    const struct model_attr *a = model_attr_named(m, node, known->name);
    int64_t dtype = !a && known->kind == SCHEMA_INT ? known->u.i : DTYPE_UNDEFINED;
    if (a && a->ref_name != m->empty) return DTYPE_UNDEFINED;
    if (a && a->type == ATTR_INT) dtype = a->u.i;
    if (a && a->type == ATTR_TENSOR && a->count) dtype = m->tensors[a->first].dtype;
    return dtype_known(dtype) ? (enum dtype)dtype : DTYPE_UNDEFINED;
  }
  return DTYPE_UNDEFINED;
}

static const struct schema_formal *formal_at(const struct schema_formal *formals, uint32_t n,
                                             uint32_t at) {
  if (at < n) return &formals[at];
  return n && formals[n - 1].option == SCHEMA_VARIADIC ? &formals[n - 1] : NULL;
}

const struct schema_formal *schema_input(const struct schema_signature *s, uint32_t at) {
  return formal_at(s->inputs, s->n_inputs, at);
}

const struct schema_formal *schema_output(const struct schema_signature *s, uint32_t at) {
  return formal_at(s->outputs, s->n_outputs, at);
}

// ---- by the names of nodes ----------------------------------------------------------------------

struct schema_name_slot {
  uint32_t op_type, domain; // name ids; NO_ID: free
  const struct schema_operator *op;
};

void schema_names_init(struct schema_names *names, const struct model *m) {
  *names = (struct schema_names){.m = m};
}

void schema_names_done(struct schema_names *names) {
  TABLE_FREE(names, slots);
}

// Open addressing, at most half full; n_slots is a power of two.
static struct schema_name_slot *slot_of(const struct schema_names *names, uint32_t op_type,
                                        uint32_t domain) {
  const uint64_t key = (uint64_t)op_type << 32 | domain;
  uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 32);
  struct schema_name_slot *slot;
  do
    slot = &names->slots[at++ & (names->n_slots - 1)];
  while (slot->op_type != NO_ID && (slot->op_type != op_type || slot->domain != domain));
  return slot;
}

static void make_room(struct schema_names *names) {
  if ((names->n + 1) * 2 <= names->n_slots) return;
  struct schema_names old = *names;
  const uint32_t n = old.n_slots ? old.n_slots * 2 : 64;
  *names = (struct schema_names){.m = old.m, .n = old.n};
  for (uint32_t i = 0; i < n; i++)
    *TABLE_PUSH(names, slots) = (struct schema_name_slot){.op_type = NO_ID};
  for (uint32_t i = 0; i < old.n_slots; i++)
    if (old.slots[i].op_type != NO_ID)
      *slot_of(names, old.slots[i].op_type, old.slots[i].domain) = old.slots[i];
  schema_names_done(&old);
}

const struct schema_operator *schema_of_node(struct schema_names *names, uint32_t node) {
  const struct model_node *n = &names->m->nodes[node];
  make_room(names);
  struct schema_name_slot *slot = slot_of(names, n->op_type, n->domain);
  if (slot->op_type == NO_ID) {
    const struct span domain = model_name(names->m, n->domain);
    const struct span op_type = model_name(names->m, n->op_type);
    *slot = (struct schema_name_slot){n->op_type, n->domain, schema_operator_of(domain, op_type)};
    names->n++;
  }
  return slot->op;
}

const struct schema_signature *schema_of_node_at(struct schema_names *names, uint32_t node) {
  const struct schema_operator *op = schema_of_node(names, node);
  if (!op) return NULL;
  const struct model_node *n = &names->m->nodes[node];
  const int64_t version = model_opset_version(names->m, n->graph, span_str(op->domain));
  return schema_at(op, version);
}
