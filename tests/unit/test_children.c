// What runtime_process.c and verify_wide.c rely on, with programs that any system has.
#include "platform/children.h"
#include "platform/files.h"
#include "platform/maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LONG_MS = 60000 };

static int begin(struct child *c, const char *program) {
  struct file none[2] = {file_open(HERE, "/dev/null", 0), file_open(HERE, "/dev/null", 0)};
  const int rc = child_start(c, program, none), cause = errno;
  file_close(&none[0]);
  file_close(&none[1]);
  errno = cause;
  return rc;
}

static void what_is_sent_comes_back(void **state) {
  (void)state;
  struct child c = {0};
  struct child_sizes sizes;
  struct child_end how;
  char back[16];
  assert_int_equal(begin(&c, "/bin/cat"), 0);
  assert_int_equal(child_receive(&c, back, sizeof back), 0);
  assert_int_equal(child_wait(&c, true, LONG_MS), CHILD_TAKES);
  assert_int_equal(child_send(&c, "hello", 5), 5);
  assert_int_equal(child_wait(&c, false, LONG_MS), CHILD_SENT);
  assert_int_equal(child_receive(&c, back, sizeof back), 5);
  assert_memory_equal(back, "hello", 5);
  assert_int_equal(child_wait(&c, false, 1), 0);
  assert_false(child_is_dead(&c));
  assert_false(child_reap(&c, 0, &how));
  assert_true(child_sizes(&c, &sizes) && sizes.peak > 0 && sizes.anonymous <= sizes.peak);
  child_kill(&c);
  assert_int_equal(child_receive(&c, back, sizeof back), -1);
  assert_int_equal(child_send(&c, "hello", 5), -1);
  assert_false(child_sizes(&c, &sizes));
  child_close(&c);
  assert_false(child_is_there(&c));
}

static void its_last_words_are_heard(void **state) {
  (void)state;
  struct child c = {0};
  struct child_end how;
  char words[400];
  assert_int_equal(begin(&c, "/bin/cp"), 0);
  assert_true(child_reap(&c, LONG_MS, &how));
  assert_int_equal(how.signal, 0);
  assert_true(how.code > 0);
  assert_true(child_wait(&c, false, LONG_MS) & CHILD_SAID);
  assert_true(child_hear(&c, words, sizeof words) > 0);
  while (child_hear(&c, words, sizeof words) > 0)
    continue;
  assert_false(file_is_open(c.said));
  child_close(&c);
}

static void what_is_not_there_is_not_started(void **state) {
  (void)state;
  struct child c = {0};
  assert_int_equal(begin(&c, "/nowhere/cat"), -1);
  assert_int_equal(errno, ENOENT);
  assert_false(child_is_there(&c));
}

static void a_program_is_told_from_a_text(void **state) {
  (void)state;
  struct file text = file_open(HERE, "/etc/passwd", 0);
  assert_true(file_is_open(text));
  assert_non_null(library_fault(text));
  file_close(&text);
}

int test_children(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_sent_comes_back),
      cmocka_unit_test(its_last_words_are_heard),
      cmocka_unit_test(what_is_not_there_is_not_started),
      cmocka_unit_test(a_program_is_told_from_a_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
