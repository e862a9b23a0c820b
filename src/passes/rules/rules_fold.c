// Operators over constants become constants: the one place where rules compute.
//
// Small operands (elements at hand, results up to 64 KiB) are computed at once, in plain loops over
// numbers (rules_numbers.c). Large ones become recipes: today those that move elements. Elementwise
// arithmetic, gathering and reducing of large constants is STUCK until there are recipes for it,
// and so is what is not computed here at all (matrix products, exp and log, whose last bit is the
// library's): the rule then does not fire. An Expand of constants stays a node unless it is tiny,
// and so do operators of other domains and Shape.
//
// Integer division by zero, and the least integer by -1, have no result: STUCK.
#include "rules_inside.h"

enum { FOLD_BYTES = 65536, EXPAND_BYTES = 1024 };

struct array {
  struct rules_type type;
  struct span raw;
  uint64_t count, each; // elements, bytes of one
};

static bool array_of(struct rules_run *run, const struct rules_value *v, struct array *a) {
  if (!rules_elements(run, v, &a->type, &a->raw) || !rules_number_known(a->type.dtype))
    return false;
  a->each = dtype_bits(a->type.dtype) / 8;
  a->count = a->raw.n / a->each;
  return true;
}

// Where element i of an array with dims `to` lies in an operand that is broadcast to it.
static uint64_t broadcast_at(const struct rules_type *of, const struct rules_type *to, uint64_t i) {
  uint64_t at = 0, stride = 1;
  for (uint32_t axis = to->rank; axis-- > 0;) {
    const uint64_t dim = (uint64_t)to->dims[axis], place = i % dim;
    i /= dim;
    if (axis + of->rank < to->rank) continue;
    const uint64_t mine = (uint64_t)of->dims[axis + of->rank - to->rank];
    if (mine != 1) at += place * stride;
    stride *= mine;
  }
  return at;
}

static bool product(const struct rules_type *t, uint64_t *count) {
  return t->ranked && dims_product(t->dims, t->rank, count);
}

static struct rules_value whole(struct rules_run *run, const struct rules_type *t, uint8_t *raw,
                                uint64_t bytes) {
  return rules_new_const(run, t->dtype, t->dims, t->rank, span_of(raw, bytes));
}

// ---- elementwise
// -----------------------------------------------------------------------------------

// The bool result of a comparison is 1 or 0; other results have the operands' type.
static bool real_of(enum op op, double x, double y, double *z) {
  switch (op) {
  case OP_Add: *z = x + y; return true;
  case OP_Sub: *z = x - y; return true;
  case OP_Mul: *z = x * y; return true;
  case OP_Div: *z = x / y; return true;
  case OP_Max: *z = isnan(x) || x > y ? x : y; return true;
  case OP_Min: *z = isnan(x) || x < y ? x : y; return true;
  case OP_Neg: *z = -x; return true;
  case OP_Abs: *z = fabs(x); return true;
  case OP_Reciprocal: *z = 1 / x; return true;
  case OP_Sqrt: *z = sqrt(x); return true;
  case OP_Ceil: *z = ceil(x); return true;
  case OP_Floor: *z = floor(x); return true;
  case OP_Round: *z = nearbyint(x); return true;
  case OP_Relu: *z = x > 0 || isnan(x) ? x : 0; return true;
  case OP_Sign: *z = isnan(x) ? x : (x > 0) - (x < 0); return true;
  case OP_Equal: *z = x == y; return true;
  case OP_Less: *z = x < y; return true;
  case OP_LessOrEqual: *z = x <= y; return true;
  case OP_Greater: *z = x > y; return true;
  case OP_GreaterOrEqual: *z = x >= y; return true;
  default: return false;
  }
}

static bool whole_of(enum op op, enum dtype t, int64_t x, int64_t y, int64_t *z) {
  const uint64_t a = (uint64_t)x, b = (uint64_t)y;
  const bool below = t == DTYPE_UINT64 ? a < b : x < y;
  switch (op) {
  case OP_Add: *z = (int64_t)(a + b); return true;
  case OP_Sub: *z = (int64_t)(a - b); return true;
  case OP_Mul: *z = (int64_t)(a * b); return true;
  case OP_Div:
    if (y == 0 || (x == INT64_MIN && y == -1)) return false;
    *z = t == DTYPE_UINT64 ? (int64_t)(a / b) : x / y;
    return true;
  case OP_Max: *z = below ? y : x; return true;
  case OP_Min: *z = below ? x : y; return true;
  case OP_Neg: *z = (int64_t)(0 - a); return true;
  case OP_Abs: *z = x < 0 && t != DTYPE_UINT64 ? (int64_t)(0 - a) : x; return true;
  case OP_Not: *z = !x; return true;
  case OP_And:
  case OP_BitwiseAnd: *z = x & y; return true;
  case OP_Or:
  case OP_BitwiseOr: *z = x | y; return true;
  case OP_Xor:
  case OP_BitwiseXor: *z = x ^ y; return true;
  case OP_BitwiseNot: *z = ~x; return true;
  case OP_Equal: *z = x == y; return true;
  case OP_Less: *z = below; return true;
  case OP_LessOrEqual: *z = below || x == y; return true;
  case OP_Greater: *z = !below && x != y; return true;
  case OP_GreaterOrEqual: *z = !below; return true;
  default: return false;
  }
}

