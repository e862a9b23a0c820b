// The changes of versions as code: which raises of a model's opset leave a node's meaning as it was.
//
//   from 11                 to 21
//   ───┼────────┼──────────────┼──▶  versions of the operator at 11, 13 and 18: the changes of 13 and 18 must both
//      11       13        18         say that nothing changes for this node
//
// A change looks at the node as it is written: attributes, which inputs and outputs are there,
// declared types (for scalars also inferred ones). What is not declared is doubted where it matters (last_axis), so that true is a
// promise and false may be too careful.
#include "schema/schema.h"

// ---- rules -------------------------------------------------------------------------------------

struct look {
  const struct model *m;
  const struct model_types *types;
  uint32_t node;
  const char *attributes; // of the version
  struct arena *scratch;
  bool *asks_rank;
};

// The next of the names, NUL-terminated; NULL at the end.
static const char *next_name(const struct look *l, const char **at) {
  if (**at == 0) return NULL;
  const char *end = *at + strcspn(*at, " ");
  const char *name = arena_string(l->scratch, span_of(*at, (size_t)(end - *at)));
  *at = *end ? end + 1 : end;
  return name;
}

static const struct model_attr *attribute(const struct look *l, const char *name) {
  return model_attr_named(l->m, l->node, name);
}

static const char *without(const struct look *l) {
  const char *at = l->attributes, *name;
  while ((name = next_name(l, &at)))
    if (attribute(l, name))
      return arena_printf(l->scratch, "its attribute '%s' was removed or became an input", name);
  return NULL;
}

static const char *with(const struct look *l) {
  if (attribute(l, l->attributes)) return NULL;
  return arena_printf(l->scratch, "its attribute '%s' no longer has a default", l->attributes);
}

static const char *zero(const struct look *l) {
  const char *at = l->attributes, *first = NULL, *name;
  while ((name = next_name(l, &at))) {
    int64_t x;
    if (model_attr_int(l->m, l->node, name, 0, &x) && x == 0) return NULL;
    if (!first) first = name;
  }
  return arena_printf(l->scratch, "its attribute '%s' works differently", first);
}

static const char *one_output(const struct look *l) {
  const struct model_node *n = &l->m->nodes[l->node];
  for (uint32_t i = 1; i < n->n_out; i++)
    if (model_output(l->m, n, i) != NO_ID) return "its outputs after the first are different";
  return NULL;
}

static const char *second_input(const struct look *l) {
  const uint32_t second = model_input(l->m, &l->m->nodes[l->node], 1);
  if (second != NO_ID && !(l->m->values[second].flags & VALUE_LEFT_OUT)) return NULL;
  return "its second input can no longer be left out";
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
  return integer ? "it no longer takes integers" : NULL;
}

static const char *last_axis(const struct look *l) {
  const struct model_info *info = declared(l);
  const struct model_attr *a = attribute(l, l->attributes);
  int64_t axis, rank = info && info->flags & INFO_SHAPED ? info->rank : -1;
  bool known = model_attr_int(l->m, l->node, l->attributes, 1, &axis);
  // Absent, it reads 1 before and -1 after: the same axis of a matrix only.
  if (known && a == NULL && rank == 2) return NULL;
  if (known && a && (axis == -1 || (rank > 0 && axis == rank - 1))) return NULL;
  return "it worked on the input flattened to two axes and now works on one axis; weir cannot "
         "tell that the axis is the last one";
}

static const char *explicit_pads(const struct look *l) {
  struct span mode;
  bool known = model_attr_string(l->m, l->node, l->attributes, "NOTSET", &mode);
  if (known && (span_is(mode, "NOTSET") || span_is(mode, "VALID"))) return NULL;
  return "auto_pad adds an odd pad on the other side";
}

