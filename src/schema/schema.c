// The rules of ops.def as code, and its rows.
//
//   from 11                 to 21
//   ───┼────────┼──────────────┼──▶  versions of the operator at 11, 13 and 18: the rules of 13 and 18 must both
//      11       13        18         say that nothing changes for this node
//
// A rule looks at the node as it is written: attributes, which inputs and outputs are there,
// declared types. What is not declared is doubted where it matters (LAST_AXIS), so that true is a
// promise and false may be too careful.
#include "schema.h"

#include <stdlib.h>

// ---- rules -------------------------------------------------------------------------------------

struct schema_look {
  const struct model *m;
  uint32_t node;
  const char *attributes; // of the version
  struct arena *scratch;
};

// The next of the names, NUL-terminated; NULL at the end.
static const char *next_name(const struct schema_look *l, const char **at) {
  if (**at == 0) return NULL;
  const char *end = strchrnul(*at, ' ');
  const char *name = arena_string(l->scratch, span_of(*at, (size_t)(end - *at)));
  *at = *end ? end + 1 : end;
  return name;
}

static const struct model_attr *attribute(const struct schema_look *l, const char *name) {
  return model_attr_named(l->m, l->node, name);
}

static const char *without(const struct schema_look *l) {
  const char *at = l->attributes, *name;
  while ((name = next_name(l, &at)))
    if (attribute(l, name))
      return arena_printf(l->scratch, "its attribute '%s' was removed or became an input", name);
  return NULL;
}

static const char *with(const struct schema_look *l) {
  if (attribute(l, l->attributes)) return NULL;
  return arena_printf(l->scratch, "its attribute '%s' has no default any more", l->attributes);
}

static const char *zero(const struct schema_look *l) {
  int64_t x;
  bool fits = model_attr_int(l->m, l->node, l->attributes, 0, &x) && x == 0;
  return fits ? NULL
              : arena_printf(l->scratch, "its attribute '%s' works differently", l->attributes);
}

static const char *one_output(const struct schema_look *l) {
  const struct model_node *n = &l->m->nodes[l->node];
  for (uint32_t i = 1; i < n->n_out; i++)
    if (model_output(l->m, n, i) != NO_ID) return "its outputs after the first are different";
  return NULL;
}

static const char *second_input(const struct schema_look *l) {
  const uint32_t second = model_input(l->m, &l->m->nodes[l->node], 1);
  if (second != NO_ID && !(l->m->values[second].flags & VALUE_LEFT_OUT)) return NULL;
  return "its second input can no longer be left out";
}

static const struct model_info *declared(const struct schema_look *l) {
  uint32_t value = model_input(l->m, &l->m->nodes[l->node], 0);
  if (value == NO_ID) return NULL;
  const uint32_t info = model_live_info(l->m, l->m->values[value].info);
  return info == NO_ID ? NULL : &l->m->infos[info];
}

static const char *floating(const struct schema_look *l) {
  const struct model_info *info = declared(l);
  bool integer = info && info->flags & INFO_TENSOR && dtype_is_integer((enum dtype)info->dtype);
  return integer ? "it no longer takes integers" : NULL;
}

static const char *last_axis(const struct schema_look *l) {
  const struct model_info *info = declared(l);
  const struct model_attr *a = attribute(l, l->attributes);
  int64_t axis, rank = info && info->flags & INFO_SHAPED ? info->rank : -1;
  bool known = model_attr_int(l->m, l->node, l->attributes, 1, &axis);
  // Absent, it reads 1 before and -1 after: the same axis of a matrix only.
  if (known && a == NULL && rank == 2) return NULL;
  if (known && a && (axis == -1 || (rank > 0 && axis == rank - 1))) return NULL;
  return "it worked on the input flattened to two axes, now on one axis, and the axis is not known "
         "to be the last";
}

