// The least operand that an operation takes to a threshold: what makes comparisons of sums and products comparisons of
// their operand, on the right side of every tie.
//
//   x + y >= z    x >= least_sum(z, y)           and so for  x + y < z,  z <= x + y,  z > x + y
//   x * a >= b    x >= least_factor(b, a)        a > 0
//
// It is about z - y, or b / a, and not the nearest to that, which may be on the wrong side: x + 10 > 0, which is x + 10 >= 1e-45, is
// not x >= -10. It is found by halving among the numbers of the type, with sums and products that are rounded to the type as
// the node rounds them, so that the truth value is the same for every x. Of NaN, which nothing reaches, it is NaN.
#include "passes/rules/inside/rules_functions.h"

#include <math.h>

enum { LEAST_BYTES = 4 << 20 }; // of a result: thresholds for each channel

// The numbers of a type in order: 0 is 0, those below it are negative. Infinity is the last.
static double number_at(enum dtype t, int64_t place) {
  uint8_t raw[8];
  const uint64_t bits = (uint64_t)(place < 0 ? -place : place);
  memcpy(raw, &bits, 8);
  const double x = rules_number_get(t, raw, 0);
  return place < 0 ? -x : x;
}

static int64_t infinity_at(enum dtype t) {
  uint8_t raw[8] = {0};
  int64_t place;
  rules_number_put(t, raw, 0, (double)INFINITY);
  memcpy(&place, raw, 8);
  return place;
}

// Rounded to the type: a double has more than twice the bits of the others, so that rounding twice does no harm.
static double rounded(enum dtype t, double x) {
  uint8_t raw[8];
  rules_number_put(t, raw, 0, x);
  return rules_number_get(t, raw, 0);
}

static bool sum_reaches(enum dtype t, double x, double by, double z) {
  return rounded(t, x + by) >= z;
}

static bool product_reaches(enum dtype t, double x, double by, double z) {
  return rounded(t, x * by) >= z;
}

static double least(enum dtype t, double z, double by,
                    bool (*reaches)(enum dtype t, double x, double by, double z)) {
  int64_t below = -infinity_at(t), reached = -below;
  if (isnan(z)) return z;
  if (reaches(t, number_at(t, below), by, z)) return number_at(t, below);
  while (reached != below + 1) {
    const int64_t middle = below / 2 + reached / 2 + (below % 2 + reached % 2) / 2;
    if (reaches(t, number_at(t, middle), by, z))
      reached = middle;
    else
      below = middle;
  }
  return number_at(t, reached);
}

// Broadcast as NumPy does: where in an operand the element lies that belongs to one of the result.
static uint64_t place_in(const struct rules_type *of, const struct rules_type *in, uint64_t i) {
  uint64_t at = 0, stride = 1;
  for (uint32_t back = 1; back <= of->rank; back++) {
    const uint64_t length = (uint64_t)in->dims[in->rank - back],
                   own = (uint64_t)of->dims[of->rank - back];
    if (own > 1) at += i % length * stride;
    stride *= own;
    i /= length;
  }
  return at;
}

static bool broadcast(struct rules_run *run, const struct rules_type *a, const struct rules_type *b,
                      struct rules_type *out) {
  const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
  int64_t *dims = rules_room(run, rank);
  for (uint32_t back = 1; back <= rank; back++) {
    const int64_t x = back <= a->rank ? a->dims[a->rank - back] : 1,
                  y = back <= b->rank ? b->dims[b->rank - back] : 1;
    if (x != y && x != 1 && y != 1) return false;
    dims[rank - back] = x == 1 ? y : x;
  }
  *out = (struct rules_type){a->dtype, true, rank, dims};
  return true;
}

static struct rules_value of_all(struct rules_run *run, const struct rules_value *a,
                                 bool (*reaches)(enum dtype t, double x, double by, double z),
                                 double above) {
  struct rules_type z, y, t;
  struct span z_raw, y_raw;
  uint64_t count, bytes;
  if (!rules_elements(run, a, &z, &z_raw) || !rules_elements(run, a + 1, &y, &y_raw) ||
      z.dtype != y.dtype || !dtype_is_plain_float(z.dtype) || !broadcast(run, &z, &y, &t) ||
      !dims_product(t.dims, t.rank, &count) || !dtype_bytes(t.dtype, count, &bytes) ||
      bytes > LEAST_BYTES)
    return rules_unknown();
  uint8_t *raw = arena_alloc(&run->match, (size_t)bytes + 8);
  for (uint64_t i = 0; i < count; i++) {
    const double by = rules_number_get(t.dtype, y_raw.at, place_in(&y, &t, i));
    if (!isfinite(by) || !(by > above)) return rules_unknown();
    const double threshold = rules_number_get(t.dtype, z_raw.at, place_in(&z, &t, i));
    rules_number_put(t.dtype, raw, i, least(t.dtype, threshold, by, reaches));
  }
  return rules_new_const(run, t.dtype, t.dims, t.rank, span_of(raw, (size_t)bytes));
}

struct rules_value rules_call_least_sum(struct rules_run *run, const struct rules_value *a) {
  return of_all(run, a, sum_reaches, -(double)INFINITY);
}

struct rules_value rules_call_least_factor(struct rules_run *run, const struct rules_value *a) {
  return of_all(run, a, product_reaches, 0);
}
