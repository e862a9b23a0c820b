// Attributes: what a node says, and what it means where it says nothing.
//
//   written        Transpose()      Softmax()        Gemm(alpha=1, transB=1)
//   meant          perm = n-1 … 0   axis = -1 or 1   transB=1
//                                   (by opset)       (alpha=1 says nothing)
//
// The table of operators has the defaults (schema.h). Two nodes have the same
// attributes if they mean the same; an attribute that says its default is as if absent. A reference
// to an attribute of the function around has no value here, and nothing is known of it.
#include "passes/kit/inside/kit_inside.h"

#include "schema/schema.h"

// The row of the attribute that holds for the node, or NULL.
static const struct schema_attribute *attribute_of(struct kit *k, uint32_t node, struct span name) {
  const enum op op = kit_op(k, node);
  if (op == OP_NONE || kit_op_row(op)->domain != KIT_ONNX) return NULL;
  const struct schema_signature **s = &k->in->signature[op];
  const int64_t opset = kit_opset(k, k->m->nodes[node].graph);
  if (!*s || opset != k->in->signature_opset[op]) {
    *s = schema_signature_of(span_str(""), span_str(kit_op_row(op)->name), opset);
    k->in->signature_opset[op] = opset;
  }
  return *s ? schema_attribute_of(*s, name) : NULL;
}

// The row of a node's attribute that has a default, or NULL.
static const struct schema_attribute *default_of(struct kit *k, uint32_t node, struct span name) {
  const struct schema_attribute *a = attribute_of(k, node, name);
  return a && a->kind != SCHEMA_NO_DEFAULT ? a : NULL;
}

// ---- one attribute -----------------------------------------------------------------------------

static enum kit_state read_attr(const struct model *m, const struct model_attr *a,
                                struct kit_attr *out) {
  out->type = (enum attr_type)a->type;
  if (a->ref_name != m->empty || model_attr_is_constant(m, a)) return KIT_UNKNOWN;
  const bool held = a->count == 0 || a->first != NO_ID;
  out->n = a->count;
  switch (out->type) {
  case ATTR_INT: out->i = a->u.i; return KIT_GIVEN;
  case ATTR_FLOAT: out->f = a->u.f; return KIT_GIVEN;
  case ATTR_STRING:
    if (a->u.s == NO_ID) return KIT_UNKNOWN;
    out->s = model_name(m, a->u.s);
    return KIT_GIVEN;
  case ATTR_INTS:
    if (held && a->count) out->ints = m->longs + a->first;
    return held ? KIT_GIVEN : KIT_UNKNOWN;
  case ATTR_FLOATS:
    if (held && a->count) out->floats = m->floats + a->first;
    return held ? KIT_GIVEN : KIT_UNKNOWN;
  case ATTR_STRINGS:
    if (held && a->count) out->strings = m->strings + a->first;
    return held ? KIT_GIVEN : KIT_UNKNOWN;
  case ATTR_TENSOR: out->tensor = a->first; return held ? KIT_GIVEN : KIT_UNKNOWN;
  case ATTR_GRAPH: out->graph = a->first; return held ? KIT_GIVEN : KIT_UNKNOWN;
  default: return KIT_UNKNOWN;
  }
}

enum kit_state kit_attr(struct kit *k, uint32_t node, const char *name, struct kit_attr *out) {
  *out = (struct kit_attr){.tensor = NO_ID, .graph = NO_ID};
  if (node == NO_ID) return KIT_ABSENT;
  const struct model_attr *a = model_attr_named(k->m, node, name);
  if (a) return read_attr(k->m, a, out);
  const struct schema_attribute *d = default_of(k, node, span_str(name));
  if (!d || d->kind > SCHEMA_STRING) return KIT_ABSENT;
  out->type = (enum attr_type)d->type;
  if (d->kind == SCHEMA_INT) out->i = d->u.i;
  if (d->kind == SCHEMA_FLOAT) out->f = d->u.f;
  if (d->kind == SCHEMA_STRING) out->s = span_str(d->u.s);
  return KIT_DEFAULT;
}

// GIVEN or DEFAULT of that type; ABSENT; everything else is UNKNOWN.
static enum kit_state typed(struct kit *k, uint32_t node, const char *name, enum attr_type type,
                            struct kit_attr *out) {
  const enum kit_state state = kit_attr(k, node, name, out);
  if (state == KIT_ABSENT || state == KIT_UNKNOWN) return state;
  return out->type == type ? state : KIT_UNKNOWN;
}

bool kit_attr_int(struct kit *k, uint32_t node, const char *name, int64_t fallback, int64_t *out) {
  struct kit_attr a;
  const enum kit_state state = typed(k, node, name, ATTR_INT, &a);
  *out = state == KIT_ABSENT ? fallback : a.i;
  return state != KIT_UNKNOWN;
}

