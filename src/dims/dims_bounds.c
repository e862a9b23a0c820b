// Comparisons: a >= b if the difference is never negative; and Max and Min, which need them.
//
// A sum is never negative if its range says so. Otherwise one atom of it is given up, and what is
// left has to be never negative:
//
//   - Max(x, y)   - x and - y both         Max is one of them         so for + Min
//   + Max(x, y)   + x or + y               Max is not below either    so for - Min
//   - (N//m)      all times m, - N         N//m <= N/m
//   + (N//m)      all times m, + N - m + 1
//
// All are integers: m times the sum is above -m if the sum is never negative, and so is what is
// left after the last two. Each step may be taken DEEPEST times in a row, and a proof gives up
// after VISITS sums. Sums are made in buffers: a question leaves no expressions.
//
//   Max(Min(128, s), s) = s   since   s - Min(128, s)  ─▶  s - s >= 0
#include "dims/inside/dims_parts.h"

enum { DEEPEST = 5, VISITS = 100 };

struct goal {
  struct dims_sum s;
  uint32_t term, branch, branches;
  bool all; // branches: all are needed, or one
};

// The atom that a term is a multiple of, if it has no other factor.
static const struct dims_atom *atom_of(const struct dims *d, struct dims_term t) {
  const struct dims_product *p = &d->products[t.product];
  return p->n == 1 ? &d->atoms[d->factors[p->first]] : NULL;
}

// Which step is taken: the lower, the less it gives away. 0: none.
static uint32_t step_of(const struct dims *d, struct dims_term t) {
  const struct dims_atom *a = atom_of(d, t);
  int64_t m;
  if (!a) return 0;
  switch (a->kind) {
  case DIMS_MOST_OF: return t.coefficient < 0 ? 1 : 2;
  case DIMS_LEAST_OF: return t.coefficient > 0 ? 1 : 2;
  case DIMS_FLOOR:
  case DIMS_EXACT:
  case DIMS_TRUNC: return dims_is_number(d, a->b, &m) && m > 0 ? 3 : 0;
  default: return 0;
  }
}

static bool choose_step(const struct dims *d, struct goal *g) {
  uint32_t best = 0;
  for (uint32_t i = 0; i < g->s.n; i++) {
    const uint32_t step = step_of(d, g->s.of[i]);
    if (step == 0 || (best != 0 && best <= step)) continue;
    best = step;
    g->term = i;
  }
  if (best == 0) return false;
  g->all = best == 1;
  g->branch = 0;
  g->branches = best == 3 ? 1 : atom_of(d, g->s.of[g->term])->b;
  return true;
}

// What is left of a goal in its branch.
static bool take_step(struct dims *d, const struct goal *g, struct dims_sum *left) {
  const struct dims_term t = g->s.of[g->term];
  const struct dims_atom a = *atom_of(d, t);
  struct dims_sum part;
  dims_sum_number(left, g->s.constant);
  left->n = g->s.n - 1;
  memcpy(left->of, g->s.of, g->term * sizeof *left->of);
  memcpy(left->of + g->term, g->s.of + g->term + 1, (left->n - g->term) * sizeof *left->of);
  if (a.kind == DIMS_MOST_OF || a.kind == DIMS_LEAST_OF) {
    dims_sum_read(d, d->members[a.a + g->branch], &part);
    return dims_sum_add(d, left, t.coefficient, 0, &part);
  }
  const int64_t m = d->expressions[a.b].constant;
  struct dims_sum rest = *left;
  int64_t slack = a.kind == DIMS_EXACT ? 0 : m - 1;
  if (t.coefficient < 0 && a.kind == DIMS_FLOOR) slack = 0;
  if (t.coefficient > 0) slack = -slack;
  dims_sum_number(left, m - 1);
  dims_sum_read(d, a.a, &part);
  return !__builtin_add_overflow(part.constant, slack, &part.constant) &&
         dims_sum_add(d, left, m, 0, &rest) && dims_sum_add(d, left, t.coefficient, 0, &part);
}

