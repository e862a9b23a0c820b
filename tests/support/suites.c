// The program of a folder of suites: PROGRAM SUITE [ARGUMENT…] runs one of them, PROGRAM alone lists them.
// SUITES is a file of rows that CMake writes, SUITE(name) for each test_<name>.c.
#include "suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SUITE(name) int name(void);
#include SUITES
#undef SUITE

static const struct {
  const char *name;
  int (*run)(void);
} suites[] = {
#define SUITE(name) {#name, name},
#include SUITES
};

enum { N_SUITES = sizeof suites / sizeof *suites };

static int n_words;
static char **words; // the program, the suite, its arguments

const char *suite_argument(int n) {
  return n + 1 < n_words ? words[n + 1] : NULL;
}

// WITHOUT is a list of tests of what this build has not, with a row "suite/test reason" for each; "": there is none. How many of its rows are of
// this suite and, if that is not NULL, of this test?
static size_t rows_of(const char *test) {
  char row[300], name[200] = "", wanted[200];
  size_t found = 0;
  FILE *list = fopen(WITHOUT, "r");
  const int n = snprintf(wanted, sizeof wanted, "%s/%s", words[1], test ? test : "");
  while (list && fgets(row, sizeof row, list))
    found += sscanf(row, "%199s", name) == 1 &&
             (test ? strcmp(name, wanted) : strncmp(name, wanted, (size_t)n)) == 0;
  if (list) fclose(list);
  return found;
}

// In place of cmocka's (--wrap).
int __real__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t n,
                                   CMFixtureFunction setup, CMFixtureFunction teardown) {
  struct CMUnitTest *kept = calloc(n, sizeof *kept);
  size_t n_kept = 0;
  for (size_t i = 0; kept && i < n; i++)
    if (rows_of(tests[i].name) == 0) kept[n_kept++] = tests[i];
  if (n_kept == 0 || n - n_kept != rows_of(NULL)) {
    fprintf(stderr, "%s: no test is left, or %s names one that there is not\n", group, WITHOUT);
    free(kept);
    return 1;
  }
  const int rc = __real__cmocka_run_group_tests(group, kept, n_kept, setup, teardown);
  free(kept);
  return rc;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    for (int i = 0; i < N_SUITES; i++)
      puts(suites[i].name);
    return 0;
  }
  n_words = argc, words = argv;
  for (int i = 0; i < N_SUITES; i++)
    if (strcmp(argv[1], suites[i].name) == 0) return suites[i].run();
  fprintf(stderr, "%s: no suite is called '%s'; without arguments it lists them\n", argv[0],
          argv[1]);
  return 2;
}
