// algebraic/AbsorbSiluIntoComparison: comparisons of x * Sigmoid(x) with constants as comparisons of x.
//
//            f(x) = x / (1 + exp(-x))            c >= 0         f(x) >= c  =  x >= b
//   0 ───╮              ╱                        fmin < c < 0   f(x) >= c  =  x <= a or x >= b  =  not (x >= a+ xor x >= b)
//        ╰──╮ a      b ╱                         c <= fmin      always: a+ = b = infinity
//           ╰─╮____╱ ── fmin at x0
//
// f falls up to x0 and rises behind it. a is the last number that f takes to c or more on the left, a+ the type's next one;
// b the first on the right. Both are found by bisection in double, to the last bit, and rounded so that the comparison
// stays on its side. Where runtimes round f otherwise, x that lie next to a or b are on the other side. The other
// comparisons are this one, turned round or with the next number above c.
//
// x * Sigmoid(α * x) is the same curve, smaller by α in both directions: Swish, and what is left of Silu where a factor of x
// went elsewhere.
#include "passes/kit/dead_ends.h"
#include "passes/thresholds/inside/thresholds.h"

// Of Silu: x0, and f there, -W(1/e).
static const double lowest_at = -1.2784645427610738, lowest = -0.27846454276107379;

static double swish(double x, double alpha) {
  return x / (1 + exp(-alpha * x));
}

// ---- the inverse -------------------------------------------------------------------------------

// Of ends of which f takes one below c and the other not: the latter, brought next to the former.
static double meet(double below, double reached, double c, double alpha) {
  for (;;) {
    const double middle = below + (reached - below) / 2;
    if (middle == below || middle == reached) return reached;
    if (swish(middle, alpha) >= c)
      reached = middle;
    else
      below = middle;
  }
}

// The least number of the type from which on f is c or more.
static double right_of(enum dtype dtype, double c, double alpha) {
  if (isinf(c) || c == 0) return fabs(c);
  return stairs_at_least(dtype, meet(lowest_at / alpha, fmax(c, 0) + 1 / alpha, c, alpha));
}

// The first number of the type behind those on the left that f takes to c or more.
static double left_of(enum dtype dtype, double c, double alpha) {
  return stairs_above(dtype, meet(lowest_at / alpha, -1100 / alpha, c, alpha));
}

// ---- matching ----------------------------------------------------------------------------------

// Is y the product of x and one number above 0, which is no reason for it to have other dims?
static bool is_scaled(struct kit *k, uint32_t y, uint32_t x, double *by) {
  const uint32_t node = kit_maker(k, y);
  *by = 1;
  if (y == x) return true;
  for (uint32_t i = 0; i < 2 && kit_op(k, node) == OP_Mul; i++)
    if (kit_in(k, node, i) == x && kit_const_scalar(k, kit_in(k, node, 1 - i), by))
      return kit_broadcasts(k, kit_in(k, node, 1 - i), x);
  return false;
}

// x and α, where the value is x * Sigmoid(α * x); else NO_ID.
static uint32_t swish_of(struct kit *k, uint32_t value, double *alpha) {
  const uint32_t node = kit_maker(k, value);
  const enum op op = kit_op(k, node);
  float of_swish = 1;
  uint32_t x = NO_ID;
  if (op == OP_ops_Silu || op == OP_ops_Swish || op == OP_Swish) {
    if (op != OP_ops_Silu && !kit_attr_float(k, node, "alpha", 1, &of_swish)) return NO_ID;
    *alpha = (double)of_swish;
    x = kit_in(k, node, 0);
  }
  for (uint32_t i = 0; i < 2 && op == OP_Mul && x == NO_ID; i++) {
    const uint32_t gate = kit_maker(k, kit_in(k, node, 1 - i));
    if (kit_op(k, gate) == OP_Sigmoid &&
        is_scaled(k, kit_in(k, gate, 0), kit_in(k, node, i), alpha))
      x = kit_in(k, node, i);
  }
  return *alpha >= 1e-30 && *alpha <= 1e30 ? x : NO_ID;
}

// f(x) >= c, or `turned` its opposite.
struct comparison {
  uint32_t x, constant;
  double alpha;
  struct stairs_array c;
  bool turned, risen; // risen: all c are 0 or more
};

