// requantize --to qoperator: float operators between DequantizeLinear and QuantizeLinear as operators on codes.
//
//   x ─ DQ ─ Conv ─ Q ─ y          x ─ QLinearConv ─ y
//   w ─ DQ ───┤                    w ──┤  scales and zero points of the three DQ and Q
//   b ─ DQ ───┘                    b ──┘
//
// The new node stands where Q stood and has its output. The codes of weights stay what they are. Those of a bias do where
// they are of the scale that the operator takes for granted, the product of those of x and w; else they are made again from the
// float numbers that they stand for. A Relu or Clip before Q goes where it cuts off only what Q cuts off. What moves elements
// (Reshape, MaxPool …) works on codes where these mean the same after it.
//
// Without Q, a MatMul becomes MatMulIntegerToFloat, and a Gemm a QGemm whose result is float.
//
// A DQ goes where nothing else uses it. Where it says of an operator what keeps it, it has changed nothing.
#include "passes/int8_requantize/inside/requantize.h"
#include "passes/int8_requantize/inside/requantize_look.h"

#include <math.h>

// ---- what there is -----------------------------------------------------------------------------

static void data_slots(struct kit *k, const struct look *l, uint32_t *first, uint32_t *end) {
  *first = l->row.layout == LAYOUT_WHERE;
  *end = *first + 1;
  if (l->row.layout == LAYOUT_CONCAT) *end = kit_n_in(k, l->node);
  if (l->row.layout == LAYOUT_CONV || l->row.layout == LAYOUT_GEMM ||
      l->row.layout == LAYOUT_BINARY || l->row.layout == LAYOUT_WHERE)
    *end = *first + 2;
}

// Does Q give its least code, and nothing else, for all up to lo, and its largest for all from hi on?
static bool implies(struct kit *k, const struct form *y, double lo, double hi) {
  double scale;
  int64_t zero;
  if (y->n != 1 || !kit_const_scalar(k, y->scale, &scale) || !requantize_zero(k, y, &zero) ||
      !(scale > 0) || !requantize_is_8bit(y->type))
    return false;
  const double least = y->type == DTYPE_INT8 ? -128 : 0, most = least + 255;
  return (lo == -(double)INFINITY || rint(lo / scale) + (double)zero <= least) &&
         (hi == (double)INFINITY || rint(hi / scale) + (double)zero >= most);
}

// The bounds of a Relu or Clip. False: it is not one, or they are not known.
static bool bounds_of(struct kit *k, uint32_t node, double *lo, double *hi) {
  const enum op op = kit_op(k, node);
  *lo = op == OP_Relu ? 0 : -(double)INFINITY;
  *hi = (double)INFINITY;
  if (op == OP_Relu) return true;
  if (op != OP_Clip || kit_opset(k, k->m->nodes[node].graph) < 11) return false;
  return (kit_in(k, node, 1) == NO_ID || kit_const_scalar(k, kit_in(k, node, 1), lo)) &&
         (kit_in(k, node, 2) == NO_ID || kit_const_scalar(k, kit_in(k, node, 2), hi));
}

// The Q that alone takes the result, after a Relu or Clip that it makes superfluous.
static const char *find_quantize(struct kit *k, struct look *l) {
  double lo = 0, hi = 0;
  uint32_t user = kit_sole_user(k, kit_out(k, l->node, 0));
  const uint32_t graph = k->m->nodes[l->node].graph;
  l->last = l->node;
  if (user == NO_ID)
    return kit_unused(k, kit_out(k, l->node, 0)) ? "output_not_quantized" : "output_used_elsewhere";
  const bool clips = l->row.layout != LAYOUT_MOVE && k->m->nodes[user].graph == graph &&
                     kit_in(k, user, 0) == kit_out(k, l->node, 0) && bounds_of(k, user, &lo, &hi);
  if (clips) {
    l->last = user;
    user = kit_sole_user(k, kit_out(k, user, 0));
    if (user == NO_ID) return "output_used_elsewhere";
  }
  if (!requantize_is_quantize(kit_op(k, user)) || k->m->nodes[user].graph != graph ||
      kit_in(k, user, 0) != kit_out(k, l->last, 0))
    return "output_not_quantized";
  const char *why = requantize_form_of(k, user, &l->y);
  if (why) return why;
  if (l->y.n != 1) return "axis";
  if (clips && !implies(k, &l->y, lo, hi)) return "clip_range";
  l->quantize = user;
  return NULL;
}