bool kit_attr_float(struct kit *k, uint32_t node, const char *name, float fallback, float *out) {
  struct kit_attr a;
  const enum kit_state state = typed(k, node, name, ATTR_FLOAT, &a);
  *out = state == KIT_ABSENT ? fallback : a.f;
  return state != KIT_UNKNOWN;
}

bool kit_attr_string(struct kit *k, uint32_t node, const char *name, const char *fallback,
                     struct span *out) {
  struct kit_attr a;
  const enum kit_state state = typed(k, node, name, ATTR_STRING, &a);
  *out = state == KIT_ABSENT ? span_str(fallback) : a.s;
  return state != KIT_UNKNOWN;
}

bool kit_attr_ints(struct kit *k, uint32_t node, const char *name, const int64_t **list,
                   uint32_t *n) {
  struct kit_attr a;
  const bool there = typed(k, node, name, ATTR_INTS, &a) == KIT_GIVEN;
  *list = there ? a.ints : NULL;
  *n = there ? a.n : 0;
  return there;
}

bool kit_attr_tensor(struct kit *k, uint32_t node, const char *name, uint32_t *tensor) {
  struct kit_attr a;
  const bool there = typed(k, node, name, ATTR_TENSOR, &a) == KIT_GIVEN;
  *tensor = there ? a.tensor : NO_ID;
  return there;
}

bool kit_attr_graph(struct kit *k, uint32_t node, const char *name, uint32_t *graph) {
  struct kit_attr a;
  const bool there = typed(k, node, name, ATTR_GRAPH, &a) == KIT_GIVEN;
  *graph = there ? a.graph : NO_ID;
  return there;
}

bool kit_refers(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++)
    if (m->attrs[n->attrs + i].ref_name != m->empty) return true;
  return false;
}

bool kit_perm(struct kit *k, uint32_t node, const int64_t **perm, uint32_t *n) {
  struct kit_attr a;
  const enum kit_state state = typed(k, node, "perm", ATTR_INTS, &a);
  *perm = a.ints;
  *n = a.n;
  if (state != KIT_ABSENT) return state == KIT_GIVEN;
  if (!kit_rank(k, kit_in(k, node, 0), n)) return false;
  int64_t *reversed = arena_alloc(&k->site, (*n + (size_t)1) * sizeof *reversed);
  for (uint32_t i = 0; i < *n; i++)
    reversed[i] = *n - 1 - i;
  *perm = reversed;
  return true;
}

bool kit_axes(struct kit *k, uint32_t node, const int64_t **axes, uint32_t *n) {
  struct kit_attr a;
  const enum kit_state state = typed(k, node, "axes", ATTR_INTS, &a);
  *axes = a.ints;
  *n = a.n;
  if (state != KIT_ABSENT) return state == KIT_GIVEN;
  *n = 0;
  const uint32_t input = kit_in(k, node, 1);
  return input == NO_ID || kit_const_ints(k, input, axes, n);
}

// ---- all attributes of two nodes ---------------------------------------------------------------

static bool all_are(const struct kit_attr *a, int64_t x) {
  for (uint32_t i = 0; i < a->n; i++)
    if (a->ints[i] != x) return false;
  return true;
}

static bool is_reversed(const struct kit_attr *a) {
  for (uint32_t i = 0; i < a->n; i++)
    if (a->ints[i] != a->n - 1 - i) return false;
  return true;
}

// Does the attribute say what the node would mean without it?
static bool says_default(struct kit *k, uint32_t node, struct span name, const struct kit_attr *a) {
  const struct schema_attribute *d = default_of(k, node, name);
  if (!d || a->type != d->type) return false;
  switch (d->kind) {
  case SCHEMA_INT: return a->i == d->u.i;
  case SCHEMA_FLOAT: return memcmp(&a->f, &d->u.f, sizeof a->f) == 0;
  case SCHEMA_STRING: return span_is(a->s, d->u.s);
  case SCHEMA_ONES: return all_are(a, 1);
  case SCHEMA_ZEROS: return all_are(a, 0);
  case SCHEMA_REVERSED: return is_reversed(a);
  default: return false; // lists, which nodes hardly ever say
  }
}

static bool same_list(const void *a, const void *b, size_t n) {
  return n == 0 || memcmp(a, b, n) == 0;
}

