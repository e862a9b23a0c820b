// Spans: a NUL found wherever it is, and nothing else taken for one; hashes that differ where texts do.
#include "base/span.h"

#include "chance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

enum { LONGEST = 40 };

static void a_nul_is_found_wherever_it_is(void **state) {
  (void)state;
  static const uint8_t fills[] = {1, 0x7f, 0x80, 0x81, 0xff};
  uint8_t text[LONGEST + 2] = {0}; // with a NUL on both sides that does not belong to it
  for (size_t fill = 0; fill < sizeof fills; fill++)
    for (size_t n = 0; n <= LONGEST; n++) {
      memset(text, 0, sizeof text);
      memset(text + 1, fills[fill], n);
      assert_false(span_has_nul(span_of(text + 1, n)));
      for (size_t at = 0; at < n; at++) {
        text[1 + at] = 0;
        assert_true(span_has_nul(span_of(text + 1, n)));
        text[1 + at] = fills[fill];
      }
    }
}

// Texts of one length that differ in one byte have different hashes, and bytes around count for
// nothing.
static void a_hash_sees_every_byte(void **state) {
  (void)state;
  uint8_t text[LONGEST + 2], other[LONGEST + 2];
  for (size_t n = 1; n <= LONGEST; n++)
    for (size_t at = 0; at < n; at++) {
      memset(text, 'x', sizeof text);
      memset(other, 'y', sizeof other);
      memset(other + 1, 'x', n);
      assert_int_equal(span_hash(span_of(text + 1, n)), span_hash(span_of(other + 1, n)));
      other[1 + at] = 'z';
      assert_int_not_equal(span_hash(span_of(text + 1, n)), span_hash(span_of(other + 1, n)));
    }
}

// The first place, as a search byte by byte finds it. Words of two letters meet themselves often; one is longer than any step.
static const uint8_t *found_slowly(struct span text, struct span what) {
  for (size_t i = 0; i + what.n <= text.n; i++)
    if (memcmp(text.at + i, what.at, what.n) == 0) return text.at + i;
  return NULL;
}

static void a_word_is_found_where_it_is_first(void **state) {
  (void)state;
  static const size_t lengths[] = {1, 2, 3, 5, 8, 254, 255, 256, 400};
  uint8_t text[1200];
  uint32_t found = 0;
  for (uint32_t i = 0; i < 4000; i++) {
    const size_t n = lengths[i % (sizeof lengths / sizeof *lengths)];
    for (size_t k = 0; k < sizeof text; k++)
      text[k] = (uint8_t)(n < 100 ? "ab"[chance_below(2)] : "aaaaaaab"[chance_below(8)]);
    const struct span all = span_of(text, sizeof text - chance_below(1200));
    const struct span what = span_of(text + chance_below(sizeof text - n + 1), n);
    const uint8_t *at = span_find(all, what);
    assert_ptr_equal(at, found_slowly(all, what));
    found += at != NULL;
  }
  assert_true(found > 1000 && found < 3900);
  assert_null(span_find(span_of(NULL, 0), span_str("a")));
  assert_null(span_find(span_of("a", 0), span_str("a")));
  assert_ptr_equal(span_find(span_of(text, 3), span_str("")), text);
}

static void a_part_behind_the_last_one(void **state) {
  (void)state;
  assert_true(span_is(span_behind(span_str("a.b.c"), '.'), "c"));
  assert_true(span_is(span_behind(span_str("a.b."), '.'), ""));
  assert_true(span_is(span_behind(span_str("abc"), '.'), "abc"));
  assert_int_equal(span_behind(span_of(NULL, 0), '.').n, 0);
}

static void letters_count_in_any_case(void **state) {
  (void)state;
  assert_true(str_begins_in_any_case("ONNX-Runtime", "onnx-"));
  assert_true(str_begins_in_any_case("onnx", "") && str_begins_in_any_case("", ""));
  assert_false(str_begins_in_any_case("onn", "onnx") || str_begins_in_any_case("", "x"));
  assert_false(str_begins_in_any_case("\xc3\xa4", "\xc3\x84")); // of ASCII alone
  assert_true(str_is_in_any_case(".OnnX", ".onnx"));
  assert_false(str_is_in_any_case(".onnx_", ".onnx") || str_is_in_any_case(".onn", ".onnx"));
}

static void no_more_of_a_text_is_looked_at(void **state) {
  (void)state;
  const char open[3] = {'a', 'b', 'c'}; // without a NUL
  assert_int_equal(str_length(open, 3), 3);
  assert_int_equal(str_length("ab", 3), 2);
  assert_int_equal(str_length("ab", 1), 1);
  assert_int_equal(str_length("", 0), 0);
}

static void a_secret_is_gone(void **state) {
  (void)state;
  char text[] = "-secret-";
  span_wipe(span_of(text + 1, 6));
  span_wipe(span_of(NULL, 0));
  assert_memory_equal(text, "-\0\0\0\0\0\0-", sizeof text);
}

int test_span(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_nul_is_found_wherever_it_is),
                                     cmocka_unit_test(a_hash_sees_every_byte),
                                     cmocka_unit_test(a_word_is_found_where_it_is_first),
                                     cmocka_unit_test(a_part_behind_the_last_one),
                                     cmocka_unit_test(letters_count_in_any_case),
                                     cmocka_unit_test(no_more_of_a_text_is_looked_at),
                                     cmocka_unit_test(a_secret_is_gone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
