// Codes of QuantizeLinear and ranges of columns: every variant, over all sets of features, gives the bytes of a
// reference written with the rounding functions of the C library. Any floats, infinite ones and NaN too; ties;
// one scale, or one for each; codes of one byte and two.
#include "guarded.h"

#include <float.h>

enum { MOST = 700, CASES = 400 };

static struct guarded in_pages, scale_pages, zero_pages, out_pages, lo_pages, hi_pages;
static size_t n;
static bool at_end, has_zeros;
static struct kernels_linear m;
static float elements[MOST], scales[MOST], zeros[MOST], lo[MOST], hi[MOST];

static float any_float(void) {
  static const float special[] = {0.0f,     -0.0f, 1e-45f,   -1e-45f,  FLT_MAX,
                                  -FLT_MAX, NAN,   INFINITY, -INFINITY};
  const uint32_t bits = (uint32_t)random_64();
  float x;
  if (random_64() % 16 == 0) return special[random_64() % 9];
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void random_case(void) {
  static const struct {
    float lo, hi;
    uint8_t width;
  } types[] = {{-128, 127, 1}, {0, 255, 1},        {-8, 7, 1},
               {0, 15, 1},     {-32768, 32767, 2}, {0, 65535, 2}};
  const uint64_t type = random_64() % 6;
  const bool odd = random_64() % 3 == 0;
  n = random_64() % MOST;
  at_end = random_64() % 2;
  has_zeros = random_64() % 2;
  m = (struct kernels_linear){.each = random_64() % 2,
                              .lo = types[type].lo,
                              .hi = types[type].hi,
                              .width = types[type].width};
  for (size_t i = 0; i < MOST; i++) {
    scales[i] = (float)(1 + random_64() % 64) / (random_64() % 8 ? 32 : -32);
    if (odd && random_64() % 4 == 0) scales[i] = random_64() % 2 ? 1e-45f : FLT_MAX;
    zeros[i] = types[type].lo + (float)(random_64() % 256);
    const float tie = (float)((double)(int64_t)(random_64() % 600) - 299.5);
    elements[i] = tie * scales[m.each ? i : 0];
    if (random_64() % 4 == 0) elements[i] = nextafterf(elements[i], random_64() % 2 ? 1e9f : -1e9f);
    if (odd) elements[i] = any_float();
    lo[i] = random_64() % 2 ? FLT_MAX : (float)(random_64() % 3);
    hi[i] = random_64() % 2 ? -FLT_MAX : (float)(random_64() % 3);
  }
}

static float *placed(struct guarded *pages, const float *from, size_t count) {
  float *to = (float *)(void *)guarded_at(pages, count * sizeof *to, at_end);
  if (count) memcpy(to, from, count * sizeof *to);
  return to;
}

static void check_codes(void) {
  struct kernels_linear k = m;
  bool finite = true;
  const size_t each = m.each ? n : 1;
  const float *in = placed(&in_pages, elements, n);
  k.scales = placed(&scale_pages, scales, each);
  k.zeros = has_zeros ? placed(&zero_pages, zeros, each) : NULL;
  uint8_t *out = guarded_at(&out_pages, n * m.width, at_end);
  memset(out, JUNK, n * m.width);
  const bool said = kernels_linear_codes(out, in, n, &k);
  for (size_t i = 0; i < n; i++) {
    const size_t s = m.each ? i : 0;
    const float quotient = elements[i] / scales[s];
    const float y = rintf(quotient) + (has_zeros ? zeros[s] : 0.0f);
    const int32_t want = (int32_t)(y > m.hi ? m.hi : y > m.lo ? y : m.lo); // NaN: the least
    int32_t got = 0;
    memcpy(&got, out + i * m.width, m.width);
    if (got != (want & (m.width == 1 ? 0xff : 0xffff)))
      fail_msg("element %zu of %zu, %g by %g: %d, not %d", i, n, (double)elements[i],
               (double)scales[s], got, want);
    finite &= isfinite(elements[i]) != 0;
  }
  assert_int_equal(said, finite);
}

static void check_others(void) {
  static float quotients[MOST];
  static int32_t codes[MOST];
  struct kernels_linear k = m;
  k.scales = scales;
  bool finite = kernels_linear_int32(codes, elements, n, &k);
  finite &= kernels_linear_quotients(quotients, elements, n, &k);
  for (size_t i = 0; i < n; i++) {
    const size_t s = m.each ? i : 0;
    const double y = rint((double)elements[i] / (double)scales[s]);
    assert_int_equal(codes[i], y > 2147483647      ? 2147483647
                               : y > -2147483648.0 ? (int32_t)y
                                                   : INT32_MIN);
    const float quotient = elements[i] / scales[s];
    assert_true(memcmp(&quotients[i], &quotient, 4) == 0 || isnan(quotient));
    if (!isfinite(elements[i])) assert_false(finite);
  }
}

static void test_codes(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    random_case();
    for_each_feature_set(check_codes);
    check_others();
  }
}

static void check_ranges(void) {
  const float *in = placed(&in_pages, elements, n);
  float *least = placed(&lo_pages, lo, n), *most = placed(&hi_pages, hi, n);
  size_t bad = 0;
  const size_t said = kernels_linear_ranges(in, n, least, most);
  for (size_t i = 0; i < n; i++) {
    const float x = elements[i];
    const float low = isfinite(x) && x < lo[i] ? x : lo[i],
                high = isfinite(x) && x > hi[i] ? x : hi[i];
    assert_memory_equal(&least[i], &low, sizeof low);
    assert_memory_equal(&most[i], &high, sizeof high);
    bad += !isfinite(x);
  }
  assert_int_equal(said, bad);
}

static void test_ranges(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    random_case();
    for_each_feature_set(check_ranges);
  }
}

static int open_pages(void **state) {
  (void)state;
  struct guarded *all[] = {&in_pages, &scale_pages, &zero_pages, &out_pages, &lo_pages, &hi_pages};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    *all[i] = guarded_open(MOST * sizeof(float));
  return 0;
}

static int close_pages(void **state) {
  (void)state;
  struct guarded *all[] = {&in_pages, &scale_pages, &zero_pages, &out_pages, &lo_pages, &hi_pages};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    guarded_close(all[i]);
  return 0;
}

int test_linear(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes), cmocka_unit_test(test_ranges)};
  return cmocka_run_group_tests(tests, open_pages, close_pages);
}
