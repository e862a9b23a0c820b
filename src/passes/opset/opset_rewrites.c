// What makes a node of one version of its operator valid in the next one: the steps that the table of operators
// has behind `->` (src/schema/README.md), a function each.
//
//   attribute ──▶ input        ReduceMean 18, Squeeze 13, Pad 11, Clip 11, Slice 10, TopK 10 …
//   attribute ──▶ another      Cast 6, Pad 2, RoiAlign 16, GridSample 20 …
//   operator  ──▶ another      Upsample 10, Scatter 11
//   one axis  ◀── several      Softmax 13
//   scalar    ──▶ vector       ArgMax 11, ReduceSum 11 …
//   aligned by hand ──▶ broadcast from the end    Add 7, PRelu 7
//
// A step says why where something that it needs is not known. ONNX Runtime decides where an old version's words
// are open: Resize 10 rounds up where it makes smaller, and down where it makes larger, and becomes two nodes where it does both.
#include "passes/opset/inside/opset_raising.h"

#include <math.h>
#include <stdlib.h>

static const char *const no_type = "the type of its input is not known";

static const char *missing(struct raising *r, const char *name) {
  if (r->why) return r->why;
  return arena_printf(&r->k->site, "its attribute '%s' is missing", name);
}

// The slot of the input of that name.
static uint32_t slot_of(const struct schema_signature *s, const char *name) {
  for (uint32_t i = 0; i < s->n_inputs; i++)
    if (strcmp(s->inputs[i].name, name) == 0) return i;
  return NO_ID;
}

// ---- attributes ------------------------------------------------------------------------------------

static const char *drop(struct raising *r) {
  for (uint32_t i = 0; i < r->n_args; i++)
    opset_drop(r, r->args[i].name);
  return NULL;
}

static const char *drop_if(struct raising *r) {
  for (uint32_t i = 0; i < r->n_args; i++) {
    const char *name = r->args[i].name;
    const struct schema_attribute *a = schema_attribute_of(r->old, span_str(name));
    const int64_t wanted = atoll(r->args[i].value),
                  absent = a && a->kind == SCHEMA_INT ? a->u.i : 0;
    struct kit_attr given;
    const enum kit_state state = opset_given(r, name, ATTR_INT, &given);
    if (state == KIT_UNKNOWN) return r->why;
    const int64_t x = state == KIT_GIVEN ? given.i : absent;
    if (x != wanted)
      return arena_printf(&r->k->site, "its attribute '%s' is %s, and only %s is supported", name,
                          integer(x).s, integer(wanted).s);
    opset_drop(r, name);
  }
  return NULL;
}

static const char *say(struct raising *r) {
  const struct model *m = r->k->m;
  for (uint32_t i = 0; i < r->n_args; i++) {
    const char *name = r->args[i].name, *value = r->args[i].value;
    struct edit_attr a = {.name = name, .s = span_str(value)};
    a.type = (enum attr_type)schema_attribute_of(r->now, span_str(name))->type;
    if (model_attr_named(m, r->node, name)) continue;
    a.f = strtof(value, NULL);
    a.i = strcmp(value, "OUTPUTS") == 0 ? m->nodes[r->node].n_out : atoll(value);
    const struct schema_attribute *old = schema_attribute_of(r->old, span_str(name));
    if (strcmp(value, "DEFAULT") == 0 && old) a.ints = old->u.ints, a.n = old->n;
    edit_set_attr(r->k->e, r->node, &a);
  }
  return NULL;
}

static const char *rename_attribute(struct raising *r) {
  struct kit_attr a;
  const char *name = r->args[0].name;
  if (opset_given(r, name, ATTR_INTS, &a) != KIT_GIVEN) return missing(r, name);
  edit_set_attr(
      r->k->e, r->node,
      &(struct edit_attr){.name = r->args[0].value, .type = ATTR_INTS, .ints = a.ints, .n = a.n});
  opset_drop(r, name);
  return NULL;
}

static const char *words(struct raising *r) {
  struct kit_attr a;
  const char *name = r->args[0].name;
  const enum kit_state state = opset_given(r, name, ATTR_STRING, &a);
  if (state == KIT_UNKNOWN) return r->why;
  for (uint32_t i = 1; state == KIT_GIVEN && i < r->n_args; i++)
    if (span_is(a.s, r->args[i].name)) opset_put_text(r, name, r->args[i].value);
  return NULL;
}

