// Does arithmetic over constants stay in the range of its type?
//
//   Mul(Mul(x, a), b)  ──▶  Mul(x, a · b)        a = 1e-30, b = 1e-20:  a · b is 0 in float32, and x · a · b need not be
//
// A rule that computes with constants in another order than the model does must not make a number of them that the type
// has no place for: infinite where the operands are finite, or one that falls below the normal numbers and so loses
// digits, or all of them. A divisor that is zero is no matter of range: rules ask for those themselves. What the model
// itself computes of constants (rules_constants.c) is what it is.
//
// float16 has few numbers below 1: products of small weights fall below its normal ones in most models. Its largest result
// has to be a normal one: what others lose is no more than what that one is rounded by.
//
// Of constants that are not at hand a stage is asked, but where the other factor lies between 2^-64 and 2^64: weights that
// such a factor takes out of the range would be out of all proportion.
#include "passes/rules/inside/rules_inside.h"

#include "kernels/map/kernels_map.h"

static double element(enum dtype t, const struct kernels_operand *in, uint64_t i) {
  return rules_number_get(t, in->at, in->stride ? i : 0);
}

static bool is_product(enum recipe_map_op op) {
  return op == RECIPE_MAP_MUL || op == RECIPE_MAP_DIV || op == RECIPE_MAP_RECIPROCAL;
}

// Is x times y exactly that, where all are finite? It is looked at with the powers of two taken away, so that nothing gets too small.
static bool is_product_of(double x, double y, double product) {
  int x_power, y_power;
  x = frexp(x, &x_power);
  y = frexp(y, &y_power);
  return x != 0 && fma(x, y, -(x * y)) == 0 && x * y == ldexp(product, -(x_power + y_power));
}

// Is the result of x and y one that the type has a place for?
static bool has_place(enum dtype t, enum recipe_map_op op, double x, double y, double r) {
  if (!isfinite(x) || !isfinite(y) || (op == RECIPE_MAP_DIV && y == 0)) return true;
  if (!isfinite(r)) return false;
  const double least = rules_number_least_normal(t);
  if (!is_product(op) || t == DTYPE_FLOAT16 || fabs(r) >= least || fabs(x) < least ||
      fabs(y) < least)
    return true;
  return op == RECIPE_MAP_MUL ? is_product_of(x, y, r) : is_product_of(r, y, x);
}

bool rules_range_kept(const struct rules_run *run, enum recipe_map_op op, enum dtype t,
                      const struct kernels_operand *in, const uint8_t *raw, uint64_t n) {
  double most = 0;
  bool any = false; // that is neither zero nor infinite by itself
  if (run->options->once || !dtype_is_plain_float(t) ||
      !(is_product(op) || op == RECIPE_MAP_ADD || op == RECIPE_MAP_SUB))
    return true;
  const bool one = op == RECIPE_MAP_RECIPROCAL; // 1 / x
  for (uint64_t i = 0; i < n; i++) {
    const double x = one ? 1 : element(t, &in[0], i), y = element(t, &in[one ? 0 : 1], i);
    const double r = rules_number_get(t, raw, i);
    if (!has_place(t, one ? RECIPE_MAP_DIV : op, x, y, r)) return false;
    any = any || (x != 0 && y != 0);
    most = fmax(most, fabs(r));
  }
  return t != DTYPE_FLOAT16 || !is_product(op) || !any || most >= rules_number_least_normal(t);
}

bool rules_range_of_sum(enum dtype t, double terms, double sum, double rounded) {
  if (!isfinite(rounded)) return !isfinite(sum) && isfinite(terms);
  return terms == 0 || terms >= (t == DTYPE_FLOAT16 ? 0x1p-24 : rules_number_least_normal(t));
}

// ---- of constants that are not at hand -------------------------------------------------------------

// Of all elements that are not zero: the least and the largest, without their signs. Unknown: no NaN and no infinity.
struct sizes {
  double least, most;
};

static bool sizes_at_hand(struct rules_run *run, const struct rules_value *v, struct sizes *s) {
  struct rules_type t;
  struct span raw;
  if (!rules_elements(run, v, &t, &raw)) return false;
  *s = (struct sizes){(double)INFINITY, 0};
  for (uint64_t i = 0; i < raw.n / (dtype_bits(t.dtype) / 8); i++) {
    const double x = fabs(rules_number_get(t.dtype, raw.at, i));
    if (x == 0) continue;
    s->least = fmin(s->least, x);
    s->most = fmax(s->most, x);
  }
  return true;
}

static bool sizes_of(struct rules_run *run, const struct rules_value *v, struct sizes *s) {
  struct tensor_stats f;
  if (sizes_at_hand(run, v, s)) return true;
  if (!rules_facts(run, v, false, &f)) {
    *s = (struct sizes){1, 1};
    return run->assume == RULES_ASSUME_YES;
  }
  *s = (struct sizes){f.finest, f.zeros == f.elements ? 0 : fmax(fabs(f.least), fabs(f.most))};
  return true;
}

static bool is_moderate(struct rules_run *run, const struct rules_value *v) {
  struct sizes s;
  return sizes_at_hand(run, v, &s) && (s.most == 0 || (s.least >= 0x1p-64 && s.most <= 0x1p64));
}

bool rules_range_keeps(struct rules_run *run, enum recipe_map_op op, enum dtype t,
                       const struct rules_value *of) {
  struct sizes x = {1, 1}, y;
  if (run->options->once || !dtype_is_plain_float(t) || !is_product(op)) return true;
  const bool one = op == RECIPE_MAP_RECIPROCAL;
  if (!one && (is_moderate(run, &of[0]) || is_moderate(run, &of[1]))) return true;
  if ((!one && !sizes_of(run, &of[0], &x)) || !sizes_of(run, &of[one ? 0 : 1], &y)) return false;
  if (x.most == 0 || y.most == 0) return true;
  const bool times = op == RECIPE_MAP_MUL;
  const double most = times ? x.most * y.most : x.most / y.least;
  const double least = times ? x.least * y.least : x.least / y.most;
  return most <= dtype_largest(t) &&
         (t == DTYPE_FLOAT16 ? most : least) >= rules_number_least_normal(t);
}
