// What the machine has, as far as POSIX.1-2008 tells, and two words that every system has, but not that: how many processors are on
// line, and the peak of a process (ru_maxrss, in units of 1,024 bytes; elsewhere also in bytes).
#undef _GNU_SOURCE
#undef _XOPEN_SOURCE
#define _POSIX_C_SOURCE 200809L

#include "platform/inside/variant.h"
#include "platform/machine.h"

#include <stdlib.h>
#include <sys/resource.h>
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

// It may be that of the program that started us, where that was larger.
uint64_t machine_peak_memory(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
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
