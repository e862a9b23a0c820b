// Reductions: however rows are cut into pieces and columns into stripes, over all sets of features,
// they give the bytes of a reference that computes lanes by their numbers and the tree by its
// definition, one column at a time.
#include "guarded.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/reduce/kernels_reduce.h"

enum { MOST = 7 * KERNELS_REDUCE_CHUNK + 300, CASES = 240, DEEP = 8 };

static struct guarded pages;
static uint8_t elements[MOST * 8];
static size_t rows, columns, stride;
static struct kernels_reduction reduction;
static uint64_t wanted[MOST];

static size_t width_of(enum dtype t) {
  return dtype_bits(t) < 8 ? 1 : dtype_bits(t) / 8;
}

// ---- the reference -----------------------------------------------------------------------------

// A number in any of the three types.
union value {
  double d;
  int64_t i;
  uint64_t u;
};

static enum dtype wide;

static union value none(void) {
  const bool least = reduction.op == KERNELS_LEAST;
  union value v = {.u = 0};
  if (reduction.op == KERNELS_PROD) {
    if (wide == DTYPE_DOUBLE)
      v.d = 1;
    else
      v.u = 1;
  } else if (least || reduction.op == KERNELS_MOST) {
    if (wide == DTYPE_DOUBLE)
      v.d = least ? INFINITY : -INFINITY;
    else if (wide == DTYPE_INT64)
      v.i = least ? INT64_MAX : INT64_MIN;
    else
      v.u = least ? UINT64_MAX : 0;
  }
  return v;
}

static double extreme(double x, double y, bool most) {
  if (isnan(x) || isnan(y)) return NAN;
  if (x == 0 && y == 0)
    return (most ? signbit(x) && signbit(y) : signbit(x) || signbit(y)) ? -0.0 : 0.0;
  return (x < y) == most ? y : x;
}

static union value put_together(union value a, union value b) {
  const bool most = reduction.op == KERNELS_MOST;
  union value v;
  switch (reduction.op) {
  case KERNELS_PROD:
    if (wide == DTYPE_DOUBLE)
      v.d = a.d * b.d;
    else
      v.u = a.u * b.u;
    return v;
  case KERNELS_LEAST:
  case KERNELS_MOST:
    if (wide == DTYPE_DOUBLE)
      v.d = extreme(a.d, b.d, most);
    else if (wide == DTYPE_INT64)
      v.i = (a.i < b.i) == most ? b.i : a.i;
    else
      v.u = (a.u < b.u) == most ? b.u : a.u;
    return v;
  default:
    if (wide == DTYPE_DOUBLE)
      v.d = a.d + b.d;
    else
      v.u = a.u + b.u;
    return v;
  }
}

static union value element(size_t row, size_t column) {
  const size_t width = width_of((enum dtype)reduction.type);
  const struct kernels_cast c = {.from = reduction.type, .to = (uint8_t)wide};
  union value v;
  kernels_convert(&v, elements + (row * stride + column) * width, 1, &c);
  if (reduction.op == KERNELS_SUM_SQUARES) {
    if (wide == DTYPE_DOUBLE)
      v.d *= v.d;
    else
      v.u *= v.u;
  }
  return v;
}

static union value chunk_of(size_t chunk, size_t column) {
  union value lane[8];
  const size_t from = chunk * KERNELS_REDUCE_CHUNK;
  for (int k = 0; k < 8; k++)
    lane[k] = none();
  for (size_t i = from; i < rows && i < from + KERNELS_REDUCE_CHUNK; i++)
    lane[i % 8] = put_together(lane[i % 8], element(i, column));
  return put_together(put_together(put_together(lane[0], lane[4]), put_together(lane[2], lane[6])),
                      put_together(put_together(lane[1], lane[5]), put_together(lane[3], lane[7])));
}

// The left side is the largest complete tree that leaves something for the right.
static union value tree_of(size_t chunk, size_t n, size_t column) {
  if (n == 1) return chunk_of(chunk, column);
  size_t left = 1;
  while (left * 2 < n)
    left *= 2;
  return put_together(tree_of(chunk, left, column), tree_of(chunk + left, n - left, column));
}

static void make_wanted(void) {
  const size_t chunks = (rows + KERNELS_REDUCE_CHUNK - 1) / KERNELS_REDUCE_CHUNK;
  wide = kernels_reduce_type((enum dtype)reduction.type);
  for (size_t c = 0; c < columns; c++) {
    const union value v = chunks ? tree_of(0, chunks, c) : none();
    wanted[c] = wide == DTYPE_DOUBLE && isnan(v.d) ? UINT64_C(0x7ff8000000000000) : v.u;
  }
}

// ---- cases -------------------------------------------------------------------------------------

