// Quotients: rounded down, exact, toward zero.
//
// By a number m > 1, until nothing changes (c: coefficients and constant, R: a sum):
//
//   1  what m divides leaves           (5t - 1)//2      = 2t - 1 + (t + 1)//2      0 <= c < m then
//   2  a common factor                 (4t + 3)//6      = (2t + 1)//3
//   3  0 <= rest < m                   (Min(t, 7))//8   = 0
//   4  a quotient in a quotient        ((t + 1)//2)//2  = (t + 1)//4
//
// An exact quotient takes 1 and 2 (with signs kept: what is left of -t is -t), and the sign leaves
// so that its first coefficient is positive. By other divisors: what divides without remainder is
// divided, else the pair is an atom. All others are made of these: rounded up is -((-a)//b), or by
// a number (a + m - 1)//m, and toward zero is rounded down or up where the sign is known.
#include "dims/inside/dims_parts.h"

enum { ROUNDS = 64 };

static dim_id number(struct dims *d, int64_t n) {
  return dims_number(d, n);
}

static int64_t remainder_of(int64_t a, int64_t m) {
  return a % m < 0 ? a % m + m : a % m;
}

// Takes the multiples of m out of the constant and puts factor times what they are divided by m
// into q.
static bool take_from_constant(struct dims *d, struct dims_sum *s, int64_t m, int64_t factor,
                               struct dims_sum *q) {
  const struct dims_sum multiple = {.constant = dims_floor_of(s->constant, m)};
  s->constant = remainder_of(s->constant, m);
  return dims_sum_add(d, q, factor, 0, &multiple);
}

// The same of the terms: rounded down, so that what stays is positive, or toward zero.
static bool take_from_terms(struct dims *d, struct dims_sum *s, int64_t m, bool down,
                            int64_t factor, struct dims_sum *q) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    struct dims_term t = s->of[i];
    const struct dims_sum multiple = {.constant = down ? dims_floor_of(t.coefficient, m)
                                                       : t.coefficient / m};
    if (!dims_sum_add(d, q, factor, t.product, &multiple)) return false;
    t.coefficient = down ? remainder_of(t.coefficient, m) : t.coefficient % m;
    if (t.coefficient != 0) s->of[kept++] = t;
  }
  s->n = kept;
  return true;
}

// The term that is a quotient of the largest divisor, once, and nothing else; s->n: none.
static uint32_t inner_quotient(const struct dims *d, const struct dims_sum *s, int64_t *divisor) {
  uint32_t best = s->n;
  *divisor = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const struct dims_product *p = &d->products[s->of[i].product];
    if (s->of[i].coefficient != 1 || p->n != 1) continue;
    const struct dims_atom *a = &d->atoms[d->factors[p->first]];
    int64_t m;
    if (a->kind != DIMS_FLOOR || !dims_is_number(d, a->b, &m) || m <= *divisor) continue;
    best = i;
    *divisor = m;
  }
  return best;
}

// Rule 4. False: there is none, or it would be past a limit; nothing is changed then.
static bool open_inner(struct dims *d, struct dims_sum *s, int64_t *m) {
  int64_t inner, product;
  const uint32_t i = inner_quotient(d, s, &inner);
  if (i == s->n || __builtin_mul_overflow(inner, *m, &product)) return false;
  const uint32_t atom = d->factors[d->products[s->of[i].product].first];
  struct dims_sum rest = *s, all;
  rest.n--;
  memmove(rest.of + i, rest.of + i + 1, (rest.n - i) * sizeof *rest.of);
  dims_sum_read(d, d->atoms[atom].a, &all);
  if (!dims_sum_add(d, &all, inner, 0, &rest)) return false;
  *s = all;
  *m = product;
  return true;
}

// 0 <= s < m?
static bool lies_below(struct dims *d, const struct dims_sum *s, int64_t m) {
  struct dims_sum room;
  dims_sum_number(&room, m - 1);
  return dims_sum_add(d, &room, -1, 0, s) && dims_never_negative(d, &room) &&
         dims_never_negative(d, s);
}

