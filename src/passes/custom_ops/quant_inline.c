// The passes inline-qonnx: the quantizer Quant of onnx_passes.ops in operators of ONNX.
//
//   Quant<signed=1, narrow=0, rounding_mode="ROUND">(x, s, z, 4)
//     ─▶ Mul(Sub(Round(Clip(Add(Div(x, s), z), -8, 7)), z), s)
//
// Signed quantizers of one bit give -1 and 1. Where the bits are a number, least and most code are numbers
// too, and which of both kinds it is, is known; else nodes compute them.
//
// InlineQONNXQuant is for quantizers of values, FoldConstantQONNXQuant for those of constants: there the codes become a
// constant of their own, a recipe over the weight that nobody reads now, and Sub and Mul stay as they are, so that what
// follows sees whole numbers and a scale.
#include "passes/custom_ops/inside/quant_range.h"
#include "passes/kit/dead_ends.h"
#include "passes/opset/opset.h"

#include "passes/questions/name_filter.h"

enum { LEAST_OPSET = 13 };

static bool all_constant(struct kit *k, uint32_t node) {
  uint32_t tensor;
  for (uint32_t i = 0; i < 4; i++)
    if (!kit_constant(k, kit_in(k, node, i), &tensor)) return false;
  return true;
}

const char *quant_left(struct kit *k, uint32_t node, enum dtype *dtype) {
  int64_t dims[8];
  uint32_t rank;
  for (uint32_t i = 0; i < 4; i++)
    if (kit_in(k, node, i) == NO_ID || kit_may_be_left_out(k->m, kit_in(k, node, i)))
      return "inputs";
  *dtype = quant_dtype(k, node, 3);
  if (*dtype == DTYPE_UNDEFINED) return "type";
  if (kit_static_dims(k, kit_in(k, node, 3), dims, 8, &rank)) {
    for (uint32_t i = 0; i < rank; i++)
      if (dims[i] != 1) return "bit_width";
    if (rank > 1) return "bit_width"; // which would be dims of the result
  }
  return NULL;
}

// Is it a signed one of one bit? MAYBE: the bits are not known now.
static enum kit_answer is_bipolar(struct kit *k, const struct quant_said *said, uint32_t bits) {
  struct kit_number n;
  if (!said->is_signed) return KIT_NO;
  if (!kit_const_number(k, bits, &n)) return KIT_MAYBE;
  return n.d == 1 ? KIT_YES : KIT_NO;
}

static uint32_t bipolar(struct kit *k, enum dtype dtype, uint32_t q) {
  const uint32_t zero = kit_new_scalar(k, "zero", dtype, 0);
  const uint32_t positive = kit_make(k, OP_GreaterOrEqual, KIT_IN(q, zero));
  return kit_make(
      k, OP_Where,
      KIT_IN(positive, kit_new_scalar(k, "plus", dtype, 1), kit_new_scalar(k, "minus", dtype, -1)));
}

// The codes of q.
static uint32_t codes_of(struct kit *k, const struct quant_said *said, enum dtype dtype,
                         uint32_t bits, uint32_t q) {
  const enum kit_answer sign = is_bipolar(k, said, bits);
  if (sign == KIT_YES) return bipolar(k, dtype, q);
  const uint32_t clipped = quant_clipped(k, said, dtype, bits, q);
  const uint32_t rounded = quant_round(k, said->rounding, clipped, dtype);
  if (sign == KIT_NO) return rounded;
  const uint32_t one = kit_new_scalar(k, "one", dtype, 1);
  const uint32_t is_one = kit_make(k, OP_Equal, KIT_IN(quant_bits(k, dtype, bits), one));
  return kit_make(k, OP_Where, KIT_IN(is_one, bipolar(k, dtype, q), rounded));
}

static void finish(struct kit *k, uint32_t node, uint32_t codes) {
  uint32_t in[4];
  for (uint32_t i = 0; i < 4; i++)
    in[i] = kit_in(k, node, i);
  const uint32_t from_zero = kit_make(k, OP_Sub, KIT_IN(codes, in[2]));
  kit_replace(k, node, OP_Mul, KIT_IN(from_zero, in[1]));
  dead_ends_drop(k->e, in[0]); // the weight, if it was one
  dead_ends_drop(k->e, in[3]);
}

void quant_write(struct kit *k, uint32_t node, const struct quant_said *said, enum dtype dtype) {
  const uint32_t d = kit_make(k, OP_Div, KIT_IN(kit_in(k, node, 0), kit_in(k, node, 1)));
  const uint32_t q = kit_make(k, OP_Add, KIT_IN(d, kit_in(k, node, 2)));
  finish(k, node, codes_of(k, said, dtype, kit_in(k, node, 3), q));
}

static void write_nodes(struct kit *k, uint32_t node) {
  struct quant_said said;
  enum dtype dtype;
  if (kit_op(k, node) != OP_ops_Quant || all_constant(k, node)) return;
  const char *why = quant_said_of(k, node, &said);
  if (!why) why = quant_left(k, node, &dtype);
  kit_site(k, node, why ? why : "quant");
  if (kit_skips(k, node, why)) return;
  kit_converted(k, node, "quant");
  quant_write(k, node, &said, dtype);
}

// ---- of constants ------------------------------------------------------------------------------

// NO_ID where an operand is, or cannot be taken.
static uint32_t map(struct kit *k, enum recipe_map_op op, uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t of[3] = {a, b, c};
  for (uint32_t i = 0; i < recipe_map_operands(op); i++)
    if (of[i] == NO_ID || !recipe_can_grow(k->r, of[i])) return NO_ID;
  return recipe_can_map(k->r, op, of) ? recipe_map(k->r, op, of) : NO_ID;
}