// ---- what is made ------------------------------------------------------------------------------

// The scale as float: those of a float16 graph have the same numbers there.
static uint32_t scale_value(struct kit *k, const struct form *f) {
  if (f->of == DTYPE_FLOAT) return f->scale;
  return kit_new_tensor(k, "scale", recipe_cast(k->r, kit_recipe(k, f->scale), DTYPE_FLOAT));
}

static void put_x(struct kit *k, const struct form *f, uint32_t in[3]) {
  in[0] = f->codes;
  in[1] = scale_value(k, f);
  in[2] = requantize_zero_value(k, f);
}

static void put_y(struct kit *k, const struct form *f, uint32_t in[2]) {
  in[0] = scale_value(k, f);
  in[1] = requantize_zero_value(k, f);
}

// The inputs by the row's layout; gives how many.
static uint32_t put_inputs(struct kit *k, const struct look *l, uint32_t *in) {
  uint32_t n = 0;
  if (l->row.layout == LAYOUT_CONCAT) {
    put_y(k, &l->y, in);
    n = 2;
  }
  if (l->row.layout == LAYOUT_WHERE) in[n++] = kit_in(k, l->node, 0);
  for (uint32_t i = 0; i < l->n; i++, n += 3)
    put_x(k, &l->x[i], in + n);
  if (l->row.layout == LAYOUT_GEMM && (l->bias != NO_ID || l->quantize != NO_ID))
    in[n++] = requantize_look_bias_codes(k, l);
  if (l->row.layout != LAYOUT_CONCAT && l->quantize != NO_ID) {
    put_y(k, &l->y, in + n);
    n += 2;
  }
  if (l->row.layout == LAYOUT_CONV && l->bias != NO_ID) in[n++] = requantize_look_bias_codes(k, l);
  return n;
}

enum { ATTRS = 8 };
// Attributes that the operator on codes has under another meaning, or not at all, are listed one by one. NULL: those of the node are
// taken as they are. -1: they cannot be.
static int put_attrs(struct kit *k, const struct look *l, struct edit_attr attrs[ATTRS]) {
  static const char *const pool_ints[] = {"ceil_mode", "count_include_pad"};
  static const char *const pool_lists[] = {"kernel_shape", "strides", "pads"};
  struct kit_attr a;
  float alpha;
  int64_t i;
  int n = 0;
  switch (l->row.plain) {
  case OP_Gemm:
    if (!kit_attr_float(k, l->node, "alpha", 1, &alpha)) return -1;
    attrs[n++] = (struct edit_attr){.name = "alpha", .type = ATTR_FLOAT, .f = alpha};
    for (uint32_t t = 0; t < 2; t++) {
      static const char *const names[] = {"transA", "transB"};
      if (!kit_attr_int(k, l->node, names[t], 0, &i)) return -1;
      attrs[n++] = (struct edit_attr){.name = names[t], .type = ATTR_INT, .i = i != 0};
    }
    return n;
  case OP_Softmax:
    if (!kit_attr_int(k, l->node, "axis", -1, &i)) return -1;
    attrs[n++] = (struct edit_attr){.name = "axis", .type = ATTR_INT, .i = i};
    attrs[n++] = (struct edit_attr){
        .name = "opset", .type = ATTR_INT, .i = kit_opset(k, k->m->nodes[l->node].graph)};
    return n;
  case OP_AveragePool:
    if (kit_attr(k, l->node, "dilations", &a) == KIT_UNKNOWN) return -1;
    for (uint32_t d = 0; d < a.n && a.type == ATTR_INTS; d++)
      if (a.ints[d] != 1) return -1;
    for (uint32_t t = 0; t < 2; t++) {
      if (!kit_attr_int(k, l->node, pool_ints[t], 0, &i)) return -1;
      if (i) attrs[n++] = (struct edit_attr){.name = pool_ints[t], .type = ATTR_INT, .i = i};
    }
    for (uint32_t t = 0; t < 3; t++) {
      if (kit_attr(k, l->node, pool_lists[t], &a) == KIT_UNKNOWN) return -1;
      if (a.type == ATTR_INTS && kit_attr(k, l->node, pool_lists[t], &a) == KIT_GIVEN)
        attrs[n++] =
            (struct edit_attr){.name = pool_lists[t], .type = ATTR_INTS, .ints = a.ints, .n = a.n};
    }
    if (kit_attr(k, l->node, "auto_pad", &a) == KIT_GIVEN)
      attrs[n++] = (struct edit_attr){.name = "auto_pad", .type = ATTR_STRING, .s = a.s};
    return n;
  default: return 0;
  }
}