// The factors that two products share.
static uint32_t shared_factors(struct dims *d, uint32_t p, uint32_t q) {
  const struct dims_product x = d->products[p], y = d->products[q];
  uint32_t both[DIMS_FACTORS], n = 0;
  for (uint32_t i = 0, j = 0; i < x.n && j < y.n;) {
    const uint32_t a = d->factors[x.first + i], b = d->factors[y.first + j];
    if (a == b) both[n++] = a;
    i += a <= b;
    j += b <= a;
  }
  return dims_product_of(d, both, n);
}

// What all terms have in common and is never negative is taken out: of b*s - s stays b - 1.
static void take_out_factors(struct dims *d, struct dims_sum *s) {
  uint32_t common = s->n > 0 && s->constant == 0 ? s->of[0].product : 0;
  for (uint32_t i = 1; i < s->n && common != 0; i++)
    common = shared_factors(d, common, s->of[i].product);
  if (common == 0 || d->products[common].known.range.least < 0) return;
  for (uint32_t i = 0; i < s->n; i++)
    s->of[i].product = dims_product_div(d, s->of[i].product, common);
  if (s->of[s->n - 1].product == 0) s->constant = s->of[--s->n].coefficient;
}

bool dims_never_negative(struct dims *d, const struct dims_sum *s) {
  struct goal goals[DEEPEST + 1];
  uint32_t depth = 0, visits = 0;
  if (dims_sum_range(d, s).least >= 0) return true;
  goals[0].s = *s;
  take_out_factors(d, &goals[0].s);
  if (dims_sum_range(d, &goals[0].s).least >= 0) return true;
  bool known = choose_step(d, &goals[0]), holds = false;
  if (!known) return false;
  // goals[depth] always has a branch to look at.
  for (;;) {
    struct goal *g = &goals[depth], *next = g + 1;
    if (++visits > VISITS) return false;
    known = true;
    if (!take_step(d, g, &next->s))
      holds = false;
    else if (dims_sum_range(d, &next->s).least >= 0)
      holds = true;
    else if (depth + 1 < DEEPEST && choose_step(d, next))
      known = false;
    else
      holds = false;
    if (!known) {
      depth++;
      continue;
    }
    // Up to the first goal that this does not settle.
    while (goals[depth].all != holds || ++goals[depth].branch == goals[depth].branches) {
      if (depth == 0) return holds;
      depth--;
    }
  }
}

// ---- answers -----------------------------------------------------------------------------------------

static bool has_steps(const struct dims *d, const struct dims_sum *s) {
  for (uint32_t i = 0; i < s->n; i++)
    if (step_of(d, s->of[i]) != 0) return true;
  return false;
}

// 2n + 1 is never 0.
static bool never_zero_by_remainder(const struct dims_sum *s) {
  const uint64_t g = dims_common_factor(s, 0, false);
  return g > 1 && dims_common_factor(s, g, true) != g;
}

// s = -s - 1: never negative if s always was.
static bool complement(struct dims *d, struct dims_sum *s) {
  const struct dims_sum x = *s;
  dims_sum_number(s, -1);
  return dims_sum_add(d, s, -1, 0, &x);
}

static bool always_negative(struct dims *d, const struct dims_sum *s) {
  struct dims_sum other = *s;
  return complement(d, &other) && dims_never_negative(d, &other);
}

static enum dims_answer is_zero(struct dims *d, const struct dims_sum *s) {
  const struct dims_range r = dims_sum_range(d, s);
  if (s->n == 0) return s->constant == 0 ? DIMS_YES : DIMS_NO;
  if (r.least > 0 || r.most < 0 || never_zero_by_remainder(s)) return DIMS_NO;
  if (!has_steps(d, s)) return DIMS_MAYBE;
  struct dims_sum below = *s, above = *s;
  if (__builtin_sub_overflow(s->constant, 1, &below.constant) ||
      __builtin_add_overflow(s->constant, 1, &above.constant))
    return DIMS_MAYBE;
  if (dims_never_negative(d, &below) || always_negative(d, s)) return DIMS_NO;
  return dims_never_negative(d, s) && always_negative(d, &below) ? DIMS_YES : DIMS_MAYBE;
}

