// Constant folding: operators over constants become constants. Here is what each operator is, in steps (rules_steps.c)
// of one recipe.
//
//   ReduceMean(w, axes)   ──▶   sum(w) ÷ how many
//   Clip(w, low, high)    ──▶   min(max(w, low), high)
//
// An operator of several steps is computed in float32 where its type is narrower, and rounded once at
// the end, as runtimes do. An Expand of constants stays a node unless it is tiny, and so do operators
// of other domains but Im2Col, and Shape. Elementwise results have the size that broadcasting gives them: of a row
// and a column that is a matrix.
//
// Not computed, so that the rule does not fire: products of matrices that are not at hand, since each
// element of one reads a row and a column; means of integers, whose rounding runtimes do not agree
// about; operators that are no recipe (Sin, CumSum …); what a step refuses; recipes that lie too
// deep one within another.
#include "passes/rules/inside/rules_inside.h"

enum { EXPAND_BYTES = 1024 };

// In here values are constants, TENSOR or TERM, or UNKNOWN.
static bool known(const struct rules_value *x) {
  return x->kind != RULES_UNKNOWN;
}

static enum rules_folded done(const struct rules_value *x, struct rules_value *out) {
  *out = *x;
  return known(x) ? RULES_FOLDED : RULES_STUCK;
}

// ---- attributes --------------------------------------------------------------------------------

static bool attr_is(struct rules_run *run, const struct rules_term *node, const char *name,
                    const char *wanted, const char *fallback) {
  const struct edit_attr *a = rules_attr(node, name);
  struct span s = span_str(fallback);
  if (a && a->type != ATTR_STRING) return false;
  if (a) return span_is(a->s, wanted);
  return (node->attrs_of == NO_ID ||
          kit_attr_string(&run->k, node->attrs_of, name, fallback, &s)) &&
         span_is(s, wanted);
}

static bool attr_axis(struct rules_run *run, const struct rules_term *node, int64_t fallback,
                      uint32_t rank, uint32_t *axis) {
  int64_t i;
  if (!rules_attr_int(run, node, "axis", fallback, &i)) return false;
  if (i < 0) i += rank;
  *axis = (uint32_t)i;
  return i >= 0 && i < rank;
}

static bool absent(const struct rules_term *node, uint32_t i) {
  return i >= node->n_args || node->args[i].kind == RULES_ABSENT;
}

// ---- steps of several operands -----------------------------------------------------------------

static struct rules_value map1(struct rules_run *run, enum recipe_map_op op, struct rules_value x) {
  return known(&x) ? rules_step_map(run, op, &x) : x;
}

static struct rules_value map2(struct rules_run *run, enum recipe_map_op op, struct rules_value x,
                               struct rules_value y) {
  const struct rules_value both[2] = {x, y};
  return known(&x) && known(&y) ? rules_step_map(run, op, both) : rules_unknown();
}

static struct rules_value number(struct rules_run *run, enum dtype dtype, double x) {
  const struct rules_literal real = {.kind = RULES_REAL, .d = x};
  return rules_new_scalar(run, dtype, &real);
}

static struct rules_value cast(struct rules_run *run, struct rules_value x, enum dtype to) {
  const struct recipe_conversion c = {.to = to, .saturates = true};
  return known(&x) ? rules_step_cast(run, &x, &c) : x;
}

// The type that several steps over elements of that type are computed in.
static enum dtype wide(enum dtype t) {
  return t == DTYPE_FLOAT16 || t == DTYPE_BFLOAT16 ? DTYPE_FLOAT : t;
}

// ---- elementwise -------------------------------------------------------------------------------