// q + factor * e
static dim_id add_rest(struct dims *d, struct dims_sum *q, int64_t factor, dim_id e) {
  struct dims_sum s;
  dims_sum_read(d, e, &s);
  return dims_sum_add(d, q, factor, 0, &s) ? dims_sum_write(d, q) : NO_ID;
}

// The atom of what is left of a quotient by a number. NO_ID: past a limit.
static dim_id quotient_atom(struct dims *d, enum dims_kind kind, struct dims_sum *s, int64_t m) {
  const enum dims_op op = kind == DIMS_FLOOR   ? DIMS_FLOOR_DIV
                          : kind == DIMS_EXACT ? DIMS_EXACT_DIV
                                               : DIMS_TRUNC_DIV;
  const dim_id a = dims_sum_write(d, s), b = number(d, m);
  if (a == NO_ID) return NO_ID;
  const struct dims_range r =
      dims_range_quotient(kind, d->expressions[a].known.range, d->expressions[b].known.range);
  const dim_id e = dims_quotient(d, kind, a, b, r);
  return e != NO_ID ? e : dims_opaque(d, op, a, b, r);
}

// m > 1
static dim_id floor_by(struct dims *d, dim_id a, int64_t m) {
  struct dims_sum s, q;
  dims_sum_read(d, a, &s);
  dims_sum_number(&q, 0);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    if (!take_from_constant(d, &s, m, 1, &q) || !take_from_terms(d, &s, m, true, 1, &q))
      return NO_ID;
    const int64_t g = (int64_t)dims_common_factor(&s, (uint64_t)m, false);
    dims_sum_divide_by(&s, g);
    m /= g;
    if (s.n == 0 || lies_below(d, &s, m)) return dims_sum_write(d, &q);
    const bool opened = open_inner(d, &s, &m);
    if (!dims_sum_settle(d, &s) && !opened) break;
  }
  const dim_id e = quotient_atom(d, DIMS_FLOOR, &s, m);
  return e == NO_ID ? NO_ID : add_rest(d, &q, 1, e);
}

static bool negate(struct dims *d, struct dims_sum *s) {
  const struct dims_sum x = *s;
  dims_sum_number(s, 0);
  return dims_sum_add(d, s, -1, 0, &x);
}

// m > 1. Sets *wrong if there is a remainder always.
static dim_id exact_by(struct dims *d, dim_id a, int64_t m, bool *wrong) {
  struct dims_sum s, q;
  int64_t sign = 1;
  dims_sum_read(d, a, &s);
  dims_sum_number(&q, 0);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    if (!take_from_terms(d, &s, m, false, sign, &q)) return NO_ID;
    if (s.n > 0 && s.of[0].coefficient < 0) {
      if (!negate(d, &s)) return NO_ID;
      sign = -sign;
    }
    if (!take_from_constant(d, &s, m, sign, &q)) return NO_ID;
    const int64_t g = (int64_t)dims_common_factor(&s, (uint64_t)m, false);
    *wrong = s.constant % g != 0;
    if (*wrong) return NO_ID;
    dims_sum_divide_by(&s, g);
    m /= g;
    if (s.n == 0) return dims_sum_write(d, &q);
    if (!dims_sum_settle(d, &s)) break;
  }
  const dim_id e = quotient_atom(d, DIMS_EXACT, &s, m);
  return e == NO_ID ? NO_ID : add_rest(d, &q, sign, e);
}

// m > 1
static dim_id trunc_by(struct dims *d, dim_id a, int64_t m) {
  struct dims_sum s;
  bool negative = false;
  dims_sum_read(d, a, &s);
  do {
    const int64_t g = (int64_t)dims_common_factor(&s, (uint64_t)m, true);
    dims_sum_divide_by(&s, g);
    m /= g;
    if (s.n > 0 && s.of[0].coefficient < 0) {
      if (!negate(d, &s)) return NO_ID;
      negative = !negative;
    }
  } while (dims_sum_settle(d, &s));
  struct dims_sum opposite = s;
  dim_id e;
  if (m == 1)
    e = dims_sum_write(d, &s);
  else if (dims_never_negative(d, &s))
    e = dims_floor_div(d, dims_sum_write(d, &s), number(d, m));
  else if (negate(d, &opposite) && dims_never_negative(d, &opposite))
    e = dims_neg(d, dims_floor_div(d, dims_sum_write(d, &opposite), number(d, m)));
  else
    e = quotient_atom(d, DIMS_TRUNC, &s, m);
  return negative && e != NO_ID ? dims_neg(d, e) : e;
}