static bool same_tensor(struct kit *k, uint32_t a, uint32_t b) {
  const struct model *m = k->m;
  const struct model_tensor *x = &m->tensors[a], *y = &m->tensors[b];
  struct span p, q;
  struct extent at, to;
  if (a == b) return true;
  if (x->dtype != y->dtype || x->rank != y->rank ||
      !same_list(model_dims(m, x), model_dims(m, y), x->rank * sizeof(int64_t)))
    return false;
  if (model_small_value(m, a, &p) && model_small_value(m, b, &q)) return span_eq(p, q);
  if (x->recipe != NO_ID) return x->recipe == y->recipe;
  return model_plain_place(m, a, &at) && model_plain_place(m, b, &to) && at.file == to.file &&
         at.off == to.off && at.len == to.len;
}

static bool same_attr(struct kit *k, const struct kit_attr *a, const struct kit_attr *b) {
  if (a->type != b->type) return false;
  switch (a->type) {
  case ATTR_INT: return a->i == b->i;
  case ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
  case ATTR_STRING: return span_eq(a->s, b->s);
  case ATTR_INTS: return a->n == b->n && same_list(a->ints, b->ints, a->n * sizeof *a->ints);
  case ATTR_FLOATS:
    return a->n == b->n && same_list(a->floats, b->floats, a->n * sizeof *a->floats);
  case ATTR_STRINGS: // interned: equal texts have equal ids
    return a->n == b->n && same_list(a->strings, b->strings, a->n * sizeof *a->strings);
  case ATTR_TENSOR: return same_tensor(k, a->tensor, b->tensor);
  default: return false;
  }
}

// Does every attribute of `a` that says something say the same in `b`?
static bool covers(struct kit *k, uint32_t a, uint32_t b) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[a];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *row = &m->attrs[n->attrs + i];
    struct kit_attr x = {0}, y = {0};
    if (row->flags & ATTR_DEAD) continue;
    if (read_attr(m, row, &x) != KIT_GIVEN) return false;
    if (says_default(k, a, model_name(m, row->name), &x)) continue;
    const struct model_attr *other = model_attr_named(m, b, model_name_str(m, row->name));
    if (!other || read_attr(m, other, &y) != KIT_GIVEN || !same_attr(k, &x, &y)) return false;
  }
  return true;
}

bool kit_same_attrs(struct kit *k, uint32_t a, uint32_t b) {
  return covers(k, a, b) && covers(k, b, a);
}

static uint64_t mix(uint64_t seed, const void *bytes, size_t n) {
  return (seed ^ span_hash(span_of(bytes, n))) * 0x9e3779b97f4a7c15u;
}

// Elements that are at hand count: a thousand constants of equal dims are not to share one slot.
static uint64_t hash_tensor(const struct model *m, uint32_t tensor, uint64_t h) {
  const struct model_tensor *t = &m->tensors[tensor];
  struct span raw;
  h = mix(h, model_dims(m, t), t->rank * sizeof(int64_t));
  return model_small_value(m, tensor, &raw) ? mix(h, raw.at, raw.n) : h;
}

static uint64_t hash_attr(struct kit *k, const struct model_attr *row, const struct kit_attr *a) {
  const uint32_t head[2] = {row->name, a->type};
  const uint64_t h = mix(0, head, sizeof head);
  switch (a->type) {
  case ATTR_INT: return mix(h, &a->i, sizeof a->i);
  case ATTR_FLOAT: return mix(h, &a->f, sizeof a->f);
  case ATTR_STRING: return mix(h, a->s.at, a->s.n);
  case ATTR_INTS: return mix(h, a->ints, a->n * sizeof *a->ints);
  case ATTR_FLOATS: return mix(h, a->floats, a->n * sizeof *a->floats);
  case ATTR_STRINGS: return mix(h, a->strings, a->n * sizeof *a->strings);
  case ATTR_TENSOR: return hash_tensor(k->m, a->tensor, h);
  default: return h;
  }
}

uint64_t kit_attrs_hash(struct kit *k, uint32_t node) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  uint64_t sum = 0; // the order is not to show
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *row = &m->attrs[n->attrs + i];
    struct kit_attr a = {0};
    if (row->flags & ATTR_DEAD || read_attr(m, row, &a) != KIT_GIVEN) continue;
    if (!says_default(k, node, model_name(m, row->name), &a)) sum += hash_attr(k, row, &a);
  }
  return sum;
}

// ---- attributes for another node ---------------------------------------------------------------

enum { MOST_COPIED = 256 };

bool kit_attr_is_first(const struct model *m, uint32_t node, uint32_t i) {
  const struct model_node *n = &m->nodes[node];
  const struct model_attr *row = &m->attrs[n->attrs + i];
  return i < MOST_COPIED && row->name != m->empty &&
         model_attr_named(m, node, model_name_str(m, row->name)) == row;
}

