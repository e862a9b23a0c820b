// Affine quantization by tensor: every variant, over all sets of features, gives the bytes of a
// reference written with the rounding functions of the C library, one operation a line.
#include "guarded.h"

#include <float.h>

enum { MOST = 700, CASES = 300 };

static struct guarded in_pages, out_pages;
static size_t n;
static bool at_end;
static struct kernels_affine a;
static float elements[MOST];

static float to_half(double x) {
  uint16_t half;
  float y;
  kernels_f64_to_f16(&half, &x, 1);
  kernels_f16_to_f32(&y, &half, 1);
  return y;
}

static double clamp(double x) {
  return x < a.lo ? a.lo : x > a.hi ? a.hi : x;
}

static double step_of_float(float x) {
  const float scaled = x * (float)a.inverse;
  const float steps = scaled * (float)a.steps;
  const float whole = rintf(steps);
  return clamp(whole + (float)a.zero);
}

static double step_of_half(float x) {
  const float scaled = to_half((double)x * a.inverse);
  const float steps = to_half((double)scaled * a.steps);
  const float whole = rintf(steps);
  return clamp(to_half((double)whole + a.zero));
}

static double step_of_double(double x) {
  const double scaled = x * a.inverse;
  const double steps = scaled * a.steps;
  const double whole = rint(steps);
  return clamp(whole + a.zero);
}

static double level(double step) {
  return (trunc(step) - a.offset) * a.scale;
}

static double unit(void) {
  return (double)(int64_t)random_64() / 9223372036854775808.0;
}

// Weights around `centre`; in one case of four ties and exact steps are frequent.
static void random_case(void) {
  const bool grid = random_64() % 4 == 0;
  const double centre = random_64() % 2 ? 0 : unit() * 3,
               width = ldexp(1, (int)(random_64() % 9) - 4);
  const double levels = random_64() % 2 ? 256 : (double)(2 + random_64() % 300);
  n = random_64() % MOST;
  at_end = random_64() % 2;
  double lo = DBL_MAX, hi = -DBL_MAX;
  for (size_t i = 0; i < n; i++) {
    const double x =
        grid ? (double)(int64_t)(random_64() % 511) / 2 - 100 : centre + unit() * width;
    elements[i] = to_half(x);
    lo = fmin(lo, elements[i]);
    hi = fmax(hi, elements[i]);
  }
  const double range = hi > lo ? to_half(hi - lo) : 1;
  a = (struct kernels_affine){.inverse = to_half(1 / range),
                              .steps = to_half(levels - 1),
                              .offset = rint(-fmin(lo, 0) / range * (levels - 1)) - levels / 2,
                              .scale = range / (levels - 1),
                              .lo = fmax(-levels / 2, -128),
                              .hi = fmin(levels / 2 - 1, 127)};
  a.zero = to_half(a.offset);
}

static void same_codes(const char *what, const int8_t *got, double (*step)(size_t)) {
  for (size_t i = 0; i < n; i++)
    if (got[i] != (int8_t)step(i))
      fail_msg("%s on %s: code %zu of %zu is %d, not %d", what, kernels_isa_name(), i, n, got[i],
               (int8_t)step(i));
}

static double float_step(size_t i) {
  return step_of_float(elements[i]);
}
static double half_step(size_t i) {
  return step_of_half(elements[i]);
}
static double double_step(size_t i) {
  return step_of_double(elements[i]);
}

static void check_codes(void) {
  float *in = (float *)(void *)guarded_at(&in_pages, n * sizeof *in, at_end);
  int8_t *out = (int8_t *)guarded_at(&out_pages, n, at_end);
  double wide[MOST];
  if (n) memcpy(in, elements, n * sizeof *in);
  for (size_t i = 0; i < n; i++)
    wide[i] = elements[i];
  memset(out, JUNK, n);
  kernels_affine_codes_f32(out, in, n, &a);
  same_codes("float", out, float_step);
  memset(out, JUNK, n);
  kernels_affine_codes_f16(out, in, n, &a);
  same_codes("half", out, half_step);
  memset(out, JUNK, n);
  kernels_affine_codes_f64(out, wide, n, &a);
  same_codes("double", out, double_step);
}

static void same_levels(const double *got, double (*step)(size_t)) {
  for (size_t i = 0; i < n; i++) {
    const double want = level(step(i));
    if (memcmp(&got[i], &want, sizeof want) != 0)
      fail_msg("level %zu: %a, not %a", i, got[i], want);
  }
}

static void check_levels(void) {
  double wide[MOST], out[MOST];
  for (size_t i = 0; i < n; i++)
    wide[i] = elements[i];
  kernels_affine_levels_f32(out, elements, n, &a);
  same_levels(out, float_step);
  kernels_affine_levels_f16(out, elements, n, &a);
  same_levels(out, half_step);
  kernels_affine_levels_f64(out, wide, n, &a);
  same_levels(out, double_step);
}

