// Reductions over lanes, chunks and a tree of chunks (kernels_reduce.h has the drawing).
//
// Everything is one operation, acc[i] = acc[i] ∘ x[i] over arrays of double, int64 or uint64:
//
//   a row of many columns      the lane's array and the row
//   a vector                   eight lanes and eight elements, again and again
//   joining                    two arrays of partials
//
// Elements are widened to the type of the lanes first, PIECE at a time, by kernels_convert. The
// loops are plain C: lanes do not depend on each other, so vectors of any width give the same
// bytes; the compiler makes them. NaNs are made the same where partials come out: before that, their
// payloads may differ between machines, and cannot be seen.
//
// Squares are taken of the widened elements before they are added: SUM_SQUARES is SUM from there.
#include "kernels/reduce/kernels_reduce.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/float_bits.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { LANES = KERNELS_REDUCE_LANES, PIECE = 512, PARTIAL = 8 };

// ---- operations --------------------------------------------------------------------------------

// IEEE 754-2019 minimum and maximum. Equal numbers differ in the sign of zeros alone.
static double either_bits(double x, double y, bool both) {
  const uint64_t a = f64_bits(x), b = f64_bits(y);
  return f64_of_bits(both ? a & b : a | b);
}

static double least_of(double x, double y) {
  const double less = x < y ? x : y, either = x == y ? either_bits(x, y, false) : less;
  return x == x ? either : x;
}

static double most_of(double x, double y) {
  const double more = x > y ? x : y, either = x == y ? either_bits(x, y, true) : more;
  return x == x ? either : x;
}

// acc[i] = acc[i] ∘ x[i] for `times` arrays x, one behind the other.
typedef void combine(void *acc, const void *x, size_t n, size_t times);

// The inner loop of eight lanes has a known number of turns: they stay in registers.
#define COMBINE(name, type, expression)                                                            \
  static void name(void *acc, const void *in, size_t n, size_t times) {                            \
    type *to = acc;                                                                                \
    const type *from = in;                                                                         \
    if (n == LANES) {                                                                              \
      type lanes[LANES];                                                                           \
      memcpy(lanes, to, sizeof lanes);                                                             \
      for (size_t k = 0; k < times; k++, from += LANES)                                            \
        for (size_t i = 0; i < LANES; i++) {                                                       \
          const type a = lanes[i], x = from[i];                                                    \
          lanes[i] = expression;                                                                   \
        }                                                                                          \
      memcpy(to, lanes, sizeof lanes);                                                             \
      return;                                                                                      \
    }                                                                                              \
    for (size_t k = 0; k < times; k++, from += n)                                                  \
      for (size_t i = 0; i < n; i++) {                                                             \
        const type a = to[i], x = from[i];                                                         \
        to[i] = expression;                                                                        \
      }                                                                                            \
  }
COMBINE(sum_doubles, double, a + x)
COMBINE(prod_doubles, double, a *x)
COMBINE(least_doubles, double, least_of(a, x))
COMBINE(most_doubles, double, most_of(a, x))
COMBINE(sum_integers, uint64_t, a + x)
COMBINE(prod_integers, uint64_t, a *x)
COMBINE(least_signed, int64_t, a < x ? a : x)
COMBINE(most_signed, int64_t, a > x ? a : x)
COMBINE(least_unsigned, uint64_t, a < x ? a : x)
COMBINE(most_unsigned, uint64_t, a > x ? a : x)

enum number { DOUBLES, INTEGERS, NATURALS, NUMBERS };

static combine *const combines[NUMBERS][KERNELS_REDUCES] = {
    {sum_doubles, prod_doubles, least_doubles, most_doubles, sum_doubles},
    {sum_integers, prod_integers, least_signed, most_signed, sum_integers},
    {sum_integers, prod_integers, least_unsigned, most_unsigned, sum_integers},
};

enum dtype kernels_reduce_type(enum dtype type) {
  if (dtype_is_float(type)) return DTYPE_DOUBLE;
  switch (type) {
  case DTYPE_INT2:
  case DTYPE_INT4:
  case DTYPE_INT8:
  case DTYPE_INT16:
  case DTYPE_INT32:
  case DTYPE_INT64: return DTYPE_INT64;
  default: return DTYPE_UINT64;
  }
}

static enum number number_of(const struct kernels_reduction *r) {
  const enum dtype t = kernels_reduce_type((enum dtype)r->type);
  return t == DTYPE_DOUBLE ? DOUBLES : t == DTYPE_INT64 ? INTEGERS : NATURALS;
}

static combine *combine_of(const struct kernels_reduction *r) {
  return combines[number_of(r)][r->op];
}

// The bits of what changes nothing.
static uint64_t neutral(const struct kernels_reduction *r) {
  const enum number number = number_of(r);
  const bool product = r->op == KERNELS_PROD, least = r->op == KERNELS_LEAST;
  if (!product && !least && r->op != KERNELS_MOST) return 0;
  if (number == DOUBLES) {
    const double x = product ? 1 : least ? INFINITY : -INFINITY;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
  }
  if (product) return 1;
  if (number == INTEGERS) return least ? INT64_MAX : (uint64_t)INT64_MIN;
  return least ? UINT64_MAX : 0;
}

// ---- a chunk -----------------------------------------------------------------------------------

void kernels_reduce_begin(const struct kernels_reduction *r, void *lanes) {
  const uint64_t bits = neutral(r);
  uint8_t *at = lanes;
  for (size_t i = 0; i < LANES * r->columns; i++)
    memcpy(at + i * PARTIAL, &bits, PARTIAL);
}

