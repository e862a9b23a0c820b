// Values of options in members of requests: every row fits the member or reader that it names, what is not given stays as it
// was, and of two values that do not fit, the first row's is refused.
#include "request/fill.h"

#include "execute/request.h"
#include "verify/run/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void parse(struct cli_args *args, int n, const char *const *words) {
  struct err err = {0};
  if (cli_parse(args, n, (char *const *)(uintptr_t)words, &err) != 0) fail_msg("%s", err.msg);
}
#define PARSE(args, ...)                                                                           \
  parse(args, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                              \
        (const char *[]){__VA_ARGS__, NULL})

// A slot asserts the kind of its option: a row that names a member of another type ends here.
static void test_every_row_fits(void **state) {
  static const char *const structs[] = {"audit_request",  "calibrate_request", "calibrate_scales",
                                        "diffing",        "finalize_request",  "infer_step_sets",
                                        "inspect_lists",  "member_request",    "optimize_asked",
                                        "pass_edits",     "rebuild",           "request",
                                        "request_limits", "request_output",    "request_records",
                                        "run_shown",  "verify_options"};
  static _Alignas(16) uint8_t into[1 << 16];
  struct arena arena = {0};
  uint32_t filled = 0;
  (void)state;
  for (enum cli_command c = 0; c < CLI_COMMANDS; c++) {
    struct cli_value values[CLI_OPTIONS] = {0};
    const char *word = "1";
    const struct cli_args args = {.command = c, .value = values};
    for (enum cli_option o = 0; o < CLI_OPTIONS; o++)
      values[o] =
          (struct cli_value){.given = true, .text = word, .number = 1, .list = &word, .n_list = 1};
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
      struct err ignored = {0};
      memset(into, 0, sizeof into);
      (void)fill_from(&args, structs[i], into, &arena, &ignored);
      for (size_t at = 0; at < sizeof into; at++)
        filled += into[at] != 0;
    }
  }
  assert_true(filled > 1000);
  arena_free(&arena);
}

static void test_what_is_given(void **state) {
  struct cli_args args;
  struct request_output output = {.manifest = true, .layout.align = 7};
  struct request_limits limits = {.jobs = 9};
  (void)state;
  PARSE(&args, "weir", "convert", "a", "b", "--split", "1G", "--no-manifest", "--io", "sync");
  FILL(&args, request_output, &output);
  FILL(&args, request_limits, &limits);
  assert_true(output.layout.splits && output.layout.split == 1u << 30 && output.copies);
  assert_false(output.manifest || output.replace || output.layout.aligns);
  assert_int_equal(output.layout.align, 7);
  assert_int_equal(limits.io, IO_SYNC);
  assert_int_equal(limits.memory, 48u << 20); // a preset
  assert_int_equal(limits.jobs, 9);
  cli_free(&args);
}

static void refuse(struct cli_args *args, const char *message) {
  struct verify_options o = {.require = -1};
  struct arena arena = {0};
  struct err err = {0};
  assert_int_equal(FILL_IN(args, verify_options, &o, &arena, &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
  assert_non_null(strstr(err.msg, message));
  arena_free(&arena);
  cli_free(args);
}

static void test_the_first_row_is_refused(void **state) {
  struct cli_args args;
  (void)state;
  PARSE(&args, "weir", "verify", "a", "b", "--require", "200%", "--metric", "x=1", "--atol", "no");
  refuse(&args, "'no' for --atol");
  PARSE(&args, "weir", "verify", "a", "b", "--require", "200%", "--metric", "x=1");
  refuse(&args, "'x=1'");
  PARSE(&args, "weir", "convert", "a", "b", "--verify", "--verify-require", "200%");
  refuse(&args, "'200%' for --verify-require");
  PARSE(&args, "weir", "verify", "a", "b", "--shape", "x=1,0", "--lengths", "5,b");
  refuse(&args, "'5,b' for --lengths");
}

int test_fill(void) {
  unsetenv("WEIR_MEMORY");
  unsetenv("WEIR_JOBS");
  unsetenv("WEIR_IO");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_row_fits),
      cmocka_unit_test(test_what_is_given),
      cmocka_unit_test(test_the_first_row_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