static const char *check_attrs(struct kit *k, const struct look *l) {
  struct edit_attr attrs[ATTRS];
  if (l->row.plain == OP_Gemm || l->row.plain == OP_Softmax || l->row.plain == OP_AveragePool)
    return put_attrs(k, l, attrs) < 0 || !kit_attrs_alike(k, l->node, l->row.on_codes)
               ? "attributes"
               : NULL;
  return kit_attrs_fit(k, l->node, l->row.on_codes) ? NULL : "attributes";
}

// ONNX Runtime's QLinearSoftmax takes 1 / scale for a whole number, and gives wrong codes where that is more than 128 for each element of
// a sum (1.31.1), and past the largest code: the codes must reach 1, or as far as that. Over one element it gives 0.
static const char *check_softmax(struct kit *k, const struct look *l) {
  double scale;
  int64_t zero;
  if (l->row.plain != OP_Softmax) return NULL;
  const uint64_t terms = kit_softmax_terms(k, l->node);
  if (terms == 1) return "softmax_range";
  if (!kit_const_scalar(k, l->y.scale, &scale) || !requantize_zero(k, &l->y, &zero))
    return "parameters";
  const double most = l->y.type == DTYPE_INT8 ? 127 : 255;
  const bool reaches_1 = (most - (double)zero) * scale >= 0.99;
  return reaches_1 || scale * 128 * (double)terms >= 0.999 ? NULL : "softmax_range";
}

static const char *check_scales(struct kit *k, const struct look *l) {
  double x = l->row.plain == OP_Sigmoid || l->row.plain == OP_Mul ? 1 : 0, y, scale;
  for (uint32_t i = 0; i < l->n; i++)
    if (kit_const_scalar(k, l->x[i].scale, &scale) && !(scale > 0)) return "parameters";
  if (l->quantize == NO_ID || !kit_const_scalar(k, l->y.scale, &y)) return NULL;
  if (!(y > 0)) return "parameters";
  for (uint32_t i = 0; i < l->n && l->row.plain != OP_Sigmoid; i++) {
    if (!kit_const_scalar(k, l->x[i].scale, &scale)) return NULL;
    x = l->row.plain == OP_Mul ? x * scale : fmax(x, scale);
  }
  return kit_takes_scales(k, l->node, l->row.on_codes, x, y) ? NULL : "scales";
}

// What the operator on codes stands for goes, as far as nothing else uses it.
static void sweep(struct kit *k, const struct look *l, uint32_t at) {
  if (at != l->node) {
    kit_sweep(k, l->last);
    return;
  }
  for (uint32_t i = 0; i < kit_n_in(k, at); i++) // a dead node keeps its slots
    if (requantize_is_dequantize(kit_maker_op(k, kit_in(k, at, i))))
      kit_sweep(k, kit_maker(k, kit_in(k, at, i)));
}

// Puts the operator on codes in the place of `at`.
static void put(struct kit *k, const struct look *l, enum op op, uint32_t at, const uint32_t *in,
                uint32_t n_in) {
  struct edit_attr attrs[ATTRS];
  if (kit_op_row(op)->domain == KIT_MICROSOFT) kit_import(k, k->graph, "com.microsoft", 1);
  const int n = put_attrs(k, l, attrs);
  kit_replace(k, at, op, KIT_INPUTS(in, n_in), KIT_ATTRS(attrs, (uint32_t)n),
              KIT_ATTRS_OF(n > 0 ? NO_ID : l->node));
  sweep(k, l, at);
}

// ---- operators that compute --------------------------------------------------------------------

