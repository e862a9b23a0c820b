// Extremes and counts against plain loops over every type, odd lengths, offsets and pieces in any order; NaN, infinities and zeros of both
// signs; edges that follow a formula and such that do not.
#include "kernels/kernels.h"
#include "kernels/tally/kernels_tally.h"

#include <math.h>
#include <stdlib.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { MOST = 20000 };

static uint32_t state_of_chance = 1;
static uint32_t chance(void) {
  return (state_of_chance = 1664525u * state_of_chance + 1013904223u) >> 8;
}

static float number(void) {
  const float x = (float)((double)chance() / (1 << 24) - 0.5) * 8;
  switch (chance() % 64) {
  case 0: return NAN;
  case 1: return -0.0f;
  case 2: return 0.0f;
  case 3: return x * 0x1p-140f;
  case 4: return floorf(x);
  default: return x;
  }
}

static const enum dtype types[] = {DTYPE_FLOAT, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_DOUBLE};

// n elements of the type, and what they are as float32.
static uint8_t *make(enum dtype type, float *as, size_t n) {
  uint8_t *out = malloc(8 * n + 8);
  for (size_t i = 0; i < n; i++)
    as[i] = number();
  if (type == DTYPE_FLOAT) {
    memcpy(out + 1, as, 4 * n); // not aligned
  } else if (type == DTYPE_DOUBLE) {
    kernels_f32_to_f64((double *)(void *)out, as, n);
    memmove(out + 1, out, 8 * n);
  } else {
    uint16_t *half = malloc(2 * n);
    if (type == DTYPE_FLOAT16) {
      kernels_f32_to_f16(half, as, n);
      kernels_f16_to_f32(as, half, n);
    } else {
      kernels_f32_to_bf16(half, as, n);
      kernels_bf16_to_f32(as, half, n);
    }
    memcpy(out + 1, half, 2 * n);
    free(half);
  }
  return out;
}

static struct kernels_extremes plain_extremes(const float *x, size_t n) {
  struct kernels_extremes e = kernels_tally_nothing();
  for (size_t i = 0; i < n; i++) {
    e.nans += isnan(x[i]) != 0;
    e.infinities += isinf(x[i]) != 0;
    if (!isfinite(x[i])) continue;
    e.numbers++;
    if (x[i] < e.least) e.least = x[i];
    if (x[i] > e.most) e.most = x[i];
    if (fabsf(x[i]) < e.magnitude) e.magnitude = fabsf(x[i]);
  }
  return e;
}

static void check_equal(const struct kernels_extremes *a, const struct kernels_extremes *b) {
  assert_true(a->least == b->least && a->most == b->most && a->magnitude == b->magnitude);
  assert_true(a->numbers == b->numbers && a->nans == b->nans && a->infinities == b->infinities);
  assert_false(a->least == 0 && signbit(a->least));
  assert_false(a->most == 0 && signbit(a->most));
}

static void test_extremes(void **state) {
  (void)state;
  static const size_t lengths[] = {1, 2, 15, 16, 17, 100, 1023, 1024, 1025, 5000};
  float as[5000];
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
      const size_t n = lengths[k], cut = chance() % n;
      uint8_t *in = make(types[t], as, n);
      const size_t width = dtype_bits(types[t]) / 8;
      struct kernels_extremes all = kernels_tally_nothing(), parts = all, other = all;
      const struct kernels_extremes plain = plain_extremes(as, n);
      kernels_tally_extremes(&all, types[t], in + 1, n);
      check_equal(&all, &plain);
      kernels_tally_extremes(&parts, types[t], in + 1 + cut * width, n - cut);
      kernels_tally_extremes(&other, types[t], in + 1, cut);
      kernels_tally_join(&parts, &other);
      check_equal(&parts, &plain);
      free(in);
    }
}

static void test_what_is_no_number(void **state) {
  (void)state;
  const float x[] = {NAN, INFINITY, -INFINITY, NAN}, zeros[] = {-0.0f, -0.0f};
  const double past = 1e300;
  struct kernels_extremes e = kernels_tally_nothing();
  kernels_tally_extremes(&e, DTYPE_FLOAT, x, 4);
  assert_true(e.numbers == 0 && e.nans == 2 && e.infinities == 2 && e.least > e.most);
  kernels_tally_extremes(&e, DTYPE_FLOAT, zeros, 2);
  assert_true(e.numbers == 2 && !signbit(e.least) && !signbit(e.most) && !signbit(e.magnitude));
  kernels_tally_extremes(&e, DTYPE_DOUBLE, &past, 1);
  assert_true(e.infinities == 3);
  kernels_tally_extremes(&e, DTYPE_FLOAT, NULL, 0);
  assert_true(e.numbers == 2);
}

