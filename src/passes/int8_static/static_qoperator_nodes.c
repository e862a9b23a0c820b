// Operators as those on codes: what each takes, under which names, and what keeps it float.
//
//   n: o = Conv(x, w, b)       n_quant: o_quantized = QLinearConv(x_quantized, x_scale, …, b_quantized)
//   n: o = Reshape(x, shape)   n: o_quantized = Reshape(x_quantized, shape)        if x is held
//   n: o = Relu(x)             nothing: o is held as x is
//
// Where the existing tool is wrong, and not with compat, it is right here:
//
//   Relu, Clip   go only if no other node sees x, and the codes of x hold no more than they let through
//   Gemm         codes of the bias are beta·b / (alpha·x_scale·w_scale)
//   Conv, Gemm   a bias of each node; a computed one, or one of another shape, keeps the node float
//   MatMul       a scale a column for matrices, one for vectors and batches
//   Where        stays float with DQ before it, unless it is forced
//   Resize       cubic stays float: codes do not say where it goes beyond the elements
#include "passes/int8_static/inside/static_qoperator.h"

#include <math.h>

// ---- what is made ------------------------------------------------------------------------------

static uint32_t put_x(const struct static_held *h, uint32_t *in) {
  in[0] = h->codes;
  in[1] = h->scale;
  in[2] = h->zero;
  return 3;
}

static uint32_t put_y(const struct static_held *h, uint32_t *in) {
  in[0] = h->scale;
  in[1] = h->zero;
  return 2;
}

struct made {
  enum op op;
  const uint32_t *in;
  uint32_t n_in;
  const struct edit_attr *attrs;
  uint32_t n_attrs;
  bool own_attrs; // and none of the node's
};

static struct span quant_name(struct kit *k, uint32_t node) {
  const struct span name = model_name(k->m, k->m->nodes[node].name);
  return name.n ? int8_node_name(k, span_of(arena_string(&k->site, name), name.n), "_quant") : name;
}

// A value of codes as `value` is one of floats.
static void note_codes(struct kit *k, uint32_t codes, uint32_t value, enum dtype type) {
  kit_note_like(k, codes, value);
  kit_note_type(k, codes, &(struct model_type){.dtype = type});
}

// The operator on codes takes the node's place, and its result is held.
static void put(struct static_qoperator_run *q, uint32_t node, const struct made *m,
                struct static_held *y) {
  struct kit *k = &q->s->k;
  const uint32_t o = kit_out(k, node, 0);
  if (kit_op_row(m->op)->domain == KIT_MICROSOFT) kit_import(k, k->graph, "com.microsoft", 1);
  const struct edit_output out = {NO_ID, int8_value_name(k, kit_stem_of(k, o), "_quantized")};
  y->codes = kit_make(k, m->op, KIT_INPUTS(m->in, m->n_in), KIT_ATTRS(m->attrs, m->n_attrs),
                      KIT_ATTRS_OF(m->own_attrs ? NO_ID : node), KIT_CALLED(quant_name(k, node)),
                      KIT_OUT(out));
  note_codes(k, y->codes, o, y->type);
  edit_remove_node(k->e, node);
  static_qoperator_hold(q, o, y);
}

static void begin(struct static_qoperator_run *q, uint32_t node) {
  kit_site(&q->s->k, node, "quantized");
}

// The node itself, whose first input and whose outputs become codes of x's scale.
static void put_on_codes(struct static_qoperator_run *q, uint32_t node, const struct static_held *x,
                         const char *suffix) {
  struct kit *k = &q->s->k;
  const uint32_t n = kit_n_out(k, node);
  struct static_held y = *x; // held values move
  y.constant = y.wanted = false;
  edit_set_input(k->e, node, 0, y.codes);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t o = kit_out(k, node, i);
    if (o == NO_ID) continue;
    struct model_type type;
    kit_type(k, o, &type);
    const struct span stem = kit_stem_of(k, o);
    static_qoperator_hold(q, o, &y);
    edit_set_output(k->e, node, i, (struct edit_output){NO_ID, int8_value_name(k, stem, suffix)});
    const uint32_t codes = kit_out(k, node, i);
    q->held[o].codes = codes;
    type.dtype = y.type;
    kit_note_type(k, codes, &type);
  }
}

// ---- products ----------------------------------------------------------------------------------