static uint32_t map_1(struct kit *k, enum recipe_map_op op, uint32_t a) {
  return map(k, op, a, NO_ID, NO_ID);
}

static uint32_t map_2(struct kit *k, enum recipe_map_op op, uint32_t a, uint32_t b) {
  return map(k, op, a, b, NO_ID);
}

static uint32_t rounded_recipe(struct kit *k, enum quant_rounding how, enum dtype dtype,
                               uint32_t x) {
  if (how == QUANT_ROUND) return map_1(k, RECIPE_MAP_ROUND, x);
  if (how == QUANT_CEIL) return map_1(k, RECIPE_MAP_CEIL, x);
  if (how == QUANT_FLOOR) return map_1(k, RECIPE_MAP_FLOOR, x);
  const uint32_t half = kit_scalar_recipe(k, dtype, 0.5);
  uint32_t size = map_1(k, RECIPE_MAP_ABS, x);
  if (how == QUANT_HALF_UP) size = map_2(k, RECIPE_MAP_ADD, size, half);
  if (how == QUANT_HALF_DOWN) size = map_2(k, RECIPE_MAP_SUB, size, half);
  const bool up = how == QUANT_UP || how == QUANT_HALF_DOWN;
  size = map_1(k, up ? RECIPE_MAP_CEIL : RECIPE_MAP_FLOOR, size);
  return map_2(k, RECIPE_MAP_MUL, map_1(k, RECIPE_MAP_SIGN, x), size);
}

// NO_ID: there is no such recipe, or it has more elements than the weight.
static uint32_t codes_recipe(struct kit *k, uint32_t node, const struct quant_said *said,
                             enum dtype dtype) {
  uint32_t in[3];
  double least, most;
  struct kit_number bits;
  for (uint32_t i = 0; i < 3; i++)
    in[i] = kit_recipe(k, kit_in(k, node, i));
  const uint32_t q = map_2(k, RECIPE_MAP_ADD, map_2(k, RECIPE_MAP_DIV, in[0], in[1]), in[2]);
  if (q == NO_ID || k->r->rows[q].count > k->r->rows[in[0]].count) return NO_ID;
  if (!kit_const_number(k, kit_in(k, node, 3), &bits)) return NO_ID;
  if (said->is_signed && bits.d == 1) {
    const uint32_t positive = map_2(k, RECIPE_MAP_GREATER_EQUAL, q, kit_scalar_recipe(k, dtype, 0));
    return map(k, RECIPE_MAP_WHERE, positive, kit_scalar_recipe(k, dtype, 1),
               kit_scalar_recipe(k, dtype, -1));
  }
  if (!quant_range(said, dtype, bits.d, &least, &most)) return NO_ID;
  const uint32_t above = map_2(k, RECIPE_MAP_MAX, q, kit_scalar_recipe(k, dtype, least));
  const uint32_t clipped = map_2(k, RECIPE_MAP_MIN, above, kit_scalar_recipe(k, dtype, most));
  return rounded_recipe(k, said->rounding, dtype, clipped);
}

static void fold(struct kit *k, uint32_t node) {
  struct quant_said said;
  enum dtype dtype;
  uint32_t codes = NO_ID;
  if (kit_op(k, node) != OP_ops_Quant || !all_constant(k, node)) return;
  const char *why = quant_said_of(k, node, &said);
  if (!why) why = quant_left(k, node, &dtype);
  if (!why) codes = codes_recipe(k, node, &said, dtype);
  if (!why && codes == NO_ID) why = "constant";
  kit_site(k, node, why ? why : "quant");
  if (kit_skips(k, node, why)) return;
  kit_converted(k, node, "quant");
  finish(k, node, kit_new_tensor(k, "codes", codes));
}

// ---- the passes --------------------------------------------------------------------------------

static bool has_quant(struct pass_env *env) {
  struct kit k;
  bool has = false;
  kit_init(&k, env, env->pass->name);
  for (uint32_t g = 0; kit_graph(&k, &g); g++)
    for (uint32_t n = k.m->graphs[g].first_node; n != NO_ID; n = k.m->nodes[n].next)
      has |= kit_op(&k, n) == OP_ops_Quant;
  kit_done(&k, NULL);
  return has;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct model *m = env->m;
  if (!has_quant(env)) return 0;
  if (model_opset_version(m, m->main_graph, span_str("")) < LEAST_OPSET &&
      opset_raise(env, LEAST_OPSET, err))
    return -1;
  return kit_run(env, with, err);
}

const struct pass custom_ops_inline_quant = {
    .name = "inline-qonnx/InlineQONNXQuant",
    .summary = "replace Quant of a value by standard ONNX operators",
    .about = "Replaces the quantizer Quant of onnx_passes.ops by Div, Add, Clip, a rounding "
             "operator, Sub and Mul, if its input is not constant. Signed quantizers of one bit "
             "return -1 and 1.",
    .needs = "a known element type, the same number of bits for all elements",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
    .visit = write_nodes,
};

const struct pass custom_ops_fold_quant = {
    .name = "inline-qonnx/FoldConstantQONNXQuant",
    .summary = "replace Quant of a constant by (codes - zero point) * scale",
    .about = "Replaces the quantizer Quant of onnx_passes.ops, if all its inputs are constant, by "
             "a constant of the rounded codes, followed by Sub and Mul.",
    .needs = "a known element type, the same number of bits for all elements",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
    .visit = fold,
};
