// requantize --format: Neural Compressor's recipes for a MatMul and the Add of its bias, from a model that has Q and DQ already.
//
//   x ─ DQ ─ MatMul ─ [Q ─ DQ] ─ Add ─▶        as static_recipes.c writes them of the float model, and by the same hands (int8_linear.h)
//   w ─ DQ ───┤                   │
//   b, or b ─ DQ ─────────────────┘
//
// What MatMul gives is not quantized in a recipe: a pair of Q and DQ before the Add goes. Codes and scales of x and w stay what they are, and
// so do codes of a bias that have the scale of the products; other biases get codes from the numbers that they stand for. static
// enlarges the scale of a weight where codes of a bias would pass int32, which codes that are there do not allow: such a MatMul is left
// (bias_range).
//
// Before anything is changed everything is asked: what is left is as it was.
#include "passes/int8/int8_linear.h"
#include "passes/int8_requantize/inside/requantize.h"
#include "passes/int8_requantize/inside/requantize_look.h"

enum { MATMUL_INTEGER_OPSET = 10 };

struct linear {
  struct look look;
  struct int8_linear l;
  uint32_t dequantize; // the DQ between MatMul and Add; NO_ID: none
};

// ---- what there is -----------------------------------------------------------------------------

static bool is_added(struct kit *k, uint32_t value) {
  for (struct kit_use u = kit_uses(k, value); kit_use(k, &u);)
    if (kit_op(k, u.node) == OP_Add) return true;
  return false;
}

// The DQ of a Q that alone takes the value, which alone takes that; NO_ID: there is none. Why they are no pair: *why.
static uint32_t find_pair(struct kit *k, uint32_t value, const char **why) {
  struct form q, dq;
  const uint32_t quantize = kit_sole_user(k, value);
  if (!requantize_is_quantize(kit_op(k, quantize)) || kit_in(k, quantize, 0) != value) return NO_ID;
  const uint32_t codes = kit_out(k, quantize, 0), dequantize = kit_sole_user(k, codes);
  if (!requantize_is_dequantize(kit_op(k, dequantize)) || kit_in(k, dequantize, 0) != codes)
    return NO_ID;
  if ((*why = requantize_form_of(k, quantize, &q)) ||
      (*why = requantize_form_of(k, dequantize, &dq)))
    return NO_ID;
  if (!requantize_same(k, &q, &dq)) *why = "parameters_differ";
  return *why ? NO_ID : dequantize;
}

static const char *find_add(struct kit *k, struct linear *f) {
  const uint32_t node = f->look.node, graph = k->m->nodes[node].graph;
  const char *why = NULL;
  f->dequantize = find_pair(k, kit_out(k, node, 0), &why);
  if (why) return why;
  if (f->dequantize != NO_ID && k->m->nodes[f->dequantize].graph != graph) return "no_bias";
  const uint32_t last = f->dequantize == NO_ID ? node : f->dequantize;
  f->l.node = node;
  f->l.add = int8_linear_add(k, last, &f->l.bias);
  if (f->l.add != NO_ID) return NULL;
  return is_added(k, kit_out(k, last, 0)) ? "output_used_elsewhere" : "no_bias";
}

static const char *check_products(struct kit *k, struct linear *f, enum requantize_recipe recipe) {
  struct look *l = &f->look;
  const char *why;
  double scale;
  uint32_t tensor, rank;
  for (uint32_t slot = 0; slot < 2; slot++)
    if ((why = requantize_look_input(k, l, slot))) return why;
  if (!kit_constant(k, l->x[1].codes, &tensor)) return "non_constant_weight";
  if ((why = find_add(k, f))) return why;
  if (!kit_rank(k, l->x[1].codes, &rank) || rank != 2) return "rank";
  if (!requantize_look_types_fit(l)) return "code_types";
  if ((why = requantize_look_weight(k, l))) return why;
  if (l->x[0].of != DTYPE_FLOAT || l->x[1].of != DTYPE_FLOAT) return "type";
  if (!kit_const_scalar(k, l->x[0].scale, &scale) || !(scale > 0)) return "parameters";
  if (recipe == REQUANTIZE_INT32_BIAS &&
      kit_opset(k, k->m->nodes[l->node].graph) < MATMUL_INTEGER_OPSET)
    return "opset_too_old";
  return requantize_look_reaches(k, l, l->node) ? NULL : "hidden";
}

static const char *check_bias(struct kit *k, struct linear *f, enum requantize_recipe recipe) {
  const uint32_t maker = kit_maker(k, f->l.bias);
  const bool codes = requantize_is_dequantize(kit_op(k, maker));
  const uint32_t value = codes ? kit_in(k, maker, 0) : f->l.bias;
  uint32_t tensor;
  if (!kit_constant(k, value, &tensor)) return "non_constant_bias";
  if (!int8_linear_fits(k, value, kit_dim(k, f->look.x[1].codes, 1).value)) return "bias_shape";
  f->look.bias = f->l.bias;
  return recipe == REQUANTIZE_INT32_BIAS ? requantize_look_bias(k, &f->look) : NULL;
}

