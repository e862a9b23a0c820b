// What a caller holds, and the way back when memory ends.
#include "resources/resources.h"

#include "base/arena.h"
#include "base/table.h"
#include "platform/files.h"
#include "platform/maps.h"
#include "stream/sys/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char order[16];

static void note(void *thing, size_t n) {
  const size_t at = strlen(order);
  order[at] = *(const char *)thing;
  order[at + 1] = (char)('0' + n);
}

static void what_is_left_is_let_go_newest_first(void **state) {
  (void)state;
  struct resources r;
  memset(order, 0, sizeof order);
  resources_open(&r);
  assert_null(resources_use(&r));
  char *a = resources_alloc(2), *b = resources_zalloc(3, 5), *c = resources_alloc(2);
  *a = 'a', *c = 'c';
  assert_int_equal(b[14], 0);
  *b = 'b';
  resources_hold_user(a, 5, note); // before all others, whatever their age
  resources_hold_user(b, 6, note);
  resources_drop_thing(b, 6);
  resources_hold(a, 1, note);
  struct resource *row = resources_hold(b, 2, note);
  resources_hold(c, 3, note);
  resources_hold(c, 4, note);
  resources_drop(row);
  resources_drop_thing(c, 3);
  resources_drop_thing(c, 7); // no such row
  b = resources_realloc(b, 100000);
  assert_int_equal(*b, 'b');
  resources_free(a = resources_alloc(1));
  resources_release(&r);
  assert_string_equal(order, "a5c4a1");
  assert_null(resources_in_use());
}

static void what_nobody_holds_is_memory_alone(void **state) {
  (void)state;
  assert_null(resources_in_use());
  void *at = resources_alloc(10);
  assert_null(resources_hold(at, 0, note));
  at = resources_realloc(at, 20);
  resources_free(at);
  resources_free(NULL);
  assert_null(resources_alloc(SIZE_MAX - 8));
  assert_null(resources_zalloc(SIZE_MAX / 2, 3));
}

// ---- the way back ------------------------------------------------------------------------------

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

static void end_within_locks(void *ctx) {
  (void)ctx;
  resources_lock(&second);
  resources_use(NULL);
  resources_exhausted(17);
}

static void recover_within_a_lock(void *ended) {
  resources_lock(&first);
  *(bool *)ended = resources_try(end_within_locks, NULL);
  assert_int_equal(pthread_mutex_trylock(&second), 0);
  pthread_mutex_unlock(&second);
  assert_int_equal(pthread_mutex_trylock(&first), EBUSY);
  resources_unlock(&first);
}

static void locks_since_the_recovery_point_are_given_back(void **state) {
  (void)state;
  struct resources r;
  bool ended = false;
  resources_open(&r);
  resources_use(&r);
  assert_false(resources_try(recover_within_a_lock, &ended));
  assert_true(ended);
  assert_int_equal(resources_refused(), 17);
  assert_ptr_equal(resources_in_use(), &r);
  assert_int_equal(pthread_mutex_trylock(&first), 0);
  pthread_mutex_unlock(&first);
  resources_release(&r);
}

static int leave_things_open(void *ctx, struct err *err) {
  int *fd = ctx;
  struct arena a = {0};
  struct file_map map;
  (void)err;
  struct file f = file_open(HERE, "/etc/passwd", 0);
  fd[0] = (int)(f.handle - 1);
  FILE *stream = file_stream(file_open(HERE, "/etc/passwd", 0), "r");
  fd[1] = fileno(stream);
  assert_int_equal(map_open(&map, f, 0, 1), 0);
  assert_non_null(pages_new(1 << 20));
  assert_non_null(lines_new(100));
  arena_alloc(&a, 1 << 21);
  arena_alloc(&a, SIZE_MAX); // which no machine has
  fail();
  return 0;
}

static void memory_that_ends_is_an_error_and_leaves_nothing(void **state) {
  (void)state;
  struct resources r;
  struct err err = {0};
  int fd[2] = {-1, -1};
  resources_open(&r);
  resources_use(&r);
  assert_int_equal(arena_try(leave_things_open, fd, &err), -1);
  assert_int_equal(err.kind, ERR_NO_MEMORY);
  assert_int_equal(err.reason, REASON_REFUSED);
  for (int i = 0; i < 2; i++)
    assert_true(fcntl(fd[i], F_GETFD) >= 0);
  resources_release(&r);
  for (int i = 0; i < 2; i++)
    assert_true(fcntl(fd[i], F_GETFD) < 0 && errno == EBADF);
}

// ---- threads -----------------------------------------------------------------------------------

struct team {
  struct resources *resources;
  _Atomic uint32_t stopped, inherited;
};

static void end_or_wait(void *ctx, uint32_t i) {
  struct team *t = ctx;
  t->inherited += resources_in_use() == t->resources;
  assert_non_null(resources_alloc(100)); // left
  if (i == 1) resources_exhausted(5);
  while (!threads_must_stop(NULL))
    usleep(1000);
  t->stopped++;
}

static int run_team(void *ctx, struct err *err) {
  (void)err;
  threads_run(3, end_or_wait, ctx);
  fail();
  return 0;
}

static void a_team_ends_for_its_caller(void **state) {
  (void)state;
  struct resources r;
  struct team t = {.resources = &r};
  struct err err = {0};
  resources_open(&r);
  resources_use(&r);
  assert_int_equal(arena_try(run_team, &t, &err), -1);
  assert_int_equal(err.kind, ERR_NO_MEMORY);
  assert_int_equal(t.inherited, 3);
  assert_int_equal(t.stopped, 2);
  assert_false(threads_must_stop(NULL));
  resources_release(&r);
}

int test_resources(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_left_is_let_go_newest_first),
      cmocka_unit_test(what_nobody_holds_is_memory_alone),
      cmocka_unit_test(locks_since_the_recovery_point_are_given_back),
      cmocka_unit_test(memory_that_ends_is_an_error_and_leaves_nothing),
      cmocka_unit_test(a_team_ends_for_its_caller),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
