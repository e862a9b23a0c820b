// What the room platform says of the machine and of this process.
#include "platform/files.h"
#include "platform/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static int days_of(int year, int month) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return days[month - 1] + (month == 2 && leap);
}

// Every day of 1970 to 9999, one after the other.
static void dates_follow_each_other(void **state) {
  struct machine_date want = {.year = 1970, .month = 1, .day = 1, .hour = 23, .second = 59};
  uint64_t at = 23 * 3600 + 59;
  (void)state;
  for (; want.year < 10000; at += 86400) {
    const struct machine_date got = machine_date(at);
    if (memcmp(&got, &want, sizeof got) != 0)
      fail_msg("%d-%d-%d, not %d-%d-%d", got.year, got.month, got.day, want.year, want.month,
               want.day);
    if (++want.day <= days_of(want.year, want.month)) continue;
    want.day = 1;
    if (++want.month <= 12) continue;
    want.month = 1;
    want.year++;
  }
}

static void a_moment_has_its_time_of_day(void **state) {
  (void)state;
  const struct machine_date got = machine_date(UINT64_C(253402300799)); // the last second of 9999
  const struct machine_date want = {9999, 12, 31, 23, 59, 59};
  assert_memory_equal(&got, &want, sizeof got);
}

static void an_empty_variable_is_none(void **state) {
  (void)state;
  machine_set_variable("WEIR_TEST_VARIABLE", "");
  assert_null(machine_variable("WEIR_TEST_VARIABLE"));
  machine_set_variable("WEIR_TEST_VARIABLE", "x");
  assert_string_equal(machine_variable("WEIR_TEST_VARIABLE"), "x");
  assert_null(machine_variable("WEIR_TEST_NO_VARIABLE"));
}

static void a_clock_does_not_go_back(void **state) {
  (void)state;
  const uint64_t before = machine_clock_ns();
  assert_true(machine_clock_ns() >= before);
  assert_true(machine_time_ns() > INT64_C(1600000000) * 1000000000); // in nanoseconds since 1970
}

static void names_are_cut(void **state) {
  char name[200], start[3] = {'x', 'x', 'x'}, program[PATH_BYTES];
  (void)state;
  machine_name(name, sizeof name);
  machine_name(start, sizeof start);
  assert_true(strlen(start) <= 2);
  assert_memory_equal(start, name, strlen(start));
  process_begin("sh"); // where the system does not say
  assert_int_equal(process_program(program), 0);
  assert_int_equal(program[0], '/');
}

static void open_files_have_a_limit(void **state) {
  uint64_t most = UINT64_MAX;
  (void)state;
  assert_true(process_may_open(10, &most));
  assert_true(process_may_open(UINT64_MAX, &most) || (most >= 10 && most < UINT64_MAX));
}

int test_machine(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dates_follow_each_other),
      cmocka_unit_test(a_moment_has_its_time_of_day),
      cmocka_unit_test(an_empty_variable_is_none),
      cmocka_unit_test(a_clock_does_not_go_back),
      cmocka_unit_test(names_are_cut),
      cmocka_unit_test(open_files_have_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