static const char *integer_attribute(struct raising *r) {
  struct kit_attr a;
  const char *name = r->args[0].name;
  const enum kit_state state = opset_given(r, name, ATTR_FLOAT, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_ABSENT) return NULL;
  if (!(a.f >= 1 && a.f <= 1000) || a.f != (float)(int64_t)a.f)
    return arena_printf(&r->k->site, "its attribute '%s' is not a whole number", name);
  opset_put_int(r, name, (int64_t)a.f);
  return NULL;
}

// Of a type: "FLOAT16" is 10.
static const char *number(struct raising *r) {
  struct kit_attr a;
  const char *name = r->args[0].name;
  if (opset_given(r, name, ATTR_STRING, &a) != KIT_GIVEN) return missing(r, name);
  char *word = arena_string(&r->k->site, a.s);
  for (char *c = word; *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
  const enum dtype dtype = dtype_by_name(span_str(word));
  if (dtype == DTYPE_UNDEFINED)
    return arena_printf(&r->k->site, "its attribute '%s' does not name a type", name);
  opset_put_int(r, name, dtype);
  return NULL;
}

static const char *attributes(struct raising *r) {
  const char *name = r->args[0].name;
  const int64_t *list;
  uint32_t n;
  const uint32_t slot = slot_of(r->old, name), value = kit_in(r->k, r->node, slot);
  if (value == NO_ID) return NULL;
  if (!kit_const_ints(r->k, value, &list, &n))
    return arena_printf(&r->k->site, "its input '%s' is not constant", name);
  int64_t *copy = arena_copy(&r->k->site, list, n * sizeof *copy);
  edit_set_input(r->k->e, r->node, slot, NO_ID);
  edit_set_attr(r->k->e, r->node,
                &(struct edit_attr){.name = name, .type = ATTR_INTS, .ints = copy, .n = n});
  return NULL;
}

// Drops a ratio that the new version refuses, since only training uses it. The mask was false and is true now: its readers get Not of it.
static const char *test_mode(struct raising *r) {
  struct kit *k = r->k;
  const char *name = r->args[0].name;
  struct kit_attr ratio;
  const enum kit_state state = opset_given(r, name, ATTR_FLOAT, &ratio);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_GIVEN && !(ratio.f >= 0 && ratio.f < 1)) opset_drop(r, name);
  const uint32_t mask = kit_out(k, r->node, 1);
  if (mask == NO_ID || kit_unused(k, mask)) return NULL;
  const uint32_t kept = opset_rename_output(r, 1, "kept");
  kit_make(k, OP_Not, KIT_IN(kept), KIT_OUT(((struct edit_output){.value = mask})));
  return NULL;
}

// ---- attributes that become inputs -----------------------------------------------------------------

// The type of a number that is input `slot`: the first input's, where they are of one variable.
static enum dtype number_dtype(struct raising *r, uint32_t slot) {
  const struct schema_formal *f = &r->now->inputs[slot];
  if (f->variable != r->now->inputs[0].variable) return DTYPE_FLOAT;
  const enum dtype dtype = kit_dtype(r->k, kit_in(r->k, r->node, 0));
  return dtype_is_plain_float(dtype) ? dtype : DTYPE_UNDEFINED;
}

// A float that says what its absence means is not worth an input.
static bool says_nothing(const struct schema_attribute *was, float x) {
  return was->kind == SCHEMA_FLOAT && memcmp(&was->u.f, &x, sizeof x) == 0;
}

static const char *one_input(struct raising *r, const char *name, const char *called) {
  struct kit *k = r->k;
  const struct schema_attribute *was = schema_attribute_of(r->old, span_str(name));
  const uint32_t slot = slot_of(r->now, called);
  const bool optional = r->now->inputs[slot].option == SCHEMA_OPTIONAL_ONE;
  struct kit_attr a;
  const enum kit_state state = opset_given(r, name, (enum attr_type)was->type, &a);
  uint32_t value = NO_ID;
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_ABSENT && was->kind == SCHEMA_INT) a.i = was->u.i;
  if (state == KIT_ABSENT && was->kind != SCHEMA_INT) return optional ? NULL : missing(r, name);
  if (was->type == ATTR_INT) {
    // A count is a list of one, an axis has no dims.
    value = optional ? kit_new_int(k, called, a.i) : kit_new_ints(k, called, &a.i, 1);
  } else if (was->type == ATTR_INTS && (a.n || !optional)) {
    value = kit_new_ints(k, called, a.ints, a.n);
  } else if (was->type == ATTR_FLOATS) {
    value = opset_new_floats(r, called, a.floats, a.n);
  } else if (was->type == ATTR_FLOAT && !(optional && says_nothing(was, a.f))) {
    const enum dtype dtype = number_dtype(r, slot);
    if (dtype == DTYPE_UNDEFINED) return no_type;
    value = kit_new_scalar(k, called, dtype, (double)a.f);
  }
  if (value != NO_ID) opset_put_input(r, slot, value);
  opset_drop(r, name);
  return NULL;
}