static uint32_t weight_axis(struct static_qoperator_run *q, uint32_t node, enum static_qop kind) {
  struct kit *k = &q->s->k;
  const uint32_t w = kit_in(k, node, 1);
  uint32_t rank, axis;
  int64_t transposed = 0, wanted = -1;
  if (!static_is_constant(q->s, w) || !kit_rank(k, w, &rank)) return RECIPE_PER_TENSOR;
  if (kind == STATIC_O_CONV) wanted = 0;
  if (kind == STATIC_O_GEMM) {
    if (!kit_attr_int(k, node, "transB", 0, &transposed)) return RECIPE_PER_TENSOR;
    wanted = transposed > 0 ? 0 : 1;
  }
  if (kind == STATIC_O_MATMUL && rank != 2) return RECIPE_PER_TENSOR; // no runtime takes more
  return static_is_per_channel(q->s, w, wanted, NULL, &axis) ? axis : RECIPE_PER_TENSOR;
}

static uint64_t channels_of(struct static_qoperator_run *q, uint32_t w, uint32_t axis) {
  const struct model_dim dim = kit_dim(&q->s->k, w, axis);
  return axis == RECIPE_PER_TENSOR || dim.value < 1 ? 1 : (uint64_t)dim.value;
}

// Attributes of QGemm: those of Gemm that it has, but beta.
static int gemm_attrs(struct kit *k, uint32_t node, struct edit_attr attrs[3]) {
  static const char *const names[] = {"alpha", "transA", "transB"};
  struct kit_attr a;
  int n = 0;
  for (uint32_t i = 0; i < 3; i++) {
    const enum kit_state state = kit_attr(k, node, names[i], &a);
    if (state == KIT_UNKNOWN) return -1;
    if (state == KIT_GIVEN)
      attrs[n++] = (struct edit_attr){.name = names[i], .type = a.type, .i = a.i, .f = a.f};
  }
  return n;
}

// Can the node's inputs from `first` on be taken? NULL, or why not.
static const char *operands(struct static_qoperator_run *q, uint32_t node, uint32_t first,
                            uint32_t n) {
  for (uint32_t i = first; i < first + n; i++) {
    const uint32_t value = kit_in(&q->s->k, node, i);
    if (static_qoperator_can_take(q, value)) continue;
    return value != NO_ID && static_is_left(q->s, value) ? "input_not_quantized" : "no_range";
  }
  return NULL;
}

// The type of the codes that a value has or would get; of a constant `constant`, unless an override says another.
static enum dtype code_type(struct static_qoperator_run *q, uint32_t value, enum dtype constant) {
  const struct static_held *held = static_qoperator_held(q, value);
  const struct static_overrides *o = static_override_of(q->s, value);
  struct static_params p;
  if (static_is_constant(q->s, value)) return o && o->of->has_type ? o->of->type : constant;
  if (held) return held->type;
  return static_params_of(q->s, value, &p) ? p.type : constant;
}

// Is there an operator that takes and gives these types together? ONNX Runtime: those of one type, and weights of 8 bits with uint8.
// Overrides may say others. (compat: as they say.) `weight`: the type of a constant weight; UNDEFINED: input 1 is none.
static bool takes_types(struct static_qoperator_run *q, uint32_t node, uint32_t first, uint32_t n,
                        enum dtype weight) {
  struct kit *k = &q->s->k;
  const enum dtype activation = q->s->o->activation;
  const enum dtype x = code_type(q, kit_in(k, node, first), activation);
  if (q->s->o->compat || q->s->n_overrides == 0) return true;
  if (dtype_bits(x) != 8 || code_type(q, kit_out(k, node, 0), x) != x) return false;
  for (uint32_t i = first + 1; i < first + n; i++) {
    const bool is_weight = weight != DTYPE_UNDEFINED && i == 1;
    const enum dtype type = code_type(q, kit_in(k, node, i), is_weight ? weight : activation);
    if (type != x && !(is_weight && x == DTYPE_UINT8 && dtype_bits(type) == 8)) return false;
  }
  return true;
}

// The scale of a bias' codes is a product of two scales times that factor: does float32 hold it?
static bool has_bias_scale(double factor) {
  return fabs(factor) >= 0x1p-100 && fabs(factor) <= 0x1p100;
}

