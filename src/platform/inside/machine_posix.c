// What the machine has, as far as POSIX.1-2008 tells, and a word that every system has, but not that: how many processors are on line.
#undef _GNU_SOURCE
#undef _XOPEN_SOURCE
#define _POSIX_C_SOURCE 200809L

#include "platform/inside/variant.h"
#include "platform/machine.h"

#include <stdlib.h>
#include <unistd.h>

uint32_t machine_processors(void) {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : (uint32_t)n;
}

bool variant_has_sha2(void) {
  return false;
}

uint64_t variant_group_limit(const char *root) {
  (void)root;
  return UINT64_MAX;
}

// getrusage tells the peak of the program that started this one, where that was larger.
uint64_t machine_peak_memory(void) {
  return 0;
}

int variant_program(char *to) {
  (void)to;
  return -1;
}

// What shells say to programs that ask the environment.
uint32_t variant_columns(int fd) {
  const char *columns = machine_variable("COLUMNS");
  (void)fd;
  return columns ? (uint32_t)strtoul(columns, NULL, 10) : 0;
}
