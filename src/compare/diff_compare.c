// What differs between twins, exactly: no key is asked here, names and values are compared.
//
// An input is the same if its value is the twin's. Values that have other names are counted, not
// listed: a rename does not change the computation. Elements of large tensors are not read here;
// the caller streams them.
#include "compare/inside/diff_parts.h"

static void detail(struct diff *d, enum diff_what what, uint32_t a, uint32_t b) {
  *TABLE_PUSH(d, details) = (struct diff_detail){what, a, b};
}

// ---- attributes --------------------------------------------------------------------------------

static bool same_tensor_form(const struct diff *d, uint32_t a, uint32_t b) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const struct model_tensor *x = &ma->tensors[a], *y = &mb->tensors[b];
  struct span p, q;
  if (x->dtype != y->dtype || x->bytes != y->bytes || !model_same_dims(ma, x, mb, y)) return false;
  if (!model_small_value(ma, a, &p) || !model_small_value(mb, b, &q)) return true;
  return span_eq(p, q);
}

static bool same_strings(const struct diff *d, const struct model_attr *a,
                         const struct model_attr *b) {
  for (uint32_t i = 0; i < a->count; i++)
    if (diff_name(d, DIFF_A, d->m[DIFF_A]->strings[a->first + i]) !=
        diff_name(d, DIFF_B, d->m[DIFF_B]->strings[b->first + i]))
      return false;
  return true;
}

static int lists_differ(struct diff *d, const struct model_attr *a, const struct model_attr *b,
                        bool *differ, struct err *err) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  *differ = a->count != b->count;
  if (*differ || a->count == 0) return 0;
  d->steps += a->count;
  if (a->first == NO_ID || b->first == NO_ID) // too long to be held
    return diff_bytes_differ(d, a->src, b->src, differ, err);
  switch ((enum attr_type)a->type) {
  case ATTR_INTS:
    *differ = memcmp(ma->longs + a->first, mb->longs + b->first, a->count * sizeof *ma->longs) != 0;
    return 0;
  case ATTR_FLOATS:
    *differ =
        memcmp(ma->floats + a->first, mb->floats + b->first, a->count * sizeof *ma->floats) != 0;
    return 0;
  case ATTR_STRINGS: *differ = !same_strings(d, a, b); return 0;
  case ATTR_TENSOR:
  case ATTR_TENSORS:
    for (uint32_t i = 0; i < a->count && !*differ; i++)
      *differ = !same_tensor_form(d, a->first + i, b->first + i);
    return 0;
  default: return 0; // graphs are pairs of their own
  }
}

int diff_attrs_differ(struct diff *d, uint32_t ia, uint32_t ib, bool *differ, struct err *err) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const struct model_attr *a = &ma->attrs[ia], *b = &mb->attrs[ib];
  const bool constant = model_attr_is_constant(ma, a);
  d->steps++;
  *differ = a->type != b->type || constant != model_attr_is_constant(mb, b) ||
            diff_name(d, DIFF_A, a->ref_name) != diff_name(d, DIFF_B, b->ref_name);
  if (*differ) return 0;
  if (constant) {
    *differ = a->first != NO_ID && b->first != NO_ID && !same_tensor_form(d, a->first, b->first);
    return 0;
  }
  switch ((enum attr_type)a->type) {
  case ATTR_INT: *differ = a->u.i != b->u.i; break;
  case ATTR_FLOAT: *differ = memcmp(&a->u.f, &b->u.f, sizeof a->u.f) != 0; break;
  case ATTR_STRING:
    if (a->u.s == NO_ID || b->u.s == NO_ID)
      return diff_bytes_differ(d, a->src, b->src, differ, err);
    *differ = diff_name(d, DIFF_A, a->u.s) != diff_name(d, DIFF_B, b->u.s);
    break;
  case ATTR_TYPE_PROTO:
  case ATTR_TYPE_PROTOS: break; // kept fields
  default:
    if (lists_differ(d, a, b, differ, err)) return -1;
  }
  if (*differ || !((a->flags | b->flags) & ATTR_HAS_KEPT)) return 0;
  return diff_kept_differs(d, KEPT_ATTR, ia, ib, differ, err);
}

// The tensor of a Constant is reported as a tensor, whichever attribute holds it: of both only other fields count here.
static int compare_constants(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  bool differ;
  if (diff_kept_differs(d, KEPT_ATTR, a, b, &differ, err)) return -1;
  if (differ) detail(d, DIFF_ATTR, a, b);
  return 0;
}

