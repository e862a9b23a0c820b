// Error figures of pairs: every variant, over all sets of features, gives the lanes of a loop over
// single pairs, however a chunk is cut; and adds nothing where a pair is not finite. Codes count as
// what they stand for, with one scale or many.
#include "guarded.h"

enum { MOST = 600, CASES = 400 };

static struct guarded v_pages, w_pages, scale_pages, zero_pages;
static size_t n, first;
static bool at_end;
static double v[MOST], w[MOST];
static struct kernels_lanes before, want;
static bool all_finite;

static double unit(void) {
  return (double)(int64_t)random_64() / 9223372036854775808.0;
}

static void want_of_pairs(void) {
  want = before;
  all_finite = true;
  for (size_t i = 0; i < n; i++) {
    const size_t lane = (first + i) % KERNELS_LANES;
    const double e = v[i] - w[i];
    all_finite &= isfinite(e);
    want.vv[lane] += v[i] * v[i];
    want.ee[lane] += e * e;
    want.ve[lane] += v[i] * e;
    if (fabs(e) > want.max_error[lane]) want.max_error[lane] = fabs(e);
  }
  if (!all_finite) want = before;
}

static void random_case(void) {
  static const double special[] = {NAN, INFINITY, -INFINITY, 1e308};
  n = random_64() % MOST;
  first = random_64() % 4096;
  at_end = random_64() % 2;
  for (int lane = 0; lane < KERNELS_LANES; lane++) {
    before.vv[lane] = fabs(unit());
    before.ee[lane] = fabs(unit());
    before.ve[lane] = unit();
    before.max_error[lane] = fabs(unit()) / 4;
  }
  for (size_t i = 0; i < n; i++) {
    v[i] = random_64() % 9 ? unit() : -0.0;
    w[i] = random_64() % 5 ? v[i] + unit() / 3 : v[i];
  }
  if (n > 0 && random_64() % 3 == 0) w[random_64() % n] = special[random_64() % 4];
  want_of_pairs();
}

static void check(void) {
  double *a = (double *)(void *)guarded_at(&v_pages, n * sizeof *a, at_end);
  double *b = (double *)(void *)guarded_at(&w_pages, n * sizeof *b, at_end);
  struct kernels_lanes got = before;
  if (n) memcpy(a, v, n * sizeof *a);
  if (n) memcpy(b, w, n * sizeof *b);
  assert_int_equal(kernels_figure_pairs(&got, first, a, b, n), all_finite);
  assert_memory_equal(&got, &want, sizeof got);
  if (!all_finite) return;
  got = before;
  for (size_t i = 0; i < n;) {
    const size_t some = 1 + (i * 7 + n) % 29, m = some < n - i ? some : n - i;
    assert_true(kernels_figure_pairs(&got, first + i, a + i, b + i, m));
    i += m;
  }
  assert_memory_equal(&got, &want, sizeof got);
}

static void test_pairs(void **state) {
  (void)state;
  int refused = 0;
  for (int i = 0; i < CASES; i++) {
    random_case();
    refused += !all_finite;
    for_each_feature_set(check);
  }
  assert_true(refused > CASES / 10 && refused < CASES / 2);
}

// ---- codes -------------------------------------------------------------------------------------

static float floats[MOST];
static uint8_t codes[MOST];
static struct kernels_stored stored;

// With sums that overflow, too, which is no reason to refuse anything.
static void random_codes(void) {
  static const float special[] = {NAN, INFINITY, -INFINITY};
  random_case();
  if (random_64() % 8 == 0) before.ee[random_64() % KERNELS_LANES] = INFINITY;
  stored = (struct kernels_stored){.is_unsigned = random_64() % 2,
                                   .scale = ldexp(unit(), (int)(random_64() % 20) - 10),
                                   .zero = unit() * 100};
  for (size_t i = 0; i < n; i++) {
    floats[i] = random_64() % 9 ? (float)unit() * 30 : -0.0f;
    codes[i] = (uint8_t)random_64();
  }
  if (n > 0 && random_64() % 3 == 0) floats[random_64() % n] = special[random_64() % 3];
  for (size_t i = 0; i < n; i++) {
    v[i] = floats[i];
    w[i] = stored.is_unsigned ? (codes[i] - stored.zero) * stored.scale
                              : (int8_t)codes[i] * stored.scale + stored.zero;
  }
  want_of_pairs();
}

static void check_codes(void) {
  float *a = (float *)(void *)guarded_at(&v_pages, n * sizeof *a, at_end);
  uint8_t *b = guarded_at(&w_pages, n, at_end);
  double values[MOST];
  struct kernels_lanes got = before;
  if (n) memcpy(a, floats, n * sizeof *a);
  if (n) memcpy(b, codes, n);
  kernels_codes_values(values, b, n, &stored);
  assert_memory_equal(values, w, n * sizeof *w);
  assert_int_equal(kernels_figure_pairs_codes(&got, first, a, b, n, &stored), all_finite);
  assert_memory_equal(&got, &want, sizeof got);
  if (!all_finite) return;
  got = before;
  for (size_t i = 0; i < n;) {
    const size_t some = 1 + (i * 7 + n) % 29, m = some < n - i ? some : n - i;
    assert_true(kernels_figure_pairs_codes(&got, first + i, a + i, b + i, m, &stored));
    i += m;
  }
  assert_memory_equal(&got, &want, sizeof got);
}