bool kit_attrs_copyable(struct kit *k, uint32_t node) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *row = &m->attrs[n->attrs + i];
    struct kit_attr a = {0};
    if (row->flags & ATTR_DEAD) continue;
    if (!kit_attr_is_first(m, node, i)) return false;
    if (read_attr(m, row, &a) != KIT_GIVEN) return false;
    if (a.type == ATTR_GRAPH) return false;
    if (a.type == ATTR_TENSOR && !edit_tensor_readable(k->e, a.tensor)) return false;
  }
  return true;
}

// What is known of the attributes of nodes of the operator, were one in that graph.
static const struct schema_signature *signature_in(const struct kit *k, uint32_t graph,
                                                   enum op op) {
  const char *domain = kit_domain_name((enum kit_domain)kit_op_row(op)->domain);
  const int64_t opset = kit_opset_of(k, domain, graph);
  if (op == OP_NONE) return NULL;
  return schema_signature_of(span_str(domain), span_str(kit_op_row(op)->name),
                             opset ? opset : schema_newest(span_str(domain)));
}

static bool knows(const struct schema_signature *s, struct span name) {
  return s->more || schema_attribute_of(s, name);
}

// Attributes that two operators have under one name, and which together mean another thing in the second: where both are set,
// QLinearAveragePool takes a last window that is only partly there (ceil_mode) for a whole one.
static const struct {
  enum op op, other;
  const char *both[2];
} unlike[] = {
    {OP_AveragePool, OP_ms_QLinearAveragePool, {"ceil_mode", "count_include_pad"}},
};

bool kit_attrs_alike(struct kit *k, uint32_t node, enum op op) {
  const enum op own = kit_op(k, node);
  int64_t x = 0, y = 0;
  for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
    if (!(own == unlike[i].op && op == unlike[i].other) &&
        !(own == unlike[i].other && op == unlike[i].op))
      continue;
    if (!kit_attr_int(k, node, unlike[i].both[0], 0, &x) ||
        !kit_attr_int(k, node, unlike[i].both[1], 0, &y) || (x && y))
      return false;
  }
  return true;
}

bool kit_attrs_fit(struct kit *k, uint32_t node, enum op op) {
  const struct model_node *n = &k->m->nodes[node];
  const struct schema_signature *to = signature_in(k, n->graph, op);
  if (!kit_attrs_copyable(k, node) || !kit_attrs_alike(k, node, op)) return false;
  for (uint32_t i = 0; i < n->n_attrs && to; i++) {
    const struct model_attr *row = &k->m->attrs[n->attrs + i];
    if (!(row->flags & ATTR_DEAD) && !knows(to, model_name(k->m, row->name)) &&
        !kit_attr_is_idle(k, node, i, op))
      return false;
  }
  return true;
}

bool kit_attr_is_idle(struct kit *k, uint32_t node, uint32_t i, enum op op) {
  const struct model *m = k->m;
  const struct model_attr *row = &m->attrs[m->nodes[node].attrs + i];
  const struct schema_signature *to = signature_in(k, m->nodes[node].graph, op);
  struct kit_attr a = {0};
  return to && op != kit_op(k, node) && !knows(to, model_name(m, row->name)) &&
         read_attr(m, row, &a) == KIT_GIVEN && says_default(k, node, model_name(m, row->name), &a);
}

static bool same_default(const struct schema_attribute *a, const struct schema_attribute *b) {
  if (a->kind != b->kind || a->type != b->type) return false;
  switch (a->kind) {
  case SCHEMA_INT: return a->u.i == b->u.i;
  case SCHEMA_FLOAT: return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0;
  case SCHEMA_STRING: return strcmp(a->u.s, b->u.s) == 0;
  default: return true; // lists, whose absence means the same everywhere
  }
}

uint32_t kit_attrs_implied(struct kit *k, uint32_t node, enum op op, struct edit_attr *list) {
  const uint32_t graph = k->m->nodes[node].graph;
  const enum op own = kit_op(k, node);
  const struct schema_signature *from = signature_in(k, graph, own),
                                *to = signature_in(k, graph, op);
  uint32_t n = 0;
  for (uint32_t i = 0; from && to && own != op && i < from->n_attributes; i++) {
    const struct schema_attribute *a = &from->attributes[i],
                                  *b = schema_attribute_of(to, span_str(a->name));
    if (!b || a->kind < SCHEMA_INT || a->kind > SCHEMA_STRING || same_default(a, b) ||
        (b->kind == SCHEMA_NO_DEFAULT && !b->required) || model_attr_named(k->m, node, a->name))
      continue;
    struct edit_attr *out = &list[n++];
    *out = (struct edit_attr){.name = a->name, .type = (enum attr_type)a->type};
    if (a->kind == SCHEMA_INT) out->i = a->u.i;
    if (a->kind == SCHEMA_FLOAT) out->f = a->u.f;
    if (a->kind == SCHEMA_STRING) out->s = span_str(a->u.s);
  }
  return n;
}
