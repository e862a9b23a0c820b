// Patterns over names: what matches, what is refused with which place, and distances.
#include "passes/questions/name_pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool matches(const char *text, const char *name) {
  struct name_pattern p;
  struct err err = {0};
  assert_int_equal(name_pattern_compile(&p, text, "--exclude", &err), 0);
  bool yes = name_pattern_look(&p, name);
  assert_int_equal(p.matches, yes);
  name_pattern_done(&p);
  return yes;
}

static void globs_take_the_whole_name(void **state) {
  (void)state;
  assert_true(matches("*", "a"));
  assert_true(matches("/layers/*/MatMul", "/layers/0/self_attn/MatMul"));
  assert_true(matches("w?[a-c]", "w1b"));
  assert_true(matches("a\\*", "a*"));
  assert_false(matches("a\\*", "ab"));
  assert_false(matches("w", "w1"));
  assert_false(matches("w?[a-c]", "w1d"));
  assert_true(matches("*.weight", ".weight")); // a leading dot is no special thing here
}

static void expressions_are_found_anywhere(void **state) {
  (void)state;
  assert_true(matches("re:layers\\.[0-3]\\.", "model.layers.2.fc"));
  assert_false(matches("re:layers\\.[0-3]\\.", "model.layers.4.fc"));
  assert_true(matches("re:^(fc|proj)$", "fc"));
  assert_false(matches("re:^(fc|proj)$", "fc1"));
}

static void an_empty_name_matches_nothing(void **state) {
  (void)state;
  assert_false(matches("*", ""));
  assert_false(matches("re:.*", ""));
}

static void bad_ones_are_refused(void **state) {
  static const struct {
    const char *text, *place;
  } cases[] = {{"re:a(b", "'re:a(b'"},
               {"re:[z", "'re:[z'"},
               {"re:abc[z-a]d", "at character 7 of"},
               {"re:((((a{1,255}){1,255}){1,255}){1,255})", "written out"},
               {"re:((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)", "written out"},
               {"re:a{2001}", "2001 characters"},
               {"re:a{1000}b{1001}", "2001 characters"},
               {"re:[a{1]{1000,}[]b]{1000,1000}", "2001 characters"},
               {"re:", "empty"},
               {"", "empty"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct name_pattern p;
    struct err err = {0};
    assert_int_equal(name_pattern_compile(&p, cases[i].text, "--include", &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
    assert_non_null(strstr(err.msg, "--include"));
    assert_non_null(strstr(err.msg, cases[i].place));
    assert_true(err.hint[0] != 0);
  }
}

static void large_ones_are_refused(void **state) {
  (void)state;
  enum { DEEP = 30000 };
  static char text[2 * DEEP + 8] = "re:";
  memset(text + 3, '(', DEEP);
  memset(text + 3 + DEEP, ')', DEEP);
  struct name_pattern p;
  struct err err = {0};
  assert_int_equal(name_pattern_compile(&p, text, "--exclude", &err), -1);
  assert_non_null(strstr(err.msg, "60000 characters; the limit is 1000"));
  text[3 + 500] = 0; // 500 that are not closed: measured, then refused by regcomp
  assert_int_equal(name_pattern_compile(&p, text, "--exclude", &err), -1);
}

static void repetitions_within_the_limit_are_taken(void **state) {
  (void)state;
  assert_true(matches("re:^a{1990}$|^b+$", "bb"));
  assert_true(matches("re:^[0-9]{1,3}(\\.[0-9]{1,3}){3}$", "10.0.0.255"));
  assert_true(matches("re:^[[:alpha:]{9]{2,}\\{9999$", "ab{9999")); // braces that repeat nothing
}

static uint32_t distance(const char *text, const char *name) {
  struct name_pattern p;
  struct err err = {0};
  assert_int_equal(name_pattern_compile(&p, text, "--tensor", &err), 0);
  uint32_t d = name_pattern_distance(&p, name);
  name_pattern_done(&p);
  return d;
}

static void distances(void **state) {
  (void)state;
  assert_int_equal(distance("fc1", "fc1"), 0);
  assert_int_equal(distance("fc1", "fc2"), 1);
  assert_int_equal(distance("fc", "fc10"), 2);
  assert_int_equal(distance("*lm_haed*", "model.lm_head.weight"), 2);
  assert_int_equal(distance("a?c", "abc"), 0);
  assert_int_equal(distance("re:fc.", "fcx"), 0);
  assert_int_equal(distance("*", "anything"), 0);
}

int test_name_pattern(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(globs_take_the_whole_name),
                                     cmocka_unit_test(expressions_are_found_anywhere),
                                     cmocka_unit_test(an_empty_name_matches_nothing),
                                     cmocka_unit_test(bad_ones_are_refused),
                                     cmocka_unit_test(large_ones_are_refused),
                                     cmocka_unit_test(repetitions_within_the_limit_are_taken),
                                     cmocka_unit_test(distances)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