// A MatMul without Q, and the Add of a vector after it.
static const char *to_float(struct kit *k, struct look *l) {
  uint32_t in[7] = {0}, n_in = 6, at = l->node, tensor, rank;
  if (l->x[0].of != DTYPE_FLOAT || l->x[1].of != DTYPE_FLOAT) return "type";
  const uint32_t add = kit_sole_user(k, kit_out(k, l->node, 0));
  const bool second = kit_op(k, add) == OP_Add && kit_in(k, add, 1) == kit_out(k, l->node, 0);
  const uint32_t bias = kit_op(k, add) == OP_Add ? kit_in(k, add, !second) : NO_ID;
  kit_site(k, l->node, "to_qoperator");
  if (bias != NO_ID && k->m->nodes[add].graph == k->graph && kit_constant(k, bias, &tensor) &&
      kit_rank(k, bias, &rank) && rank == 1 && kit_dtype(k, bias) == DTYPE_FLOAT &&
      kit_dim_equal(kit_dim(k, bias, 0), kit_dim(k, l->x[1].codes, -1)) &&
      kit_constant(k, l->x[1].codes, &tensor)) {
    at = add;
    in[n_in++] = bias;
  }
  k->before = at;
  in[0] = l->x[0].codes;
  in[1] = l->x[1].codes;
  in[2] = l->x[0].scale;
  in[3] = l->x[1].scale;
  in[4] = requantize_zero_value(k, &l->x[0]);
  in[5] = requantize_zero_value(k, &l->x[1]);
  l->last = l->node;
  kit_import(k, k->graph, "com.microsoft", 1);
  kit_replace(k, at, OP_ms_MatMulIntegerToFloat, KIT_INPUTS(in, n_in));
  sweep(k, l, at);
  return NULL;
}

static const char *compute(struct kit *k, struct look *l) {
  uint32_t first, end;
  float alpha = 1, beta = 1;
  const char *why = NULL;
  data_slots(k, l, &first, &end);
  for (uint32_t slot = first; slot < end && !why; slot++)
    why = requantize_look_input(k, l, slot);
  if (why) return why;
  const bool products =
      l->row.layout == LAYOUT_CONV || l->row.layout == LAYOUT_GEMM || l->row.plain == OP_MatMul;
  why = find_quantize(k, l);
  if (why && l->row.plain != OP_MatMul && l->row.layout != LAYOUT_GEMM) return why;
  for (uint32_t i = products ? 2 : 0; i < l->n; i++)
    if (l->x[i].n != 1) return "axis";
  if (!requantize_look_types_fit(l)) return "code_types";
  if (products && (why = requantize_look_weight(k, l))) return why;
  if ((why = check_attrs(k, l)) || (why = check_softmax(k, l)) || (why = check_scales(k, l)))
    return why;
  const uint32_t at = l->quantize != NO_ID ? l->quantize : l->node;
  if (!requantize_look_reaches(k, l, at)) return "hidden";
  if (l->row.plain == OP_MatMul && l->quantize == NO_ID) return to_float(k, l);
  if (l->row.layout == LAYOUT_GEMM) {
    if (!kit_attr_float(k, l->node, "alpha", 1, &alpha) ||
        !kit_attr_float(k, l->node, "beta", 1, &beta))
      return "attributes";
    if (l->quantize == NO_ID && l->x[0].of != DTYPE_FLOAT) return "type";
    if (beta == 0 || !(alpha > 0)) return "attributes";
  }
  l->factor = (double)alpha / (double)beta;
  if (l->row.layout == LAYOUT_CONV || l->row.layout == LAYOUT_GEMM) l->bias = kit_in(k, l->node, 2);
  if ((why = requantize_look_bias(k, l))) return why;
  kit_site(k, l->node, "to_qoperator");
  k->before = at;
  uint32_t in[3 * FORMS + 4];
  const uint32_t n_in = put_inputs(k, l, in);
  put(k, l, l->row.on_codes, at, in, n_in);
  return NULL;
}

// ---- operators that move -----------------------------------------------------------------------

// Which opset has the operator on codes of 8 bits, in ONNX and in ONNX Runtime.
static int64_t least_opset(enum op op) {
  switch (op) {
  case OP_MaxPool: return 12;
  case OP_Resize: return 11;
  case OP_Pad: return 13;
  case OP_ArgMax: return 1;
  default: return 9;
  }
}

