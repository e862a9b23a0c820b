// Spans: a NUL found wherever it is, and nothing else taken for one; hashes that differ where texts do.
#include "base/span.h"

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

int test_span(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_nul_is_found_wherever_it_is),
                                     cmocka_unit_test(a_hash_sees_every_byte)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