static void test_codes_and_levels(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    random_case();
    for_each_feature_set(check_codes);
    for_each_feature_set(check_levels);
  }
}

// Finite elements of any bits, products of them that leave the range of float, and such as are next
// to a tie, where any other order of operations shows.
static float any_finite(void) {
  const uint32_t bits = (uint32_t)random_64();
  float x;
  memcpy(&x, &bits, sizeof x);
  return isfinite(x) ? x : 0;
}

static float near_tie(void) {
  const double tie = (double)(int64_t)(random_64() % 512) - 255.5;
  const float x = (float)(tie / a.steps / a.inverse);
  return random_64() % 2 ? x : nextafterf(x, random_64() % 2 ? 1000 : -1000);
}

static void hard_case(void) {
  static const float inverses[] = {1, 0.37f, 1e-6f, 1e30f, -1.7f, 0};
  random_case();
  a = (struct kernels_affine){.inverse = (double)inverses[random_64() % 6],
                              .steps = 255,
                              .zero = (double)(random_64() % 40) - 20,
                              .lo = random_64() % 2 ? -128 : -1,
                              .hi = random_64() % 2 ? 127 : 100};
  for (size_t i = 0; i < n; i++)
    elements[i] = random_64() % 2 || a.inverse == 0 ? any_finite() : near_tie();
}

static void check_float_codes(void) {
  float *in = (float *)(void *)guarded_at(&in_pages, n * sizeof *in, at_end);
  int8_t *out = (int8_t *)guarded_at(&out_pages, n, at_end);
  if (n) memcpy(in, elements, n * sizeof *in);
  memset(out, JUNK, n);
  kernels_affine_codes_f32(out, in, n, &a);
  same_codes("float", out, float_step);
}

static void test_hard_cases(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    hard_case();
    for_each_feature_set(check_float_codes);
  }
}

static void check_divide(void) {
  uint8_t *out = guarded_at(&out_pages, n, at_end);
  const float scale = (float)a.scale;
  memset(out, JUNK, n);
  kernels_affine_divide(out, elements, n, scale, 7, 0, 255);
  for (size_t i = 0; i < n; i++) {
    const float y = rintf(elements[i] / scale) + 7;
    assert_int_equal(out[i], y < 0 ? 0 : y > 255 ? 255 : (int)y);
  }
}

static void test_divide(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    random_case();
    for_each_feature_set(check_divide);
  }
}

// Any bits at all: NaN, infinities, zeros of both signs, denormals; joined to nothing, or to
// extremes that are there.
static float begin_lo, begin_hi;

static void check_range(void) {
  float *in = (float *)(void *)guarded_at(&in_pages, n * sizeof *in, at_end);
  float lo = begin_lo, hi = begin_hi, least = begin_lo, most = begin_hi;
  double wide[MOST], wide_lo = begin_lo, wide_hi = begin_hi;
  size_t bad = 0;
  if (n) memcpy(in, elements, n * sizeof *in);
  for (size_t i = 0; i < n; i++) {
    wide[i] = elements[i];
    bad += !isfinite(elements[i]);
    if (isfinite(elements[i]) && elements[i] < least) least = elements[i];
    if (isfinite(elements[i]) && elements[i] > most) most = elements[i];
  }
  assert_int_equal(kernels_affine_range_f32(in, n, &lo, &hi), bad);
  assert_int_equal(kernels_affine_range_f64(wide, n, &wide_lo, &wide_hi), bad);
  assert_true(lo == least && hi == most);
  assert_true(wide_lo == least && wide_hi == most);
  assert_false((lo == 0 && signbit(lo)) || (hi == 0 && signbit(hi)));
}

static void test_ranges(void **state) {
  (void)state;
  static const float special[] = {0.0f, -0.0f, 1e-45f, -1e-45f, NAN, INFINITY, -INFINITY};
  for (int k = 0; k < CASES; k++) {
    random_case();
    for (size_t i = 0; i < n; i++)
      if (random_64() % 8 == 0 || k % 8 == 0) elements[i] = special[random_64() % (k % 3 ? 7 : 4)];
    begin_lo = k % 2 ? FLT_MAX : (float)unit();
    begin_hi = k % 2 ? -FLT_MAX : (float)unit();
    for_each_feature_set(check_range);
  }
}

static int open_pages(void **state) {
  (void)state;
  in_pages = guarded_open(MOST * sizeof(float));
  out_pages = guarded_open(MOST);
  return 0;
}

static int close_pages(void **state) {
  (void)state;
  guarded_close(&in_pages);
  guarded_close(&out_pages);
  return 0;
}

int test_affine(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_codes_and_levels),
      cmocka_unit_test(test_hard_cases),
      cmocka_unit_test(test_divide),
      cmocka_unit_test(test_ranges),
  };
  return cmocka_run_group_tests(tests, open_pages, close_pages);
}