static enum rules_folded elementwise(struct rules_run *run, const struct rules_term *node,
                                     struct rules_value *out) {
  struct array in[3];
  const struct rules_type t = rules_infer(run, node);
  uint64_t count;
  if (node->n_args > 3 || !product(&t, &count) || !rules_number_known(t.dtype)) return RULES_STUCK;
  for (uint32_t i = 0; i < node->n_args; i++)
    if (!array_of(run, &node->args[i], &in[i])) return RULES_STUCK;
  const uint32_t last = node->n_args - 1;
  const uint32_t values = node->op == OP_Where ? 1 : 0; // the first operand of the common type
  if (in[values].type.dtype != in[last].type.dtype || (values && in[0].type.dtype != DTYPE_BOOL))
    return RULES_STUCK;
  const uint64_t each = dtype_bits(t.dtype) / 8;
  if (count > FOLD_BYTES / each) return RULES_STUCK;
  uint8_t *raw = arena_zalloc(&run->match, count * each + 1);
  const enum dtype of = in[0].type.dtype;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t at[3];
    for (uint32_t a = 0; a < node->n_args; a++)
      at[a] = broadcast_at(&in[a].type, &t, i);
    if (node->op == OP_Where) {
      const uint32_t taken = rules_number_get_int(DTYPE_BOOL, in[0].raw.at, at[0]) ? 1 : 2;
      memcpy(raw + i * each, in[taken].raw.at + at[taken] * each, each);
    } else if (rules_number_real(of)) {
      double z;
      if (!real_of(node->op, rules_number_get(of, in[0].raw.at, at[0]),
                   rules_number_get(of, in[last].raw.at, at[last]), &z))
        return RULES_STUCK;
      if (t.dtype == DTYPE_BOOL)
        rules_number_put_int(t.dtype, raw, i, z != 0);
      else
        rules_number_put(t.dtype, raw, i, z);
    } else {
      int64_t z;
      if (!whole_of(node->op, of, rules_number_get_int(of, in[0].raw.at, at[0]),
                    rules_number_get_int(of, in[last].raw.at, at[last]), &z))
        return RULES_STUCK;
      rules_number_put_int(t.dtype, raw, i, z);
    }
  }
  *out = whole(run, &t, raw, count * each);
  return RULES_FOLDED;
}

// ---- moving elements
// -------------------------------------------------------------------------------

static enum rules_folded reshaped(struct rules_run *run, const struct rules_term *node,
                                  struct rules_value *out) {
  struct rules_type t = rules_infer(run, node), of;
  struct span raw;
  uint64_t count, had;
  of = rules_type_of(run, &node->args[0]);
  if (!product(&t, &count) || !product(&of, &had) || count != had) return RULES_STUCK;
  t.dtype = of.dtype;
  if (rules_elements(run, &node->args[0], &of, &raw)) {
    *out = rules_new_const(run, t.dtype, t.dims, t.rank, raw);
    return RULES_FOLDED;
  }
  const uint32_t recipe = rules_recipe_of(run, &node->args[0]);
  if (recipe == NO_ID) return RULES_STUCK;
  *out = rules_new_recipe(run, recipe_reshape(run->k.r, recipe, t.dims, t.rank));
  return RULES_FOLDED;
}

static enum rules_folded transposed(struct rules_run *run, const struct rules_term *node,
                                    struct rules_value *out) {
  struct array in;
  const struct rules_type t = rules_infer(run, node);
  if (!t.ranked || node->n_attrs != 1 || node->attrs[0].n != t.rank || t.rank > RECIPE_MAX_RANK)
    return RULES_STUCK;
  const int64_t *perm = node->attrs[0].ints;
  if (!array_of(run, &node->args[0], &in)) {
    const uint32_t recipe = rules_recipe_of(run, &node->args[0]);
    if (recipe == NO_ID) return RULES_STUCK;
    *out = rules_new_recipe(run, recipe_transpose(run->k.r, recipe, perm));
    return RULES_FOLDED;
  }
  uint64_t strides[RECIPE_MAX_RANK], stride = 1;
  for (uint32_t axis = t.rank; axis-- > 0;) {
    strides[axis] = stride;
    stride *= (uint64_t)in.type.dims[axis];
  }
  uint8_t *raw = arena_alloc(&run->match, in.raw.n + 1);
  for (uint64_t i = 0; i < in.count; i++) {
    uint64_t rest = i, from = 0;
    for (uint32_t axis = t.rank; axis-- > 0;) {
      from += rest % (uint64_t)t.dims[axis] * strides[perm[axis]];
      rest /= (uint64_t)t.dims[axis];
    }
    memcpy(raw + i * in.each, in.raw.at + from * in.each, in.each);
  }
  *out = whole(run, &t, raw, in.raw.n);
  return RULES_FOLDED;
}