// The operation that the operator is, whole.
static enum recipe_map_op map_of(enum op op) {
  switch (op) {
  case OP_Add: return RECIPE_MAP_ADD;
  case OP_Sub: return RECIPE_MAP_SUB;
  case OP_Mul: return RECIPE_MAP_MUL;
  case OP_Div: return RECIPE_MAP_DIV;
  case OP_Max: return RECIPE_MAP_MAX;
  case OP_Min: return RECIPE_MAP_MIN;
  case OP_Pow: return RECIPE_MAP_POW;
  case OP_And:
  case OP_BitwiseAnd: return RECIPE_MAP_AND;
  case OP_Or:
  case OP_BitwiseOr: return RECIPE_MAP_OR;
  case OP_Xor:
  case OP_BitwiseXor: return RECIPE_MAP_XOR;
  case OP_Equal: return RECIPE_MAP_EQUAL;
  case OP_Less: return RECIPE_MAP_LESS;
  case OP_LessOrEqual: return RECIPE_MAP_LESS_EQUAL;
  case OP_Greater: return RECIPE_MAP_GREATER;
  case OP_GreaterOrEqual: return RECIPE_MAP_GREATER_EQUAL;
  case OP_Neg: return RECIPE_MAP_NEG;
  case OP_Abs: return RECIPE_MAP_ABS;
  case OP_Sign: return RECIPE_MAP_SIGN;
  case OP_Relu: return RECIPE_MAP_RELU;
  case OP_Not:
  case OP_BitwiseNot: return RECIPE_MAP_NOT;
  case OP_Sqrt: return RECIPE_MAP_SQRT;
  case OP_Reciprocal: return RECIPE_MAP_RECIPROCAL;
  case OP_Floor: return RECIPE_MAP_FLOOR;
  case OP_Ceil: return RECIPE_MAP_CEIL;
  case OP_Round: return RECIPE_MAP_ROUND;
  case OP_Exp: return RECIPE_MAP_EXP;
  case OP_Log: return RECIPE_MAP_LOG;
  case OP_Erf: return RECIPE_MAP_ERF;
  case OP_Tanh: return RECIPE_MAP_TANH;
  case OP_Sigmoid: return RECIPE_MAP_SIGMOID;
  case OP_Where: return RECIPE_MAP_WHERE;
  default: return RECIPE_MAP_OPS;
  }
}

// Many operands, one after the other, in this type.
static struct rules_value chained(struct rules_run *run, enum recipe_map_op op,
                                  const struct rules_term *node, enum dtype in) {
  struct rules_value x = cast(run, node->args[0], in);
  for (uint32_t i = 1; i < node->n_args; i++)
    x = map2(run, op, x, cast(run, node->args[i], in));
  return x;
}

// Runtimes multiply by the reciprocal: the quotient is the same to the last bit where that is a power
// of two.
static struct rules_value averaged(struct rules_run *run, const struct rules_term *node,
                                   enum dtype t) {
  const bool open = (node->n_args & (node->n_args - 1)) != 0;
  if (!dtype_is_plain_float(t) || (open && run->rule->exactness < EXACTNESS_ROUNDING))
    return rules_unknown();
  const struct rules_value sum = chained(run, RECIPE_MAP_ADD, node, wide(t));
  return cast(run, map2(run, RECIPE_MAP_DIV, sum, number(run, wide(t), node->n_args)), t);
}

// Has float32 a place for each of these numbers, as it is?
static bool floats_hold(struct rules_run *run, const struct rules_value *v) {
  const enum dtype t = rules_type_of(run, v).dtype;
  struct rules_type type;
  struct span raw;
  if (t == DTYPE_FLOAT || wide(t) == DTYPE_FLOAT || (dtype_is_integer(t) && dtype_bits(t) <= 16))
    return true;
  if (!rules_elements(run, v, &type, &raw)) return false;
  for (uint64_t i = 0; i < raw.n / (dtype_bits(t) / 8); i++) {
    const double x = rules_number_get(t, raw.at, i);
    if (dtype_is_integer(t) ? fabs(x) > 1 << 24 : (double)(float)x != x) return false;
  }
  return true;
}

// Operands of two types meet in float32: an exponent that has no place there would be another number,
// odd ones even.
static struct rules_value raised(struct rules_run *run, const struct rules_term *node,
                                 enum dtype t) {
  if (rules_type_of(run, &node->args[1]).dtype == t)
    return rules_step_map(run, RECIPE_MAP_POW, node->args);
  if (wide(t) != DTYPE_FLOAT || !floats_hold(run, &node->args[1])) return rules_unknown();
  return cast(run,
              map2(run, RECIPE_MAP_POW, cast(run, node->args[0], DTYPE_FLOAT),
                   cast(run, node->args[1], DTYPE_FLOAT)),
              t);
}