static bool divides(struct dims *d, dim_id a, dim_id b, dim_id *q) {
  struct dims_sum x, y, s;
  dims_sum_read(d, a, &x);
  dims_sum_read(d, b, &y);
  if (!dims_sum_divide(d, &x, &y, &s)) return false;
  *q = dims_sum_write(d, &s);
  return *q != NO_ID;
}

static bool is_below(struct dims *d, dim_id a, dim_id b) {
  return dims_at_least(d, a, number(d, 0)) == DIMS_YES && dims_at_least(d, a, b) == DIMS_NO;
}

// By what is no number. NO_ID: past a limit.
static dim_id by_expression(struct dims *d, enum dims_op op, dim_id a, dim_id b) {
  dim_id q;
  if (divides(d, a, b, &q)) return q;
  if (op == DIMS_CEIL_DIV) return dims_neg(d, dims_floor_div(d, dims_neg(d, a), b));
  enum dims_kind kind = op == DIMS_EXACT_DIV   ? DIMS_EXACT
                        : op == DIMS_TRUNC_DIV ? DIMS_TRUNC
                                               : DIMS_FLOOR;
  if (kind != DIMS_EXACT && is_below(d, a, b)) return number(d, 0);
  if (kind == DIMS_TRUNC && dims_least(d, a) >= 0 && dims_least(d, b) > 0)
    return dims_floor_div(d, a, b);
  return dims_quotient(
      d, kind, a, b,
      dims_range_quotient(kind, d->expressions[a].known.range, d->expressions[b].known.range));
}

static dim_id of_numbers(struct dims *d, enum dims_op op, int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return NO_ID;
  const int64_t q = a / b, r = a % b;
  if (op == DIMS_EXACT_DIV && r != 0) return NO_ID;
  if (op == DIMS_FLOOR_DIV && r != 0 && (r < 0) != (b < 0)) return number(d, q - 1);
  if (op == DIMS_CEIL_DIV && r != 0 && (r < 0) == (b < 0)) return number(d, q + 1);
  return number(d, q);
}

// Sets *wrong if there is no such quotient.
static dim_id by_number(struct dims *d, enum dims_op op, dim_id a, int64_t m, bool *wrong) {
  *wrong = m == 0;
  if (m == 0 || m == INT64_MIN) return NO_ID;
  if (m == 1) return a;
  if (m == -1) return dims_neg(d, a);
  if (m < 0) return dims_do(d, op, dims_neg(d, a), number(d, -m));
  switch (op) {
  case DIMS_CEIL_DIV: return dims_floor_div(d, dims_add(d, a, number(d, m - 1)), number(d, m));
  case DIMS_EXACT_DIV: return exact_by(d, a, m, wrong);
  case DIMS_TRUNC_DIV: return trunc_by(d, a, m);
  default: return floor_by(d, a, m);
  }
}

dim_id dims_make_quotient(struct dims *d, enum dims_op op, dim_id a, dim_id b) {
  int64_t n, m;
  bool wrong = false;
  const bool by = dims_is_number(d, b, &m);
  if (by && dims_is_number(d, a, &n)) return of_numbers(d, op, n, m);
  const dim_id e = by ? by_number(d, op, a, m, &wrong) : by_expression(d, op, a, b);
  if (e != NO_ID || wrong) return e;
  const enum dims_kind kind = op == DIMS_EXACT_DIV   ? DIMS_EXACT
                              : op == DIMS_TRUNC_DIV ? DIMS_TRUNC
                                                     : DIMS_FLOOR;
  struct dims_range r =
      dims_range_quotient(kind, d->expressions[a].known.range, d->expressions[b].known.range);
  if (op == DIMS_CEIL_DIV) r = dims_range_add(r, (struct dims_range){0, 1});
  return dims_opaque(d, op, a, b, r);
}