static const char *product(struct static_qoperator_run *q, uint32_t node, enum static_qop kind) {
  struct kit *k = &q->s->k;
  const bool compat = q->s->o->compat, biased = kind != STATIC_O_MATMUL;
  const uint32_t bias = biased ? kit_in(k, node, 2) : NO_ID;
  const uint32_t axis = weight_axis(q, node, kind);
  float alpha = 1, beta = 1;
  struct static_params p;
  struct edit_attr attrs[3];
  int n_attrs = 0;
  const enum op op = kind == STATIC_O_CONV   ? OP_QLinearConv
                     : kind == STATIC_O_GEMM ? OP_ms_QGemm
                                             : OP_QLinearMatMul;
  const char *why = operands(q, node, 0, 2);
  if (why) return why;
  if (!static_params_of(q->s, kit_out(k, node, 0), &p)) return "no_range";
  const enum dtype type =
      kind == STATIC_O_CONV && axis != RECIPE_PER_TENSOR ? DTYPE_INT8 : q->s->o->weight;
  if (!takes_types(q, node, 0, 2, type)) return "code_types";
  const struct static_held *held = static_qoperator_held(q, kit_in(k, node, 1));
  if (!compat && held && !held->constant && held->axis != RECIPE_PER_TENSOR) return "axis";
  if (bias != NO_ID && !static_is_constant(q->s, bias)) return "non_constant_bias";
  const uint64_t channels = channels_of(q, kit_in(k, node, 1), axis);
  if (bias != NO_ID && !static_qoperator_can_bias(q, bias, channels)) return "bias_shape";
  if (kind == STATIC_O_GEMM) {
    n_attrs = gemm_attrs(k, node, attrs);
    if (n_attrs < 0 || !kit_attr_float(k, node, "alpha", 1, &alpha) ||
        !kit_attr_float(k, node, "beta", 1, &beta))
      return "attributes";
    if (!compat && (!(alpha > 0) || !isfinite(alpha) || beta == 0)) return "attributes";
    if (bias != NO_ID && !static_drops_bias(q->s, beta) &&
        !has_bias_scale(compat ? (double)beta : (double)alpha / (double)beta))
      return "attributes";
  } else if (!kit_attrs_fit(k, node, op)) {
    return "attributes";
  }
  const double right = beta != 0 || !compat ? (double)alpha / (double)beta : 0,
               factor = compat ? (double)beta : right;
  const double reach =
      static_drops_bias(q->s, beta) ? 1 : fabs(factor) / static_sum_room(q->s, node);
  uint32_t in[9], n = 0;
  if (compat && bias != NO_ID && factor != right && kit_const_all(k, bias, 0) != KIT_YES)
    static_note_theirs(q->s, node, STATIC_THEIRS_FACTORS);
  begin(q, node);
  const struct static_held *taken = static_qoperator_take(q, kit_in(k, node, 0));
  if (!taken) return "no_range";
  const struct static_held x = *taken;
  const struct static_qoperator_weight weight = {
      .value = kit_in(k, node, 1),
      .axis = axis,
      .from_end = compat && kind == STATIC_O_MATMUL,
      .type = kind == STATIC_O_CONV && axis != RECIPE_PER_TENSOR ? DTYPE_INT8 : DTYPE_UNDEFINED,
      .bias = bias,
      .x = &x,
      .factor = reach};
  taken = static_qoperator_take_weight(q, &weight);
  if (!taken) return "weight_dtype";
  const struct static_held w = *taken;
  struct static_held y;
  static_qoperator_result(q, kit_out(k, node, 0), NULL, &y);
  n += put_x(&x, in + n);
  n += put_x(&w, in + n);
  const bool another = compat && bias != NO_ID && static_qoperator_bias_of(q, bias); // made them
  if (another && kit_const_all(k, bias, 0) != KIT_YES)
    static_note_theirs(q->s, node, STATIC_THEIRS_BIAS);
  const uint32_t b = bias == NO_ID ? NO_ID : static_qoperator_bias(q, bias, &x, &w, factor);
  if (kind == STATIC_O_GEMM) in[n++] = b;
  n += put_y(&y, in + n);
  if (kind == STATIC_O_CONV && b != NO_ID) in[n++] = b;
  const struct made m = {.op = op,
                         .in = in,
                         .n_in = n,
                         .attrs = attrs,
                         .n_attrs = (uint32_t)n_attrs,
                         .own_attrs = kind == STATIC_O_GEMM};
  put(q, node, &m, &y);
  if (bias != NO_ID)
    static_qoperator_note_biased(q, &x, &w,
                                 &(struct static_biased){.node = kit_maker(k, y.codes),
                                                         .weight = weight.value,
                                                         .bias = bias,
                                                         .codes = another ? NO_ID : b,
                                                         .factor = factor,
                                                         .reach = reach});
  return NULL;
}

