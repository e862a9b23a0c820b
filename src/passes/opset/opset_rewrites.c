// What each change of an operator asks of its nodes: the table at the end, and a function for each kind.
//
//   attribute ──▶ input        ReduceMean 18, Squeeze 13, Pad 11, Clip 11, Slice 10, TopK 10 …
//   attribute ──▶ another      Cast 6, Pad 2, RoiAlign 16, GridSample 20 …
//   operator  ──▶ another      Upsample 10, Scatter 11
//   one axis  ◀── several      Softmax 13
//   aligned by hand ──▶ broadcast from the end    Add 7, PRelu 7
//
// A function reads all that it needs before its first edit, and says why it cannot where something is not
// known. ONNX Runtime decides where an old version's words are open: Resize 10 rounds up where it makes
// smaller, and down where it makes larger.
#include "opset_raising.h"
#include "schema.h"

static const char *const not_float = "the type of its input is not known";

// ---- attributes that become inputs ---------------------------------------------------------------

// An attribute of ints becomes input `slot`; an empty list, which says nothing, goes.
static const char *ints_to_input(struct raising *r, const char *name, uint32_t slot) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, name, ATTR_INTS, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_GIVEN && a.n) opset_put_input(r, slot, kit_new_ints(r->k, name, a.ints, a.n));
  opset_drop(r, name);
  return NULL;
}

static const char *axes_input(struct raising *r) {
  return ints_to_input(r, "axes", 1);
}

static const char *split_input(struct raising *r) {
  return ints_to_input(r, "split", 1);
}

static const char *shape_input(struct raising *r) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, "shape", ATTR_INTS, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_ABSENT) return "its attribute 'shape' is missing";
  opset_put_input(r, 1, kit_new_ints(r->k, "shape", a.ints, a.n));
  opset_drop(r, "shape");
  opset_drop(r, "consumed_inputs");
  return NULL;
}

static const char *slice_inputs(struct raising *r) {
  static const char *const names[] = {"starts", "ends", "axes"};
  struct kit_attr a[3];
  for (uint32_t i = 0; i < 3; i++) {
    const enum kit_state state = opset_given(r, names[i], ATTR_INTS, &a[i]);
    if (state == KIT_UNKNOWN) return r->why;
    if (state == KIT_ABSENT && i < 2) return "one of its attributes 'starts' and 'ends' is missing";
  }
  for (uint32_t i = 0; i < 3; i++) {
    if (a[i].type != ATTR_UNDEFINED)
      opset_put_input(r, i + 1, kit_new_ints(r->k, names[i], a[i].ints, a[i].n));
    opset_drop(r, names[i]);
  }
  return NULL;
}

static const char *count_input(struct raising *r) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, "k", ATTR_INT, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_ABSENT) return "its attribute 'k' is missing";
  opset_put_input(r, 1, kit_new_ints(r->k, "k", &a.i, 1));
  opset_drop(r, "k");
  return NULL;
}

// Numbers of the type that the first input has.
static const char *clip_inputs(struct raising *r) {
  static const char *const names[] = {"min", "max"};
  struct kit_attr a[2];
  enum kit_state state[2];
  const enum dtype dtype = kit_dtype(r->k, kit_in(r->k, r->node, 0));
  for (uint32_t i = 0; i < 2; i++) {
    state[i] = opset_given(r, names[i], ATTR_FLOAT, &a[i]);
    if (state[i] == KIT_UNKNOWN) return r->why;
    if (state[i] == KIT_GIVEN && !dtype_is_plain_float(dtype)) return not_float;
  }
  for (uint32_t i = 0; i < 2; i++) {
    if (state[i] == KIT_GIVEN)
      opset_put_input(r, i + 1, kit_new_scalar(r->k, names[i], dtype, (double)a[i].f));
    opset_drop(r, names[i]);
  }
  return NULL;
}

