// The rows of ops.def and their rules as code.
//
//   from 11                 to 21
//   ───┼────────┼──────────────┼──▶  versions of the operator at 11, 13 and 18: the rules of 13 and 18 must both
//      11       13        18         say that nothing changes for this node
//
// A rule looks at the node as it is written: attributes, which inputs and outputs are there,
// declared types. What is not declared is doubted where it matters (LAST_AXIS), so that true is a
// promise and false may be too careful.
#include "schema.h"

static const struct schema_row rows[] = {
#define OP(domain, op, version, rule, attributes) {domain, op, version, SCHEMA_##rule, attributes},
#include "ops.def"
#undef OP
};
static const uint32_t n_rows = sizeof rows / sizeof rows[0];

const struct schema_row *schema_rows(uint32_t *n) {
  *n = n_rows;
  return rows;
}

static int compare(struct span a, const char *b) {
  size_t n = strlen(b), least = a.n < n ? a.n : n;
  int order = least ? memcmp(a.at, b, least) : 0;
  if (order) return order;
  return a.n < n ? -1 : a.n > n;
}

static int order_of(struct span domain, struct span op_type, const struct schema_row *row) {
  int by_domain = compare(domain, row->domain);
  return by_domain ? by_domain : compare(op_type, row->op_type);
}

const struct schema_row *schema_of(struct span domain, struct span op_type, uint32_t *n) {
  uint32_t low = 0, high = n_rows;
  while (low < high) { // the first row that is not before the operator
    uint32_t middle = low + (high - low) / 2;
    if (order_of(domain, op_type, &rows[middle]) > 0)
      low = middle + 1;
    else
      high = middle;
  }
  *n = 0;
  while (low + *n < n_rows && order_of(domain, op_type, &rows[low + *n]) == 0)
    ++*n;
  return *n ? &rows[low] : NULL;
}

// ---- rules -------------------------------------------------------------------------------------

struct look {
  const struct model *m;
  uint32_t node;
  const struct schema_row *row;
  struct arena *scratch;
};

// The next of the names, NUL-terminated; NULL at the end.
static const char *next_name(const struct look *l, const char **at) {
  if (**at == 0) return NULL;
  const char *end = strchrnul(*at, ' ');
  const char *name = arena_string(l->scratch, span_of(*at, (size_t)(end - *at)));
  *at = *end ? end + 1 : end;
  return name;
}

static const struct model_attr *attribute(const struct look *l, const char *name) {
  return model_attr_named(l->m, l->node, name);
}

static const char *without(const struct look *l) {
  const char *at = l->row->attributes, *name;
  while ((name = next_name(l, &at)))
    if (attribute(l, name))
      return arena_printf(l->scratch, "its attribute '%s' is gone or became an input", name);
  return NULL;
}

static const char *with(const struct look *l) {
  if (attribute(l, l->row->attributes)) return NULL;
  return arena_printf(l->scratch, "its attribute '%s' has no default any more", l->row->attributes);
}

static const char *zero(const struct look *l) {
  int64_t x;
  bool fits = model_attr_int(l->m, l->node, l->row->attributes, 0, &x) && x == 0;
  return fits
             ? NULL
             : arena_printf(l->scratch, "its attribute '%s' works differently", l->row->attributes);
}

static const char *one_output(const struct look *l) {
  const struct model_node *n = &l->m->nodes[l->node];
  for (uint32_t i = 1; i < n->n_out; i++)
    if (model_output(l->m, n, i) != NO_ID) return "outputs behind its first are different ones";
  return NULL;
}

static const char *second_input(const struct look *l) {
  if (model_input(l->m, &l->m->nodes[l->node], 1) != NO_ID) return NULL;
  return "its second input cannot be left out as it is any more";
}

