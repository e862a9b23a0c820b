// How long the figures of two float arrays take: compare_bench [MEGABYTES]. Prints seconds for a pair that
// differs everywhere, one that differs in a thousandth of its elements, and an equal one.
#include "verify/compare/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static float chance(uint64_t *state) {
  float x = 0;
  for (unsigned i = 0; i < 4; i++)
    x += (float)next(state) * 0x1p-31f - 0.5f;
  return x;
}

static void row(const char *what, const struct array *r, const struct array *x) {
  struct compare_bounds b = compare_nothing();
  b.rtol = b.atol = 1e-5;
  struct compare_result result;
  struct err err = {0};
  const double began = now();
  if (compare_arrays(r, x, &b, NULL, &result, &err) != 0) exit(1);
  const struct compare_figures *f = &result.figures;
  printf(
      "%-12s %6.3f s   max %.3g mean %.3g p99 %.6g p99.9 %.6g cosine %.12g SQNR %.2f top-1 %.4f\n",
      what, now() - began, f->max_abs, f->mean_abs, f->p99_abs, f->p999_abs, f->cosine, f->sqnr_db,
      f->top1);
}

int main(int argc, char **argv) {
  const int64_t megabytes = argc > 1 ? atoll(argv[1]) : 100;
  const int64_t dims[2] = {megabytes * 250000 / 1000, 1000};
  struct arena a = {0};
  struct array r, every, some;
  float *of[3];
  of[0] = (float *)(void *)array_make(&r, "r", DTYPE_FLOAT, 2, dims, &a);
  of[1] = (float *)(void *)array_make(&every, "every", DTYPE_FLOAT, 2, dims, &a);
  of[2] = (float *)(void *)array_make(&some, "some", DTYPE_FLOAT, 2, dims, &a);
  if (!of[0] || !of[1] || !of[2]) return 2;
  uint64_t state = 1;
  for (uint64_t i = 0; i < r.count; i++) {
    of[0][i] = chance(&state);
    of[1][i] = of[0][i] + 1e-3f * chance(&state);
    of[2][i] = next(&state) % 1000 ? of[0][i] : of[1][i];
  }
  row("every", &r, &every);
  row("a thousandth", &r, &some);
  row("equal", &r, &r);
  arena_free(&a);
  return 0;
}