static const char *check(struct kit *k, struct linear *f, const struct requantize_options *o) {
  const char *why = check_products(k, f, o->recipe);
  if (!why) why = check_bias(k, f, o->recipe);
  if (why || o->recipe == REQUANTIZE_INT32_BIAS) return why;
  if (o->recipe == REQUANTIZE_FP32_BIAS_QDQ) {
    bool rounded = false;
    for (struct kit_use u = kit_uses(k, kit_out(k, f->l.add, 0)); kit_use(k, &u);)
      rounded = rounded || requantize_is_quantize(kit_op(k, u.node));
    if (!rounded) return "output_not_quantized";
  }
  return o->qlinear || f->dequantize != NO_ID ? NULL : "same_form";
}

// ---- what is made ------------------------------------------------------------------------------

// The Add takes what MatMul gives.
static void drop_pair(struct kit *k, const struct linear *f) {
  if (f->dequantize == NO_ID) return;
  kit_site(k, f->l.add, REQUANTIZE_NOT_ROUNDED);
  const uint32_t slot = kit_in(k, f->l.add, 0) != kit_out(k, f->dequantize, 0);
  edit_set_input(k->e, f->l.add, slot, kit_out(k, f->l.node, 0));
  kit_sweep(k, f->dequantize);
}

static struct int8_parts parts_of(struct kit *k, const struct form *f) {
  return (struct int8_parts){f->codes, f->scale, requantize_zero_value(k, f)};
}

static void put_int32(struct kit *k, const struct linear *f, bool qlinear) {
  const struct look *l = &f->look;
  const struct int8_parts x = parts_of(k, &l->x[0]), w = parts_of(k, &l->x[1]);
  const int64_t n = l->x[1].n;
  struct int8_parts bias = {.zeros = NO_ID};
  bias.codes = requantize_look_bias_codes(k, l);
  const uint32_t scales = requantize_product(k, l->x[0].scale, l->x[1].scale, 1);
  bias.scales = kit_new_tensor(k, "bias_scale", recipe_reshape(k->r, scales, &n, 1));
  const uint32_t dequantize = kit_maker(k, l->bias);
  int8_linear_to_int32(k, &f->l, &x, &w, &bias, qlinear);
  if (requantize_is_dequantize(kit_op(k, dequantize))) kit_sweep(k, dequantize);
}

static void put_float(struct kit *k, const struct linear *f, bool rounds) {
  const struct int8_parts x = parts_of(k, &f->look.x[0]), w = parts_of(k, &f->look.x[1]);
  const struct span stem = int8_linear_stem(k, f->l.node);
  int8_linear_to_float(k, &f->l, &x, &w);
  if (rounds) int8_linear_name_quantize(k, kit_out(k, f->l.add, 0), stem);
}

static const char *put(struct kit *k, const struct linear *f, const struct requantize_options *o) {
  const bool int32 = o->recipe == REQUANTIZE_INT32_BIAS;
  drop_pair(k, f);
  if (!int32 && !o->qlinear) return REQUANTIZE_NOT_ROUNDED;
  kit_site(k, f->l.node, int32 ? REQUANTIZE_INT32 : REQUANTIZE_FLOAT);
  if (int32)
    put_int32(k, f, o->qlinear);
  else
    put_float(k, f, o->recipe == REQUANTIZE_FP32_BIAS_QDQ);
  return int32 ? REQUANTIZE_INT32 : REQUANTIZE_FLOAT;
}

// ---- the walk ----------------------------------------------------------------------------------

// Has it to do with codes, or is it what would be taken if it had?
static bool concerns(struct kit *k, uint32_t node) {
  uint32_t bias, tensor;
  return requantize_is_dequantize(kit_maker_op(k, kit_in(k, node, 0))) ||
         requantize_is_dequantize(kit_maker_op(k, kit_in(k, node, 1))) ||
         (kit_constant(k, kit_in(k, node, 1), &tensor) &&
          int8_linear_add(k, node, &bias) != NO_ID && kit_constant(k, bias, &tensor));
}

static void visit(struct kit *k, const struct requantize_options *options, uint32_t node) {
  const enum op op = kit_op(k, node);
  struct linear f = {
      .look = {.node = node,
               .row = requantize_row_of(op),
               .quantize = NO_ID,
               .last = node,
               .bias = NO_ID,
               .factor = 1},
      .dequantize = NO_ID,
  };
  if ((op != OP_MatMul && op != OP_Gemm) || !concerns(k, node)) return;
  const char *why =
      name_filter_refuses(&options->nodes, model_name_str(k->m, k->m->nodes[node].name));
  if (!why) why = op == OP_Gemm ? "bias_of_gemm" : check(k, &f, options);
  if (why)
    kit_skipped(k, node, why);
  else
    kit_converted(k, node, put(k, &f, options));
}

void requantize_biases(struct kit *k, const struct requantize_options *options) {
  requantize_walk(k, options, visit);
}
