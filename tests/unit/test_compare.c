// Figures of two arrays: numbers by hand and from NumPy; the same ones wherever elements lie; memory that
// does not grow with them; what is not finite; and the judgement. test_arrays.py compares with NumPy at length.
#include "verify/compare/compare.h"

#include "chance.h"
#include "platform/descriptor.h"
#include "resources/resources.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static struct arena arena;

static struct array floats(uint32_t rank, const int64_t *dims, const float *x) {
  struct array a;
  uint8_t *at = array_make(&a, "a", DTYPE_FLOAT, rank, dims, &arena);
  assert_non_null(at);
  memcpy(at, x, (size_t)a.bytes);
  return a;
}

static struct array bytes(enum dtype t, int64_t n, const void *x) {
  struct array a;
  uint8_t *at = array_make(&a, "a", t, 1, &n, &arena);
  assert_non_null(at);
  memcpy(at, x, (size_t)a.bytes);
  return a;
}

static bool near(double x, double y, double by) {
  return fabs(x - y) <= by;
}

static struct compare_result compared(const struct array *r, const struct array *x,
                                      const struct compare_bounds *b) {
  struct compare_result out;
  struct err err = {0};
  assert_int_equal(compare_arrays(r, x, b, NULL, &out, &err), 0);
  return out;
}

static struct compare_figures figures(const struct array *r, const struct array *x) {
  const struct compare_bounds none = compare_nothing();
  const struct compare_result got = compared(r, x, &none);
  assert_int_equal(got.end, COMPARE_PASSED);
  return got.figures;
}

static void test_numbers(void **state) {
  (void)state;
  const int64_t dims[2] = {2, 3};
  const float r[6] = {1, -2, 3.5f, 0.25f, 8, -1}, x[6] = {1.5f, -2, 3, 0.25f, 7, -1};
  const struct array a = floats(2, dims, r), b = floats(2, dims, x);
  const struct compare_figures f = figures(&a, &b);
  assert_int_equal(f.count, 6);
  assert_true(f.max_abs == 1 && f.first_worst == 4 && f.mean_abs == 2.0 / 6);
  assert_true(f.p99_abs == 1 && f.p999_abs == 1 && f.relative == 0.125 && f.largest == 8);
  assert_true(near(f.cosine, 0.996468279648072, 1e-14));
  assert_true(near(f.sqnr_db, 17.393745332501776, 1e-12));
  assert_true(f.has_top1 && f.top1 == 1 && f.unequal == 3 && f.nonfinite[0] == 0);
}

static void test_top1(void **state) {
  (void)state;
  const int64_t dims[2] = {4, 3};
  // A tie counts where it is first; a row with a NaN on both sides has no largest element.
  const float r[12] = {1, 2, 2, 5, 4, 3, 1, NAN, 9, -INFINITY, -INFINITY, -INFINITY};
  const float x[12] = {1, 2, 1, 5, 5, 3, 9, NAN, 1, -INFINITY, -INFINITY, -INFINITY};
  const struct array a = floats(2, dims, r), b = floats(2, dims, x);
  assert_true(figures(&a, &b).top1 == 1 && figures(&a, &b).top1_rows == 3);
  const float y[12] = {1, 2, 3, 5, 6, 3, 9, 1, NAN, -INFINITY, -INFINITY, 0};
  const struct array c = floats(2, dims, y);
  const struct compare_bounds none = compare_nothing();
  const struct compare_result got = compared(&a, &c, &none);
  assert_true(got.end == COMPARE_FAILED && got.figures.top1 == 0 && got.figures.top1_rows == 3);
  const float number[12] = {1, 2, 2, 5, 4, 3, 1, 9, 8, -INFINITY, -INFINITY, -INFINITY};
  const struct array d = floats(2, dims, number);
  assert_true(compared(&a, &d, &none).figures.top1 == 0.75);
  assert_true(compared(&d, &a, &none).figures.top1 == 0.75);
  assert_true(got.figures.nonfinite_apart == 3 && got.figures.first_apart == 7);
  const float one[1] = {3};
  const int64_t column[2] = {1, 1};
  const struct array s = floats(0, dims, one), t = floats(2, column, one);
  assert_false(figures(&s, &s).has_top1 || figures(&t, &t).has_top1);
}

static void expect_rows(const float *x, double apart, struct compare_rows wanted) {
  static const int64_t dims[2] = {5, 3};
  static const float r[15] = {1, 2, 2, 5, 4, 3, 1, NAN, 9, 0, 8, 7.5f, -INFINITY, 3, 1};
  const struct array a = floats(2, dims, r), b = floats(2, dims, x);
  struct compare_rows got;
  struct err err = {0};
  assert_int_equal(compare_rows(&a, &b, apart, NULL, &got, &err), 0);
  assert_true(got.counted == wanted.counted && got.changed == wanted.changed &&
              got.close == wanted.close);
}