// ---- others that compute -----------------------------------------------------------------------

enum { INPUTS = 1024 };

// x … y of an operator over these inputs: those of activations.
static const char *lined(struct static_qoperator_run *q, uint32_t node, enum op op, uint32_t first,
                         uint32_t n, const struct int8_params *given,
                         const struct edit_attr *attr) {
  struct kit *k = &q->s->k;
  struct static_params p;
  struct static_held y;
  if (n > INPUTS) return "signature";
  const char *why = operands(q, node, first, n);
  if (why) return why;
  if (!static_params_of(q->s, kit_out(k, node, 0), &p)) return "no_range";
  if (!takes_types(q, node, first, n, DTYPE_UNDEFINED)) return "code_types";
  if (!kit_attrs_fit(k, node, op)) return "attributes";
  begin(q, node);
  uint32_t *in = arena_alloc(&k->site, (3 * n + 3) * sizeof *in), n_in = 0;
  const bool before = op == OP_ms_QLinearConcat;
  if (op == OP_ms_QLinearWhere) in[n_in++] = kit_in(k, node, 0);
  uint32_t at = before ? 2 : n_in;
  for (uint32_t i = first; i < first + n; i++) {
    const struct static_held *x = static_qoperator_take(q, kit_in(k, node, i));
    if (!x) return "weight_dtype";
    at += put_x(x, in + at);
  }
  static_qoperator_result(q, kit_out(k, node, 0), given, &y);
  put_y(&y, in + (before ? 0 : at));
  const struct made m = {
      .op = op, .in = in, .n_in = at + (before ? 0 : 2), .attrs = attr, .n_attrs = attr ? 1 : 0};
  put(q, node, &m, &y);
  return NULL;
}

static const char *activation(struct static_qoperator_run *q, uint32_t node) {
  const bool nnapi = q->s->o->sigmoid_nnapi && kit_op(&q->s->k, node) == OP_Sigmoid;
  const struct int8_params given = {.scale = 1.0 / 256, .zero = 0};
  const enum op op =
      kit_op(&q->s->k, node) == OP_Sigmoid ? OP_ms_QLinearSigmoid : OP_ms_QLinearLeakyRelu;
  return lined(q, node, op, 0, 1, nnapi ? &given : NULL, NULL);
}

static const char *softmax(struct static_qoperator_run *q, uint32_t node) {
  const struct int8_params given = {.scale = 1.0 / 256,
                                    .zero = q->s->o->activation == DTYPE_UINT8 ? 0 : -128};
  const struct edit_attr opset = {.name = "opset", .type = ATTR_INT, .i = q->s->opset};
  struct static_params p;
  const bool seen = !q->s->o->compat && static_params_of(q->s, kit_out(&q->s->k, node, 0), &p) &&
                    p.own.scale < given.scale / 2; // a range far below 1
  return lined(q, node, OP_ms_QLinearSoftmax, 0, 1, seen ? NULL : &given, &opset);
}

static const char *global_pool(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  const struct edit_attr last = {.name = "channels_last", .type = ATTR_INT, .i = 0};
  const struct static_held *x = static_qoperator_held(q, kit_in(k, node, 0));
  struct static_params p;
  if (!x) return "input_not_quantized";
  if (static_params_of(q->s, kit_out(k, node, 0), &p))
    return lined(q, node, OP_ms_QLinearGlobalAveragePool, 0, 1, NULL, &last);
  struct static_held y = *x;
  uint32_t in[5];
  y.constant = y.wanted = false;
  begin(q, node);
  put_y(&y, in + put_x(x, in));
  const struct made m = {
      .op = OP_ms_QLinearGlobalAveragePool, .in = in, .n_in = 5, .attrs = &last, .n_attrs = 1};
  put(q, node, &m, &y);
  return NULL;
}

static const char *binary(struct static_qoperator_run *q, uint32_t node) {
  const enum op op = kit_op(&q->s->k, node) == OP_Add ? OP_ms_QLinearAdd : OP_ms_QLinearMul;
  return lined(q, node, op, 0, 2, NULL, NULL);
}

// ---- those that go -----------------------------------------------------------------------------