static const char *read_comparison(struct stairs *s, uint32_t node, struct comparison *m) {
  struct kit *k = &s->k;
  const enum op op = kit_op(k, node);
  m->x = swish_of(k, kit_in(k, node, 0), &m->alpha);
  const bool right = m->x != NO_ID; // c is the right operand
  if (!right) m->x = swish_of(k, kit_in(k, node, 1), &m->alpha);
  if (m->x == NO_ID) return "not_constant";
  m->constant = kit_in(k, node, right);
  const char *why = stairs_read(s, m->constant, &m->c);
  if (!why && !dtype_is_plain_float(m->c.dtype)) why = "dtype";
  const bool equal = op == OP_GreaterOrEqual || op == OP_LessOrEqual;
  m->turned = (op == OP_Less || op == OP_LessOrEqual) == right;
  m->risen = true;
  for (uint64_t i = 0; !why && i < m->c.count; i++) {
    if (isnan(m->c.at[i])) why = "nan";
    if (equal == m->turned) m->c.at[i] = stairs_above(m->c.dtype, m->c.at[i]); // f > c, f <= c
    m->risen = m->risen && m->c.at[i] >= 0;
  }
  return why;
}

// ---- the pass ----------------------------------------------------------------------------------

static void absorb(struct stairs *s, uint32_t node, const struct comparison *m) {
  struct kit *k = &s->k;
  const uint32_t y = kit_out(k, node, 0);
  struct stairs_array a = m->c, b = m->c;
  a.at = arena_alloc(&s->room, a.count * sizeof *a.at);
  b.at = arena_alloc(&s->room, b.count * sizeof *b.at);
  for (uint64_t i = 0; i < a.count; i++) {
    const double c = m->c.at[i];
    const bool always = c <= lowest / m->alpha;
    a.at[i] = c >= 0   ? -(double)INFINITY
              : always ? (double)INFINITY
                       : left_of(a.dtype, c, m->alpha);
    b.at[i] = always ? (double)INFINITY : right_of(b.dtype, c, m->alpha);
  }
  const uint32_t right = stairs_write(s, "right", &b);
  if (m->risen) {
    kit_replace(k, node, m->turned ? OP_Less : OP_GreaterOrEqual, KIT_IN(m->x, right));
    return;
  }
  const uint32_t left = stairs_write(s, "left", &a);
  const uint32_t behind_a = kit_make(k, OP_GreaterOrEqual, KIT_IN(m->x, left)),
                 behind_b = kit_make(k, OP_GreaterOrEqual, KIT_IN(m->x, right));
  kit_note_like(k, behind_a, y);
  kit_note_like(k, behind_b, y);
  if (m->turned) {
    kit_replace(k, node, OP_Xor, KIT_IN(behind_a, behind_b));
    return;
  }
  const uint32_t between = kit_make(k, OP_Xor, KIT_IN(behind_a, behind_b));
  kit_note_like(k, between, y);
  kit_replace(k, node, OP_Not, KIT_IN(between));
}

static void visit(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct comparison m = {.alpha = 1};
  const enum op op = kit_op(k, node);
  uint32_t tensor;
  if (op != OP_GreaterOrEqual && op != OP_LessOrEqual && op != OP_Less && op != OP_Greater) return;
  if (kit_opset(k, k->m->nodes[node].graph) < 12 || kit_out(k, node, 0) == NO_ID) return;
  const char *why = read_comparison(s, node, &m);
  if (stairs_skips(s, node, why)) return;
  if (kit_constant(k, m.x, &tensor) || kit_may_be_left_out(k->m, m.x) ||
      !kit_available(k, m.x, k->m->nodes[node].graph, node) || !stairs_may(s, EXACTNESS_FINITE))
    return;
  const uint32_t value = kit_in(k, node, m.constant == kit_in(k, node, 0));
  const uint32_t made = kit_maker(k, value);
  kit_begin(k, node, "silu");
  absorb(s, node, &m);
  kit_sweep(k, made);
  if (!(k->m->values[m.constant].flags & VALUE_DEAD)) dead_ends_drop(k->e, m.constant);
}

const struct pass thresholds_silu = {
    .name = "algebraic/AbsorbSiluIntoComparison",
    .summary = "compare the input of Silu instead of its output",
    .about = "Replaces comparisons of x * Sigmoid(x), of Silu and of Swish with constants by "
             "comparisons of x: one comparison if the constants are 0 or more, otherwise two and "
             "an Xor, because Silu falls before it rises.",
    .needs = "constants of float types of at most 2^18 elements, none of them NaN",
    .promises = "the same results unless a comparison is so close that rounding decides it",
    .exactness = EXACTNESS_FINITE,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = visit,
};
