// Sums of products: made in a buffer, settled, and written as a row.
//
// Terms are in a fixed order of products: of more factors first, then by the oldest atom in which
// two differ. It is kept by multiplication (p before q: pr before qr), which is what division by
// the first term needs: the first term of a product of sums is the product of their first terms.
//
// Every step checks for overflow and for the number of terms before anything is changed; a sum
// past a limit is no sum, and its operation becomes an opaque atom, with bounds from those of its
// operands.
#include "dims/inside/dims_parts.h"

enum { SETTLE_MOST = 32, DIVIDE_MOST = 128 }; // steps

// ---- products --------------------------------------------------------------------------------------

// Descending: a product of more atoms first, then one whose atoms are older.
static int order_of(const struct dims *d, uint32_t p, uint32_t q) {
  const struct dims_product *x = &d->products[p], *y = &d->products[q];
  if (p == q) return 0;
  if (x->n != y->n) return x->n > y->n ? -1 : 1;
  for (uint32_t i = 0; i < x->n; i++) {
    const uint32_t a = d->factors[x->first + i], b = d->factors[y->first + i];
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

// NO_ID: too many factors.
static uint32_t product_mul(struct dims *d, uint32_t p, uint32_t q) {
  const struct dims_product x = d->products[p], y = d->products[q];
  uint32_t all[2 * DIMS_FACTORS], n = 0, i = 0, j = 0;
  if (p == 0) return q;
  if (q == 0) return p;
  while (i < x.n || j < y.n) {
    const bool left = j == y.n || (i < x.n && d->factors[x.first + i] <= d->factors[y.first + j]);
    all[n++] = d->factors[left ? x.first + i++ : y.first + j++];
  }
  return dims_product_of(d, all, n);
}

uint32_t dims_product_div(struct dims *d, uint32_t p, uint32_t q) {
  const struct dims_product x = d->products[p], y = d->products[q];
  uint32_t rest[DIMS_FACTORS], n = 0, j = 0;
  for (uint32_t i = 0; i < x.n; i++) {
    const uint32_t atom = d->factors[x.first + i];
    if (j < y.n && d->factors[y.first + j] == atom)
      j++;
    else
      rest[n++] = atom;
  }
  return j == y.n ? dims_product_of(d, rest, n) : NO_ID;
}

// ---- addition --------------------------------------------------------------------------------------

void dims_sum_read(const struct dims *d, dim_id e, struct dims_sum *s) {
  const struct dims_expression *x = &d->expressions[e];
  s->constant = x->constant;
  s->n = x->n;
  if (x->n > 0) memcpy(s->of, d->terms + x->first, x->n * sizeof *s->of);
}

void dims_sum_number(struct dims_sum *s, int64_t n) {
  s->constant = n;
  s->n = 0;
}

static void copy(struct dims_sum *to, const struct dims_sum *from) {
  to->constant = from->constant;
  to->n = from->n;
  memcpy(to->of, from->of, from->n * sizeof *from->of);
}

// s += x, terms merged into `out`.
static bool merge(const struct dims *d, const struct dims_sum *s, const struct dims_sum *x,
                  struct dims_sum *out) {
  uint32_t i = 0, j = 0;
  out->n = 0;
  if (__builtin_add_overflow(s->constant, x->constant, &out->constant)) return false;
  while (i < s->n || j < x->n) {
    const int order = i == s->n   ? 1
                      : j == x->n ? -1
                                  : order_of(d, s->of[i].product, x->of[j].product);
    struct dims_term t = order <= 0 ? s->of[i++] : x->of[j++];
    if (order == 0 && __builtin_add_overflow(t.coefficient, x->of[j++].coefficient, &t.coefficient))
      return false;
    if (t.coefficient == 0) continue;
    if (out->n == DIMS_TERMS) return false;
    out->of[out->n++] = t;
  }
  return true;
}

// out = factor * product * x. Terms keep their order; a constant becomes a term, the last.
static bool multiply(struct dims *d, int64_t factor, uint32_t product, const struct dims_sum *x,
                     struct dims_sum *out) {
  dims_sum_number(out, 0);
  for (uint32_t i = 0; i < x->n; i++) {
    const uint32_t p = product_mul(d, x->of[i].product, product);
    struct dims_term *t = &out->of[out->n++];
    t->product = p;
    if (p == NO_ID || __builtin_mul_overflow(x->of[i].coefficient, factor, &t->coefficient))
      return false;
  }
  int64_t constant;
  if (__builtin_mul_overflow(x->constant, factor, &constant)) return false;
  if (product == 0) {
    out->constant = constant;
  } else if (constant != 0) {
    if (out->n == DIMS_TERMS) return false;
    out->of[out->n++] = (struct dims_term){constant, product};
  }
  return true;
}

bool dims_sum_add(struct dims *d, struct dims_sum *s, int64_t factor, uint32_t product,
                  const struct dims_sum *x) {
  struct dims_sum scaled, sum;
  if (factor == 0) return true;
  const bool as_it_is = factor == 1 && product == 0;
  if (!as_it_is && !multiply(d, factor, product, x, &scaled)) return false;
  if (!merge(d, s, as_it_is ? x : &scaled, &sum)) return false;
  copy(s, &sum);
  return true;
}

static uint64_t gcd(uint64_t a, int64_t b) {
  uint64_t x = b < 0 ? -(uint64_t)b : (uint64_t)b;
  while (x != 0) {
    const uint64_t rest = a % x;
    a = x;
    x = rest;
  }
  return a;
}

uint64_t dims_common_factor(const struct dims_sum *s, uint64_t g, bool with_constant) {
  for (uint32_t i = 0; i < s->n; i++)
    g = gcd(g, s->of[i].coefficient);
  return with_constant ? gcd(g, s->constant) : g;
}

void dims_sum_divide_by(struct dims_sum *s, int64_t g) {
  for (uint32_t i = 0; i < s->n; i++)
    s->of[i].coefficient /= g;
  s->constant = dims_floor_of(s->constant, g);
}

// ---- what cancels ------------------------------------------------------------------------------------

// Is the term coefficient * rest * D * exact(N, D)? D is a number or one term here. Gives what
// remains as coefficient and rest, and N.
static bool cancels(struct dims *d, struct dims_term t, int64_t *coefficient, uint32_t *rest,
                    dim_id *of) {
  const struct dims_product p = d->products[t.product];
  for (uint32_t i = 0; i < p.n; i++) {
    const uint32_t atom = d->factors[p.first + i];
    const struct dims_atom *a = &d->atoms[atom];
    if (a->kind != DIMS_EXACT || (i > 0 && d->factors[p.first + i - 1] == atom)) continue;
    const struct dims_expression *by = &d->expressions[a->b];
    if (by->n > 1 || (by->n == 1 && by->constant != 0)) continue;
    const int64_t c = by->n == 0 ? by->constant : d->terms[by->first].coefficient;
    if (c == -1 ? t.coefficient == INT64_MIN : t.coefficient % c != 0) continue;
    const uint32_t divisor = by->n == 0 ? 0 : d->terms[by->first].product;
    const dim_id over = a->a;
    const uint32_t without = dims_product_div(d, t.product, dims_product_of(d, &atom, 1));
    *rest = dims_product_div(d, without, divisor);
    *coefficient = t.coefficient / c;
    *of = over;
    if (*rest != NO_ID) return true;
  }
  return false;
}

bool dims_sum_settle(struct dims *d, struct dims_sum *s) {
  uint32_t steps = 0;
  for (uint32_t i = 0; i < s->n && steps < SETTLE_MOST; i++) {
    int64_t coefficient;
    uint32_t rest;
    dim_id over;
    if (!d->products[s->of[i].product].known.exact) continue;
    if (!cancels(d, s->of[i], &coefficient, &rest, &over)) continue;
    struct dims_sum without, n;
    copy(&without, s);
    without.n--;
    memmove(without.of + i, without.of + i + 1, (without.n - i) * sizeof *without.of);
    dims_sum_read(d, over, &n);
    if (!dims_sum_add(d, &without, coefficient, rest, &n)) continue;
    copy(s, &without);
    steps++;
    i = UINT32_MAX; // from the beginning
  }
  return steps > 0;
}

// ---- rows --------------------------------------------------------------------------------------------

struct dims_range dims_sum_range(const struct dims *d, const struct dims_sum *s) {
  struct dims_range r = {s->constant, s->constant};
  for (uint32_t i = 0; i < s->n; i++)
    r = dims_range_add(
        r, dims_range_scale(d->products[s->of[i].product].known.range, s->of[i].coefficient));
  return r;
}

static bool know_sum(const struct dims *d, const struct dims_sum *s, struct dims_known *known) {
  uint32_t weight = 1;
  *known = (struct dims_known){.range = dims_sum_range(d, s)};
  for (uint32_t i = 0; i < s->n; i++) {
    const struct dims_known *k = &d->products[s->of[i].product].known;
    known->symbols |= k->symbols;
    known->exact |= k->exact;
    if (k->level > known->level) known->level = k->level;
    weight += k->weight;
  }
  known->weight = (uint16_t)weight;
  return weight <= DIMS_SIZE;
}

static bool is_row(const struct dims *d, dim_id e, const struct dims_sum *s) {
  const struct dims_expression *x = &d->expressions[e];
  if (x->constant != s->constant || x->n != s->n) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (d->terms[x->first + i].product != s->of[i].product ||
        d->terms[x->first + i].coefficient != s->of[i].coefficient)
      return false;
  return true;
}

dim_id dims_sum_write(struct dims *d, struct dims_sum *s) {
  bool exact = false;
  for (uint32_t i = 0; i < s->n; i++)
    exact |= d->products[s->of[i].product].known.exact;
  if (exact) dims_sum_settle(d, s);
  uint32_t hash = dims_mix(s->n, (uint64_t)s->constant), id;
  for (uint32_t i = 0; i < s->n; i++)
    hash = dims_mix(dims_mix(hash, s->of[i].product), (uint64_t)s->of[i].coefficient);
  for (uint32_t at = hash; (id = dims_set_next(&d->expression_set, hash, &at)) != NO_ID;)
    if (is_row(d, id, s)) return id;
  struct dims_known known;
  if (!know_sum(d, s, &known)) return NO_ID;
  const uint32_t first = TABLE_ADD(d, terms, s->n);
  if (s->n > 0) memcpy(d->terms + first, s->of, s->n * sizeof *s->of);
  id = TABLE_ADD(d, expressions, 1);
  d->expressions[id] = (struct dims_expression){
      .known = known, .constant = s->constant, .first = first, .same = NO_ID, .n = (uint8_t)s->n};
  dims_set_add(&d->expression_set, hash, id);
  return id;
}

// ---- operations ----------------------------------------------------------------------------------------

dim_id dims_make_sum(struct dims *d, enum dims_op op, dim_id a, dim_id b) {
  struct dims_sum s, x;
  if (op == DIMS_ADD && a > b) return dims_add(d, b, a);
  dims_sum_read(d, a, &s);
  dims_sum_read(d, b, &x);
  const dim_id e =
      dims_sum_add(d, &s, op == DIMS_ADD ? 1 : -1, 0, &x) ? dims_sum_write(d, &s) : NO_ID;
  if (e != NO_ID) return e;
  const struct dims_range r = d->expressions[a].known.range, q = d->expressions[b].known.range;
  return dims_opaque(d, op, a, b, dims_range_add(r, op == DIMS_ADD ? q : dims_range_scale(q, -1)));
}

// s = x * y
static bool multiply_sums(struct dims *d, const struct dims_sum *x, const struct dims_sum *y,
                          struct dims_sum *s) {
  dims_sum_number(s, 0);
  for (uint32_t i = 0; i < x->n; i++)
    if (!dims_sum_add(d, s, x->of[i].coefficient, x->of[i].product, y)) return false;
  return dims_sum_add(d, s, x->constant, 0, y);
}

// One term that holds exact(N, b), times b: what is beside it, times N. False: it is no such term.
static bool multiply_exact(struct dims *d, dim_id a, dim_id b, struct dims_sum *s) {
  const struct dims_expression x = d->expressions[a];
  if (x.n != 1 || x.constant != 0 || !x.known.exact) return false;
  const struct dims_term t = d->terms[x.first];
  const struct dims_product p = d->products[t.product];
  for (uint32_t i = 0; i < p.n; i++) {
    const uint32_t atom = d->factors[p.first + i];
    if (d->atoms[atom].kind != DIMS_EXACT || d->atoms[atom].b != b) continue;
    struct dims_sum n;
    dims_sum_read(d, d->atoms[atom].a, &n);
    dims_sum_number(s, 0);
    const uint32_t rest = dims_product_div(d, t.product, dims_product_of(d, &atom, 1));
    return dims_sum_add(d, s, t.coefficient, rest, &n);
  }
  return false;
}

dim_id dims_make_mul(struct dims *d, dim_id a, dim_id b) {
  struct dims_sum s, x, y;
  if (a > b) return dims_mul(d, b, a);
  dim_id e = NO_ID;
  if (multiply_exact(d, a, b, &s) || multiply_exact(d, b, a, &s)) {
    e = dims_sum_write(d, &s);
  } else {
    dims_sum_read(d, a, &x);
    dims_sum_read(d, b, &y);
    if (multiply_sums(d, &x, &y, &s)) e = dims_sum_write(d, &s);
  }
  if (e != NO_ID) return e;
  return dims_opaque(d, DIMS_MUL, a, b,
                     dims_range_mul(d->expressions[a].known.range, d->expressions[b].known.range));
}

bool dims_sum_divide(struct dims *d, const struct dims_sum *a, const struct dims_sum *b,
                     struct dims_sum *q) {
  struct dims_sum left;
  copy(&left, a);
  dims_sum_number(q, 0);
  const struct dims_term by =
      b->n > 0 ? b->of[0] : (struct dims_term){.coefficient = b->constant, .product = 0};
  for (uint32_t steps = 0; left.n > 0 || left.constant != 0; steps++) {
    const struct dims_term first = left.n > 0 ? left.of[0] : (struct dims_term){left.constant, 0};
    if (steps == DIVIDE_MOST || by.coefficient == 0) return false;
    if (by.coefficient == -1 ? first.coefficient == INT64_MIN
                             : first.coefficient % by.coefficient != 0)
      return false;
    const struct dims_sum one = {.constant = 1};
    const uint32_t p = dims_product_div(d, first.product, by.product);
    const int64_t c = first.coefficient / by.coefficient;
    if (p == NO_ID || c == INT64_MIN || !dims_sum_add(d, q, c, p, &one) ||
        !dims_sum_add(d, &left, -c, p, b))
      return false;
  }
  return true;
}