static bool bounds_of(struct static_qoperator_run *q, uint32_t node, double *lo, double *hi) {
  struct kit *k = &q->s->k;
  float f;
  *lo = kit_op(k, node) == OP_Relu ? 0 : -(double)INFINITY;
  *hi = (double)INFINITY;
  if (kit_op(k, node) == OP_Relu) return true;
  if (q->s->opset < 11) {
    if (!kit_attr_float(k, node, "min", -INFINITY, &f)) return false;
    *lo = (double)f;
    if (!kit_attr_float(k, node, "max", INFINITY, &f)) return false;
    *hi = (double)f;
    return true;
  }
  return (kit_in(k, node, 1) == NO_ID || kit_const_scalar(k, kit_in(k, node, 1), lo)) &&
         (kit_in(k, node, 2) == NO_ID || kit_const_scalar(k, kit_in(k, node, 2), hi));
}

// Do the codes hold no number outside of [lo, hi], but for half a step?
static bool implied(const struct static_held *x, double lo, double hi) {
  int64_t least, most;
  if (!x->known || !(x->scale_is > 0)) return false;
  int8_full_codes(x->type, &least, &most);
  return (lo == -(double)INFINITY ||
          rint(lo / x->scale_is) + (double)x->zero_is <= (double)least) &&
         (hi == (double)INFINITY || rint(hi / x->scale_is) + (double)x->zero_is >= (double)most);
}

static const char *relu(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  const uint32_t x = kit_in(k, node, 0), o = kit_out(k, node, 0);
  const struct static_held *held = static_qoperator_held(q, x);
  double lo, hi;
  if (!held) return "input_not_quantized";
  if (q->s->o->compat && q->s->o->activation_symmetric) return "symmetric";
  const bool is_implied = bounds_of(q, node, &lo, &hi) && implied(held, lo, hi);
  if (q->s->o->compat) {
    if (!is_implied) static_note_theirs(q->s, node, STATIC_THEIRS_CLIP);
  } else if (held->constant || kit_sole_user(k, x) != node || kit_maker(k, x) != NO_ID ||
             (kit_op(k, node) != OP_Relu &&
              (static_may_grow(q->s, o) || static_may_grow(q->s, held->owner))) ||
             !is_implied) {
    return "clip_range";
  }
  struct static_held y = *held;
  y.constant = y.wanted = false;
  begin(q, node);
  static_qoperator_hold(q, o, &y);
  edit_remove_node(k->e, node);
  return NULL;
}

// ---- those that work on codes ------------------------------------------------------------------

static bool is_least(const struct static_qoperator_run *q, int64_t opset) {
  return q->s->opset >= opset;
}

// Has a Resize no form on codes: it goes beyond the elements, or filters codes of int8, which ONNX Runtime takes for uint8?
static bool is_mode_float(struct static_qoperator_run *q, uint32_t node, enum dtype type) {
  int64_t antialias;
  if (kit_op(&q->s->k, node) != OP_Resize) return false;
  if (!static_stays_within(q->s, node)) return true;
  return type == DTYPE_INT8 &&
         !(kit_attr_int(&q->s->k, node, "antialias", 0, &antialias) && antialias == 0);
}

static const char *direct(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  const uint32_t x = kit_in(k, node, 0);
  const struct static_held *held = static_qoperator_held(q, x);
  const bool forced = q->s->o->force_quantize_no_input_check;
  const bool compat = q->s->o->compat;
  if (forced && compat && !static_is_constant(q->s, x)) return "input_not_quantized";
  if (!held && !(forced && static_qoperator_can_take(q, x))) return "input_not_quantized";
  if (held && !compat && held->axis != RECIPE_PER_TENSOR) return "axis";
  const bool is_float = is_mode_float(q, node, held ? held->type : q->s->o->activation);
  if (!compat && is_float) return "mode";
  if (kit_n_out(k, node) != 1) return "several_outputs";
  if (is_float) static_note_theirs(q->s, node, STATIC_THEIRS_OUTSIDE);
  begin(q, node);
  held = static_qoperator_take(q, x);
  if (!held) return "weight_dtype";
  put_on_codes(q, node, held, "_quantized");
  return NULL;
}

static const char *split(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  const char *why = operands(q, node, 0, 1);
  if (why) return why;
  begin(q, node);
  const struct static_held *x = static_qoperator_take(q, kit_in(k, node, 0));
  if (!x) return "weight_dtype";
  put_on_codes(q, node, x, "quantized");
  const struct span name = quant_name(k, node);
  if (name.n) edit_rename_node(k->e, node, name);
  return NULL;
}

