// The k-th least of numbers that come by: against a sorted copy, for every kind of numbers that takes the
// search another way, and never in more than four passes.
#include "verify/compare/inside/quantiles.h"

#include "chance.h"

#include <math.h>
#include <stdlib.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { MANY = 300000, PIECE = 1000 };

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// A pass in pieces, of which those that are all 0 come by as that.
static void pass_by(struct quantiles *q, const double *x, size_t n) {
  for (size_t at = 0; at < n; at += PIECE) {
    const size_t some = n - at < PIECE ? n - at : PIECE;
    size_t zeros = 0;
    while (zeros < some && x[at + zeros] == 0)
      zeros++;
    if (zeros == some)
      quantiles_take_zeros(q, some);
    else
      quantiles_take(q, x + at, some);
  }
}

// Passes that both took.
static unsigned expect(const double *x, size_t n, uint64_t first, uint64_t second) {
  const uint64_t ranks[QUANTILES] = {first, second};
  struct arena a = {0};
  struct quantiles q;
  double *sorted = arena_alloc(&a, n * sizeof *sorted);
  memcpy(sorted, x, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, ascending);
  unsigned passes = 0;
  quantiles_open(&q, n, ranks, &a);
  do {
    pass_by(&q, x, n);
    passes++;
  } while (quantiles_again(&q));
  for (unsigned i = 0; i < QUANTILES; i++)
    assert_true(q.of[i].done && q.of[i].answer == sorted[ranks[i] - 1]);
  arena_free(&a);
  return passes;
}

static double uniform(void) {
  return (double)(chance_64() >> 11) * 0x1p-53;
}

// One pass where all fit a list, whatever they are.
static void test_few(void **state) {
  (void)state;
  static double x[3000];
  chance_seed = 1;
  for (size_t n = 1; n <= 3000; n += n < 20 ? 1 : 271) {
    for (size_t i = 0; i < n; i++)
      x[i] = chance_below(4) ? uniform() * pow(10, (double)chance_below(600) - 300) : 0;
    assert_int_equal(expect(x, n, n - n / 100, n - n / 1000), 1);
    assert_int_equal(expect(x, n, 1, (n + 1) / 2), 1);
  }
}

enum kind {
  SPREAD,
  ALL_SIZES,
  STEPS,
  ZEROS,
  ONE_BIN,
  TWO_BINS,
  LAST_BITS,
  EQUAL,
  INFINITE,
  TINY,
  KINDS
};

static double number(enum kind kind) {
  switch (kind) {
  case SPREAD: return uniform();
  case ALL_SIZES: return uniform() * pow(10, (double)chance_below(600) - 300);
  case STEPS: return (double)chance_below(5) * 0.25;
  case ZEROS: return chance_below(200) ? 0 : uniform();
  case ONE_BIN: return 1 + uniform() * 0x1p-6;
  case TWO_BINS: return 1 + uniform() * 0x1p-25;
  case LAST_BITS: return 1 + (double)chance_below(30) * 0x1p-52;
  case EQUAL: return 0.1;
  case INFINITE: return chance_below(50) ? 1 : INFINITY;
  default: return (double)chance_below(7) * 0x1p-1074;
  }
}

static void test_many(void **state) {
  (void)state;
  static double x[MANY];
  static const unsigned most[KINDS] = {
      [SPREAD] = 2,   [ALL_SIZES] = 2, [STEPS] = 2, [ZEROS] = 2,    [ONE_BIN] = 3,
      [TWO_BINS] = 4, [LAST_BITS] = 4, [EQUAL] = 2, [INFINITE] = 2, [TINY] = 4};
  chance_seed = 2;
  for (unsigned kind = 0; kind < KINDS; kind++) {
    for (size_t i = 0; i < MANY; i++)
      x[i] = number((enum kind)kind);
    assert_in_range(expect(x, MANY, MANY - MANY / 100, MANY - MANY / 1000), 2, most[kind]);
    assert_in_range(expect(x, MANY, 1, MANY), 2, 4);
    assert_in_range(expect(x, MANY, MANY / 2, MANY / 3), 2, 4);
  }
}

int test_quantiles(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_few), cmocka_unit_test(test_many)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