static const char *pad_inputs(struct raising *r) {
  struct kit_attr pads, value;
  const enum kit_state state = opset_given(r, "pads", ATTR_INTS, &pads);
  const enum kit_state of = opset_given(r, "value", ATTR_FLOAT, &value);
  const enum dtype dtype = kit_dtype(r->k, kit_in(r->k, r->node, 0));
  if (state == KIT_UNKNOWN || of == KIT_UNKNOWN) return r->why;
  if (state == KIT_ABSENT) return "its attribute 'pads' is missing";
  const bool needed = of == KIT_GIVEN && (value.f != 0 || __builtin_signbit(value.f));
  if (needed && !dtype_is_plain_float(dtype)) return not_float;
  opset_put_input(r, 1, kit_new_ints(r->k, "pads", pads.ints, pads.n));
  if (needed) opset_put_input(r, 2, kit_new_scalar(r->k, "value", dtype, (double)value.f));
  opset_drop(r, "pads");
  opset_drop(r, "value");
  return NULL;
}

static const char *ratio_input(struct raising *r) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, "ratio", ATTR_FLOAT, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (!kit_unused(r->k, kit_out(r->k, r->node, 1)))
    return "what its mask holds was left to the runtime";
  if (state == KIT_GIVEN)
    opset_put_input(r, 1, kit_new_scalar(r->k, "ratio", DTYPE_FLOAT, (double)a.f));
  opset_drop(r, "ratio");
  return NULL;
}

static const char *dft_axis(struct raising *r) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, "axis", ATTR_INT, &a);
  if (state == KIT_UNKNOWN) return r->why;
  opset_put_input(r, 2, kit_new_int(r->k, "axis", state == KIT_GIVEN ? a.i : 1));
  opset_drop(r, "axis");
  return NULL;
}

// Without lengths the parts are equal: their number is said.
static const char *number_of_parts(struct raising *r) {
  if (kit_may_be_left_out(r->k->m, kit_in(r->k, r->node, 1)))
    return "its second input may be left out by the callers of a function";
  opset_put_int(r, "num_outputs", r->k->m->nodes[r->node].n_out);
  return NULL;
}

// ---- attributes that changed ---------------------------------------------------------------------

// What runtimes were told for the sake of memory, or of outputs that are not used.
static const char *drop_hints(struct raising *r) {
  opset_drop(r, "consumed_inputs");
  opset_drop(r, "output_sequence");
  return NULL;
}

static const char *axis_1(struct raising *r) {
  opset_put_int(r, "axis", 1);
  return NULL;
}

static const char *cast_number(struct raising *r) {
  struct kit_attr a;
  char name[24];
  if (opset_given(r, "to", ATTR_STRING, &a) != KIT_GIVEN)
    return r->why ? r->why : "its attribute 'to' is missing";
  if (a.s.n >= sizeof name) return "its attribute 'to' names no type";
  for (size_t i = 0; i < a.s.n; i++) {
    const char c = (char)a.s.at[i];
    name[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  const enum dtype to = dtype_by_name(span_of(name, a.s.n));
  if (to == DTYPE_UNDEFINED) return "its attribute 'to' names no type";
  opset_put_int(r, "to", to);
  return NULL;
}

// As the names of constants were rounded when they had no default of that many digits.
static const char *selu_numbers(struct raising *r) {
  static const struct {
    const char *name;
    float was;
  } numbers[] = {{"alpha", 1.6732f}, {"gamma", 1.0507f}};
  for (uint32_t i = 0; i < 2; i++) {
    if (model_attr_named(r->k->m, r->node, numbers[i].name)) continue;
    edit_set_attr(
        r->k->e, r->node,
        &(struct edit_attr){.name = numbers[i].name, .type = ATTR_FLOAT, .f = numbers[i].was});
  }
  opset_drop(r, "consumed_inputs");
  return NULL;
}

// Without is_test a node of these versions trains.
static const char *only_tests(struct raising *r) {
  int64_t is_test;
  if (!kit_attr_int(r->k, r->node, "is_test", 0, &is_test) || is_test == 0)
    return "its attribute 'is_test' is 0: it is for training";
  for (uint32_t i = 1; i < r->k->m->nodes[r->node].n_out; i++)
    if (!kit_unused(r->k, kit_out(r->k, r->node, i)))
      return "its outputs after the first are for training";
  opset_drop(r, "is_test");
  opset_drop(r, "consumed_inputs");
  return NULL;
}

static const char *is_spatial(struct raising *r) {
  int64_t spatial;
  if (!kit_attr_int(r->k, r->node, "spatial", 1, &spatial) || spatial == 0)
    return "its attribute 'spatial' is 0: its statistics are of every place";
  opset_drop(r, "spatial");
  return NULL;
}

static const char *pads_name(struct raising *r) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, "paddings", ATTR_INTS, &a);
  if (state != KIT_GIVEN)
    return state == KIT_UNKNOWN ? r->why : "its attribute 'paddings' is missing";
  edit_set_attr(r->k->e, r->node,
                &(struct edit_attr){.name = "pads", .type = ATTR_INTS, .ints = a.ints, .n = a.n});
  opset_drop(r, "paddings");
  return NULL;
}

