// Ranges: what the bounds of operands say about those of a result.
//
// INT64_MIN as lower and INT64_MAX as upper bound mean that there is none. A bound that cannot be
// written is moved outward, so a range never leaves out a value.
#include "dims/inside/dims_parts.h"

static int64_t clamp(dims_wide x) {
  if (x > INT64_MAX) return INT64_MAX;
  return x < INT64_MIN ? INT64_MIN : (int64_t)x;
}

struct dims_range dims_range_add(struct dims_range a, struct dims_range b) {
  struct dims_range r = {INT64_MIN, INT64_MAX};
  if (a.least != INT64_MIN && b.least != INT64_MIN) r.least = clamp((dims_wide)a.least + b.least);
  if (a.most != INT64_MAX && b.most != INT64_MAX) r.most = clamp((dims_wide)a.most + b.most);
  return r;
}

struct dims_range dims_range_scale(struct dims_range a, int64_t by) {
  struct dims_range r = {INT64_MIN, INT64_MAX};
  if (by == 0) return (struct dims_range){0, 0};
  if (a.least != INT64_MIN) *(by > 0 ? &r.least : &r.most) = clamp((dims_wide)a.least * by);
  if (a.most != INT64_MAX) *(by > 0 ? &r.most : &r.least) = clamp((dims_wide)a.most * by);
  return r;
}

// A bound as a number that is past all others where there is none.
static dims_wide wide(int64_t bound, int64_t none) {
  const dims_wide past = (dims_wide)1 << 100;
  return bound == none ? (none > 0 ? past : -past) : bound;
}

// A product of two such, of the same kind.
static dims_wide corner(dims_wide x, dims_wide y) {
  const dims_wide past = (dims_wide)1 << 100;
  if (x == 0 || y == 0) return 0;
  if (x < past && x > -past && y < past && y > -past) return x * y;
  return (x < 0) == (y < 0) ? past : -past;
}

struct dims_range dims_range_mul(struct dims_range a, struct dims_range b) {
  const dims_wide x[2] = {wide(a.least, INT64_MIN), wide(a.most, INT64_MAX)};
  const dims_wide y[2] = {wide(b.least, INT64_MIN), wide(b.most, INT64_MAX)};
  dims_wide least = corner(x[0], y[0]), most = least;
  for (uint32_t i = 1; i < 4; i++) {
    const dims_wide c = corner(x[i & 1], y[i >> 1]);
    if (c < least) least = c;
    if (c > most) most = c;
  }
  return (struct dims_range){clamp(least), clamp(most)};
}

struct dims_range dims_range_power(struct dims_range a, uint32_t n) {
  struct dims_range r = {1, 1};
  if (n % 2 == 0 && a.least < 0) { // of |a|
    const struct dims_range negated = dims_range_scale(a, -1);
    const int64_t most = negated.most > a.most ? negated.most : a.most;
    a = (struct dims_range){negated.least > 0 ? negated.least : 0, most};
  }
  for (uint32_t i = 0; i < n; i++)
    r = dims_range_mul(r, a);
  return r;
}

struct dims_range dims_range_max(struct dims_range a, struct dims_range b) {
  return (struct dims_range){a.least > b.least ? a.least : b.least,
                             a.most > b.most ? a.most : b.most};
}

struct dims_range dims_range_min(struct dims_range a, struct dims_range b) {
  return (struct dims_range){a.least < b.least ? a.least : b.least,
                             a.most < b.most ? a.most : b.most};
}

int64_t dims_floor_of(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

// Divisors above 0 only; of the larger divisor comes what is nearer to 0.
struct dims_range dims_range_quotient(enum dims_kind kind, struct dims_range a,
                                      struct dims_range b) {
  struct dims_range r = {INT64_MIN, INT64_MAX};
  if (b.least < 1) return r;
  const bool bounded = b.most != INT64_MAX;
  if (a.least >= 0)
    r.least = bounded ? a.least / b.most : 0;
  else if (a.least != INT64_MIN)
    r.least = dims_floor_of(a.least, b.least);
  if (a.most < 0)
    r.most = kind == DIMS_TRUNC ? 0 : -1;
  else if (a.most != INT64_MAX)
    r.most = a.most / b.least;
  if (kind == DIMS_EXACT && a.least > 0 && r.least < 1) r.least = 1;
  return r;
}