static const char *gather(struct static_qoperator_run *q, uint32_t node) {
  if (!static_is_constant(q->s, kit_in(&q->s->k, node, 0))) return "input_not_quantized";
  begin(q, node);
  const struct static_held *x = static_qoperator_take(q, kit_in(&q->s->k, node, 0));
  if (!x) return "weight_dtype";
  put_on_codes(q, node, x, "_quantized");
  return NULL;
}

static const char *argmax(struct static_qoperator_run *q, uint32_t node) {
  const struct static_held *x = static_qoperator_held(q, kit_in(&q->s->k, node, 0));
  if (!x) return "input_not_quantized";
  if (!q->s->o->compat && x->axis != RECIPE_PER_TENSOR) return "axis";
  begin(q, node);
  edit_set_input(q->s->k.e, node, 0, x->codes);
  return NULL;
}

// The code of the number that a Pad puts, as a value. NO_ID: it cannot be made.
static uint32_t pad_value(struct static_qoperator_run *q, uint32_t node,
                          const struct static_held *x) {
  struct static_run *s = q->s;
  struct kit *k = &s->k;
  struct model_constant c;
  const uint32_t value = kit_in(k, node, 2);
  if (value == NO_ID) return x->zero;
  const struct span stem = kit_stem_of(k, value);
  if (model_resolve_constant(k->m, value, &c) && (c.node == NO_ID || !s->o->compat)) {
    const struct int8_weight_as as = {.type = x->type, .axis = RECIPE_PER_TENSOR};
    const uint32_t number = static_recipe(s, value), scale = kit_recipe(k, x->scale);
    const uint32_t codes = int8_given(k->r, number, &as, scale, kit_recipe(k, x->zero)).codes;
    if (codes == NO_ID) return NO_ID;
    const uint32_t made = int8_tensor(k, stem, "_quantized", codes, NO_ID);
    *TABLE_PUSH(q, padded) = (struct static_padded){.codes = made,
                                                    .scale = x->scale,
                                                    .zero = x->zero,
                                                    .number = number,
                                                    .made_by = scale,
                                                    .type = x->type};
    return made;
  }
  const struct static_form f = {.scale = x->scale, .zero = x->zero, .axis = RECIPE_PER_TENSOR};
  return static_put_node(s, OP_QuantizeLinear, &f, static_qoperator_widened(q, value),
                         (struct edit_output){NO_ID, int8_value_name(k, stem, "_quantized")},
                         kit_names_join(stem, "_QuantizeLinear", &k->site));
}

// Has the number that a Pad puts, least and most, a code of x's?
static bool is_within(const struct static_held *x, double least, double most) {
  int64_t low, high;
  int8_full_codes(x->type, &low, &high);
  return x->known && x->scale_is > 0 &&
         least / x->scale_is + (double)x->zero_is >= (double)low - 0.5 &&
         most / x->scale_is + (double)x->zero_is <= (double)high + 0.5;
}

// NULL: it has; 0 always.
static const char *check_pad_value(struct static_qoperator_run *q, uint32_t value,
                                   const struct static_held *x) {
  struct static_run *s = q->s;
  double number;
  if (value == NO_ID) return NULL;
  if (kit_const_scalar(&s->k, value, &number))
    return number == 0 || is_within(x, number, number) ? NULL : "value_outside_range";
  if (value >= s->n_range || s->range[value].type == DTYPE_UNDEFINED) return "parameters";
  return is_within(x, s->range[value].least, s->range[value].most) ? NULL : "value_outside_range";
}

static const char *pad(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  struct span mode;
  const struct static_held *held = static_qoperator_held(q, kit_in(k, node, 0));
  if (!is_least(q, 11)) return "opset_too_old";
  if (!held) return "input_not_quantized";
  if (held->axis != RECIPE_PER_TENSOR) return "axis";
  if (!kit_attr_string(k, node, "mode", "constant", &mode)) return "attributes";
  const bool constant = span_is(mode, "constant");
  const struct static_held x = *held;
  const char *why = constant ? check_pad_value(q, kit_in(k, node, 2), &x) : NULL;
  if (why && !q->s->o->compat) return why;
  if (why) static_note_theirs(q->s, node, STATIC_THEIRS_OUTSIDE);
  begin(q, node);
  const uint32_t code = constant ? pad_value(q, node, &x) : NO_ID;
  if (constant && code == NO_ID) return "parameters";
  // In other modes nothing reads the number, but its type must be that of the codes.
  if (constant || kit_in(k, node, 2) != NO_ID) edit_set_input(k->e, node, 2, code);
  put_on_codes(q, node, &x, "_quantized");
  return NULL;
}