// A bound of Clip: given, or the end of the type, which an infinity lies behind. ABSENT: none that
// any element could meet. UNKNOWN: NaN, of which runtimes make what they like.
static struct rules_value bound(struct rules_run *run, const struct rules_term *node, uint32_t i,
                                enum dtype t) {
  struct rules_type type;
  struct span raw;
  if (absent(node, i))
    return dtype_is_plain_float(t) ? number(run, t, i == 1 ? -dtype_largest(t) : dtype_largest(t))
                                   : (struct rules_value){0};
  const bool is_nan = dtype_is_plain_float(t) && rules_elements(run, &node->args[i], &type, &raw) &&
                      type.dtype == t && raw.n > 0 && isnan(rules_number_get(t, raw.at, 0));
  return is_nan ? rules_unknown() : node->args[i];
}

static struct rules_value clipped(struct rules_run *run, const struct rules_term *node,
                                  enum dtype t) {
  const struct rules_value low = bound(run, node, 1, t), high = bound(run, node, 2, t);
  struct rules_value x = node->args[0];
  if (low.kind != RULES_ABSENT) x = map2(run, RECIPE_MAP_MAX, x, low);
  return high.kind != RULES_ABSENT ? map2(run, RECIPE_MAP_MIN, x, high) : x;
}

static struct rules_value elementwise(struct rules_run *run, const struct rules_term *node) {
  const enum dtype t = rules_type_of(run, &node->args[0]).dtype;
  switch (node->op) {
  case OP_Max:
  case OP_Min: return chained(run, map_of(node->op), node, t);
  case OP_Sum:
    return cast(run, chained(run, RECIPE_MAP_ADD, node, node->n_args > 2 ? wide(t) : t), t);
  case OP_Mean: return averaged(run, node, t);
  case OP_Clip: return clipped(run, node, t);
  case OP_IsNaN:
    return map1(run, RECIPE_MAP_NOT, map2(run, RECIPE_MAP_EQUAL, node->args[0], node->args[0]));
  case OP_Pow: return raised(run, node, t);
  default: break;
  }
  const enum recipe_map_op op = map_of(node->op);
  if (op == RECIPE_MAP_OPS || recipe_map_operands(op) != node->n_args) return rules_unknown();
  // The standard has Not and And of bool, and those of integers by another name.
  const bool bits = node->op == OP_BitwiseAnd || node->op == OP_BitwiseOr ||
                    node->op == OP_BitwiseXor || node->op == OP_BitwiseNot;
  const bool logic =
      op == RECIPE_MAP_AND || op == RECIPE_MAP_OR || op == RECIPE_MAP_XOR || op == RECIPE_MAP_NOT;
  if (logic && bits == (t == DTYPE_BOOL)) return rules_unknown();
  return rules_step_map(run, op, node->args);
}

static struct rules_value converted(struct rules_run *run, const struct rules_term *node,
                                    int64_t to) {
  int64_t saturates;
  if (!dtype_known(to) || !rules_attr_int(run, node, "saturate", 1, &saturates))
    return rules_unknown();
  if (to == DTYPE_FLOAT8E8M0) return rules_unknown(); // round_mode
  const struct recipe_conversion c = {.to = (enum dtype)to, .saturates = saturates != 0};
  return rules_step_cast(run, &node->args[0], &c);
}

static struct rules_value cast_to(struct rules_run *run, const struct rules_term *node) {
  int64_t to;
  return rules_attr_int(run, node, "to", DTYPE_UNDEFINED, &to) ? converted(run, node, to)
                                                               : rules_unknown();
}

// ---- reductions --------------------------------------------------------------------------------

// As an input, or before opset 18 (of ReduceSum 13) an attribute. *n 0: all. False: not known.
static bool listed_axes(struct rules_run *run, const struct rules_term *node, const int64_t **list,
                        uint32_t *n) {
  const struct edit_attr *a = rules_attr(node, "axes");
  *list = NULL, *n = 0;
  if (!absent(node, 1)) return rules_constant_ints(run, &node->args[1], list, n);
  if (a)
    *list = a->ints, *n = a->n;
  else if (node->attrs_of != NO_ID)
    kit_attr_ints(&run->k, node->attrs_of, "axes", list, n);
  return !a || a->type == ATTR_INTS;
}

