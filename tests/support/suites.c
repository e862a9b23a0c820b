// The program of a folder of suites: PROGRAM SUITE [ARGUMENT…] runs one of them, PROGRAM alone lists them.
// SUITES is a file of rows that CMake writes, SUITE(name) for each test_<name>.c.
#include "suites.h"

#include <stdio.h>
#include <string.h>

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