// Tables and vectors in codes: ids, segments, tables …, mask, then all scales, then all zero points.
static const char *embed(struct static_qoperator_run *q, uint32_t node) {
  enum { TABLES = 5, FIRST = 2, MASK = 7 };
  struct kit *k = &q->s->k;
  uint32_t in[3 + 3 * TABLES];
  if (kit_op(k, node) != OP_ms_EmbedLayerNormalization || kit_n_out(k, node) > 2 ||
      kit_n_in(k, node) > MASK + 1)
    return "signature";
  for (uint32_t i = 0; i < TABLES; i++)
    if (kit_in(k, node, FIRST + i) != NO_ID &&
        !static_is_constant(q->s, kit_in(k, node, FIRST + i)))
      return "non_constant_weight";
  if (!kit_attrs_fit(k, node, OP_ms_QEmbedLayerNormalization)) return "attributes";
  if (static_dtype(q->s, kit_out(k, node, 0)) == DTYPE_FLOAT16) return "type";
  begin(q, node);
  in[0] = kit_in(k, node, 0);
  in[1] = kit_in(k, node, 1);
  in[FIRST + TABLES] = kit_in(k, node, MASK);
  for (uint32_t i = 0; i < TABLES; i++) {
    const uint32_t value = kit_in(k, node, FIRST + i);
    const struct static_held *x = value == NO_ID ? NULL : static_qoperator_take(q, value);
    if (value != NO_ID && !x) return "weight_dtype";
    in[FIRST + i] = x ? x->codes : NO_ID;
    in[FIRST + TABLES + 1 + i] = x ? x->scale : NO_ID;
    in[FIRST + TABLES + 1 + TABLES + i] = x ? x->zero : NO_ID;
  }
  kit_replace(k, node, OP_ms_QEmbedLayerNormalization, KIT_INPUTS(in, 3 + 3 * TABLES),
              KIT_ATTRS_OF(node), KIT_NAME(quant_name(k, node)), KIT_OUTPUTS(kit_n_out(k, node)));
  return NULL;
}

const char *static_qoperator_compute(struct static_qoperator_run *q, uint32_t node,
                                     enum static_qop kind) {
  struct kit *k = &q->s->k;
  switch (kind) {
  case STATIC_O_CONV:
  case STATIC_O_GEMM:
  case STATIC_O_MATMUL: return product(q, node, kind);
  case STATIC_O_BINARY: return binary(q, node);
  case STATIC_O_CONCAT:
    return lined(q, node, OP_ms_QLinearConcat, 0, kit_n_in(k, node), NULL, NULL);
  case STATIC_O_ACTIVATION: return activation(q, node);
  case STATIC_O_GLOBAL_POOL: return global_pool(q, node);
  case STATIC_O_POOL: return lined(q, node, OP_ms_QLinearAveragePool, 0, 1, NULL, NULL);
  case STATIC_O_SOFTMAX: return softmax(q, node);
  case STATIC_O_WHERE:
    return q->s->o->force_quantize_no_input_check
               ? lined(q, node, OP_ms_QLinearWhere, 1, 2, NULL, NULL)
               : "";
  case STATIC_O_RELU: return relu(q, node);
  case STATIC_O_MAXPOOL: return is_least(q, 12) ? direct(q, node) : "opset_too_old";
  case STATIC_O_RESIZE: return is_least(q, 11) ? direct(q, node) : "opset_too_old";
  case STATIC_O_DIRECT: return direct(q, node);
  case STATIC_O_SPLIT: return split(q, node);
  case STATIC_O_PAD: return pad(q, node);
  case STATIC_O_GATHER: return gather(q, node);
  case STATIC_O_ARGMAX: return argmax(q, node);
  case STATIC_O_EMBED: return embed(q, node);
  case STATIC_O_FLOAT:
    return kit_op(k, node) == OP_Slice && static_is_moved_past(q->s, node) ? direct(q, node) : "";
  }
  return "";
}