static void test_codes(void **state) {
  (void)state;
  int refused = 0;
  for (int i = 0; i < CASES; i++) {
    random_codes();
    refused += !all_finite;
    for_each_feature_set(check_codes);
  }
  assert_true(refused > CASES / 10 && refused < CASES / 2);
}

// ---- codes with scales of their own ------------------------------------------------------------

static struct kernels_scaled scaled;
static float scales[MOST];
static uint8_t zeros[MOST];

static void random_scaled(void) {
  static const float special[] = {NAN, INFINITY, -INFINITY};
  static const size_t shares[] = {1, 1, 1, 8, 16, 32, 20, 7, MOST};
  random_case();
  if (random_64() % 2) first = first / KERNELS_LANES * KERNELS_LANES;
  scaled = (struct kernels_scaled){.bits = (uint8_t)(2u << random_64() % 3),
                                   .is_signed = random_64() % 2,
                                   .share = shares[random_64() % 9],
                                   .scales = scales,
                                   .zeros = random_64() % 2 ? zeros : NULL};
  const int most = 1 << scaled.bits, half = most / 2;
  for (size_t i = 0; i < n; i++) {
    floats[i] = random_64() % 9 ? (float)unit() * 30 : -0.0f;
    codes[i] = (uint8_t)random_64(); // of which the low bits count
    scales[i] = (float)ldexp(unit(), (int)(random_64() % 20) - 10);
    zeros[i] = (uint8_t)(random_64() % (uint64_t)most);
  }
  if (n > 0 && random_64() % 3 == 0) floats[random_64() % n] = special[random_64() % 3];
  for (size_t i = 0; i < n; i++) {
    const size_t at = i / scaled.share;
    int code = codes[i] % most;
    if (scaled.is_signed && code >= half) code -= most;
    if (scaled.zeros) code -= zeros[at];
    v[i] = floats[i];
    w[i] = (double)((float)code * scales[at]);
  }
  want_of_pairs();
}

static void check_scaled(void) {
  static struct kernels_scaled here;
  const size_t shares = (n + scaled.share - 1) / scaled.share;
  float *a = (float *)(void *)guarded_at(&v_pages, n * sizeof *a, at_end);
  uint8_t *b = guarded_at(&w_pages, n, at_end);
  float *of = (float *)(void *)guarded_at(&scale_pages, shares * sizeof *of, at_end);
  uint8_t *from = guarded_at(&zero_pages, shares, at_end);
  double values[MOST];
  struct kernels_lanes got = before;
  if (n) memcpy(a, floats, n * sizeof *a);
  if (n) memcpy(b, codes, n);
  if (n) memcpy(of, scales, shares * sizeof *of);
  if (n) memcpy(from, zeros, shares);
  here = scaled;
  here.scales = of;
  here.zeros = scaled.zeros ? from : NULL;
  kernels_scaled_values(values, b, n, &here);
  assert_memory_equal(values, w, n * sizeof *w);
  assert_int_equal(kernels_figure_pairs_scaled(&got, first, a, b, n, &here), all_finite);
  assert_memory_equal(&got, &want, sizeof got);
  if (!all_finite) return;
  got = before;
  for (size_t i = 0; i < n;) { // pieces begin where a share does
    size_t m = (1 + (i * 7 + n) % 29) * (here.share == 1 ? 1 : here.share);
    if (m > n - i) m = n - i;
    here.scales = of + i / here.share;
    if (here.zeros) here.zeros = from + i / here.share;
    assert_true(kernels_figure_pairs_scaled(&got, first + i, a + i, b + i, m, &here));
    i += m;
  }
  assert_memory_equal(&got, &want, sizeof got);
}

static void test_scaled(void **state) {
  (void)state;
  int refused = 0;
  for (int i = 0; i < 2 * CASES; i++) {
    random_scaled();
    refused += !all_finite;
    for_each_feature_set(check_scaled);
  }
  assert_true(refused > CASES / 5 && refused < CASES);
}

static int open_pages(void **state) {
  (void)state;
  v_pages = guarded_open(MOST * sizeof(double));
  w_pages = guarded_open(MOST * sizeof(double));
  scale_pages = guarded_open(MOST * sizeof(float));
  zero_pages = guarded_open(MOST);
  return 0;
}

static int close_pages(void **state) {
  (void)state;
  guarded_close(&v_pages);
  guarded_close(&w_pages);
  guarded_close(&scale_pages);
  guarded_close(&zero_pages);
  return 0;
}

int test_figure_pairs(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_codes),
                                     cmocka_unit_test(test_scaled)};
  return cmocka_run_group_tests(tests, open_pages, close_pages);
}
