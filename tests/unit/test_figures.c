// Sums of error figures: the tree against its recursive definition, what follows from the sums, and
// that nothing is lost of what is not finite.
#include "stream/staging/figure_sums.h"

#include "chance.h"

#include <math.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { LEAVES = 300 };

static struct figures leaf_of(uint64_t i) {
  const double x = (double)((i * 2654435761u) % 1000003) / 7;
  return (struct figures){
      .elements = i, .nonfinite = i % 3, .vv = x, .ee = x / 1e7, .ve = -x / 3, .max_error = x};
}

static uint64_t largest_below(uint64_t n) {
  uint64_t p = 1;
  while (p * 2 < n)
    p *= 2;
  return p;
}

// The definition: of n leaves, the left part has the largest power of two below n.
static struct figures defined(uint64_t first, uint64_t n) {
  if (n == 1) return leaf_of(first);
  const uint64_t left = largest_below(n);
  const struct figures a = defined(first, left), b = defined(first + left, n - left);
  return figures_join(&a, &b);
}

static void test_tree(void **state) {
  (void)state;
  for (uint64_t n = 1; n <= LEAVES; n++) {
    struct figures_tree t = {0};
    for (uint64_t i = 0; i < n; i++) {
      const struct figures leaf = leaf_of(i);
      figures_push(&t, &leaf);
    }
    const struct figures is = figures_root(&t), must = defined(0, n);
    assert_memory_equal(&is, &must, sizeof is);
  }
}

// Runs of 16 leaves made apart, the last one shorter, give the same root.
static void test_parts(void **state) {
  (void)state;
  for (uint64_t n = 1; n <= LEAVES; n++) {
    struct figures_tree all = {0};
    for (uint64_t first = 0; first < n; first += 16) {
      struct figures_tree part = {0};
      for (uint64_t i = first; i < n && i < first + 16; i++) {
        const struct figures leaf = leaf_of(i);
        figures_push(&part, &leaf);
      }
      const struct figures sum = figures_root(&part);
      figures_push(&all, &sum);
    }
    const struct figures is = figures_root(&all), must = defined(0, n);
    assert_memory_equal(&is, &must, sizeof is);
  }
}

static void test_derived(void **state) {
  (void)state;
  // Elements 3, 4 that became 3, 3: e = 0, 1.
  const struct figures f = {.elements = 2, .vv = 25, .ee = 1, .ve = 4, .max_error = 1};
  assert_true(fabs(figures_sqnr_db(&f) - 13.979400086720377) < 1e-12);
  assert_true(fabs(figures_cosine(&f) - 21 / (5 * sqrt(18))) < 1e-15);
  assert_true(fabs(figures_rmse(&f) - sqrt(0.5)) < 1e-15);
  const struct figures exact = {.elements = 2, .vv = 25};
  assert_true(isinf(figures_sqnr_db(&exact)) && figures_cosine(&exact) == 1);
  const struct figures lost = {.elements = 2, .vv = 25, .ee = 25, .ve = 25};
  assert_true(figures_cosine(&lost) == 0 && figures_sqnr_db(&lost) == 0);
  // To the last digit, whatever the C library; from 0 and from values below 1 too.
  const struct figures measured = {.vv = 44.34513661265373, .ee = 0.3723684770957334};
  assert_true(figures_sqnr_db(&measured) == 20.758730885462498);
  const struct figures worse = {.vv = 1, .ee = 1000}, nothing = {.vv = 0, .ee = 1};
  assert_true(fabs(figures_sqnr_db(&worse) + 30) < 1e-14 && figures_sqnr_db(&nothing) == -INFINITY);
  const struct figures none = {0};
  assert_true(figures_cosine(&none) == 1 && figures_rmse(&none) == 0);
}

static void test_nan(void **state) {
  (void)state;
  const struct figures a = {.max_error = 2, .vv = 1}, bad = {.max_error = NAN, .vv = NAN};
  const struct figures left = figures_join(&bad, &a), right = figures_join(&a, &bad);
  assert_true(isnan(left.max_error) && isnan(right.max_error));
  assert_true(isnan(figures_sqnr_db(&left)) && isnan(figures_cosine(&right)));
}

// A run of leaves of two segments made in parts: joined they are what one worker would have found.
static void test_joined_parts(void **state) {
  (void)state;
  for (uint32_t turn = 0; turn < 500; turn++) {
    struct figure_sums whole = {0}, joined = {0};
    chance_seed = turn;
    for (uint32_t segment = 0; segment < 2; segment++) {
      const uint64_t first = chance_below(50), end = first + chance_below(200);
      for (uint64_t i = first; i < end;) {
        struct figure_sums part = {0};
        for (uint64_t to = i + 1 + chance_below(40); i < to && i < end; i++) {
          const struct figures f = leaf_of(i);
          figure_sums_push(&whole, segment, i, &f);
          figure_sums_push(&part, segment, i, &f);
        }
        figure_sums_join(&joined, &part);
        figure_sums_free(&part);
      }
    }
    assert_int_equal(joined.n, whole.n);
    for (size_t i = 0; i < whole.n; i++) {
      assert_int_equal(joined.rows[i].segment, whole.rows[i].segment);
      assert_int_equal(joined.rows[i].level, whole.rows[i].level);
      assert_int_equal(joined.rows[i].index, whole.rows[i].index);
      assert_memory_equal(&joined.rows[i].f, &whole.rows[i].f, sizeof whole.rows[i].f);
    }
    figure_sums_free(&whole);
    figure_sums_free(&joined);
  }
}

int test_figures(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tree),         cmocka_unit_test(test_parts),
      cmocka_unit_test(test_joined_parts), cmocka_unit_test(test_derived),
      cmocka_unit_test(test_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