enum dims_answer dims_compare(struct dims *d, enum dims_op op, dim_id a, dim_id b) {
  struct dims_sum s, x;
  if (a == b) return DIMS_YES;
  if (op == DIMS_EQUAL && a > b) return dims_equal(d, b, a);
  dims_sum_read(d, a, &s);
  dims_sum_read(d, b, &x);
  if (!dims_sum_add(d, &s, -1, 0, &x)) {
    const struct dims_range r = d->expressions[a].known.range, q = d->expressions[b].known.range;
    if (r.most < q.least) return DIMS_NO;
    if (op == DIMS_EQUAL) return r.least > q.most ? DIMS_NO : DIMS_MAYBE;
    return r.least >= q.most ? DIMS_YES : DIMS_MAYBE;
  }
  dims_sum_settle(d, &s);
  if (op == DIMS_EQUAL) return is_zero(d, &s);
  if (dims_never_negative(d, &s)) return DIMS_YES;
  return always_negative(d, &s) ? DIMS_NO : DIMS_MAYBE;
}

int64_t dims_least(struct dims *d, dim_id e) {
  if (e == NO_ID) return INT64_MIN;
  e = dims_find(d, e);
  int64_t least = d->expressions[e].known.range.least;
  struct dims_sum s;
  dims_sum_read(d, e, &s);
  if (!has_steps(d, &s)) return least;
  // Bounds that callers ask for, which steps may prove where the range does not.
  while (least < 2) {
    const int64_t more = least < 0 ? 0 : least + 1;
    if (dims_at_least(d, e, dims_number(d, more)) != DIMS_YES) break;
    least = more;
  }
  return least;
}

int64_t dims_most(struct dims *d, dim_id e) {
  return e == NO_ID ? INT64_MAX : d->expressions[dims_find(d, e)].known.range.most;
}

// ---- Max and Min ---------------------------------------------------------------------------------------

static uint32_t read_members(const struct dims *d, enum dims_kind kind, dim_id e, dim_id *out) {
  const uint32_t atom = dims_lone_atom(d, e);
  if (atom == NO_ID || d->atoms[atom].kind != kind) {
    *out = e;
    return 1;
  }
  const struct dims_atom *a = &d->atoms[atom];
  memcpy(out, d->members + a->a, a->b * sizeof *out);
  return a->b;
}

// Keeps those of the list that x does not make needless; true if one makes x needless.
static bool drop_needless(struct dims *d, enum dims_kind kind, dim_id *of, uint32_t *n, dim_id x) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < *n; i++) {
    const bool max = kind == DIMS_MOST_OF;
    if (dims_at_least(d, max ? of[i] : x, max ? x : of[i]) == DIMS_YES) return true;
  }
  for (uint32_t i = 0; i < *n; i++) {
    const bool max = kind == DIMS_MOST_OF;
    if (dims_at_least(d, max ? x : of[i], max ? of[i] : x) != DIMS_YES) of[kept++] = of[i];
  }
  *n = kept;
  return false;
}

dim_id dims_make_choice(struct dims *d, enum dims_op op, dim_id a, dim_id b) {
  const enum dims_kind kind = op == DIMS_MAX ? DIMS_MOST_OF : DIMS_LEAST_OF;
  dim_id of[2 * DIMS_MEMBERS], others[DIMS_MEMBERS];
  if (a == b) return a;
  if (a > b) return dims_do(d, op, b, a);
  uint32_t n = read_members(d, kind, a, of);
  const uint32_t n_others = read_members(d, kind, b, others);
  for (uint32_t i = 0; i < n_others; i++)
    if (!drop_needless(d, kind, of, &n, others[i])) of[n++] = others[i];
  if (n == 1) return of[0];
  const dim_id e = dims_choice(d, kind, of, n);
  if (e != NO_ID) return e;
  const struct dims_range r = d->expressions[a].known.range, q = d->expressions[b].known.range;
  return dims_opaque(d, op, a, b, op == DIMS_MAX ? dims_range_max(r, q) : dims_range_min(r, q));
}