static const char *inputs(struct raising *r) {
  const char *why = NULL;
  for (uint32_t i = 0; i < r->n_args && !why; i++)
    why = one_input(r, r->args[i].name, *r->args[i].value ? r->args[i].value : r->args[i].name);
  return why;
}

// An input goes to its new place. What comes before it now is left out; where the version at the end has
// to have it, it is an empty list.
static const char *shift(struct raising *r) {
  const char *name = r->args[0].name;
  const struct schema_signature *last = schema_at(
      schema_operator_of(span_str(""), model_name(r->k->m, r->k->m->nodes[r->node].op_type)),
      r->to);
  const uint32_t from = slot_of(r->old, name), to = slot_of(r->now, name);
  opset_put_input(r, to, kit_in(r->k, r->node, from));
  for (uint32_t i = from; i < to; i++) {
    const bool optional = schema_input(last, i)->option == SCHEMA_OPTIONAL_ONE;
    opset_put_input(r, i,
                    optional ? NO_ID : opset_new_floats(r, schema_input(last, i)->name, NULL, 0));
  }
  return NULL;
}

static bool is_empty(struct raising *r, uint32_t value) {
  int64_t dims[1];
  uint32_t rank;
  return kit_static_dims(r->k, value, dims, 1, &rank) && rank == 1 && dims[0] == 0;
}

// Of inputs that exclude each other one used to be an empty list.
static const char *only_one(struct raising *r) {
  struct schema_change change;
  for (uint32_t i = 0; i < r->n_args; i++) {
    const uint32_t slot = slot_of(r->now, r->args[i].name);
    if (!is_empty(r, kit_in(r->k, r->node, slot))) continue;
    opset_put_input(r, slot, NO_ID);
    break;
  }
  const int64_t since = r->now->since;
  const bool same = schema_same(r->k->m, NULL, r->node, since - 1, since, &r->k->site, &change);
  return same ? NULL : change.why;
}

static const char *tile_repeats(struct raising *r) {
  int64_t tiles, axis;
  uint32_t rank;
  if (!kit_const_int(r->k, kit_in(r->k, r->node, 1), &tiles) ||
      !kit_const_int(r->k, kit_in(r->k, r->node, 2), &axis))
    return "its inputs 'tiles' and 'axis' are not constant";
  if (!kit_rank(r->k, kit_in(r->k, r->node, 0), &rank)) return "the rank of its input is not known";
  if (axis < 0 || axis >= rank) return "its axis is not an axis of its input";
  int64_t *repeats = arena_alloc(&r->k->site, rank * sizeof *repeats);
  for (uint32_t i = 0; i < rank; i++)
    repeats[i] = i == axis ? tiles : 1;
  const uint32_t list = kit_new_ints(r->k, "repeats", repeats, rank);
  r->node = kit_replace(r->k, r->node, OP_Tile, KIT_IN(kit_in(r->k, r->node, 0), list));
  return NULL;
}