// Two that are equal are 0 apart, and a row counts that is apart by just as much. A row with a NaN on one side is elsewhere.
static void test_rows(void **state) {
  (void)state;
  const float same[15] = {1, 2, 2, 5, 4, 3, 1, NAN, 9, 0, 8, 7.5f, -INFINITY, 3, 1};
  const float other[15] = {1, 2, 3, 4, 5, 3, 1, 2, 9, 0, 7, 7.5f, -INFINITY, 1, 3};
  expect_rows(same, 0, (struct compare_rows){4, 0, 0});
  const float made[15] = {1, 2, 2, 5, 4, 3, 1, NAN, 9, 0, 8, NAN, NAN, 3, 1};
  expect_rows(made, 0, (struct compare_rows){4, 2, 0});
  expect_rows(made, 100, (struct compare_rows){2, 2, 2});
  expect_rows(other, 0, (struct compare_rows){5, 5, 0});
  expect_rows(other, 0.5, (struct compare_rows){4, 4, 1});
  expect_rows(other, 1, (struct compare_rows){3, 3, 2});
  expect_rows(other, 100, (struct compare_rows){1, 1, 4});
  const int64_t column[2] = {3, 1};
  const struct array thin = floats(2, column, same);
  assert_null(compare_rows_of(&thin));
  const int64_t square[2] = {5, 3};
  const struct array items[3] = {floats(2, column, same), floats(2, square, same),
                                 floats(2, square, other)},
                     moved[3] = {items[0], items[1], items[1]};
  const struct array list = {.kind = ARRAY_SEQUENCE, .items = items, .n_items = 3},
                     result = {.kind = ARRAY_SEQUENCE, .items = moved, .n_items = 3};
  struct compare_rows got;
  struct err err;
  assert_ptr_equal(compare_rows_of(&list), &items[1]);
  assert_int_equal(compare_rows(&list, &result, 0, NULL, &got, &err), 0);
  assert_int_equal(got.counted, 9);
  assert_int_equal(got.changed, 5);
}

// ---- the same wherever they lie ----------------------------------------------------------------

static struct array in_file(const struct array *x, FILE *f, uint64_t offset) {
  assert_int_equal(pwrite(fileno(f), x->at, (size_t)x->bytes, (off_t)offset), (ssize_t)x->bytes);
  struct array a = *x;
  a.at = NULL;
  a.file = file_of_descriptor(fileno(f));
  a.offset = offset;
  return a;
}

// Elements of bits 2 to 64 in memory, in files, and at odd addresses.
static void test_files(void **state) {
  (void)state;
  static const enum dtype types[] = {DTYPE_FLOAT,      DTYPE_INT4,    DTYPE_FLOAT6E2M3,
                                     DTYPE_UINT2,      DTYPE_FLOAT16, DTYPE_DOUBLE,
                                     DTYPE_COMPLEX128, DTYPE_INT64,   DTYPE_BOOL};
  chance_seed = 3;
  for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
    const int64_t dims[2] = {1201, 257};
    struct array a, b, odd;
    uint8_t *r = array_make(&a, "r", types[t], 2, dims, &arena);
    uint8_t *x = array_make(&b, "x", types[t], 2, dims, &arena);
    for (uint64_t i = 0; i < a.bytes; i++) {
      r[i] = (uint8_t)(chance_64() & 0x3f);
      x[i] = chance_below(9) ? r[i] : (uint8_t)(chance_64() & 0x3f);
    }
    odd = b;
    uint8_t *moved = arena_alloc(&arena, (size_t)b.bytes + 1);
    memcpy(moved + 1, x, (size_t)b.bytes);
    odd.at = moved + 1;
    FILE *f = tmpfile();
    assert_non_null(f);
    const struct array fa = in_file(&a, f, 5), fb = in_file(&b, f, 5 + a.bytes);
    const struct compare_figures here = figures(&a, &b), there = figures(&fa, &fb),
                                 mixed = figures(&fa, &odd);
    assert_memory_equal(&here, &there, sizeof here);
    assert_memory_equal(&here, &mixed, sizeof here);
    assert_true(here.unequal > 0 && here.max_abs > 0);
    fclose(f);
  }
}

