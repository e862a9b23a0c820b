// Guesses: distances as defined, near words found, far ones not.
#include "base/guess.h"

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

static void test_distance(void **state) {
  (void)state;
  assert_int_equal(guess_distance("", ""), 0);
  assert_int_equal(guess_distance("", "abc"), 3);
  assert_int_equal(guess_distance("force", "force"), 0);
  assert_int_equal(guess_distance("forse", "force"), 1);
  assert_int_equal(guess_distance("froce", "force"), 1);
  assert_int_equal(guess_distance("orce", "force"), 1);
  assert_int_equal(guess_distance("fforce", "force"), 1);
  assert_int_equal(guess_distance("kitten", "sitting"), 3);
  assert_int_equal(guess_distance("ca", "abc"), 3); // optimal string alignment, not full Damerau
  const char *long_word = "012345678901234567890123456789012345678901234567";
  assert_int_equal(guess_distance(long_word, "force"), UINT32_MAX);
  assert_int_equal(guess_distance("force", long_word), UINT32_MAX);
}

static void test_nearest(void **state) {
  (void)state;
  struct guess g = guess_start("fo");
  guess_try(&g, "zoo");
  assert_null(g.best);
  guess_try(&g, "form");
  assert_string_equal(g.best, "form");
  g = guess_start("xyz");
  guess_try(&g, "abc");
  assert_null(g.best);
  g = guess_start("block-size"); // a flag for a key
  guess_try(&g, "block_size");
  assert_string_equal(g.best, "block_size");
}

// The nearest word may mean the opposite.
static void test_opposites(void **state) {
  (void)state;
  assert_true(guess_is_opposite("asymmetric", "symmetric"));
  assert_true(guess_is_opposite("no-symmetric", "symmetric"));
  assert_true(guess_is_opposite("no_force", "force"));
  assert_false(guess_is_opposite("symmetric", "symmetric"));
  assert_false(guess_is_opposite("asymmetric", "symm"));
  assert_false(guess_is_opposite("symmetric", "asymmetric"));
  struct guess g = guess_start("asymmetric");
  guess_try(&g, "symmetric");
  assert_null(g.best);
  g = guess_start("symetric"); // the control
  guess_try(&g, "symmetric");
  assert_string_equal(g.best, "symmetric");
}

int test_guess(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_distance),
                                     cmocka_unit_test(test_nearest),
                                     cmocka_unit_test(test_opposites)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