// Bin by bin, from the definition.
static void plain_bins(uint64_t *counts, const struct kernels_bins *b, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const float v = b->magnitudes ? fabsf(x[i]) : x[i];
    if (!(v >= b->edges[0] && v <= b->edges[b->n])) continue;
    uint32_t at = b->n - 1;
    while (v < b->edges[at])
      at--;
    counts[at]++;
  }
}

static float fill_edges(float *edges, uint32_t n, float from, float to) {
  const float step = (to - from) / (float)n;
  for (uint32_t i = 0; i < n; i++)
    edges[i] = (float)i * step + from;
  edges[n] = to;
  return step;
}

static void check_bins(const struct kernels_bins *b, enum dtype type, size_t n) {
  float *as = malloc(n * sizeof *as);
  uint8_t *in = make(type, as, n);
  const size_t width = dtype_bits(type) / 8, cut = chance() % n;
  uint64_t *plain = calloc(b->n, sizeof *plain), *all = calloc(b->n, sizeof *all),
           *parts = calloc(b->n, sizeof *parts);
  plain_bins(plain, b, as, n);
  kernels_tally_bins(all, b, type, in + 1, n);
  kernels_tally_bins(parts, b, type, in + 1 + cut * width, n - cut); // the second part first
  kernels_tally_bins(parts, b, type, in + 1, cut);
  assert_memory_equal(all, plain, b->n * sizeof *plain);
  assert_memory_equal(parts, plain, b->n * sizeof *plain);
  free(parts);
  free(all);
  free(plain);
  free(in);
  free(as);
}

static void test_bins(void **state) {
  (void)state;
  static const uint32_t many[] = {1, 2, 128, 2048, 4096, 5000};
  static const size_t lengths[] = {1, 100, 4095, 4096, MOST};
  static float edges[5001];
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (size_t k = 0; k < sizeof many / sizeof many[0]; k++)
      for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        struct kernels_bins b = {.n = many[k], .edges = edges, .magnitudes = l % 2};
        b.step = fill_edges(edges, b.n, b.magnitudes ? 0.125f : -3, 3);
        check_bins(&b, types[t], lengths[l]);
        b.step = 0; // the same edges, looked up
        check_bins(&b, types[t], lengths[l]);
      }
}

// Every edge itself, and the floats to both sides of it.
static void test_edges(void **state) {
  (void)state;
  static float edges[2049], x[3 * 2049];
  uint64_t plain[2048] = {0}, found[2048] = {0};
  struct kernels_bins b = {.n = 2048, .edges = edges};
  for (int round = 0; round < 20; round++) {
    const float width = (float)chance() * 0x1p-20f;
    b.step = fill_edges(edges, b.n, -width, width);
    for (size_t i = 0; i <= b.n; i++) {
      x[3 * i] = nextafterf(edges[i], -INFINITY);
      x[3 * i + 1] = edges[i];
      x[3 * i + 2] = nextafterf(edges[i], INFINITY);
    }
    plain_bins(plain, &b, x, sizeof x / sizeof x[0]);
    kernels_tally_bins(found, &b, DTYPE_FLOAT, x, sizeof x / sizeof x[0]);
    assert_memory_equal(found, plain, sizeof plain);
  }
}

// Edges that are no formula's: uneven, some of them equal; a width past the largest float.
static void test_odd_edges(void **state) {
  (void)state;
  static const float uneven[] = {-3, -2.5f, -2.5f, -2.5f, 0, 0.125f, 3},
                     wide[] = {-3e38f, 0, 3e38f};
  const struct kernels_bins a = {.n = 6, .edges = uneven}, c = {.n = 2, .edges = wide};
  check_bins(&a, DTYPE_FLOAT, MOST);
  check_bins(&c, DTYPE_FLOAT, MOST);
}

int test_tally(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_extremes),  cmocka_unit_test(test_what_is_no_number),
      cmocka_unit_test(test_bins),      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_odd_edges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