// Scale and bias were of a group; now they are of a channel. Each is repeated:
//   scale [G]      Reshape(Tile(Reshape(scale, [-1,1]), [1,C/G]), [-1])
static const char *of_channels(struct raising *r) {
  static const int64_t column[] = {-1, 1}, line[] = {-1};
  struct kit *k = r->k;
  int64_t groups;
  const struct model_dim c = kit_dim(k, kit_in(k, r->node, 0), 1);
  if (!kit_attr_int(k, r->node, "num_groups", 0, &groups) || groups <= 0)
    return "its number of groups is not known";
  if (c.value <= 0 || c.value % groups) return "its number of channels is not known";
  const int64_t repeats[] = {1, c.value / groups};
  if (repeats[1] == 1) return NULL;
  for (uint32_t slot = 1; slot <= 2; slot++) {
    const uint32_t tall = kit_make(
        k, OP_Reshape, KIT_IN(kit_in(k, r->node, slot), kit_new_ints(k, "column", column, 2)));
    const uint32_t wide =
        kit_make(k, OP_Tile, KIT_IN(tall, kit_new_ints(k, "repeats", repeats, 2)));
    const uint32_t flat = kit_make(k, OP_Reshape, KIT_IN(wide, kit_new_ints(k, "line", line, 1)));
    edit_set_input(k->e, r->node, slot, flat);
  }
  return NULL;
}

// ---- broadcasting --------------------------------------------------------------------------------

// B gets `behind` axes of length 1 at its end.
static void widen(struct raising *r, uint32_t slot, uint32_t rank, int64_t behind) {
  int64_t *axes = arena_alloc(&r->k->site, (size_t)behind * sizeof *axes);
  for (int64_t i = 0; i < behind; i++)
    axes[i] = rank + i;
  const uint32_t b = kit_in(r->k, r->node, slot);
  edit_set_input(r->k->e, r->node, slot, opset_unsqueezed(r, b, axes, (uint32_t)behind));
}

// B lay at A's axes from `axis` on; now it lies at the last ones.
static const char *from_the_end(struct raising *r) {
  int64_t broadcast;
  struct kit_attr axis;
  uint32_t a, b;
  int64_t behind = 0;
  const enum kit_state state = opset_given(r, "axis", ATTR_INT, &axis);
  if (state == KIT_UNKNOWN || !kit_attr_int(r->k, r->node, "broadcast", 0, &broadcast))
    return r->why ? r->why : "its attribute 'broadcast' is not known";
  if (broadcast && state == KIT_GIVEN) {
    if (!kit_rank(r->k, kit_in(r->k, r->node, 0), &a) ||
        !kit_rank(r->k, kit_in(r->k, r->node, 1), &b))
      return "the ranks of its inputs are not known";
    if (axis.i < -(int64_t)a || axis.i > a) return "its axis is not an axis of its input";
    behind = (int64_t)a - (axis.i < 0 ? axis.i + a : axis.i) - b;
    if (behind < 0 || behind > a) return "its axis does not fit its inputs";
  }
  if (behind) widen(r, 1, b, behind);
  opset_drop(r, "axis");
  opset_drop(r, "broadcast");
  return NULL;
}

// A slope for each channel lay at axis 1.
static const char *slope_from_the_end(struct raising *r) {
  const uint32_t slope = kit_in(r->k, r->node, 1);
  uint32_t rank, of;
  int64_t dims[1];
  const bool known = kit_rank(r->k, slope, &of);
  const bool one =
      known && of <= 1 && kit_static_dims(r->k, slope, dims, 1, &of) && (of == 0 || dims[0] == 1);
  if (one) return NULL;
  if (!known || !kit_rank(r->k, kit_in(r->k, r->node, 0), &rank))
    return "the ranks of its inputs are not known";
  if (of == 1 && rank > 2) widen(r, 1, 1, rank - 2);
  return NULL;
}

static const char *align(struct raising *r) {
  return kit_op(r->k, r->node) == OP_PRelu ? slope_from_the_end(r) : from_the_end(r);
}

// A scalar has no axis, so it becomes a vector of one element, whose axis the attributes name.
static const char *vector(struct raising *r) {
  static const int64_t first[] = {0};
  struct kit *k = r->k;
  const uint32_t x = opset_unsqueezed(r, kit_in(k, r->node, 0), first, 1);
  edit_set_input(k->e, r->node, 0, x);
  for (uint32_t i = 0; i < r->n_args; i++) {
    const char *name = r->args[i].name;
    const bool list = schema_attribute_of(r->now, span_str(name))->type == ATTR_INTS;
    edit_set_attr(k->e, r->node,
                  &(struct edit_attr){.name = name,
                                      .type = list ? ATTR_INTS : ATTR_INT,
                                      .ints = list ? first : NULL,
                                      .n = list});
  }
  if (schema_attribute_of(r->now, span_str("keepdims"))) opset_put_int(r, "keepdims", 0);
  return NULL;
}

