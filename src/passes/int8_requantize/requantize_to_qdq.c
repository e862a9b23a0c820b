// requantize --to qdq: operators on codes as float operators between DequantizeLinear and QuantizeLinear.
//
//   x ─ QLinearConv ─ y          x ─ DQ ─ Conv ─ Q ─ y
//   w ──┤                        w ─ DQ ───┤
//   b ──┘                        b ─ DQ ───┘
//
// Codes, scales and zero points are those of the operator; of the bias they are the product of the scales of x and w, a new
// constant. Codes that several operators take have one DQ in a graph. What moves elements becomes float where its codes come
// from a QuantizeLinear, of a model or of this pass: then it is known what they mean.
#include "passes/int8_requantize/inside/requantize.h"
#include "passes/int8_requantize/inside/requantize_forms.h"

enum { MOST_IN = 8, SHARED_MOST = 64 };

// ---- DequantizeLinear --------------------------------------------------------------------------

// One that there is already, before the place of new nodes; NO_ID: none among the first uses.
static uint32_t find_dequantize(struct kit *k, const struct form *f) {
  int64_t axis;
  uint32_t seen = 0;
  for (struct kit_use u = kit_uses(k, f->codes); kit_use(k, &u) && seen < SHARED_MOST; seen++) {
    if (!requantize_is_dequantize(kit_op(k, u.node)) || u.slot != 0 ||
        kit_in(k, u.node, 1) != f->scale || kit_in(k, u.node, 2) != f->zero ||
        !kit_available(k, kit_out(k, u.node, 0), k->graph, k->before))
      continue;
    if (f->n > 1 && (!kit_attr_int(k, u.node, "axis", 1, &axis) || axis != f->axis)) continue;
    return kit_out(k, u.node, 0);
  }
  return NO_ID;
}

static uint32_t dequantized(struct kit *k, const struct form *f) {
  const uint32_t there = find_dequantize(k, f), n = f->zero == NO_ID ? 2 : 3;
  const uint32_t in[3] = {f->codes, f->scale, f->zero};
  if (there != NO_ID) return there;
  const uint32_t y =
      f->n > 1 ? kit_make(k, OP_DequantizeLinear, KIT_INPUTS(in, n), KIT_INT("axis", f->axis))
               : kit_make(k, OP_DequantizeLinear, KIT_INPUTS(in, n));
  struct model_type type;
  kit_type(k, f->codes, &type);
  type.dtype = f->of;
  kit_note_type(k, y, &type);
  return y;
}

// ---- what there is -----------------------------------------------------------------------------

// One operator that is looked at.
struct back {
  uint32_t node;
  struct requantize_row row;
  struct form x[64];
  uint32_t n;
  struct form y;   // codes: the result
  bool has_y;      // its result is codes
  uint32_t bias;   // NO_ID: none
  uint32_t scales; // recipe of the bias's, where it is int32
};

static const char *read_x(struct kit *k, struct back *b, uint32_t slot, uint32_t scale,
                          uint32_t zero) {
  if (b->n == sizeof b->x / sizeof *b->x) return "signature";
  const char *why = requantize_form(k, kit_in(k, b->node, slot), kit_in(k, b->node, scale),
                                    kit_in(k, b->node, zero), &b->x[b->n]);
  if (!why && !requantize_is_8bit(b->x[b->n].type)) why = "code_types";
  b->n++;
  return why;
}

static const char *read_y(struct kit *k, struct back *b, uint32_t scale) {
  b->has_y = true;
  const char *why = requantize_form(k, kit_out(k, b->node, 0), kit_in(k, b->node, scale),
                                    kit_in(k, b->node, scale + 1), &b->y);
  if (!why && b->y.n != 1) why = "axis";
  return why;
}

static const char *read_inputs(struct kit *k, struct back *b) {
  const char *why = NULL;
  const uint32_t n = kit_n_in(k, b->node);
  switch (b->row.layout) {
  case LAYOUT_CONCAT:
    why = read_y(k, b, 0);
    for (uint32_t i = 2; i < n && !why; i += 3)
      why = read_x(k, b, i, i + 1, i + 2);
    return why;
  case LAYOUT_FLOAT:
    why = read_x(k, b, 0, 2, 4);
    b->bias = kit_in(k, b->node, 6);
    return why ? why : read_x(k, b, 1, 3, 5);
  case LAYOUT_UNARY: why = read_x(k, b, 0, 1, 2); return why ? why : read_y(k, b, 3);
  case LAYOUT_WHERE:
    if (!(why = read_x(k, b, 1, 2, 3))) why = read_x(k, b, 4, 5, 6);
    return why ? why : read_y(k, b, 7);
  default: break;
  }
  if (!(why = read_x(k, b, 0, 1, 2))) why = read_x(k, b, 3, 4, 5);
  if (why) return why;
  if (b->row.layout == LAYOUT_GEMM) {
    b->bias = kit_in(k, b->node, 6);
    return kit_in(k, b->node, 7) == NO_ID ? NULL : read_y(k, b, 7);
  }
  if (b->row.layout == LAYOUT_CONV) b->bias = kit_in(k, b->node, 8);
  return read_y(k, b, 6);
}