bool rules_reduced_axes(struct rules_run *run, const struct rules_term *node,
                        const struct rules_type *t, uint64_t *axes, uint64_t *count) {
  const int64_t *list;
  uint32_t n;
  int64_t noop;
  if (!rules_attr_int(run, node, "noop_with_empty_axes", 0, &noop)) return false;
  if (!listed_axes(run, node, &list, &n)) return false;
  *axes = 0;
  *count = 1;
  for (uint32_t i = 0; i < n; i++) {
    const int64_t axis = list[i] < 0 ? list[i] + t->rank : list[i];
    if (axis < 0 || axis >= t->rank) return false;
    *axes |= (uint64_t)1 << axis;
  }
  if (n == 0 && noop != 0) return false;
  for (uint32_t i = 0; i < t->rank; i++) {
    if (n == 0) *axes |= (uint64_t)1 << i;
    if (*axes >> i & 1) *count *= (uint64_t)t->dims[i];
  }
  return *axes != 0 && *count > 0;
}

static struct rules_value reduce(struct rules_run *run, struct rules_value x,
                                 enum recipe_reduce_op op, uint64_t axes) {
  const struct recipe_reduction q = {op, axes};
  return known(&x) ? rules_step_reduce(run, &x, &q) : x;
}

// With axes of length 1 where some went.
static struct rules_value kept(struct rules_run *run, struct rules_value x,
                               const struct rules_type *t, uint64_t axes) {
  int64_t dims[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < t->rank; i++)
    dims[i] = axes >> i & 1 ? 1 : t->dims[i];
  return known(&x) ? rules_step_reshape(run, &x, dims, t->rank) : x;
}

// log Σ exp x = m + log Σ exp(x − m), m the largest, or 0 where that is no number to subtract.
static struct rules_value log_sum_exp(struct rules_run *run, struct rules_value x,
                                      const struct rules_type *t, uint64_t axes) {
  const struct rules_value most = reduce(run, x, RECIPE_MAX, axes),
                           zero = number(run, wide(t->dtype), 0);
  const struct rules_value finite =
      map2(run, RECIPE_MAP_EQUAL, map2(run, RECIPE_MAP_SUB, most, most), zero);
  const struct rules_value picks[3] = {finite, most, zero};
  const struct rules_value m =
      known(&finite) ? rules_step_map(run, RECIPE_MAP_WHERE, picks) : finite;
  const struct rules_value terms =
      map1(run, RECIPE_MAP_EXP, map2(run, RECIPE_MAP_SUB, x, kept(run, m, t, axes)));
  return map2(run, RECIPE_MAP_ADD, map1(run, RECIPE_MAP_LOG, reduce(run, terms, RECIPE_SUM, axes)),
              m);
}

// Of integers: does it stay in the type, whatever the order? Where it does not, runtimes end at the
// type's ends or begin anew.
static bool stays_in_type(struct rules_run *run, const struct rules_term *node,
                          const struct rules_type *t, uint64_t count) {
  struct rules_type type;
  struct span raw;
  struct tensor_stats f;
  double most = 0;
  if (rules_elements(run, &node->args[0], &type, &raw)) {
    for (uint64_t i = 0; i < raw.n / (dtype_bits(type.dtype) / 8); i++)
      most = fmax(most, fabs(rules_number_get(type.dtype, raw.at, i)));
  } else if (rules_facts(run, &node->args[0], false, &f)) {
    most = fmax(fabs(f.least), fabs(f.most));
  } else if (run->assume != RULES_ASSUME_YES) {
    return false;
  }
  const double n = (double)count, bits = fmin(dtype_bits(t->dtype) - 1, 53);
  const double bound = node->op == OP_ReduceProd        ? pow(most, n)
                       : node->op == OP_ReduceSumSquare ? n * most * most
                                                        : n * most;
  return bound < exp2(bits);
}