static void random_case(enum dtype type, enum kernels_reduce op) {
  static const double special[] = {INFINITY, -INFINITY, NAN, -NAN, 0.0, -0.0, 1e300};
  const size_t width = width_of(type);
  const bool vector = random_64() % 2, odd = random_64() % 8 == 0;
  columns = vector ? 1 : random_64() % 4 == 0 ? 500 + random_64() % 50 : 1 + random_64() % 40;
  stride = columns + (vector ? 0 : random_64() % 3);
  rows = random_64() % (MOST / stride + 1);
  if (random_64() % 4 == 0) rows %= 50;
  if (random_64() % 6 == 0) rows %= 3; // lanes that stay empty
  for (size_t i = 0; i < rows * stride; i++) {
    const uint64_t bits = random_64();
    double x = (double)(int64_t)random_64() / 9223372036854775808.0;
    if (op == KERNELS_PROD) x = 1 + x / 64;
    if (odd && random_64() % 4096 == 0) x = special[random_64() % 7];
    if (op >= KERNELS_LEAST && op <= KERNELS_MOST && odd) x = x < 0 ? -0.0 : 0.0;
    if (dtype_is_float(type) && dtype_bits(type) >= 16) {
      const struct kernels_cast c = {.from = DTYPE_DOUBLE, .to = (uint8_t)type};
      kernels_convert(elements + i * width, &x, 1, &c);
    } else {
      memcpy(elements + i * width, &bits, width);
    }
  }
  reduction = (struct kernels_reduction){(uint8_t)op, (uint8_t)type, columns};
  make_wanted();
}

// One chunk's rows in pieces; columns in two stripes now and then.
static void check_case(void) {
  const size_t width = width_of((enum dtype)reduction.type), bytes = rows * stride * width;
  const size_t split = columns > 1 && random_64() % 2 ? 1 + random_64() % (columns - 1) : columns;
  uint8_t *in = guarded_at(&pages, bytes, random_64() % 2);
  memcpy(in, elements, bytes);
  static uint64_t lanes[8 * 600], partial[600], levels[DEEP * 600], out[600];
  assert_true(kernels_reduce_levels(rows) <= DEEP);
  for (size_t from = 0; from < columns; from = from ? columns : split) {
    struct kernels_reduction r = reduction;
    r.columns = from ? columns - split : split;
    size_t chunks = 0;
    memset(levels, JUNK, sizeof levels);
    for (size_t row = 0; row < rows; chunks++) {
      const size_t left = rows - row;
      const size_t n = left < KERNELS_REDUCE_CHUNK ? left : KERNELS_REDUCE_CHUNK;
      memset(lanes, JUNK, sizeof lanes);
      kernels_reduce_begin(&r, lanes);
      for (size_t at = 0; at < n;) {
        const size_t most = random_64() % 2 ? 30 : 3000; // first: compilers choose the order within an expression
        const size_t some = 1 + random_64() % most;
        const size_t m = some < n - at ? some : n - at;
        kernels_reduce_rows(&r, lanes, at, in + ((row + at) * stride + from) * width, stride, m);
        at += m;
      }
      kernels_reduce_close(&r, partial, lanes);
      kernels_reduce_push(&r, levels, chunks, partial);
      row += n;
    }
    memset(out, JUNK, sizeof out);
    kernels_reduce_finish(&r, out, levels, chunks);
    assert_memory_equal(out, wanted + from, r.columns * sizeof *out);
    assert_int_equal(out[r.columns] & 0xff, JUNK);
  }
}

static void test_all(void **state) {
  (void)state;
  static const enum dtype types[] = {DTYPE_FLOAT,  DTYPE_FLOAT,  DTYPE_DOUBLE,       DTYPE_FLOAT16,
                                     DTYPE_INT64,  DTYPE_UINT64, DTYPE_BFLOAT16,     DTYPE_INT8,
                                     DTYPE_UINT32, DTYPE_BOOL,   DTYPE_FLOAT8E4M3FN, DTYPE_INT4};
  for (int i = 0; i < CASES; i++) {
    random_case(types[random_64() % 12], (enum kernels_reduce)(i % KERNELS_REDUCES));
    for_each_feature_set(check_case);
  }
}

// A tree of three chunks, by hand: what is lost tells the order.
static void test_order(void **state) {
  (void)state;
  const double big = 0x1p53, parts[] = {1, big, 1};
  double levels[3], out;
  const struct kernels_reduction r = {KERNELS_SUM, DTYPE_DOUBLE, 1};
  for (uint64_t chunk = 0; chunk < 3; chunk++) {
    double lanes[8], partial;
    kernels_reduce_begin(&r, lanes);
    kernels_reduce_rows(&r, lanes, 0, &parts[chunk], 1, 1);
    kernels_reduce_close(&r, &partial, lanes);
    kernels_reduce_push(&r, levels, chunk, &partial);
  }
  kernels_reduce_finish(&r, &out, levels, 3);
  assert_true(out == big); // (1 + 2^53) + 1, each 1 lost; from the right it would be 2^53 + 2
  assert_int_equal(kernels_reduce_levels(0), 1);
  assert_int_equal(kernels_reduce_levels(4096), 1);
  assert_int_equal(kernels_reduce_levels(4097), 2);
  assert_int_equal(kernels_reduce_levels(3 * 4096 + 1), 3);
}

static int open_pages(void **state) {
  (void)state;
  pages = guarded_open(sizeof elements);
  return 0;
}

static int close_pages(void **state) {
  (void)state;
  guarded_close(&pages);
  return 0;
}

int test_reduce(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_all)};
  return cmocka_run_group_tests(tests, open_pages, close_pages);
}