// ---- Upsample, Resize, Softmax --------------------------------------------------------------------

static const char *scales(struct raising *r) {
  struct kit_attr height, width;
  if (opset_given(r, r->args[0].name, ATTR_FLOAT, &height) != KIT_GIVEN)
    return missing(r, r->args[0].name);
  if (opset_given(r, r->args[1].name, ATTR_FLOAT, &width) != KIT_GIVEN)
    return missing(r, r->args[1].name);
  const float list[4] = {1, 1, height.f, width.f};
  edit_set_attr(r->k->e, r->node,
                &(struct edit_attr){.name = "scales", .type = ATTR_FLOATS, .floats = list, .n = 4});
  return drop(r);
}

static const char *operator_named(struct raising *r) {
  struct kit *k = r->k;
  const struct model_node *n = &k->m->nodes[r->node];
  const enum op op = kit_op_named(span_str(""), span_str(r->args[0].name));
  uint32_t *in = arena_alloc(&k->site, (n->n_in + (size_t)1) * sizeof *in);
  if (!kit_attrs_copyable(k, r->node)) return "its attributes cannot be copied";
  for (uint32_t i = 0; i < n->n_in; i++)
    in[i] = kit_in(k, r->node, i);
  r->upsampled = kit_op(k, r->node) == OP_Upsample;
  r->node = kit_replace(k, r->node, op, KIT_INPUTS(in, n->n_in), KIT_ATTRS_OF(r->node));
  return NULL;
}

// A node before the one at hand makes axes smaller, and the one at hand makes the others larger: axes do not depend on each other.
static void make_smaller_first(struct raising *r, const double *scales, uint32_t n) {
  struct kit *k = r->k;
  const struct schema_signature *last =
      schema_at(schema_operator_of(span_str(""), span_str("Resize")), r->to);
  float *smaller = arena_alloc(&k->site, n * sizeof *smaller),
        *larger = arena_alloc(&k->site, n * sizeof *larger);
  for (uint32_t i = 0; i < n; i++) {
    smaller[i] = (float)(scales[i] < 1 ? scales[i] : 1);
    larger[i] = (float)(scales[i] < 1 ? 1 : scales[i]);
  }
  const bool no_roi = schema_input(last, 1)->option == SCHEMA_OPTIONAL_ONE;
  const uint32_t roi = no_roi ? NO_ID : opset_new_floats(r, "roi", NULL, 0),
                 by = opset_new_floats(r, "smaller", smaller, n);
  const uint32_t made = kit_make(
      k, OP_Resize, KIT_IN(kit_in(k, r->node, 0), roi, by),
      KIT_STRING("coordinate_transformation_mode", span_str("asymmetric")),
      KIT_STRING("mode", span_str("nearest")), KIT_STRING("nearest_mode", span_str("ceil")));
  opset_put_input(r, 0, made);
  opset_put_input(r, 1, opset_new_floats(r, "larger", larger, n));
}

// Do scales above 1 make anything larger? ONNX Runtime copies what keeps all of its dims, whatever the scales are.
static bool makes_larger(struct raising *r, const double *scales, uint32_t n) {
  const uint32_t x = kit_in(r->k, r->node, 0);
  for (uint32_t i = 0; i < n; i++) {
    const int64_t dim = kit_dim(r->k, x, i).value;
    if (scales[i] >= 2 ||
        (scales[i] > 1 && dim > 0 && floor(scales[i] * (double)dim) > (double)dim))
      return true;
  }
  return false;
}

// How a coordinate between two elements is rounded; NULL: not in one way that is known.
static const char *rounding(struct raising *r) {
  const double *list;
  uint32_t n;
  bool larger = r->upsampled, smaller = false;
  if (!r->upsampled && !kit_const_floats(r->k, kit_in(r->k, r->node, 1), &list, &n)) return NULL;
  for (uint32_t i = 0; !r->upsampled && i < n; i++) {
    larger = larger || list[i] > 1;
    smaller = smaller || list[i] < 1;
  }
  if (larger && smaller && !makes_larger(r, list, n)) return NULL;
  if (larger && smaller) make_smaller_first(r, list, n);
  return smaller && !larger ? "ceil" : "floor";
}

