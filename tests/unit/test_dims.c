// Symbolic dims: the vectors of shape arithmetic, limits and bombs, what was declared equal, text read
// again, and random expressions against a direct evaluation of how they were made.
#include "chance.h"
#include "dims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static struct dims *d;
static struct arena scratch;

static int begin(void **state) {
  (void)state;
  d = dims_new();
  return 0;
}

static int end(void **state) {
  (void)state;
  dims_free(d);
  arena_free(&scratch);
  return 0;
}

static dim_id n(int64_t x) {
  return dims_number(d, x);
}

static dim_id sym(const char *name) {
  return dims_symbol(d, span_str(name), 1);
}

// As it is written, with lower bounds of 1.
static dim_id e(const char *text) {
  return dims_parse(d, span_str(text), 1);
}

static const char *text(dim_id x) {
  return arena_string(&scratch, dims_text(d, x, &scratch));
}

static void is(dim_id x, const char *expected) {
  assert_string_equal(text(x), expected);
  assert_int_equal(e(expected), x);
}

static void test_numbers(void **state) {
  int64_t x;
  (void)state;
  assert_int_equal(n(3), n(3));
  assert_int_not_equal(n(3), n(4));
  assert_true(dims_is_number(d, dims_add(d, n(3), n(4)), &x));
  assert_int_equal(x, 7);
  assert_false(dims_is_number(d, sym("t"), &x));
  assert_int_equal(dims_floor_div(d, n(-7), n(2)), n(-4));
  assert_int_equal(dims_floor_div(d, n(7), n(-2)), n(-4));
  assert_int_equal(dims_ceil_div(d, n(-7), n(2)), n(-3));
  assert_int_equal(dims_ceil_div(d, n(7), n(2)), n(4));
  assert_int_equal(dims_ceil_div(d, n(7), n(-2)), n(-3));
  assert_int_equal(dims_trunc_div(d, n(-7), n(2)), n(-3));
  assert_int_equal(dims_mod(d, n(-7), n(2)), n(1));
  assert_int_equal(dims_mod(d, n(7), n(-2)), n(-1));
  assert_int_equal(dims_exact_div(d, n(6), n(-3)), n(-2));
  assert_int_equal(dims_exact_div(d, n(7), n(2)), NO_ID);
  assert_int_equal(dims_floor_div(d, n(7), n(0)), NO_ID);
  assert_int_equal(dims_mod(d, sym("t"), n(0)), NO_ID);
  assert_int_equal(dims_floor_div(d, n(INT64_MIN), n(-1)), NO_ID);
  assert_int_equal(dims_add(d, NO_ID, n(1)), NO_ID);
  is(n(INT64_MIN), "(-9223372036854775807 - 1)");
}

static void test_vectors(void **state) {
  (void)state;
  const dim_id t = sym("t"), s = sym("s"), b = sym("b");
  // A quotient that is one less.
  is(dims_floor_div(d, dims_sub(d, t, n(1)), n(2)), "(t + 1)//2 - 1");
  assert_int_equal(e("(t - 1)//2 + 1"), e("(t + 1)//2"));
  // Convolutions of width 3, stride 2 and pads 1, 1, and lengths of ranges.
  static const char *const conv[] = {"(t + 1)//2", "(t + 3)//4", "(t + 7)//8"};
  dim_id x = t;
  for (uint32_t i = 0; i < 3; i++) {
    x = dims_add(d, dims_floor_div(d, dims_sub(d, dims_add(d, x, n(2)), n(3)), n(2)), n(1));
    is(x, conv[i]);
    const dim_id limit =
        dims_add(d, n(1), dims_trunc_div(d, dims_sub(d, t, n(1)), n(INT64_C(2) << i)));
    assert_int_equal(dims_max(d, n(0), dims_ceil_div(d, limit, n(1))), x);
  }
  const dim_id two_l = dims_sub(d, dims_mul(d, n(2), x), n(1));
  // Range(L - 1, -L, -1)
  const dim_id down = dims_sub(d, dims_neg(d, x), dims_sub(d, x, n(1)));
  assert_int_equal(dims_max(d, n(0), dims_ceil_div(d, down, n(-1))), two_l);
  // [b, 8, L, 2L] as [b, 8, -1, L]
  const dim_id all = dims_mul(d, dims_mul(d, b, n(8)), dims_mul(d, x, dims_mul(d, n(2), x)));
  const dim_id rest = dims_mul(d, dims_mul(d, b, n(8)), x);
  assert_int_equal(dims_exact_div(d, all, rest), dims_mul(d, n(2), x));
  // A slice 0:L of 2L - 1.
  assert_int_equal(dims_min(d, x, two_l), x);
  assert_int_equal(dims_max(d, dims_min(d, n(128), s), s), s);
  assert_int_equal(dims_exact_div(d, dims_mul(d, b, s), b), s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_numbers, begin, end),
      cmocka_unit_test_setup_teardown(test_vectors, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
