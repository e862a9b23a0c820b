// Sums of products: every variant, over all sets of features, gives the bytes of single fused steps in the order of
// k, however matrices lie and wherever they are cut; second moments are exact where nothing need be rounded.
#include "guarded.h"
#include "tensor_stats/second_moments.h"

enum { MOST = 640, CASES = 40, GRAM_K = 700, GRAM_ROWS = 9 };

static struct guarded a_pages, b_pages, c_pages;
static struct kernels_products p;
static size_t stride;
static double *from, *want;
static _Alignas(64) uint8_t scratch[KERNELS_PRODUCTS_SCRATCH];

static double unit(void) {
  return (double)(int64_t)random_64() / 9223372036854775808.0;
}

// n rows and `depth` steps of it, in pages, one way or the other around.
static struct kernels_factor factor(struct guarded *pages, size_t n, size_t depth) {
  const bool is_double = random_64() % 2, across = random_64() % 2;
  const size_t width = is_double ? 8 : 4;
  uint8_t *at = guarded_at(pages, n * depth * width, random_64() % 2);
  for (size_t i = 0; i < n * depth; i++) {
    const double x = random_64() % 11 ? unit() : 0;
    if (is_double)
      memcpy(at + i * 8, &x, 8);
    else
      memcpy(at + i * 4, &(float){(float)x}, 4);
  }
  return (struct kernels_factor){at, across ? 1 : depth, across ? n : 1, is_double};
}

static double element(const struct kernels_factor *f, size_t i, size_t k) {
  const size_t at = i * f->along + k * f->deep;
  return f->is_double ? ((const double *)f->at)[at] : (double)((const float *)f->at)[at];
}

static void random_case(bool large) {
  const size_t most = large ? MOST : 40;
  const size_t rows = 1 + random_64() % most, columns = 1 + random_64() % most;
  const size_t depth = random_64() % (large ? 300 : 20);
  p = (struct kernels_products){factor(&a_pages, rows, depth),
                                factor(&b_pages, columns, depth),
                                rows,
                                columns,
                                depth,
                                random_64() % 2};
  stride = columns + random_64() % 3;
  for (size_t i = 0; i < rows * stride; i++)
    from[i] = want[i] = unit();
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++)
      for (size_t k = 0; k < depth; k++) {
        const double x = element(&p.a, i, k), y = element(&p.b, j, k);
        want[i * stride + j] = fma(p.subtract ? -x : x, y, want[i * stride + j]);
      }
}

static void check(void) {
  const size_t n = ((p.rows - 1) * stride + p.columns) * sizeof(double);
  double *c = (double *)(void *)guarded_at(&c_pages, n, p.rows % 2);
  memcpy(c, from, n);
  kernels_products(c, stride, &p, scratch);
  assert_memory_equal(c, want, n);
}

static void test_products(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    random_case(i < 4);
    for_each_feature_set(check);
  }
}

static void check_add_scaled(void) {
  for (size_t n = 0; n < 40; n++) {
    double *x = (double *)(void *)guarded_at(&a_pages, n * sizeof *x, n % 2);
    double *y = (double *)(void *)guarded_at(&c_pages, n * sizeof *y, n % 3 == 0);
    memcpy(x, from, n * sizeof *x);
    memcpy(y, from + 40, n * sizeof *y);
    kernels_add_scaled(y, x, 0.3, n);
    for (size_t i = 0; i < n; i++)
      want[i] = fma(0.3, from[i], from[40 + i]);
    assert_memory_equal(y, want, n * sizeof *y);
  }
}

static void test_add_scaled(void **state) {
  (void)state;
  for (int i = 0; i < 80; i++)
    from[i] = unit();
  for_each_feature_set(check_add_scaled);
}

// Small integers: no sum is rounded. Rows come in two calls.
static float x[GRAM_ROWS * (GRAM_K + 5)];

static void check_gram(void) {
  static double tiles[GRAM_K * (GRAM_K + SECOND_MOMENTS_SIDE)];
  assert_true(second_moments_elements(GRAM_K) <= sizeof tiles / sizeof *tiles);
  memset(tiles, 0, sizeof tiles);
  for (uint64_t r = 0; r < second_moments_tiles(GRAM_K); r++)
    for (uint64_t c = 0; c <= r; c++) {
      double *tile = tiles + second_moments_at(GRAM_K, r, c);
      kernels_gram(tile, GRAM_K, r, c, x, GRAM_K + 5, 4, scratch);
      kernels_gram(tile, GRAM_K, r, c, x + 4 * (GRAM_K + 5), GRAM_K + 5, GRAM_ROWS - 4, scratch);
    }
  for (uint64_t i = 0; i < GRAM_K; i++)
    for (uint64_t j = 0; j <= i; j++) {
      const uint64_t r = i / SECOND_MOMENTS_SIDE, c = j / SECOND_MOMENTS_SIDE;
      double sum = 0;
      for (size_t t = 0; t < GRAM_ROWS; t++)
        sum += (double)x[t * (GRAM_K + 5) + i] * (double)x[t * (GRAM_K + 5) + j];
      const double *tile = tiles + second_moments_at(GRAM_K, r, c);
      const size_t side = (size_t)second_moments_side(GRAM_K, c), row = i % SECOND_MOMENTS_SIDE,
                   column = j % SECOND_MOMENTS_SIDE;
      assert_true(tile[row * side + column] == sum);
      if (r == c) assert_true(tile[column * side + row] == sum);
    }
}

static void test_tiles(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof x / sizeof *x; i++)
    x[i] = (float)(int)(random_64() % 2001) - 1000;
  for_each_feature_set(check_gram);
}

static void test_layout(void **state) {
  (void)state;
  static const uint64_t sizes[] = {1, 7, 511, 512, 513, 1024, 1500, SECOND_MOMENTS_MOST};
  assert_int_equal(second_moments_elements(0), 0);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint64_t at = 0;
    for (uint64_t r = 0; r < second_moments_tiles(sizes[i]); r++)
      for (uint64_t c = 0; c <= r; c++) {
        assert_int_equal(second_moments_at(sizes[i], r, c), at);
        at += second_moments_side(sizes[i], r) * second_moments_side(sizes[i], c);
      }
    assert_int_equal(second_moments_elements(sizes[i]), at);
  }
}

int test_gram(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products),
                                     cmocka_unit_test(test_add_scaled),
                                     cmocka_unit_test(test_tiles), cmocka_unit_test(test_layout)};
  a_pages = guarded_open(MOST * 300 * 8);
  b_pages = guarded_open(MOST * 300 * 8);
  c_pages = guarded_open(MOST * (MOST + 3) * 8);
  from = malloc(MOST * (MOST + 3) * sizeof *from);
  want = malloc(MOST * (MOST + 3) * sizeof *want);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  guarded_close(&a_pages);
  guarded_close(&b_pages);
  guarded_close(&c_pages);
  free(from);
  free(want);
  return failed;
}