static const char *nearest(struct raising *r) {
  struct kit_attr mode;
  const enum kit_state state = opset_given(r, "mode", ATTR_STRING, &mode);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_GIVEN && !span_is(mode.s, "nearest")) return NULL;
  const char *how = rounding(r);
  if (!how)
    return "it rounds up where it shrinks and down where it enlarges, and its scales are not "
           "known well enough to tell which applies";
  opset_put_text(r, "nearest_mode", how);
  return NULL;
}

// Softmax worked on all axes from `axis` on as one:
//   Softmax<axis=1>(x)      Reshape(Softmax<axis=-1>(Flatten<axis=1>(x)), Shape(x))
static const char *flatten(struct raising *r) {
  struct kit *k = r->k;
  const uint32_t x = kit_in(k, r->node, 0), y = kit_out(k, r->node, 0);
  struct kit_attr a;
  uint32_t rank;
  const enum kit_state state = opset_given(r, "axis", ATTR_INT, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (x == NO_ID || y == NO_ID) return "its input or output is missing";
  const bool ranked = kit_rank(k, x, &rank);
  int64_t axis = state == KIT_GIVEN ? a.i : 1;
  if (axis < 0 && ranked) axis += rank;
  if (ranked && (axis < 0 || axis > rank)) return "its axis is not an axis of its input";
  if (axis == -1 || (ranked && axis == (int64_t)rank - 1)) {
    opset_put_int(r, "axis", -1);
    return NULL;
  }
  const uint32_t shape = kit_make(k, OP_Shape, KIT_IN(x));
  const uint32_t flat = kit_make(k, OP_Flatten, KIT_IN(x), KIT_INT("axis", axis));
  edit_set_input(k->e, r->node, 0, flat);
  opset_put_int(r, "axis", -1);
  const uint32_t made = opset_rename_output(r, 0, "flat");
  kit_make(k, OP_Reshape, KIT_IN(made, shape), KIT_OUT(((struct edit_output){.value = y})));
  return NULL;
}

// ---- steps ---------------------------------------------------------------------------------------

static const struct row {
  const char *step;
  const char *(*take)(struct raising *r);
  const char *word; // in reports
} rows[] = {
    {"align", align, "broadcast"},
    {"attributes", attributes, "attributes"},
    {"drop", drop, "attributes"},
    {"drop_if", drop_if, "attributes"},
    {"flatten", flatten, "one_axis"},
    {"inputs", inputs, "inputs"},
    {"integer", integer_attribute, "attributes"},
    {"nearest", nearest, "attributes"},
    {"number", number, "attributes"},
    {"only_one", only_one, "inputs"},
    {"operator", operator_named, "operator"},
    {"per_channel", of_channels, "inputs"},
    {"rename", rename_attribute, "attributes"},
    {"repeats", tile_repeats, "inputs"},
    {"say", say, "attributes"},
    {"scales", scales, "attributes"},
    {"shift", shift, "inputs"},
    {"test_mode", test_mode, "inputs"},
    {"vector", vector, "one_axis"},
    {"words", words, "attributes"},
};

static const struct row *row_of(const char *text) {
  const size_t n = strcspn(text, " ,");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i].step) == n && memcmp(rows[i].step, text, n) == 0) return &rows[i];
  return NULL;
}

const char *opset_word(const char *rewrite) {
  return row_of(rewrite)->word;
}

// "NAME=VALUE NAME …" up to a comma.
static void read_args(struct raising *r, const char *text, size_t n) {
  char *at = arena_string(&r->k->site, span_of(text, n));
  r->n_args = 0;
  at += strcspn(at, " ");
  while (at += strspn(at, " "), *at && r->n_args < OPSET_ARGS) {
    char *word = at;
    at += strcspn(at, " ");
    if (*at) *at++ = 0;
    char *equals = strchr(word, '=');
    if (equals) *equals = 0;
    r->args[r->n_args].name = word;
    r->args[r->n_args++].value = equals ? equals + 1 : "";
  }
}

const char *opset_rewrite(struct raising *r, const struct schema_operator *op,
                          const struct schema_signature *now) {
  const char *why = NULL;
  r->now = now;
  r->old = schema_at(op, now->since - 1);
  for (const char *at = now->rewrite; *at && !why;) {
    const size_t n = strcspn(at, ",");
    read_args(r, at, n);
    why = row_of(at)->take(r);
    at += n + strspn(at + n, ", ");
  }
  return why;
}