// Where the scales of the second operand lie, which are one for each channel.
static const char *find_axis(struct kit *k, struct back *b) {
  struct form *w = &b->x[1];
  int64_t transposed;
  uint32_t rank;
  for (uint32_t i = 0; i < b->n; i++)
    if (b->x[i].n != 1 && i != 1) return "axis";
  if (b->n < 2 || w->n == 1) return NULL;
  if (b->row.layout == LAYOUT_CONV) {
    w->axis = 0;
    return NULL;
  }
  if (!kit_rank(k, w->codes, &rank) || rank < 2) return "axis";
  w->axis = rank - 1;
  if (b->row.layout == LAYOUT_GEMM) {
    if (!kit_attr_int(k, b->node, "transB", 0, &transposed)) return "attributes";
    w->axis = transposed ? 0 : 1;
    return NULL;
  }
  return b->row.layout == LAYOUT_FLOAT || b->row.plain == OP_MatMul ? NULL : "axis";
}

// Scales of a vector of zero points must be one, too.
static const char *check_zeros(struct kit *k, const struct back *b) {
  int64_t dims[2], zero;
  uint32_t rank;
  for (uint32_t i = 0; i < b->n; i++) {
    const struct form *f = &b->x[i];
    if (f->zero == NO_ID) continue;
    if (!kit_static_dims(k, f->zero, dims, 2, &rank) || rank > 1) return "parameters";
    const int64_t n = rank == 0 ? 1 : dims[0];
    if (n != f->n && !requantize_zero(k, f, &zero)) return "zero_points";
  }
  return NULL;
}

static const char *check_attrs(struct kit *k, const struct back *b) {
  int64_t last, opset;
  const int64_t own = kit_opset(k, k->m->nodes[b->node].graph);
  // What the operator on codes does not have itself, the other need not have either.
  if (!kit_attrs_fit(k, b->node, kit_op(k, b->node)) || !kit_attrs_alike(k, b->node, b->row.plain))
    return "attributes";
  if (!kit_attr_int(k, b->node, "channels_last", 0, &last) || last != 0) return "channels_last";
  if (b->row.plain != OP_Softmax) return NULL;
  // What the axis means has changed with opset 13.
  if (!kit_attr_int(k, b->node, "opset", own, &opset)) return "attributes";
  return (opset < 13) == (own < 13) ? NULL : "versions";
}

static const char *check_bias(struct kit *k, struct back *b) {
  float alpha = 1;
  uint32_t rank;
  if (b->bias == NO_ID || b->row.layout == LAYOUT_FLOAT) return NULL;
  if (b->row.layout == LAYOUT_GEMM && !kit_attr_float(k, b->node, "alpha", 1, &alpha))
    return "attributes";
  b->scales = requantize_product(k, b->x[0].scale, b->x[1].scale, (double)alpha);
  if (b->scales == NO_ID) return "parameters";
  return b->x[1].n == 1 || (kit_rank(k, b->bias, &rank) && rank > 0) ? NULL : "bias_shape";
}

// ---- what is made ------------------------------------------------------------------------------

// A zero point for each scale, as DequantizeLinear wants them.
static void spread_zero(struct kit *k, struct form *f) {
  int64_t zero, n = f->n, dims[2];
  uint32_t rank;
  uint8_t raw[8];
  if (f->zero == NO_ID || !kit_static_dims(k, f->zero, dims, 2, &rank) ||
      (rank == 0 ? 1 : dims[0]) == n)
    return;
  requantize_zero(k, f, &zero);
  const size_t bytes = kit_number_put(f->type, (double)zero, raw);
  f->zero = n == 1 ? kit_new_scalar(k, "zero_point", f->type, (double)zero)
                   : kit_new_tensor(k, "zero_point",
                                    recipe_fill(k->r, f->type, &n, 1, span_of(raw, bytes)));
}

