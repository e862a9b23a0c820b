// The pass optimize/fold-small, constant folding of small values: what inference has decided becomes a constant.
//
//   Shape(x [N,3,224]) ─ Gather(2) ─ Div(2) ─▶ s        s = int64[] {112}
//
// A value is decided if each of its elements is a number whatever the inputs are. Its node goes where it has no
// other output that is used; what only that node needed goes with the sweep behind it. An output of a graph is
// given by a Constant node, since an initializer under an output's name is not what runtimes expect; if Constant does not have the type
// (before opset 9), the node stays.
//
// Inference knows numbers and no signs of zero: a float 0 may be the -0 of a product. Only one that was made of an
// integer, that comes as it is from a constant at hand without a -0, or that fills a shape, is surely 0. (What inference says
// of a constant may be what it said of the node that the constant took the place of.)
#include "passes/optimize/optimize.h"

#include "passes/kit/kit.h"
#include "passes/questions/name_filter.h"
#include "schema/schema.h"

#include <math.h>

// One element. A float that divides by something else than a power of two was rounded somewhere.
static bool put(enum dtype dtype, int64_t x, int64_t den, uint8_t *at) {
  if (dtype_is_integer(dtype)) {
    memcpy(at, &x, dtype_bits(dtype) / 8); // inference knows that the type holds it
    return den == 1;
  }
  uint8_t bits[8];
  const size_t n = kit_number_put(dtype, (double)x / (double)den, bits);
  memcpy(at, bits, n);
  return n > 0 && (den & (den - 1)) == 0;
}

// Does the operator give the elements of its first operand, perhaps in another type?
static bool gives_what_it_takes(enum op op) {
  switch (op) {
  case OP_Cast:
  case OP_CastLike:
  case OP_Expand:
  case OP_Flatten:
  case OP_Gather:
  case OP_Reshape:
  case OP_Slice:
  case OP_Squeeze:
  case OP_Tile:
  case OP_Transpose:
  case OP_Unsqueeze: return true;
  default: return false;
  }
}

// A constant whose elements are at hand, and of which no zero has a sign.
static bool has_plain_zeros(struct kit *k, uint32_t value) {
  uint32_t tensor;
  struct span raw;
  struct kit_number e;
  if (value == NO_ID || !kit_constant(k, value, &tensor) || !model_small_value(k->m, tensor, &raw))
    return false;
  const enum dtype dtype = (enum dtype)k->m->tensors[tensor].dtype;
  const uint64_t bits = dtype_bits(dtype), n = bits ? raw.n * 8 / bits : 0;
  for (uint64_t i = 0; i < n; i++)
    if (!kit_number_at(dtype, raw.at, i, &e) || (e.d == 0 && signbit(e.d))) return false;
  return true;
}

static bool has_no_sign(struct kit *k, uint32_t node, enum dtype dtype) {
  const enum op op = kit_op(k, node);
  if (!dtype_is_float(dtype) || op == OP_ConstantOfShape) return true;
  const uint32_t x = kit_in(k, node, 0);
  const enum dtype from = kit_dtype(k, x);
  return gives_what_it_takes(op) &&
         (dtype_is_integer(from) || from == DTYPE_BOOL || has_plain_zeros(k, x));
}

// The elements in RAW form, in the site arena. False: not all are numbers that the type holds.
static bool elements(struct kit *k, uint32_t node, enum dtype dtype, struct span *raw) {
  const uint32_t value = kit_out(k, node, 0);
  const bool zeros = has_no_sign(k, node, dtype);
  const struct infer_number *list;
  uint32_t n;
  if (!infer_numbers(k->env->infer, value, &list, &n)) return false;
  const uint32_t bytes = dtype_bits(dtype) / 8;
  if (!dtype_is_plain_number(dtype) && dtype != DTYPE_BOOL) return false;
  uint8_t *out = arena_zalloc(&k->site, (size_t)n * bytes + 1);
  for (uint32_t i = 0; i < n; i++) {
    int64_t x;
    const struct infer_number e = list[i];
    if (e.num == NO_ID || !dims_is_number(infer_dims(k->env->infer), e.num, &x)) return false;
    if (x == 0 && !zeros) return false;
    if (!put(dtype, x, e.den, out + (size_t)i * bytes)) return false;
  }
  *raw = span_of(out, (size_t)n * bytes);
  return true;
}

// The dims of a decided value as numbers.
static bool static_dims(struct kit *k, uint32_t value, int64_t *dims, uint32_t *rank,
                        enum dtype *dtype) {
  struct infer_type t;
  if (!infer_type_of(k->env->infer, value, &t) || t.kind != INFER_TENSOR || !t.ranked) return false;
  if (t.rank > RECIPE_MAX_RANK) return false;
  for (uint32_t i = 0; i < t.rank; i++)
    if (!dims_is_number(infer_dims(k->env->infer), t.dims[i], &dims[i])) return false;
  *rank = t.rank;
  *dtype = t.dtype;
  return true;
}

// Before opset 9 a Constant makes floats only.
static bool can_be_constant(struct kit *k, uint32_t node, enum dtype dtype) {
  const struct schema_signature *s = schema_signature_of(span_str(""), span_str("Constant"),
                                                         kit_opset(k, k->m->nodes[node].graph));
  return s && schema_takes(schema_output(s, 0)->types, dtype);
}

static bool can_fold(struct kit *k, uint32_t node) {
  const enum op op = kit_op(k, node);
  if (op == OP_NONE || op == OP_Constant || op == OP_Identity || kit_op_has(op, KIT_RANDOM))
    return false;
  const uint32_t value = kit_out(k, node, 0);
  if (value == NO_ID || kit_unused(k, value) || infer_leads_to_stuck(k->env->infer, value))
    return false;
  if (kit_is_output(k, value) && k->m->nodes[node].n_out > 1) return false;
  for (uint32_t i = 1; i < k->m->nodes[node].n_out; i++)
    if (!kit_unused(k, kit_out(k, node, i))) return false;
  return true;
}

static void fold(struct kit *k, uint32_t node) {
  if (!can_fold(k, node)) return;
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank;
  enum dtype dtype;
  struct span raw;
  const uint32_t value = kit_out(k, node, 0);
  if (!static_dims(k, value, dims, &rank, &dtype)) return;
  if (kit_is_output(k, value) && !can_be_constant(k, node, dtype)) return;
  arena_reset(&k->site);
  if (!elements(k, node, dtype, &raw)) return;
  const uint32_t recipe = recipe_bytes(k->r, dtype, dims, rank, raw);
  kit_begin(k, node, "decided");
  if (kit_is_output(k, value))
    kit_replace(k, node, OP_Constant, KIT_TENSOR("value", recipe));
  else
    kit_bypass(k, node, kit_new_tensor(k, "decided", recipe));
}

const struct pass optimize_fold_small = {
    .name = "optimize/fold-small",
    .keys = "fold-constants",
    .summary = "replace small values that do not depend on the inputs by constants",
    .about = "Replaces a node by a constant of at most 1024 elements, if inference knows every "
             "element: sizes of static dims, values computed from them, known conditions. Inputs "
             "with a default value are not constant.",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = fold,
};
