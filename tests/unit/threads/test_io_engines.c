// The choice of an engine: what auto does where io_uring cannot be had, and what it says about it.
#include "io_fault_engine.h"
#include "stream/io/inside/io_engines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

static void auto_falls_back_and_says_why(void **state) {
  (void)state;
  static const struct {
    const char *spec, *words;
  } cases[] = {{"open:1:EPERM", "kernel.io_uring_disabled"},
               {"open:1:ENOSYS", "kernel"},
               {"open:1:ENOMEM", "ulimit -l"},
               {"open:1:EMFILE", "ulimit -n"}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    assert_true(io_fault_arm(cases[k].spec));
    enum io_mode mode = IO_AUTO;
    const char *why;
    struct err err = {0};
    assert_int_equal(io_choose(&mode, &why, &err), 0);
    assert_int_equal(mode, IO_SYNC);
    assert_non_null(strstr(why, cases[k].words));
    assert_true(io_fault_arm(cases[k].spec));
    mode = IO_URING;
    assert_int_equal(io_choose(&mode, &why, &err), -1);
    assert_non_null(strstr(err.hint, cases[k].words));
    assert_null(why);
  }
  io_fault_disarm();
  enum io_mode mode = IO_SYNC;
  const char *why;
  struct err err = {0};
  assert_int_equal(io_choose(&mode, &why, &err), 0);
  assert_int_equal(mode, IO_SYNC);
}

// No descriptor left for a ring: a real refusal, not an injected one.
static void out_of_descriptors(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_NOFILE, &none);
    enum io_mode mode = IO_AUTO;
    const char *why;
    struct err err = {0};
    int r = io_choose(&mode, &why, &err);
    _exit(r == 0 && mode == IO_SYNC && why ? 0 : 1);
  }
  int status;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void modes_have_names(void **state) {
  (void)state;
  for (enum io_mode m = IO_AUTO; m <= IO_LOAD; m++) {
    enum io_mode back = IO_AUTO;
    assert_true(io_mode_by_name(io_mode_name(m), &back));
    assert_int_equal(back, m);
  }
  enum io_mode m;
  assert_false(io_mode_by_name("mmap", &m));
}

static void bad_specs_are_refused(void **state) {
  (void)state;
  static const char *const specs[] = {"",
                                      "write",
                                      "write:0:EIO",
                                      "write:x:EIO",
                                      "write:1:E",
                                      "fly:1:EIO",
                                      "write:1:EIO:persist",
                                      "clone:1:eof",
                                      "write:1:EIO,"};
  for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
    assert_false(io_fault_arm(specs[k]));
  }
}

int test_io_engines(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(auto_falls_back_and_says_why),
      cmocka_unit_test(out_of_descriptors),
      cmocka_unit_test(modes_have_names),
      cmocka_unit_test(bad_specs_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