static const char *check_move(struct kit *k, const struct look *l) {
  struct span mode;
  int64_t antialias;
  if (kit_opset(k, k->m->nodes[l->node].graph) < least_opset(l->row.plain)) return "opset_too_old";
  if (l->row.plain == OP_Resize) {
    // Cubic weights go beyond the elements, and codes do not say where.
    if (!kit_attr_string(k, l->node, "mode", "nearest", &mode) ||
        !(span_is(mode, "nearest") || span_is(mode, "linear")) ||
        !kit_attr_int(k, l->node, "antialias", 0, &antialias) || antialias != 0)
      return "mode";
    if (!kit_attr_string(k, l->node, "coordinate_transformation_mode", "half_pixel", &mode) ||
        span_is(mode, "tf_crop_and_resize"))
      return "mode";
  }
  return NULL;
}

// The code that a Pad puts where a number stood, as kit_new_scalar takes it.
static bool pad_code(struct kit *k, const struct look *l, double *code) {
  const struct form *x = &l->x[0];
  const double least = x->type == DTYPE_INT8 ? -128 : 0;
  double scale, number = 0;
  int64_t zero;
  const uint32_t value = kit_in(k, l->node, 2);
  if (!kit_const_scalar(k, x->scale, &scale) || !requantize_zero(k, x, &zero) ||
      (value != NO_ID && !kit_const_scalar(k, value, &number)) || isnan(number))
    return false;
  const double q = rint((double)(float)((float)number / (float)scale)) + (double)zero;
  *code = q < least ? least : q > least + 255 ? least + 255 : q;
  return true;
}

// The codes of a number that is dequantized itself, as the operand is: a value; NO_ID: it is not.
static uint32_t pad_codes(struct kit *k, const struct look *l) {
  const uint32_t maker = kit_maker(k, kit_in(k, l->node, 2));
  struct form f;
  if (!requantize_is_dequantize(kit_op(k, maker)) || requantize_form_of(k, maker, &f) ||
      !requantize_same(k, &f, &l->x[0]) ||
      !kit_available(k, f.codes, k->m->nodes[l->node].graph, l->node))
    return NO_ID;
  return f.codes;
}

// The Q after each output, which say the same as x. Outputs that no node uses have none.
static const char *find_all(struct kit *k, struct look *l, uint32_t *list, uint32_t n) {
  struct form y;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t out = kit_out(k, l->node, i), user = kit_sole_user(k, out);
    list[i] = NO_ID;
    if (out == NO_ID || kit_unused(k, out)) continue;
    if (user == NO_ID) return "output_used_elsewhere";
    if (!requantize_is_quantize(kit_op(k, user)) || kit_in(k, user, 0) != out ||
        k->m->nodes[user].graph != k->m->nodes[l->node].graph)
      return "output_not_quantized";
    const char *why = requantize_form_of(k, user, &y);
    if (why) return why;
    if (!requantize_same(k, &l->x[0], &y)) return "parameters_differ";
    list[i] = user;
  }
  return NULL;
}

// A Split, whose outputs become those of all the Q. The new node stands where the Split stood.
static const char *split(struct kit *k, struct look *l) {
  uint32_t users[FORMS], in[2];
  struct edit_output out[FORMS];
  struct edit_attr attrs[2];
  struct kit_attr a;
  const uint32_t n = kit_n_out(k, l->node), n_in = kit_n_in(k, l->node);
  uint32_t n_attrs = 0;
  if (n > FORMS || n_in > 2) return "signature";
  const char *why = find_all(k, l, users, n);
  if (why) return why;
  static const char *const names[] = {"axis", "num_outputs", "split"};
  for (uint32_t i = 0; i < 3; i++) {
    const enum kit_state state = kit_attr(k, l->node, names[i], &a);
    if (state == KIT_UNKNOWN) return "attributes";
    if (state == KIT_GIVEN && n_attrs < 2)
      attrs[n_attrs++] =
          (struct edit_attr){.name = names[i], .type = a.type, .i = a.i, .ints = a.ints, .n = a.n};
  }
  kit_site(k, l->node, "to_qoperator");
  in[0] = l->x[0].codes;
  in[1] = kit_in(k, l->node, 1);
  // Lists of attributes are stored in the model: they are copied before it moves.
  for (uint32_t i = 0; i < n_attrs; i++)
    if (attrs[i].type == ATTR_INTS) {
      int64_t *copy = arena_copy(&k->site, attrs[i].ints, attrs[i].n * sizeof *copy);
      attrs[i].ints = copy;
    }
  for (uint32_t i = 0; i < n; i++) {
    out[i] = (struct edit_output){.value = NO_ID};
    if (users[i] == NO_ID) {
      out[i].name = kit_name(k, "unused");
      continue;
    }
    out[i].value = kit_out(k, users[i], 0);
    edit_remove_node(k->e, users[i]);
  }
  edit_add_node(k->e, &(struct edit_node){.graph = k->graph,
                                          .before = l->node,
                                          .name = kit_name(k, "codes"),
                                          .op_type = span_str("Split"),
                                          .in = in,
                                          .n_in = n_in,
                                          .out = out,
                                          .n_out = n,
                                          .attrs = attrs,
                                          .n_attrs = n_attrs});
  kit_sweep(k, l->node);
  return NULL;
}