static uint32_t bias_value(struct kit *k, const struct back *b) {
  uint32_t rank;
  struct form f = {.codes = b->bias, .zero = NO_ID, .type = DTYPE_INT32, .of = DTYPE_FLOAT};
  kit_rank(k, b->bias, &rank);
  f.scale = kit_new_tensor(k, "bias_scale", b->scales);
  f.n = b->x[1].n;
  f.axis = rank - 1;
  return dequantized(k, &f);
}

static const char *drop_attr(const struct back *b) {
  if (b->row.plain == OP_Softmax) return "opset";
  return b->row.layout == LAYOUT_UNARY || b->row.layout == LAYOUT_CONV ? "channels_last" : NULL;
}

// The float operator over what was dequantized, in the place of the one on codes where its result is float; gives its node.
static uint32_t put_plain(struct kit *k, const struct back *b, const uint32_t *in, uint32_t n_in) {
  const char *gone = drop_attr(b);
  struct kit_attr a;
  const uint32_t node = kit_replace(k, b->has_y ? NO_ID : b->node, b->row.plain,
                                    KIT_INPUTS(in, n_in), KIT_ATTRS_OF(b->node));
  if (gone && kit_attr(k, node, gone, &a) == KIT_GIVEN)
    edit_set_attr(k->e, node, &(struct edit_attr){.name = gone, .type = ATTR_UNDEFINED});
  return node;
}

// MatMul, and Add where it has a bias, in the place of MatMulIntegerToFloat.
static void put_float(struct kit *k, const struct back *b, const uint32_t in[2]) {
  if (b->bias == NO_ID)
    kit_replace(k, b->node, OP_MatMul, KIT_IN(in[0], in[1]));
  else
    kit_replace(k, b->node, OP_Add, KIT_IN(kit_make(k, OP_MatMul, KIT_IN(in[0], in[1])), b->bias));
}

static const char *compute(struct kit *k, struct back *b) {
  uint32_t in[65], n = 0;
  const char *why = read_inputs(k, b);
  if (why || (why = find_axis(k, b)) || (why = check_zeros(k, b)) || (why = check_attrs(k, b)) ||
      (why = check_bias(k, b)))
    return why;
  kit_site(k, b->node, "to_qdq");
  if (b->row.layout == LAYOUT_WHERE) in[n++] = kit_in(k, b->node, 0);
  for (uint32_t i = 0; i < b->n; i++) {
    spread_zero(k, &b->x[i]);
    in[n++] = dequantized(k, &b->x[i]);
  }
  if (b->row.layout == LAYOUT_FLOAT) {
    put_float(k, b, in);
    return NULL;
  }
  if (b->bias != NO_ID) in[n++] = bias_value(k, b);
  const uint32_t node = put_plain(k, b, in, n);
  const uint32_t y = kit_out(k, node, 0);
  if (b->has_y) {
    kit_note_like(k, y, b->y.codes);
    kit_note_type(k, y, &(struct model_type){.dtype = b->y.of});
    const uint32_t zero = b->y.zero != NO_ID || b->y.type == DTYPE_UINT8
                              ? b->y.zero
                              : kit_new_scalar(k, "zero_point", b->y.type, 0);
    if (zero == NO_ID)
      kit_replace(k, b->node, OP_QuantizeLinear, KIT_IN(y, b->y.scale));
    else
      kit_replace(k, b->node, OP_QuantizeLinear, KIT_IN(y, b->y.scale, zero));
    return NULL;
  }
  return NULL;
}

// ---- operators that move -----------------------------------------------------------------------

// Takes the outputs of a Split over: each becomes that of a Q after an output of `to`.
static void quantize_outputs(struct kit *k, uint32_t from, uint32_t to, const struct form *f) {
  const uint32_t n = kit_n_out(k, from), zero = requantize_zero_value(k, f);
  uint32_t *outs = arena_alloc(&k->site, n * sizeof *outs);
  for (uint32_t i = 0; i < n; i++)
    outs[i] = kit_unused(k, kit_out(k, from, i)) ? NO_ID : kit_out(k, from, i);
  k->before = k->m->nodes[from].next;
  edit_remove_node(k->e, from);
  for (uint32_t i = 0; i < n; i++) {
    if (outs[i] == NO_ID) continue;
    kit_make(k, OP_QuantizeLinear, KIT_IN(kit_out(k, to, i), f->scale, zero),
             KIT_CALLED(kit_name(k, "QuantizeLinear")),
             KIT_OUT(((struct edit_output){.value = outs[i]})));
  }
}