// Bits of types below a byte lie from the low ones up, and what is behind the last element does not count.
static void test_packed(void **state) {
  (void)state;
  const uint8_t r4[2] = {0x8f, 0x07}, x4[2] = {0x8f, 0xf1}; // int4: -1, -8, 7 and -1, -8, 1
  const struct array a = bytes(DTYPE_INT4, 3, r4), b = bytes(DTYPE_INT4, 3, x4);
  const struct compare_figures f = figures(&a, &b);
  assert_true(f.max_abs == 6 && f.first_worst == 2 && f.unequal == 1 && f.largest == 8);
  const uint8_t r6[2] = {0x48, 0xf0},
                x6[2] = {0x88, 0x00}; // float6e2m3: 1, 0x01 = 0.125; 1, 0x02 = 0.25
  const struct array c = bytes(DTYPE_FLOAT6E2M3, 2, r6), d = bytes(DTYPE_FLOAT6E2M3, 2, x6);
  assert_true(figures(&c, &d).max_abs == 0.125 && figures(&c, &d).unequal == 1);
}

static void test_memory(void **state) {
  (void)state;
  const int64_t small = 200000, large = 4000000;
  struct compare_figures f[2];
  uint64_t more[2];
  for (unsigned i = 0; i < 2; i++) {
    struct array a, b;
    const int64_t n = i ? large : small;
    struct arena own = {0};
    float *r = (float *)(void *)array_make(&a, "r", DTYPE_FLOAT, 1, &n, &own);
    float *x = (float *)(void *)array_make(&b, "x", DTYPE_FLOAT, 1, &n, &own);
    for (int64_t k = 0; k < n; k++) {
      r[k] = (float)(k % 1000);
      x[k] = r[k] + (float)(k % 7) * 0.125f;
    }
    const uint64_t held = resources_held();
    f[i] = figures(&a, &b);
    more[i] = resources_peak() > held ? resources_peak() - held : 0;
    assert_true(f[i].p99_abs == 0.75 && f[i].max_abs == 0.75);
    arena_free(&own);
  }
  assert_true(more[1] <= 8 << 20);
}