static int compare_attrs(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const struct model_node *x = &ma->nodes[a], *y = &mb->nodes[b];
  uint32_t *twin[DIFF_SIDES],
      held[DIFF_SIDES] = {diff_constant_attr(ma, a), diff_constant_attr(mb, b)};
  if (held[DIFF_A] == NO_ID || held[DIFF_B] == NO_ID)
    held[DIFF_A] = held[DIFF_B] = NO_ID;
  else if (compare_constants(d, held[DIFF_A], held[DIFF_B], err))
    return -1;
  diff_attrs_pair(d, (struct diff_attrs[]){{x->attrs, x->n_attrs}, {y->attrs, y->n_attrs}}, twin);
  for (uint32_t i = 0; i < x->n_attrs; i++) {
    bool differ = true;
    const uint32_t other = twin[DIFF_A][i] == held[DIFF_B] ? NO_ID : twin[DIFF_A][i];
    if (ma->attrs[x->attrs + i].flags & ATTR_DEAD || x->attrs + i == held[DIFF_A]) continue;
    if (other != NO_ID && diff_attrs_differ(d, x->attrs + i, other, &differ, err)) return -1;
    if (differ) detail(d, DIFF_ATTR, x->attrs + i, other);
  }
  for (uint32_t i = 0; i < y->n_attrs; i++) {
    const bool alone = twin[DIFF_B][i] == NO_ID || twin[DIFF_B][i] == held[DIFF_A];
    if (mb->attrs[y->attrs + i].flags & ATTR_DEAD || y->attrs + i == held[DIFF_B] || !alone)
      continue;
    detail(d, DIFF_ATTR, NO_ID, y->attrs + i);
  }
  return 0;
}

// ---- nodes -------------------------------------------------------------------------------------

// Constants, also through Identity nodes, that are twins or hold the same few elements: one of several
// equal ones was used instead.
static bool same_constant(const struct diff *d, uint32_t a, uint32_t b) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  struct model_constant x, y;
  struct span p, q;
  if (!model_resolve_constant(ma, a, &x) || !model_resolve_constant(mb, b, &y)) return false;
  if (d->tensors[DIFF_A][x.tensor] == y.tensor && d->values[DIFF_A][x.value] == y.value)
    return true;
  return model_small_value(ma, x.tensor, &p) && model_small_value(mb, y.tensor, &q) &&
         same_tensor_form(d, x.tensor, y.tensor);
}

static bool same_value(const struct diff *d, uint32_t a, uint32_t b) {
  if (a == NO_ID || b == NO_ID) return a == b;
  if (d->values[DIFF_A][a] == b) return true;
  if (d->values[DIFF_A][a] != NO_ID || d->values[DIFF_B][b] != NO_ID) return same_constant(d, a, b);
  if (same_constant(d, a, b)) return true;
  return d->m[DIFF_A]->values[a].kind == VALUE_UNDEFINED &&
         d->m[DIFF_B]->values[b].kind == VALUE_UNDEFINED &&
         diff_name(d, DIFF_A, d->m[DIFF_A]->values[a].name) ==
             diff_name(d, DIFF_B, d->m[DIFF_B]->values[b].name);
}

static void compare_slots(struct diff *d, uint32_t a, uint32_t b) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const struct model_node *x = &ma->nodes[a], *y = &mb->nodes[b];
  const uint32_t n_in = x->n_in > y->n_in ? x->n_in : y->n_in;
  const uint32_t n_out = x->n_out > y->n_out ? x->n_out : y->n_out;
  d->steps += n_in + n_out;
  for (uint32_t i = 0; i < n_in; i++)
    if (!same_value(d, model_input(ma, x, i), model_input(mb, y, i)))
      detail(d, DIFF_INPUT, model_input(ma, x, i) == NO_ID && i >= x->n_in ? NO_ID : i,
             i < y->n_in ? i : NO_ID);
  for (uint32_t i = 0; i < n_out; i++) {
    const uint32_t va = model_output(ma, x, i), vb = model_output(mb, y, i);
    if (!same_value(d, va, vb))
      detail(d, DIFF_OUTPUT, i < x->n_out ? i : NO_ID, i < y->n_out ? i : NO_ID);
    else if (va != NO_ID &&
             diff_name(d, DIFF_A, ma->values[va].name) != diff_name(d, DIFF_B, mb->values[vb].name))
      d->renamed_values++;
  }
}

static int compare_nodes(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const struct model_node *x = &ma->nodes[a], *y = &mb->nodes[b];
  const uint32_t first = d->n_details;
  bool differ = false;
  if (diff_name(d, DIFF_A, x->op_type) != diff_name(d, DIFF_B, y->op_type) ||
      diff_name(d, DIFF_A, x->domain) != diff_name(d, DIFF_B, y->domain) ||
      diff_name(d, DIFF_A, x->overload) != diff_name(d, DIFF_B, y->overload))
    detail(d, DIFF_OP, a, b);
  if (compare_attrs(d, a, b, err)) return -1;
  compare_slots(d, a, b);
  if ((x->flags | y->flags) & NODE_HAS_KEPT && diff_kept_differs(d, KEPT_NODE, a, b, &differ, err))
    return -1;
  if (differ) detail(d, DIFF_NOTES, a, b);
  if (diff_name(d, DIFF_A, x->name) != diff_name(d, DIFF_B, y->name)) {
    d->renamed_nodes++;
    detail(d, DIFF_RENAMED, a, b);
  }
  if (d->n_details > first)
    *TABLE_PUSH(d, changes) = (struct diff_change){{a, b}, first, d->n_details - first};
  return 0;
}

int diff_compare(struct diff *d, struct err *err) {
  const struct model *a = d->m[DIFF_A];
  for (uint32_t g = 0; g < a->n_graphs; g++)
    for (uint32_t n = a->graphs[g].first_node; n != NO_ID; n = a->nodes[n].next)
      if (d->nodes[DIFF_A][n] != NO_ID && compare_nodes(d, n, d->nodes[DIFF_A][n], err)) return -1;
  return diff_lines_compare(d, err);
}