static const char *explicit_pads(const struct schema_look *l) {
  struct span mode;
  bool known = model_attr_string(l->m, l->node, l->attributes, "NOTSET", &mode);
  if (known && (span_is(mode, "NOTSET") || span_is(mode, "VALID"))) return NULL;
  return "auto_pad puts an odd pad on the other side";
}

static const char *sampling(const struct schema_look *l) {
  struct span mode;
  if (attribute(l, l->attributes) == NULL) return NULL;
  bool known = model_attr_string(l->m, l->node, l->attributes, "", &mode);
  return known && span_is(mode, "nearest") ? NULL : "its modes were renamed";
}

static const char *resize_13(const struct schema_look *l) {
  struct span mode;
  const struct model_node *n = &l->m->nodes[l->node];
  if (!model_attr_string(l->m, l->node, l->attributes, "half_pixel", &mode) ||
      span_is(mode, "tf_half_pixel_for_nn"))
    return "its coordinate mode was removed";
  bool both = model_input(l->m, n, 2) != NO_ID && model_input(l->m, n, 3) != NO_ID;
  return both ? "scales and sizes may no longer both be given" : NULL;
}

static const char *changed(const struct schema_look *l) {
  (void)l;
  return "its attributes, inputs or results changed";
}

// ---- the table ---------------------------------------------------------------------------------

#define FIRST(since) {since, NULL, ""},
#define SAME(since) {since, NULL, ""},
#define WITHOUT(since, attributes) {since, without, attributes},
#define WITH(since, attribute) {since, with, attribute},
#define ZERO(since, attribute) {since, zero, attribute},
#define ONE_OUTPUT(since) {since, one_output, ""},
#define SECOND_INPUT(since) {since, second_input, ""},
#define FLOATING(since) {since, floating, ""},
#define LAST_AXIS(since, attribute) {since, last_axis, attribute},
#define EXPLICIT_PADS(since, attribute) {since, explicit_pads, attribute},
#define SAMPLING(since, attribute) {since, sampling, attribute},
#define RESIZE_13(since, attribute) {since, resize_13, attribute},
#define CHANGED(since) {since, changed, ""},

static const struct schema_row rows[] = {
#define OP(op, versions) {op, (const struct schema_version[]){versions{0, NULL, NULL}}},
#include "ops.def"
#undef OP
};

const struct schema_row *schema_rows(uint32_t *n) {
  *n = sizeof rows / sizeof rows[0];
  return rows;
}

static int compare(const void *key, const void *row) {
  const struct span *op_type = key;
  const char *name = ((const struct schema_row *)row)->op_type;
  const size_t n = strlen(name);
  const int order = memcmp(op_type->at, name, op_type->n < n ? op_type->n : n);
  if (order) return order;
  return op_type->n < n ? -1 : op_type->n > n;
}

const struct schema_row *schema_of(struct span op_type) {
  return bsearch(&op_type, rows, sizeof rows / sizeof rows[0], sizeof rows[0], compare);
}

bool schema_same(const struct model *m, uint32_t node, int64_t from, int64_t to,
                 struct arena *scratch, struct schema_change *change) {
  struct span domain = model_name(m, m->nodes[node].domain);
  if (domain.n && !span_is(domain, "ai.onnx")) return true;
  const struct schema_row *row = schema_of(model_name(m, m->nodes[node].op_type));
  *change = (struct schema_change){0, "weir does not know the history of this operator"};
  if (row == NULL) return false;
  for (const struct schema_version *v = row->versions; v->since; v++) {
    if (v->since <= from || v->since > to || !v->obstacle) continue;
    const struct schema_look l = {m, node, v->attributes, scratch};
    *change = (struct schema_change){v->since, v->obstacle(&l)};
    if (change->why) return false;
  }
  return true;
}

// ---- releases ----------------------------------------------------------------------------------

const struct schema_release *schema_release_of(int64_t opset) {
  static const struct schema_release releases[] = {
#define OPSET(version, release, year) {version, release, year},
#include "releases.def"
#undef OPSET
  };
  for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
    if (releases[i].opset == opset) return &releases[i];
  return NULL;
}