static void test_stop(void **state) {
  (void)state;
  const float x[2] = {1, 2};
  const int64_t n = 2;
  const struct array a = floats(1, &n, x);
  const struct compare_bounds none = compare_nothing();
  struct compare_result out;
  struct err err = {0};
  const volatile int stop = 1;
  assert_int_equal(compare_arrays(&a, &a, &none, &stop, &out, &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
}

static void test_short_file(void **state) {
  (void)state;
  const float x[2] = {1, 2};
  const int64_t n = 2;
  const struct array a = floats(1, &n, x);
  FILE *f = tmpfile();
  assert_non_null(f);
  const struct array there = in_file(&a, f, 0);
  assert_int_equal(ftruncate(fileno(f), 5), 0);
  const struct compare_bounds none = compare_nothing();
  struct compare_result out;
  struct err err = {0};
  assert_int_equal(compare_arrays(&a, &there, &none, NULL, &out, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  fclose(f);
}

// ---- edges -------------------------------------------------------------------------------------

static void test_doubles_at_their_ends(void **state) {
  (void)state;
  const double big[4] = {1e300, -2e300, 1e300, 3e-300},
               beside[4] = {1e300, -2e300, 1.001e300, 3e-300};
  const struct array a = bytes(DTYPE_DOUBLE, 4, big), b = bytes(DTYPE_DOUBLE, 4, beside);
  struct compare_figures f = figures(&a, &b);
  assert_true(f.cosine > 0.9999 && f.cosine < 1 && f.sqnr_db > 60 && f.sqnr_db < 80);
  const double least[2] = {3e-300, 4e-300}, off[2] = {3e-300, 4.4e-300};
  const struct array c = bytes(DTYPE_DOUBLE, 2, least), d = bytes(DTYPE_DOUBLE, 2, off);
  f = figures(&c, &d);
  assert_true(near(f.sqnr_db, 10 * log10(25 / 0.16), 1e-9));
  const double end[1] = {1.7e308}, other[1] = {-1.7e308};
  const struct array e = bytes(DTYPE_DOUBLE, 1, end), g = bytes(DTYPE_DOUBLE, 1, other);
  f = figures(&e, &g);
  assert_true(isinf(f.max_abs) && isinf(f.relative) && f.cosine == -1);
  f = figures(&e, &e);
  assert_true(f.max_abs == 0 && f.cosine == 1 && isinf(f.sqnr_db) && f.sqnr_db > 0);
}

static void test_nothing_there(void **state) {
  (void)state;
  const int64_t none[2] = {0, 5}, other[2] = {5, 0};
  const struct array a = floats(2, none, &(float){0}), b = floats(2, other, &(float){0});
  const struct compare_figures f = figures(&a, &a);
  assert_true(f.count == 0 && f.max_abs == 0 && f.cosine == 1 && !f.has_top1);
  const struct compare_bounds bounds = compare_nothing();
  const struct compare_result got = compared(&a, &b, &bounds);
  assert_int_equal(got.end, COMPARE_DIFFERENT);
  assert_string_equal(got.why, "float[0,5] and float[5,0]");
}

static void test_bool(void **state) {
  (void)state;
  const uint8_t r[3] = {0, 1, 1}, x[3] = {0, 255, 0};
  const struct array a = bytes(DTYPE_BOOL, 3, r), b = bytes(DTYPE_BOOL, 3, x);
  const struct compare_figures f = figures(&a, &b);
  assert_true(f.unequal == 1 && f.first_worst == 2 && f.max_abs == 1 && !f.has_top1);
}

static void test_judgement(void **state) {
  (void)state;
  struct compare_bounds b = compare_nothing();
  char why[COMPARE_WHY];
  const struct compare_figures f = {
      .count = 10, .max_abs = 3.1e-4, .cosine = NAN, .unequal = 1, .unequal_zeros = 1};
  assert_int_equal(compare_judge(&f, &b, why), COMPARE_PASSED);
  assert_string_equal(why, "");
  b.max_abs = 3e-5;
  assert_int_equal(compare_judge(&f, &b, why), COMPARE_FAILED);
  assert_string_equal(why, "max abs 0.00031 is above 3e-05");
  b.max_abs = 3.09999e-4;
  assert_int_equal(compare_judge(&f, &b, why), COMPARE_FAILED);
  assert_string_equal(why, "max abs 0.00031 is above 0.000309999");
  b.max_abs = -1;
  b.most_p99 = b.most_p999 = b.most_relative = -1; // none
  assert_int_equal(compare_judge(&f, &b, why), COMPARE_PASSED);
  b.least_cosine = -1; // a figure that is no number meets no bound
  assert_int_equal(compare_judge(&f, &b, why), COMPARE_FAILED);
  b = compare_nothing();
  b.equal = true;
  assert_int_equal(compare_judge(&f, &b, why), COMPARE_FAILED);
  assert_string_equal(why, "1 of 10 elements differs (max abs 0.00031 at element 0)");
  b.zeros_equal = true;
  assert_int_equal(compare_judge(&f, &b, why), COMPARE_PASSED);
  const struct compare_figures odd = {.count = 2, .nonfinite = {1, 1}, .first_nonfinite = {1, 1}};
  assert_int_equal(compare_judge(&odd, &b, why), COMPARE_PASSED);
  b.nonfinite = false;
  assert_int_equal(compare_judge(&odd, &b, why), COMPARE_FAILED);
  assert_string_equal(why, "1 element of the reference is not finite, the first is element 1");
}

static int free_all(void **state) {
  (void)state;
  arena_free(&arena);
  return 0;
}

// A step may be lost beside the relative bound, unless all there is are zeros and ones.
static void test_a_step(void **state) {
  (void)state;
  const int8_t codes[4] = {100, -50, 0, 7}, next[4] = {99, -50, 1, 7}, far[4] = {98, -50, 0, 7};
  const int8_t truth[4] = {1, 0, 1, 0}, other[4] = {1, 1, 1, 0};
  struct compare_bounds b = compare_nothing();
  b.most_relative = 1e-4;
  const struct array a = bytes(DTYPE_INT8, 4, codes), n = bytes(DTYPE_INT8, 4, next),
                     f = bytes(DTYPE_INT8, 4, far), t = bytes(DTYPE_INT8, 4, truth),
                     o = bytes(DTYPE_INT8, 4, other);
  assert_int_equal(compared(&a, &n, &b).end, COMPARE_FAILED);
  b.step = true;
  assert_int_equal(compared(&a, &n, &b).end, COMPARE_PASSED);
  assert_int_equal(compared(&a, &f, &b).end, COMPARE_FAILED);
  assert_int_equal(compared(&t, &o, &b).end, COMPARE_FAILED);
  b.most_relative = -1;
  assert_int_equal(compared(&a, &f, &b).end, COMPARE_PASSED);
}

int test_compare(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_top1),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_packed),
      cmocka_unit_test(test_stop),
      cmocka_unit_test(test_short_file),
      cmocka_unit_test(test_doubles_at_their_ends),
      cmocka_unit_test(test_nothing_there),
      cmocka_unit_test(test_bool),
      cmocka_unit_test(test_judgement),
      cmocka_unit_test(test_a_step),
  };
  return cmocka_run_group_tests(tests, NULL, free_all);
}