// Up to PIECE elements as the lanes have them.
union piece {
  double doubles[PIECE];
  uint64_t integers[PIECE];
};

static void widen(union piece *out, const void *in, size_t n, const struct kernels_reduction *r) {
  const struct kernels_cast c = {r->type, (uint8_t)kernels_reduce_type((enum dtype)r->type), false,
                                 0};
  const uint64_t open = kernels_convert(out, in, n, &c);
  assert(open == 0); // every type is within its wide one
  if (r->op != KERNELS_SUM_SQUARES) return;
  if (number_of(r) == DOUBLES)
    for (size_t i = 0; i < n; i++)
      out->doubles[i] *= out->doubles[i];
  else
    for (size_t i = 0; i < n; i++)
      out->integers[i] *= out->integers[i];
}

static size_t width_of(const struct kernels_reduction *r) {
  const uint32_t bits = dtype_bits((enum dtype)r->type);
  return bits < 8 ? 1 : bits / 8;
}

// A vector: single elements up to lane 0, turns of all lanes, and what is left.
static void add_vector(const struct kernels_reduction *r, uint8_t *lanes, size_t first,
                       const uint8_t *in, size_t n) {
  combine *const put = combine_of(r);
  union piece piece;
  while (n > 0) {
    const size_t m = n < PIECE ? n : PIECE;
    widen(&piece, in, m, r);
    size_t i = 0;
    for (; i < m && (first + i) % LANES; i++)
      put(lanes + (first + i) % LANES * PARTIAL, &piece.integers[i], 1, 1);
    const size_t turns = (m - i) / LANES;
    put(lanes, &piece.integers[i], LANES, turns);
    for (i += turns * LANES; i < m; i++)
      put(lanes + (first + i) % LANES * PARTIAL, &piece.integers[i], 1, 1);
    in += m * width_of(r);
    first += m;
    n -= m;
  }
}

void kernels_reduce_rows(const struct kernels_reduction *r, void *lanes, size_t first,
                         const void *in, size_t in_stride, size_t rows) {
  assert(kernels_convert_takes((enum dtype)r->type) && r->op < KERNELS_REDUCES);
  assert(first <= KERNELS_REDUCE_CHUNK && rows <= KERNELS_REDUCE_CHUNK - first);
  const size_t width = width_of(r), columns = r->columns;
  const uint8_t *row = in;
  uint8_t *to = lanes;
  if (columns == 1 && in_stride == 1) {
    add_vector(r, to, first, row, rows);
    return;
  }
  combine *const put = combine_of(r);
  union piece piece;
  for (size_t i = 0; i < rows; i++, row += in_stride * width) {
    uint8_t *lane = to + (first + i) % LANES * columns * PARTIAL;
    for (size_t c = 0; c < columns; c += PIECE) {
      const size_t m = columns - c < PIECE ? columns - c : PIECE;
      widen(&piece, row + c * width, m, r);
      put(lane + c * PARTIAL, &piece, m, 1);
    }
  }
}

static void quiet(const struct kernels_reduction *r, void *partial) {
  double *x = partial;
  if (number_of(r) != DOUBLES) return;
  for (size_t c = 0; c < r->columns; c++)
    if (x[c] != x[c]) {
      const uint64_t bits = UINT64_C(0x7ff8000000000000);
      memcpy(&x[c], &bits, sizeof bits);
    }
}

void kernels_reduce_close(const struct kernels_reduction *r, void *partial, void *lanes) {
  const size_t bytes = r->columns * PARTIAL;
  static const uint8_t pairs[][2] = {{0, 4}, {2, 6}, {1, 5}, {3, 7}, {0, 2}, {1, 3}, {0, 1}};
  uint8_t *at = lanes;
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
    combine_of(r)(at + pairs[k][0] * bytes, at + pairs[k][1] * bytes, r->columns, 1);
  memcpy(partial, at, bytes);
  quiet(r, partial);
}

// left = left and right put together.
static void join(const struct kernels_reduction *r, void *left, const void *right) {
  combine_of(r)(left, right, r->columns, 1);
  quiet(r, left);
}

// ---- the tree ----------------------------------------------------------------------------------

unsigned kernels_reduce_levels(uint64_t elements) {
  unsigned levels = 1;
  for (uint64_t chunks = elements / KERNELS_REDUCE_CHUNK + (elements % KERNELS_REDUCE_CHUNK != 0);
       chunks > 1; chunks /= 2)
    levels++;
  return levels;
}

// Every trailing one of the chunk's number is a tree of the size just made, to its left.
void kernels_reduce_push(const struct kernels_reduction *r, void *levels, uint64_t chunk,
                         void *partial) {
  const size_t bytes = r->columns * PARTIAL;
  uint8_t *level = levels;
  for (; chunk & 1; chunk >>= 1, level += bytes) {
    join(r, level, partial);
    memcpy(partial, level, bytes);
  }
  memcpy(level, partial, bytes);
}

// From the smallest tree on; which of two stands on the left makes no difference to any operation.
void kernels_reduce_finish(const struct kernels_reduction *r, void *out, const void *levels,
                           uint64_t chunks) {
  const size_t bytes = r->columns * PARTIAL;
  const uint64_t none = neutral(r);
  const uint8_t *level = levels;
  uint8_t *to = out;
  for (size_t c = 0; c < r->columns; c++)
    memcpy(to + c * PARTIAL, &none, PARTIAL);
  bool some = false;
  for (; chunks; chunks >>= 1, level += bytes) {
    if (!(chunks & 1)) continue;
    if (some)
      join(r, out, level);
    else
      memcpy(to, level, bytes);
    some = true;
  }
}