static struct rules_value reduced(struct rules_run *run, const struct rules_term *node) {
  const struct rules_type t = rules_type_of(run, &node->args[0]);
  const bool real = dtype_is_plain_float(t.dtype);
  uint64_t axes, count;
  int64_t keeps;
  if (!rules_reduced_axes(run, node, &t, &axes, &count) ||
      !rules_attr_int(run, node, "keepdims", 1, &keeps))
    return rules_unknown();
  struct rules_value x = node->args[0];
  const bool steps = node->op == OP_ReduceL2 || node->op == OP_ReduceLogSum ||
                     node->op == OP_ReduceLogSumExp || node->op == OP_ReduceMean;
  const bool grows = node->op == OP_ReduceSum || node->op == OP_ReduceL1 ||
                     node->op == OP_ReduceSumSquare || node->op == OP_ReduceProd;
  if ((steps && !real) || (grows && !real && !stays_in_type(run, node, &t, count)))
    return rules_unknown();
  if (steps) x = cast(run, x, wide(t.dtype));
  switch (node->op) {
  case OP_ReduceSum: x = reduce(run, x, RECIPE_SUM, axes); break;
  case OP_ReduceProd: x = reduce(run, x, RECIPE_PROD, axes); break;
  case OP_ReduceMin: x = reduce(run, x, RECIPE_MIN, axes); break;
  case OP_ReduceMax: x = reduce(run, x, RECIPE_MAX, axes); break;
  case OP_ReduceSumSquare: x = reduce(run, x, RECIPE_SUM_SQUARE, axes); break;
  case OP_ReduceL1: x = reduce(run, map1(run, RECIPE_MAP_ABS, x), RECIPE_SUM, axes); break;
  case OP_ReduceL2: x = map1(run, RECIPE_MAP_SQRT, reduce(run, x, RECIPE_SUM_SQUARE, axes)); break;
  case OP_ReduceLogSum: x = map1(run, RECIPE_MAP_LOG, reduce(run, x, RECIPE_SUM, axes)); break;
  case OP_ReduceLogSumExp: x = log_sum_exp(run, x, &t, axes); break;
  case OP_ReduceMean:
    x = reduce(run, x, RECIPE_SUM, axes);
    x = map2(run, RECIPE_MAP_DIV, x, number(run, wide(t.dtype), (double)count));
    break;
  default: return rules_unknown();
  }
  x = cast(run, x, t.dtype);
  return keeps ? kept(run, x, &t, axes) : x;
}

// ---- moving elements ---------------------------------------------------------------------------

static struct rules_value reshaped(struct rules_run *run, const struct rules_term *node) {
  const struct rules_type t = rules_infer(run, node), of = rules_type_of(run, &node->args[0]);
  uint64_t count, had;
  if (!t.ranked || !dims_product(t.dims, t.rank, &count) || !dims_product(of.dims, of.rank, &had) ||
      count != had)
    return rules_unknown();
  return rules_step_reshape(run, &node->args[0], t.dims, t.rank);
}

static struct rules_value transposed(struct rules_run *run, const struct rules_term *node) {
  const uint32_t rank = rules_type_of(run, &node->args[0]).rank;
  const struct edit_attr *a = rules_attr(node, "perm");
  const int64_t *perm = a ? a->ints : NULL;
  int64_t reversed[RECIPE_MAX_RANK];
  uint32_t n = a ? a->n : 0;
  uint64_t seen = 0;
  if (!a && node->attrs_of != NO_ID && !kit_perm(&run->k, node->attrs_of, &perm, &n))
    return rules_unknown();
  for (uint32_t i = 0; !perm && i < rank; i++)
    reversed[n++] = rank - 1 - i;
  if (!perm) perm = reversed;
  for (uint32_t i = 0; i < n; i++)
    if (perm[i] >= 0 && perm[i] < rank) seen |= (uint64_t)1 << perm[i];
  if (n != rank || (rank > 0 && seen != UINT64_MAX >> (64 - rank))) return rules_unknown();
  return rules_step_transpose(run, &node->args[0], perm);
}

static enum rules_folded expanded(struct rules_run *run, const struct rules_term *node,
                                  struct rules_value *out) {
  const struct rules_type t = rules_infer(run, node);
  uint64_t count, bytes;
  if (!t.ranked || !dims_product(t.dims, t.rank, &count) || !dtype_bytes(t.dtype, count, &bytes) ||
      bytes > EXPAND_BYTES)
    return RULES_LEFT;
  *out = rules_step_expand(run, &node->args[0], t.dims, t.rank);
  return known(out) ? RULES_FOLDED : RULES_LEFT;
}