static const char *whole_p(struct raising *r) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, "p", ATTR_FLOAT, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_ABSENT) return NULL;
  if (a.f < 1 || a.f > 1000 || a.f != (float)(int64_t)a.f)
    return "its attribute 'p' is no whole number";
  opset_put_int(r, "p", (int64_t)a.f);
  return NULL;
}

static const char *half_pixel(struct raising *r) {
  opset_put_text(r, "coordinate_transformation_mode", "output_half_pixel");
  return NULL;
}

static const char *sampling_mode(struct raising *r) {
  struct kit_attr a;
  const enum kit_state state = opset_given(r, "mode", ATTR_STRING, &a);
  if (state == KIT_UNKNOWN) return r->why;
  if (state == KIT_GIVEN && span_is(a.s, "bilinear")) opset_put_text(r, "mode", "linear");
  if (state == KIT_GIVEN && span_is(a.s, "bicubic")) opset_put_text(r, "mode", "cubic");
  return NULL;
}

// Lengths as an input, which the first version also took, were gone until they came back.
static const char *split_attribute(struct raising *r) {
  if (kit_in(r->k, r->node, 1) == NO_ID) {
    if (!model_attr_named(r->k->m, r->node, "axis")) return "its attribute 'axis' is missing";
    return NULL;
  }
  return "its lengths are an input, which later versions did not have";
}