static const char *sampling(const struct look *l) {
  struct span mode;
  if (attribute(l, l->attributes) == NULL) return NULL;
  bool known = model_attr_string(l->m, l->node, l->attributes, "", &mode);
  return known && span_is(mode, "nearest") ? NULL : "its modes were renamed";
}

static const char *resize_13(const struct look *l) {
  struct span mode;
  const struct model_node *n = &l->m->nodes[l->node];
  if (!model_attr_string(l->m, l->node, l->attributes, "half_pixel", &mode) ||
      span_is(mode, "tf_half_pixel_for_nn"))
    return "its coordinate mode was removed";
  bool both = model_input(l->m, n, 2) != NO_ID && model_input(l->m, n, 3) != NO_ID;
  return both ? "scales and sizes can no longer be given together" : NULL;
}

// Without training nothing is dropped. The mask was false then and is true now, which matters if something reads it.
static const char *dropout_12(const struct look *l) {
  const uint32_t mask = model_output(l->m, &l->m->nodes[l->node], 1);
  const struct model_value *v = mask == NO_ID ? NULL : &l->m->values[mask];
  if (v && (v->first_use != NO_ID || v->n_graph_outputs))
    return "its mask is true where it was false";
  return without(l);
}

// The old version ignores the axis of a scalar; the new one refuses it.
static const char *ranked(const struct look *l) {
  const char *at = l->attributes, *name;
  const uint32_t value = model_input(l->m, &l->m->nodes[l->node], 0);
  struct model_type type;
  bool has_axis = *at == 0;
  while ((name = next_name(l, &at)))
    has_axis = has_axis || attribute(l, name);
  if (!has_axis || value == NO_ID) return NULL;
  if (!model_types_get(l->types, l->m, value, &type) || !type.ranked) *l->asks_rank = true;
  return type.ranked && type.rank == 0 ? "its input is a scalar, which has no axis" : NULL;
}

static const char *changed(const struct look *l) {
  (void)l;
  return "its attributes, inputs or results changed";
}

// Why the change is one for this node, or NULL.
static const char *(*const obstacles[])(const struct look *l) = {
    [CHANGE_same] = NULL,
    [CHANGE_without] = without,
    [CHANGE_with] = with,
    [CHANGE_zero] = zero,
    [CHANGE_one_output] = one_output,
    [CHANGE_second_input] = second_input,
    [CHANGE_floating] = floating,
    [CHANGE_last_axis] = last_axis,
    [CHANGE_explicit_pads] = explicit_pads,
    [CHANGE_sampling] = sampling,
    [CHANGE_resize_13] = resize_13,
    [CHANGE_dropout_12] = dropout_12,
    [CHANGE_ranked] = ranked,
    [CHANGE_changed] = changed,
};

bool schema_same(const struct model *m, const struct model_types *types, uint32_t node,
                 int64_t from, int64_t to, struct arena *scratch, struct schema_change *change) {
  const struct span domain = model_name(m, m->nodes[node].domain);
  *change = (struct schema_change){0};
  if (!model_domain_is_onnx(domain)) return true;
  const struct schema_operator *op =
      schema_operator_of(domain, model_name(m, m->nodes[node].op_type));
  change->why = "weir does not know the history of this operator";
  if (op == NULL) return false;
  for (uint32_t i = 0; i < op->n_versions; i++) {
    const struct schema_signature *v = &op->versions[i];
    if (v->since <= from || v->since > to || !obstacles[v->change]) continue;
    const struct look l = {m, types, node, v->change_names, scratch, &change->asks_rank};
    change->since_version = v->since;
    change->why = obstacles[v->change](&l);
    if (change->why) return false;
  }
  return true;
}

// ---- releases ----------------------------------------------------------------------------------

const struct schema_release *schema_release_of(int64_t opset) {
  static const struct schema_release releases[] = {
#define OPSET(version, release, year) {version, release, year},
#include "schema/releases.def"
#undef OPSET
  };
  for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
    if (releases[i].opset == opset) return &releases[i];
  return NULL;
}