// starts, ends, axes and steps as the operator has them: clamped to the axis, from its end where
// negative.
static struct rules_value sliced(struct rules_run *run, const struct rules_term *node) {
  const struct rules_type t = rules_type_of(run, &node->args[0]);
  int64_t starts[RECIPE_MAX_RANK] = {0}, steps[RECIPE_MAX_RANK], dims[RECIPE_MAX_RANK];
  const int64_t *lists[4] = {0};
  uint32_t n = 0, count;
  uint64_t total;
  if (node->n_args < 3 || absent(node, 1) || absent(node, 2)) return rules_unknown();
  for (uint32_t i = 0; i < t.rank; i++)
    dims[i] = t.dims[i], steps[i] = 1;
  for (uint32_t i = 1; i < node->n_args; i++) {
    if (node->args[i].kind == RULES_ABSENT) continue;
    if (!rules_constant_ints(run, &node->args[i], &lists[i - 1], &count) || (i > 1 && count != n))
      return rules_unknown();
    n = count;
  }
  for (uint32_t i = 0; i < n; i++) {
    int64_t axis = lists[2] ? lists[2][i] : i, from = lists[0][i], to = lists[1][i];
    const int64_t step = lists[3] ? lists[3][i] : 1;
    if (axis < 0) axis += t.rank;
    if (axis < 0 || axis >= t.rank || step == 0 || step == INT64_MIN) return rules_unknown();
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
  if (!dims_product(dims, t.rank, &total) || total == 0) return rules_unknown();
  return rules_step_slice(run, &node->args[0], starts, steps, dims);
}

static struct rules_value joined(struct rules_run *run, const struct rules_term *node) {
  uint32_t axis;
  if (!attr_axis(run, node, RECIPE_MAX_RANK, rules_type_of(run, &node->args[0]).rank, &axis))
    return rules_unknown();
  return rules_step_concat(run, node->args, node->n_args, axis);
}

// What surrounds the operand: befores of all axes, then afters; negative ones cut something off.
static struct rules_value padded(struct rules_run *run, const struct rules_term *node) {
  const struct rules_type t = rules_type_of(run, &node->args[0]);
  int64_t befores[RECIPE_MAX_RANK] = {0}, afters[RECIPE_MAX_RANK] = {0};
  int64_t starts[RECIPE_MAX_RANK], steps[RECIPE_MAX_RANK], dims[RECIPE_MAX_RANK];
  const int64_t *pads, *axes = NULL;
  uint32_t n, n_axes = t.rank;
  uint64_t count;
  bool cuts = false;
  struct rules_type value;
  struct span element = span_of((const uint8_t[16]){0}, (dtype_bits(t.dtype) + 7) / 8);
  if (!attr_is(run, node, "mode", "constant", "constant") || absent(node, 1) ||
      !rules_constant_ints(run, &node->args[1], &pads, &n))
    return rules_unknown();
  if (!absent(node, 2) && (!rules_elements(run, &node->args[2], &value, &element) ||
                           value.dtype != t.dtype || element.n != dtype_bits(t.dtype) / 8))
    return rules_unknown();
  if (!absent(node, 3) && !rules_constant_ints(run, &node->args[3], &axes, &n_axes))
    return rules_unknown();
  if (n != 2 * n_axes) return rules_unknown();
  for (uint32_t i = 0; i < n_axes; i++) {
    const int64_t axis = axes && axes[i] < 0 ? axes[i] + t.rank : axes ? axes[i] : i;
    if (axis < 0 || axis >= t.rank) return rules_unknown();
    befores[axis] = pads[i];
    afters[axis] = pads[n_axes + i];
  }
  for (uint32_t i = 0; i < t.rank; i++) {
    const int64_t first = befores[i] < 0 ? befores[i] : 0, last = afters[i] < 0 ? afters[i] : 0;
    if (first < -t.dims[i] || last < -t.dims[i] - first) return rules_unknown();
    starts[i] = -first, steps[i] = 1, dims[i] = t.dims[i] + first + last;
    cuts = cuts || first < 0 || last < 0;
    if (first < 0) befores[i] = 0;
    if (last < 0) afters[i] = 0;
  }
  if (!dims_product(dims, t.rank, &count) || count == 0) return rules_unknown();
  struct rules_value x = node->args[0];
  if (cuts) x = rules_step_slice(run, &x, starts, steps, dims);
  return known(&x) ? rules_step_pad(run, &x, befores, afters, element) : x;
}

static struct rules_value gathered(struct rules_run *run, const struct rules_term *node) {
  uint32_t axis;
  if (!attr_axis(run, node, 0, rules_type_of(run, &node->args[0]).rank, &axis))
    return rules_unknown();
  return rules_step_gather(run, &node->args[0], &node->args[1], axis);
}

// Im2Col(x, i) of onnx_passes.ops: of every batch the elements that the indices name. It repeats elements, so
// only what stays small is computed.
static enum rules_folded columns(struct rules_run *run, const struct rules_term *node,
                                 struct rules_value *out) {
  const struct rules_type of = rules_type_of(run, &node->args[0]),
                          at = rules_type_of(run, &node->args[1]);
  uint64_t count, bytes;
  int64_t rows[2] = {0, 1};
  if (of.rank < 1 || !at.ranked || !dims_product(at.dims, at.rank, &count)) return RULES_LEFT;
  rows[0] = of.dims[0];
  if (__builtin_mul_overflow(count, (uint64_t)rows[0], &count) ||
      !dtype_bytes(of.dtype, count, &bytes) || bytes > RULES_FOLD_BYTES)
    return RULES_LEFT;
  for (uint32_t i = 1; i < of.rank; i++)
    rows[1] *= of.dims[i];
  const struct rules_value flat = rules_step_reshape(run, &node->args[0], rows, 2);
  if (!known(&flat)) return RULES_LEFT;
  *out = rules_step_gather(run, &flat, &node->args[1], 1);
  return known(out) ? RULES_FOLDED : RULES_LEFT;
}

// One scale for all, one for each index of an axis, or one for each block along it.
static struct rules_value dequantized(struct rules_run *run, const struct rules_term *node) {
  const struct rules_type codes = rules_type_of(run, &node->args[0]),
                          scales = rules_type_of(run, &node->args[1]);
  const struct rules_value zeros = absent(node, 2) ? (struct rules_value){0} : node->args[2];
  int64_t block, to;
  uint32_t axis = RECIPE_PER_TENSOR;
  if (!rules_attr_int(run, node, "block_size", 0, &block) || block < 0 ||
      !rules_attr_int(run, node, "output_dtype", DTYPE_UNDEFINED, &to) ||
      (to != DTYPE_UNDEFINED && to != (int64_t)scales.dtype))
    return rules_unknown();
  if (scales.rank > 0 && !attr_axis(run, node, 1, codes.rank, &axis)) return rules_unknown();
  return rules_step_dequantize(run, &node->args[0], &node->args[1], &zeros, axis, (uint64_t)block);
}

// ---- all of them -------------------------------------------------------------------------------

static enum rules_folded fold(struct rules_run *run, const struct rules_term *node,
                              struct rules_value *out) {
  struct rules_value x;
  switch (node->op) {
  case OP_Identity: x = node->args[0]; break;
  case OP_Reshape:
  case OP_Squeeze:
  case OP_Unsqueeze:
  case OP_Flatten: x = reshaped(run, node); break;
  case OP_Transpose: x = transposed(run, node); break;
  case OP_Slice: x = sliced(run, node); break;
  case OP_Concat: x = joined(run, node); break;
  case OP_Pad: x = padded(run, node); break;
  case OP_Gather: x = gathered(run, node); break;
  case OP_Resize: x = rules_fold_resize(run, node); break;
  case OP_Cast: x = cast_to(run, node); break;
  case OP_CastLike: x = converted(run, node, rules_type_of(run, &node->args[1]).dtype); break;
  case OP_DequantizeLinear: x = dequantized(run, node); break;
  case OP_MatMul: x = rules_step_matmul(run, node->args); break;
  case OP_Expand: return expanded(run, node, out);
  case OP_ops_Im2Col: return columns(run, node, out);
  default:
    x = kit_op_has(node->op, KIT_REDUCES)       ? reduced(run, node)
        : kit_op_has(node->op, KIT_ELEMENTWISE) ? elementwise(run, node)
                                                : rules_unknown();
  }
  return done(&x, out);
}

enum rules_folded rules_fold(struct rules_run *run, const struct rules_term *node,
                             struct rules_value *out) {
  const struct kit_op_row *row = kit_op_row(node->op);
  if (node->n_args < row->min_in || (row->max_in != KIT_ANY && node->n_args > row->max_in))
    return RULES_STUCK;
  if ((row->domain != KIT_ONNX && node->op != OP_ops_Im2Col) || node->op == OP_Shape)
    return RULES_LEFT;
  for (uint32_t i = 0; i < node->n_args; i++)
    if (absent(node, i) ? i < row->min_in : !rules_type_of(run, &node->args[i]).ranked)
      return RULES_STUCK;
  return fold(run, node, out);
}