static const char *tile_repeats(struct raising *r) {
  int64_t tiles, axis;
  uint32_t rank;
  if (!kit_const_int(r->k, kit_in(r->k, r->node, 1), &tiles) ||
      !kit_const_int(r->k, kit_in(r->k, r->node, 2), &axis))
    return "its inputs 'tiles' and 'axis' are not constant";
  if (!kit_rank(r->k, kit_in(r->k, r->node, 0), &rank)) return "the rank of its input is not known";
  if (axis < 0 || axis >= rank) return "its axis is none of its input's";
  int64_t *repeats = arena_alloc(&r->k->site, rank * sizeof *repeats);
  for (uint32_t i = 0; i < rank; i++)
    repeats[i] = i == axis ? tiles : 1;
  const uint32_t list = kit_new_ints(r->k, "repeats", repeats, rank);
  r->node = kit_replace(r->k, r->node, OP_Tile, KIT_IN(kit_in(r->k, r->node, 0), list));
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

static const char *drop_broadcast(struct raising *r) {
  opset_drop(r, "broadcast");
  return NULL;
}

// ---- Upsample, Resize ----------------------------------------------------------------------------

static const char *scales_of_two(struct raising *r) {
  struct kit_attr height, width, mode;
  if (opset_given(r, "height_scale", ATTR_FLOAT, &height) != KIT_GIVEN ||
      opset_given(r, "width_scale", ATTR_FLOAT, &width) != KIT_GIVEN)
    return r->why ? r->why : "its scales are missing";
  const enum kit_state state = opset_given(r, "mode", ATTR_STRING, &mode);
  if (state == KIT_UNKNOWN) return r->why;
  const float scales[4] = {1, 1, height.f, width.f};
  edit_set_attr(
      r->k->e, r->node,
      &(struct edit_attr){.name = "scales", .type = ATTR_FLOATS, .floats = scales, .n = 4});
  opset_drop(r, "height_scale");
  opset_drop(r, "width_scale");
  if (state == KIT_GIVEN && span_is(mode.s, "bilinear")) opset_put_text(r, "mode", "linear");
  return NULL;
}

static const char *scales_input(struct raising *r) {
  struct kit_attr a;
  if (opset_given(r, "scales", ATTR_FLOATS, &a) != KIT_GIVEN)
    return r->why ? r->why : "its attribute 'scales' is missing";
  opset_put_input(r, 1, opset_new_floats(r, "scales", a.floats, a.n));
  opset_drop(r, "scales");
  return NULL;
}

static const char *replace_by(struct raising *r, enum op op) {
  struct kit *k = r->k;
  const struct model_node *n = &k->m->nodes[r->node];
  uint32_t *in = arena_alloc(&k->site, (n->n_in + (size_t)1) * sizeof *in);
  if (!kit_attrs_copyable(k, r->node)) return "its attributes cannot be copied";
  for (uint32_t i = 0; i < n->n_in; i++)
    in[i] = kit_in(k, r->node, i);
  r->node = kit_replace(k, r->node, op, KIT_INPUTS(in, n->n_in), KIT_ATTRS_OF(r->node));
  return NULL;
}

static const char *resize(struct raising *r) {
  r->upsampled = true;
  return replace_by(r, OP_Resize);
}

static const char *scatter_elements(struct raising *r) {
  return replace_by(r, OP_ScatterElements);
}

// How a coordinate between two elements is rounded; NULL: not in one way.
static const char *rounding(struct raising *r) {
  const double *scales;
  uint32_t n;
  bool larger = r->upsampled, smaller = false;
  if (!r->upsampled && !kit_const_floats(r->k, kit_in(r->k, r->node, 1), &scales, &n)) return NULL;
  for (uint32_t i = 0; !r->upsampled && i < n; i++) {
    larger = larger || scales[i] > 1;
    smaller = smaller || scales[i] < 1;
  }
  return larger && smaller ? NULL : smaller ? "ceil" : "floor";
}

static const char *resize_11(struct raising *r) {
  struct kit_attr mode;
  const enum kit_state state = opset_given(r, "mode", ATTR_STRING, &mode);
  if (state == KIT_UNKNOWN) return r->why;
  const bool nearest = state == KIT_ABSENT || span_is(mode.s, "nearest");
  const char *how = nearest ? rounding(r) : NULL;
  if (nearest && !how)
    return "it rounds up where it makes smaller and down where it makes larger, and its scales "
           "are not known to do one of them only";
  if (nearest) opset_put_text(r, "nearest_mode", how);
  opset_put_text(r, "coordinate_transformation_mode", "asymmetric");
  const uint32_t scales = kit_in(r->k, r->node, 1);
  opset_put_input(r, 2, scales);
  // Only from 13 on may the region be left out.
  opset_put_input(r, 1, r->to >= 13 ? NO_ID : opset_new_floats(r, "roi", NULL, 0));
  return NULL;
}

static bool is_empty(struct raising *r, uint32_t value) {
  int64_t dims[1];
  uint32_t rank;
  return kit_static_dims(r->k, value, dims, 1, &rank) && rank == 1 && dims[0] == 0;
}

// Of scales and sizes the one that says nothing was an empty list.
static const char *resize_13(struct raising *r) {
  struct span mode;
  if (!kit_attr_string(r->k, r->node, "coordinate_transformation_mode", "half_pixel", &mode) ||
      span_is(mode, "tf_half_pixel_for_nn"))
    return "its coordinate mode was removed";
  if (is_empty(r, kit_in(r->k, r->node, 2)))
    opset_put_input(r, 2, NO_ID);
  else if (is_empty(r, kit_in(r->k, r->node, 3)))
    opset_put_input(r, 3, NO_ID);
  else
    return "scales and sizes may no longer both be given";
  return NULL;
}

// ---- axes ----------------------------------------------------------------------------------------

// Softmax worked on all axes from `axis` on as one:
//   Softmax<axis=1>(x)      Reshape(Softmax<axis=-1>(Flatten<axis=1>(x)), Shape(x))
static const char *one_axis(struct raising *r) {
  struct kit *k = r->k;
  const uint32_t x = kit_in(k, r->node, 0), y = kit_out(k, r->node, 0);
  struct kit_attr a;
  uint32_t rank;
  const enum kit_state state = opset_given(r, "axis", ATTR_INT, &a);
  if (state == KIT_UNKNOWN) return r->why;
  const bool ranked = kit_rank(k, x, &rank);
  int64_t axis = state == KIT_GIVEN ? a.i : 1;
  if (axis < 0 && ranked) axis += rank;
  if (ranked && (axis < 0 || axis > rank)) return "its axis is none of its input's";
  if (axis == -1 || (ranked && axis == (int64_t)rank - 1)) {
    opset_put_int(r, "axis", -1);
    return NULL;
  }
  const uint32_t shape = kit_make(k, OP_Shape, KIT_IN(x));
  const uint32_t flat = kit_make(k, OP_Flatten, KIT_IN(x), KIT_INT("axis", axis));
  edit_set_input(k->e, r->node, 0, flat);
  opset_put_int(r, "axis", -1);
  const uint32_t made = opset_rename_output(r, "flat");
  kit_make(k, OP_Reshape, KIT_IN(made, shape), KIT_CALLED(kit_name(k, "Reshape")),
           KIT_OUT(((struct edit_output){.value = y})));
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

// ---- the table -----------------------------------------------------------------------------------

static const struct row {
  const char *ops; // separated by blanks
  int64_t since;
  opset_rewrite *rewrite;
  const char *word;
} rows[] = {
    {"Add Sub Mul Div Pow And Or Xor Equal Greater Less", 7, from_the_end, "broadcast"},
    {"BatchNormalization Dropout", 7, only_tests, "attributes"},
    {"BatchNormalization", 9, is_spatial, "attributes"},
    {"Cast", 6, cast_number, "attributes"},
    {"Clip", 6, drop_hints, "attributes"},
    {"Clip", 11, clip_inputs, "inputs"},
    {"Concat", 4, axis_1, "attributes"},
    {"DFT", 20, dft_axis, "inputs"},
    {"Dropout", 12, ratio_input, "inputs"},
    {"Gemm", 7, drop_broadcast, "broadcast"},
    {"GridSample", 20, sampling_mode, "attributes"},
    {"GroupNormalization", 21, of_channels, "inputs"},
    {"Hardmax LogSoftmax Softmax", 13, one_axis, "one_axis"},
    {"LpPool GlobalLpPool", 2, whole_p, "attributes"},
    {"PRelu", 7, slope_from_the_end, "broadcast"},
    {"Pad", 2, pads_name, "attributes"},
    {"Pad", 11, pad_inputs, "inputs"},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
     "ReduceSumSquare",
     18, axes_input, "inputs"},
    {"ReduceSum Squeeze Unsqueeze", 13, axes_input, "inputs"},
    {"Reshape", 5, shape_input, "inputs"},
    {"Resize", 11, resize_11, "attributes"},
    {"Resize", 13, resize_13, "inputs"},
    {"RoiAlign", 16, half_pixel, "attributes"},
    {"Scatter", 11, scatter_elements, "operator"},
    {"Selu", 6, selu_numbers, "attributes"},
    {"Slice", 10, slice_inputs, "inputs"},
    {"Split", 2, split_attribute, "attributes"},
    {"Split", 13, split_input, "inputs"},
    {"Split", 18, number_of_parts, "attributes"},
    {"Tile", 6, tile_repeats, "inputs"},
    {"TopK", 10, count_input, "inputs"},
    {"Upsample", 7, scales_of_two, "attributes"},
    {"Upsample", 9, scales_input, "inputs"},
    {"Upsample", 10, resize, "operator"},
};

static bool has_word(const char *words, struct span word) {
  for (const char *at = words; *at;) {
    const size_t n = strcspn(at, " ");
    if (span_eq(span_of(at, n), word)) return true;
    at += n + (at[n] == ' ');
  }
  return false;
}

opset_rewrite *opset_rewrite_of(struct span op_type, int64_t since, const char **word) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].since != since || !has_word(rows[i].ops, op_type)) continue;
    *word = rows[i].word;
    return rows[i].rewrite;
  }
  const struct schema_signature *s = schema_signature_of(span_str(""), op_type, since);
  if (!s || s->since != since || s->change != CHANGE_without) return NULL;
  if (strcmp(s->change_names, "consumed_inputs") && strcmp(s->change_names, "output_sequence"))
    return NULL;
  *word = "attributes";
  return drop_hints;
}
