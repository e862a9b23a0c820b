// An observer is told everything in the order in which it happens; none, or one without members, is told nothing and
// never interrupts.
#include "base/observer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LONGEST = 3000 };

struct seen {
  char text[LONGEST + 100];
  int stop;
};

static void add(struct seen *s, const char *word, const char *more) {
  const size_t n = strlen(s->text);
  snprintf(s->text + n, sizeof s->text - n, "%s %s; ", word, more);
}

static void say(void *ctx, enum observer_kind kind, const char *sentence) {
  static const char *const kinds[] = {"warning", "notice", "hint"};
  add(ctx, kinds[kind], sentence);
}

static void begin(void *ctx, const char *label) {
  add(ctx, "begin", label);
}

static void tick(void *ctx, const struct work_told *told) {
  char text[80];
  snprintf(text, sizeof text, "%llu of %llu", (unsigned long long)told->bytes_done,
           (unsigned long long)told->bytes_total);
  assert_true(told->work_done == (double)told->bytes_done);
  add(ctx, "tick", text);
}

static void end(void *ctx) {
  add(ctx, "end", "");
}

static const volatile int *stop(void *ctx) {
  struct seen *s = ctx;
  return &s->stop;
}

static void remove_file(void *ctx, const char *path) {
  add(ctx, "remove", path);
}

static void keep_file(void *ctx, const char *path) {
  add(ctx, "keep", path);
}

static void data(void *ctx, struct span bytes) {
  char text[80];
  snprintf(text, sizeof text, "%.*s", (int)bytes.n, (const char *)bytes.at);
  add(ctx, "data", text);
}

static void all_calls(struct observer *o) {
  observer_warning(o, "%u of %s", 3u, "them");
  observer_notice(o, "a fact");
  observer_hint(o, "a way");
  observer_begin(o, "writing");
  observer_tick_bytes(o, 1, 2);
  observer_end(o);
  observer_remove(o, "a.part");
  observer_keep(o, "a.part");
  observer_data(o, span_str("bytes"));
}

static void test_all(void **state) {
  (void)state;
  struct seen seen = {.stop = 7};
  struct observer o = {say, begin, tick, end, stop, remove_file, keep_file, data, &seen};
  all_calls(&o);
  assert_string_equal(
      seen.text, "warning 3 of them; notice a fact; hint a way; begin writing; tick 1 of 2; end "
                 "; remove a.part; keep a.part; data bytes; ");
  assert_true(observer_ticks(&o));
  assert_int_equal(*observer_stop(&o), 7);
}

static void test_long_sentences_are_whole(void **state) {
  (void)state;
  struct seen seen = {.stop = 0};
  struct observer o = {.say = say, .ctx = &seen};
  char text[LONGEST];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  observer_notice(&o, "%s", text);
  assert_int_equal(strlen(seen.text), strlen("notice ; ") + strlen(text));
}

static void test_nobody(void **state) {
  (void)state;
  struct observer empty = {.say = NULL};
  all_calls(NULL);
  all_calls(&empty);
  assert_false(observer_ticks(NULL));
  assert_false(observer_ticks(&empty));
  assert_int_equal(*observer_stop(NULL), 0);
  assert_int_equal(*observer_stop(&empty), 0);
}

int test_observer(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
                                     cmocka_unit_test(test_long_sentences_are_whole),
                                     cmocka_unit_test(test_nobody)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
