// What a line of progress says: the rate and the remaining time are of this process alone, whatever
// a run before it had made.
#include "progress.h"

#include <string.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

#define MB ((uint64_t)1000000)

static void expect_line(const struct progress *p, const char *want) {
  char line[512];
  progress_line(line, sizeof line, p);
  assert_string_equal(line, want);
}

static void test_fresh(void **state) {
  (void)state;
  const struct progress p = {
      .label = "writing", .what = "w", .done = 500 * MB, .total = 2000 * MB, .seconds = 10};
  assert_int_equal(progress_rate(&p), 50 * MB);
  assert_int_equal(progress_left(&p), 30);
  expect_line(&p, "writing    25 %  500 MB of 2.00 GB  50.0 MB/s  0:30 left  w");
}

// 1500 MB were there: 100 MB in 10 s are 10 MB/s, and the last 400 MB take 40 s. Counting what was
// there would give 160 MB/s and 2 s.
static void test_resumed(void **state) {
  (void)state;
  const struct progress p = {.label = "writing",
                             .already = 1500 * MB,
                             .done = 1600 * MB,
                             .total = 2000 * MB,
                             .seconds = 10};
  assert_int_equal(progress_rate(&p), 10 * MB);
  assert_int_equal(progress_left(&p), 40);
  expect_line(&p, "writing    80 %  1.60 GB of 2.00 GB  10.0 MB/s  0:40 left");
}

static void test_resumed_and_nothing_made_yet(void **state) {
  (void)state;
  const struct progress p = {
      .already = 1500 * MB, .done = 1500 * MB, .total = 2000 * MB, .seconds = 10};
  assert_int_equal(progress_rate(&p), 0);
  assert_true(progress_left(&p) == UINT64_MAX);
  expect_line(&p, "           75 %  1.50 GB of 2.00 GB");
}

static void test_too_early(void **state) {
  (void)state;
  struct progress p = {.done = 500 * MB, .total = 2000 * MB, .seconds = 0.25};
  assert_int_equal(progress_rate(&p), 0);
  assert_true(progress_left(&p) == UINT64_MAX);
  p = (struct progress){.done = MB, .total = 2000 * MB, .seconds = 10}; // a rate, but no forecast
  assert_int_equal(progress_rate(&p), MB / 10);
  assert_true(progress_left(&p) == UINT64_MAX);
}

static void test_ends(void **state) {
  (void)state;
  struct progress p = {.label = "checking", .done = 60 * MB, .total = 60 * MB, .seconds = 2};
  expect_line(&p, "checking  100 %  60.0 MB of 60.0 MB  30.0 MB/s");
  p = (struct progress){.label = "writing", .seconds = 2}; // nothing to do
  expect_line(&p, "writing   100 %  0 bytes of 0 bytes");
  p = (struct progress){.done = 5 * MB, .already = 9 * MB, .total = 20 * MB, .seconds = 1};
  assert_int_equal(progress_rate(&p), 0); // never a wrap below zero
  p = (struct progress){.done = 1000 * MB, .total = 8200 * MB, .seconds = 1000};
  assert_int_equal(progress_left(&p), 7200);
  expect_line(&p, "           12 %  1.00 GB of 8.20 GB  1.00 MB/s  120:00 left");
}

static void test_room(void **state) {
  (void)state;
  const struct progress p = {.what = "w", .done = 500 * MB, .total = 2000 * MB, .seconds = 10};
  char whole[512], line[512];
  progress_line(whole, sizeof whole, &p);
  for (size_t room = 1; room <= strlen(whole) + 1; room++) {
    memset(line, '#', sizeof line);
    progress_line(line, room, &p);
    assert_int_equal(strlen(line), room - 1);
    assert_memory_equal(line, whole, room - 1);
    assert_int_equal(line[room], '#');
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fresh),
      cmocka_unit_test(test_resumed),
      cmocka_unit_test(test_resumed_and_nothing_made_yet),
      cmocka_unit_test(test_too_early),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
