// What the benchmarks share: a clock, and times in order.
#ifndef WEIR_BENCH_TIME_H
#define WEIR_BENCH_TIME_H

#include <stdlib.h>
#include <time.h>

// Seconds on a clock: CLOCK_PROCESS_CPUTIME_ID, where what else runs on the machine counts little, or
// CLOCK_MONOTONIC, to compare with what others measure.
static inline double bench_seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int bench_ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Sorts n times, the least first: the median is then took[n / 2].
static inline void bench_sort(double *took, size_t n) {
  qsort(took, n, sizeof *took, bench_ascending);
}

#endif