static enum rules_folded expanded(struct rules_run *run, const struct rules_term *node,
                                  struct rules_value *out) {
  struct array in;
  const struct rules_type t = rules_infer(run, node);
  uint64_t count;
  if (!product(&t, &count) || !array_of(run, &node->args[0], &in) || count > EXPAND_BYTES / in.each)
    return RULES_LEFT;
  uint8_t *raw = arena_alloc(&run->match, count * in.each + 1);
  for (uint64_t i = 0; i < count; i++)
    memcpy(raw + i * in.each, in.raw.at + broadcast_at(&in.type, &t, i) * in.each, in.each);
  *out = rules_new_const(run, in.type.dtype, t.dims, t.rank, span_of(raw, count * in.each));
  return RULES_FOLDED;
}

// starts, ends, axes and steps as the operator has them: clamped to the axis, from its end where
// negative.
static enum rules_folded sliced(struct rules_run *run, const struct rules_term *node,
                                struct rules_value *out) {
  struct array in;
  struct rules_type t = rules_type_of(run, &node->args[0]);
  int64_t starts[RECIPE_MAX_RANK] = {0}, steps[RECIPE_MAX_RANK];
  const int64_t *given[4] = {0};
  uint32_t n = 0, count;
  if (!t.ranked || node->n_args < 3) return RULES_STUCK;
  int64_t *dims = arena_alloc(&run->match, (t.rank + 1) * sizeof *dims);
  for (uint32_t i = 0; i < t.rank; i++)
    dims[i] = t.dims[i], steps[i] = 1;
  for (uint32_t i = 1; i < node->n_args; i++) {
    if (node->args[i].kind == RULES_ABSENT) continue;
    if (!rules_constant_ints(run, &node->args[i], &given[i - 1], &count) || (i > 1 && count != n))
      return RULES_STUCK;
    n = count;
  }
  for (uint32_t i = 0; i < n; i++) {
    int64_t axis = given[2] ? given[2][i] : i, from = given[0][i], to = given[1][i];
    const int64_t step = given[3] ? given[3][i] : 1;
    if (axis < 0) axis += t.rank;
    if (axis < 0 || axis >= t.rank || step == 0 || step == INT64_MIN) return RULES_STUCK;
    const int64_t dim = t.dims[axis];
    if (from < 0) from += dim;
    if (to < 0) to += dim;
    const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? dim : dim - 1;
    from = from < 0 ? 0 : from > most ? most : from;
    to = to < least ? least : to > most ? most : to;
    const int64_t way = step > 0 ? to - from : from - to, size = step > 0 ? step : -step;
    dims[axis] = way <= 0 ? 0 : (way - 1) / size + 1;
    starts[axis] = dims[axis] ? from : 0;
    steps[axis] = step;
  }
  const struct rules_type to = {t.dtype, true, t.rank, dims};
  uint64_t total;
  if (!product(&to, &total) || total == 0) return RULES_STUCK;
  if (!array_of(run, &node->args[0], &in)) {
    const uint32_t recipe = rules_recipe_of(run, &node->args[0]);
    if (recipe == NO_ID) return RULES_STUCK;
    *out = rules_new_recipe(run, recipe_slice(run->k.r, recipe, starts, steps, dims));
    return RULES_FOLDED;
  }
  uint8_t *raw = arena_alloc(&run->match, total * in.each + 1);
  for (uint64_t i = 0; i < total; i++) {
    uint64_t rest = i, stride = 1, from = 0;
    for (uint32_t axis = t.rank; axis-- > 0;) {
      const int64_t place = starts[axis] + (int64_t)(rest % (uint64_t)dims[axis]) * steps[axis];
      from += (uint64_t)place * stride;
      stride *= (uint64_t)t.dims[axis];
      rest /= (uint64_t)dims[axis];
    }
    memcpy(raw + i * in.each, in.raw.at + from * in.each, in.each);
  }
  *out = whole(run, &to, raw, total * in.each);
  return RULES_FOLDED;
}

enum rules_folded rules_fold(struct rules_run *run, const struct rules_term *node,
                             struct rules_value *out) {
  if (node->n_args < kit_op_row(node->op)->min_in || node->n_args > kit_op_row(node->op)->max_in)
    return RULES_STUCK;
  switch (node->op) {
  case OP_Reshape:
  case OP_Squeeze:
  case OP_Unsqueeze:
  case OP_Flatten: return reshaped(run, node, out);
  case OP_Transpose: return transposed(run, node, out);
  case OP_Expand: return expanded(run, node, out);
  case OP_Slice: return sliced(run, node, out);
  case OP_Identity: *out = node->args[0]; return RULES_FOLDED;
  case OP_Shape: return RULES_LEFT;
  default: break;
  }
  if (kit_op_row(node->op)->domain != KIT_ONNX) return RULES_LEFT;
  return kit_op_has(node->op, KIT_ELEMENTWISE) ? elementwise(run, node, out) : RULES_STUCK;
}