static const struct model_info *declared(const struct look *l) {
  uint32_t value = model_input(l->m, &l->m->nodes[l->node], 0);
  if (value == NO_ID) return NULL;
  const uint32_t info = model_live_info(l->m, l->m->values[value].info);
  return info == NO_ID ? NULL : &l->m->infos[info];
}

static const char *floating(const struct look *l) {
  const struct model_info *info = declared(l);
  bool integer = info && info->flags & INFO_TENSOR && dtype_is_integer((enum dtype)info->dtype);
  return integer ? "integers are not taken any more" : NULL;
}

static const char *last_axis(const struct look *l) {
  const struct model_info *info = declared(l);
  const struct model_attr *a = attribute(l, l->row->attributes);
  int64_t axis, rank = info && info->flags & INFO_SHAPED ? info->rank : -1;
  bool known = model_attr_int(l->m, l->node, l->row->attributes, 1, &axis);
  // Absent, it reads 1 before and -1 after: the same axis of a matrix only.
  if (known && a == NULL && rank == 2) return NULL;
  if (known && a && (axis == -1 || (rank > 0 && axis == rank - 1))) return NULL;
  return "it worked on the input flattened to two axes, now on one axis, and the axis is not known "
         "to be the last";
}

static const char *explicit_pads(const struct look *l) {
  struct span mode;
  bool known = model_attr_string(l->m, l->node, l->row->attributes, "NOTSET", &mode);
  if (known && (span_is(mode, "NOTSET") || span_is(mode, "VALID"))) return NULL;
  return "auto_pad puts an odd pad on the other side";
}

static const char *sampling(const struct look *l) {
  struct span mode;
  if (attribute(l, l->row->attributes) == NULL) return NULL;
  bool known = model_attr_string(l->m, l->node, l->row->attributes, "", &mode);
  return known && span_is(mode, "nearest") ? NULL : "its modes have other names";
}

static const char *resize_13(const struct look *l) {
  struct span mode;
  const struct model_node *n = &l->m->nodes[l->node];
  if (!model_attr_string(l->m, l->node, l->row->attributes, "half_pixel", &mode) ||
      span_is(mode, "tf_half_pixel_for_nn"))
    return "its coordinate mode is gone";
  bool both = model_input(l->m, n, 2) != NO_ID && model_input(l->m, n, 3) != NO_ID;
  return both ? "scales and sizes may not both be given any more" : NULL;
}

static const char *apply(const struct look *l) {
  switch (l->row->rule) {
  case SCHEMA_FIRST:
  case SCHEMA_SAME: return NULL;
  case SCHEMA_WITHOUT: return without(l);
  case SCHEMA_WITH: return with(l);
  case SCHEMA_ZERO: return zero(l);
  case SCHEMA_ONE_OUTPUT: return one_output(l);
  case SCHEMA_SECOND_INPUT: return second_input(l);
  case SCHEMA_FLOATING: return floating(l);
  case SCHEMA_LAST_AXIS: return last_axis(l);
  case SCHEMA_EXPLICIT_PADS: return explicit_pads(l);
  case SCHEMA_SAMPLING: return sampling(l);
  case SCHEMA_RESIZE_13: return resize_13(l);
  case SCHEMA_CHANGED: break;
  }
  return "attributes, inputs or what it computes became others";
}

bool schema_same(const struct model *m, uint32_t node, int64_t from, int64_t to,
                 struct arena *scratch, struct schema_change *change) {
  struct span domain = model_name(m, m->nodes[node].domain);
  if (domain.n && !span_is(domain, "ai.onnx")) return true;
  uint32_t n;
  const struct schema_row *row = schema_of(span_str(""), model_name(m, m->nodes[node].op_type), &n);
  *change = (struct schema_change){0, "weir does not know the history of this operator"};
  if (row == NULL) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (row[i].since_version <= from || row[i].since_version > to) continue;
    struct look l = {m, node, &row[i], scratch};
    *change = (struct schema_change){row[i].since_version, apply(&l)};
    if (change->why) return false;
  }
  return true;
}