static const char *move(struct kit *k, struct look *l) {
  const uint32_t graph = k->m->nodes[l->node].graph;
  uint32_t in[8], user = NO_ID;
  double code = 0;
  struct span mode;
  const char *why = requantize_look_input(k, l, 0);
  const uint32_t n_in = kit_n_in(k, l->node);
  if (why) return why;
  if (l->x[0].n != 1) return "axis";
  if (!requantize_is_8bit(l->x[0].type)) return "code_types";
  double scale;
  if (!kit_const_scalar(k, l->x[0].scale, &scale) || !(scale > 0)) return "parameters";
  if ((why = check_move(k, l))) return why;
  if (!requantize_look_reaches(k, l, l->node)) return "hidden";
  if (l->row.plain == OP_Split) return split(k, l);
  if (kit_n_out(k, l->node) != 1) return "several_outputs";
  if (n_in > sizeof in / sizeof *in) return "signature";
  if (l->row.plain == OP_Pad && kit_in(k, l->node, 1) == NO_ID) return "signature";
  if (!kit_attrs_copyable(k, l->node)) return "attributes";
  if (l->row.plain != OP_ArgMax && (why = find_all(k, l, &user, 1))) return why;
  if (l->row.plain != OP_ArgMax && user == NO_ID) return "output_not_quantized";
  uint32_t pad = NO_ID;
  if (l->row.plain == OP_Pad) {
    if (!kit_attr_string(k, l->node, "mode", "constant", &mode)) return "attributes";
    pad = pad_codes(k, l);
    if (pad == NO_ID && span_is(mode, "constant") && !pad_code(k, l, &code)) return "parameters";
  }
  kit_site(k, l->node, "to_qoperator");
  for (uint32_t i = 1; i < n_in; i++)
    in[i] = kit_in(k, l->node, i);
  in[0] = l->x[0].codes;
  uint32_t n = n_in;
  if (l->row.plain == OP_Pad && span_is(mode, "constant")) {
    in[2] = pad != NO_ID ? pad : kit_new_scalar(k, "pad_value", l->x[0].type, code);
    if (n < 3) n = 3;
  } else if (l->row.plain == OP_Pad && n > 2) {
    in[2] = NO_ID; // nothing reads the number, but its type must be that of the codes
  }
  const uint32_t at = user != NO_ID ? user : l->node;
  k->graph = graph;
  k->before = at;
  l->last = l->node;
  put(k, l, l->row.plain, at, in, n);
  return NULL;
}

// ---- the walk ----------------------------------------------------------------------------------

// Has it to do with codes at all?
static bool concerns(struct kit *k, uint32_t node) {
  for (uint32_t i = 0; i < kit_n_in(k, node); i++)
    if (requantize_is_dequantize(kit_maker_op(k, kit_in(k, node, i)))) return true;
  const uint32_t user = kit_sole_user(k, kit_out(k, node, 0));
  return requantize_is_quantize(kit_op(k, user));
}

static void visit(struct kit *k, const struct requantize_options *options, uint32_t node) {
  struct look l = {.node = node,
                   .row = requantize_row_of(kit_op(k, node)),
                   .quantize = NO_ID,
                   .last = node,
                   .bias = NO_ID,
                   .factor = 1};
  if (l.row.layout == LAYOUT_NONE || !concerns(k, node)) return;
  const char *why =
      name_filter_refuses(&options->nodes, model_name_str(k->m, k->m->nodes[node].name));
  if (!why) why = l.row.layout == LAYOUT_MOVE ? move(k, &l) : compute(k, &l);
  if (why)
    kit_skipped(k, node, why);
  else
    kit_converted(k, node, "to_qoperator");
}

void requantize_to_qoperator(struct kit *k, const struct requantize_options *options) {
  requantize_walk(k, options, visit);
}