static const char *move(struct kit *k, uint32_t node, enum op op) {
  struct form x;
  uint32_t in[MOST_IN], n = kit_n_in(k, node);
  struct span mode;
  int64_t zero, value;
  const char *why = requantize_form_of(k, kit_maker(k, kit_in(k, node, 0)), &x);
  if (why) return why;
  if (x.n != 1) return "axis";
  if (!requantize_is_8bit(x.type)) return "code_types";
  if (n > MOST_IN) return "signature";
  if (op != OP_Split && kit_n_out(k, node) != 1) return "several_outputs";
  if (op == OP_Pad && kit_in(k, node, 1) == NO_ID) return "signature";
  if (!kit_attrs_copyable(k, node)) return "attributes";
  const bool pads = op == OP_Pad && kit_attr_string(k, node, "mode", "constant", &mode) &&
                    span_is(mode, "constant");
  if (pads && !requantize_zero(k, &x, &zero)) return "parameters";
  const bool spare = op == OP_Pad && !pads && n > 2; // a code that nothing reads
  const bool says = pads && n > 2 && kit_in(k, node, 2) != NO_ID;
  const bool zeros =
      says ? kit_const_int(k, kit_in(k, node, 2), &value) && value == zero : pads && zero == 0;
  kit_site(k, node, "to_qdq");
  in[0] = dequantized(k, &x);
  for (uint32_t i = 1; i < n; i++)
    in[i] = kit_in(k, node, i);
  const bool none = spare || (pads && zeros); // a Pad of float puts 0 where it names no number
  if (none && n == 3) n = 2;
  if (none && n > 3) in[2] = NO_ID;
  if (pads && !zeros) {
    struct form pad = x;
    pad.codes = says ? in[2] : kit_new_scalar(k, "pad_value", x.type, 0);
    in[2] = dequantized(k, &pad);
    if (n < 3) n = 3;
  }
  const uint32_t to =
      kit_replace(k, op == OP_ArgMax ? node : NO_ID, op, KIT_INPUTS(in, n), KIT_ATTRS_OF(node),
                  KIT_OUTPUTS(op == OP_Split ? kit_n_out(k, node) : 1));
  if (op == OP_Split) {
    quantize_outputs(k, node, to, &x);
  } else if (op != OP_ArgMax) {
    kit_note_like(k, kit_out(k, to, 0), kit_out(k, node, 0));
    kit_note_type(k, kit_out(k, to, 0), &(struct model_type){.dtype = x.of});
    kit_replace(k, node, OP_QuantizeLinear,
                KIT_IN(kit_out(k, to, 0), x.scale, requantize_zero_value(k, &x)));
  }
  return NULL;
}

// ---- the walk ----------------------------------------------------------------------------------

static void visit(struct kit *k, const struct requantize_options *options, uint32_t node) {
  const enum op op = kit_op(k, node);
  struct back b = {.node = node, .row = requantize_row_on_codes(op), .bias = NO_ID};
  const bool moves = requantize_row_of(op).layout == LAYOUT_MOVE &&
                     requantize_is_quantize(kit_maker_op(k, kit_in(k, node, 0)));
  if (b.row.layout == LAYOUT_NONE && !moves) return;
  const char *why =
      name_filter_refuses(&options->nodes, model_name_str(k->m, k->m->nodes[node].name));
  if (!why) why = moves ? move(k, node, op) : compute(k, &b);
  if (why)
    kit_skipped(k, node, why);
  else
    kit_converted(k, node, "to_qdq");
}

bool requantize_wants_channels(struct kit *k, const struct requantize_options *options) {
  int64_t dims[1];
  uint32_t rank;
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node; n != NO_ID; n = k->m->nodes[n].next) {
      const struct requantize_row row = requantize_row_on_codes(kit_op(k, n));
      const bool products = row.layout == LAYOUT_CONV || row.layout == LAYOUT_GEMM ||
                            row.layout == LAYOUT_FLOAT || row.plain == OP_MatMul;
      const uint32_t scale = kit_in(k, n, row.layout == LAYOUT_FLOAT ? 3 : 4);
      if (products && kit_static_dims(k, scale, dims, 1, &rank) && rank == 1 && dims[0] > 1 &&
          !name_filter_refuses(&options->nodes, model_name_str(k->m, k->m->nodes[n].name)))
        return true;
    }
  return false;
}

void requantize_to_qdq(struct kit *k, const struct requantize_options *options) {
  requantize_walk(k, options, visit);
}
