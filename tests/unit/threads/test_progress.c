// What a line of progress says: the rate and the remaining time are of this process alone, whatever
// a run before it had made.
#include "cli/progress.h"

#include <string.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

#define MB ((uint64_t)1000000)

// Work is bytes here, unless a test says otherwise.
static struct progress at(uint64_t already, uint64_t done, uint64_t total, double seconds) {
  return (struct progress){.told = {.bytes_already = already,
                                    .bytes_done = done,
                                    .bytes_total = total,
                                    .work_already = (double)already,
                                    .work_done = (double)done,
                                    .work_total = (double)total},
                           .seconds = seconds};
}

static struct progress called(struct progress p, const char *label, const char *tensor) {
  p.label = label;
  p.told.tensor = tensor;
  return p;
}

static void expect_line(const struct progress *p, const char *want) {
  char line[512];
  progress_line(line, sizeof line, p);
  assert_string_equal(line, want);
}

static void test_fresh(void **state) {
  (void)state;
  const struct progress p = called(at(0, 500 * MB, 2000 * MB, 10), "writing", "w");
  assert_int_equal(progress_rate(&p), 50 * MB);
  assert_int_equal(progress_left(&p), 30);
  expect_line(&p, "writing    25 %  500 MB of 2.00 GB  50.0 MB/s  0:30 left  w");
}

// A quarter of the bytes is a hundredth of the work: what is left is codes that take a search.
static void test_work_is_not_bytes(void **state) {
  (void)state;
  struct progress p = called(at(0, 500 * MB, 2000 * MB, 2), "writing", NULL);
  p.told.work_total = 20 * p.told.work_done;
  assert_int_equal(progress_rate(&p), 250 * MB);
  assert_int_equal(progress_left(&p), 38);
  expect_line(&p, "writing     5 %  500 MB of 2.00 GB  250 MB/s  0:38 left");
}

// 1500 MB were there: 100 MB in 10 s are 10 MB/s, and the last 400 MB take 40 s. Counting what was
// there would give 160 MB/s and 2 s.
static void test_resumed(void **state) {
  (void)state;
  const struct progress p = called(at(1500 * MB, 1600 * MB, 2000 * MB, 10), "writing", NULL);
  assert_int_equal(progress_rate(&p), 10 * MB);
  assert_int_equal(progress_left(&p), 40);
  expect_line(&p, "writing    80 %  1.60 GB of 2.00 GB  10.0 MB/s  0:40 left");
}

static void test_resumed_and_nothing_made_yet(void **state) {
  (void)state;
  const struct progress p = at(1500 * MB, 1500 * MB, 2000 * MB, 10);
  assert_int_equal(progress_rate(&p), 0);
  assert_true(progress_left(&p) == UINT64_MAX);
  expect_line(&p, "           75 %  1.50 GB of 2.00 GB");
}

static void test_too_early(void **state) {
  (void)state;
  struct progress p = at(0, 500 * MB, 2000 * MB, 0.25);
  assert_int_equal(progress_rate(&p), 0);
  assert_true(progress_left(&p) == UINT64_MAX);
  p = at(0, MB, 2000 * MB, 10); // a rate, but no forecast
  assert_int_equal(progress_rate(&p), MB / 10);
  assert_true(progress_left(&p) == UINT64_MAX);
}

static void test_ends(void **state) {
  (void)state;
  struct progress p = called(at(0, 60 * MB, 60 * MB, 2), "checking", NULL);
  expect_line(&p, "checking  100 %  60.0 MB of 60.0 MB  30.0 MB/s");
  p = called(at(0, 0, 0, 2), "writing", NULL); // nothing to do
  expect_line(&p, "writing   100 %  0 bytes of 0 bytes");
  p = at(9 * MB, 5 * MB, 20 * MB, 1);
  assert_int_equal(progress_rate(&p), 0); // never a wrap below zero
  assert_true(progress_left(&p) == UINT64_MAX);
  p = at(0, 1000 * MB, 8200 * MB, 1000);
  assert_int_equal(progress_left(&p), 7200);
  expect_line(&p, "           12 %  1.00 GB of 8.20 GB  1.00 MB/s  120:00 left");
}

static void expect_event(const struct progress *p, const char *event, const char *want) {
  struct json_out line = {.indent = 0};
  progress_event(&line, event, "quantize", p);
  assert_string_equal(line.text, want);
  json_done(&line);
}

static void test_events(void **state) {
  (void)state;
  struct progress p = called(at(0, 500 * MB, 2000 * MB, 10), "writing", "layers.3 \"w\"");
  expect_event(
      &p, "progress",
      "{\"event\":\"progress\",\"command\":\"quantize\",\"label\":\"writing\",\"done\":500000000,"
      "\"total\":2000000000,\"share\":0.25,\"seconds\":10.0,\"left_seconds\":30,"
      "\"tensor\":\"layers.3 \\\"w\\\"\"}\n");
  p = called(at(0, MB, MB, 0.25), "checking", NULL);
  expect_event(
      &p, "end",
      "{\"event\":\"end\",\"command\":\"quantize\",\"label\":\"checking\",\"done\":1000000,"
      "\"total\":1000000,\"share\":1.0,\"seconds\":0.25,\"left_seconds\":null,\"tensor\":null}\n");
}

// A log of an hour has some seventy lines, and a log that nobody asked to be told of starts later.
static void test_intervals(void **state) {
  (void)state;
  static const double want[] = {1, 2, 5, 10, 30, 60, 60, 60};
  for (uint32_t i = 0; i < sizeof want / sizeof *want; i++)
    assert_true(progress_interval(i) == want[i]);
  assert_true(progress_interval(PROGRESS_SPARED) == 10);
  uint32_t lines = 0;
  for (double t = 0; t <= 3600; t += progress_interval(lines++))
    ;
  assert_true(lines > 60 && lines < 70);
}

static void test_room(void **state) {
  (void)state;
  const struct progress p = called(at(0, 500 * MB, 2000 * MB, 10), NULL, "w");
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

int test_progress(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fresh),     cmocka_unit_test(test_work_is_not_bytes),
      cmocka_unit_test(test_resumed),   cmocka_unit_test(test_resumed_and_nothing_made_yet),
      cmocka_unit_test(test_too_early), cmocka_unit_test(test_ends),
      cmocka_unit_test(test_events),    cmocka_unit_test(test_intervals),
      cmocka_unit_test(test_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
