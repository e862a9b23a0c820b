// Every row of kernels.def against a reference of its own, over every subset of the features this
// machine has, comparing bytes. Buffers end at, or start behind, a page that must not be touched;
// outputs are filled with junk first, so that both not writing and writing too much show.
//
// The references are naive on purpose and share nothing with the kernels: a transpose is one memcpy
// an element; a conversion to a 16-bit format searches the table of all its values for the nearest.
#include "guarded.h"
#include "kernels/kernels.h"
#include "kernels/kernels_table.h"

// ---- transpose ---------------------------------------------------------------------------------

enum { SIDE_MAX = 150 };

static struct guarded in_pages, out_pages;

static void transpose_naive(uint8_t *out, const uint8_t *in, const struct transpose_shape *s) {
  for (size_t r = 0; r < s->rows; r++)
    for (size_t c = 0; c < s->cols; c++)
      memcpy(out + (c * s->out_stride + r) * s->width, in + (r * s->in_stride + c) * s->width,
             s->width);
}

// Bytes from the first to the last element of `lines` lines of `length` elements.
static size_t extent_of(size_t lines, size_t stride, size_t length, size_t width) {
  return lines && length ? ((lines - 1) * stride + length) * width : 0;
}

static void check_transpose(const struct transpose_shape *s, bool at_end) {
  size_t in_n = extent_of(s->rows, s->in_stride, s->cols, s->width);
  size_t out_n = extent_of(s->cols, s->out_stride, s->rows, s->width);
  uint8_t *in = guarded_at(&in_pages, in_n, at_end), *out = guarded_at(&out_pages, out_n, at_end);
  uint8_t *want = malloc(out_n + 1);
  for (size_t i = 0; i < in_n; i++)
    in[i] = (uint8_t)random_64();
  memset(out, JUNK, out_n);
  memset(want, JUNK, out_n);
  transpose_naive(want, in, s);
  kernels_transpose(out, s->out_stride, in, s->in_stride, s->rows, s->cols, s->width);
  if (memcmp(out, want, out_n) != 0)
    fail_msg("transpose %zu x %zu, strides %zu and %zu, width %u, on %s", s->rows, s->cols,
             s->in_stride, s->out_stride, s->width, kernels_isa_name());
  free(want);
}

static void transposes_of_every_size(void) {
  static const size_t sides[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 128, 131};
  enum { N = sizeof sides / sizeof *sides };
  for (unsigned width = 1; width <= 16; width *= 2)
    for (size_t k = 0; k < N * N; k++) {
      size_t rows = sides[k / N], cols = sides[k % N];
      struct transpose_shape tight = {rows, cols, rows, cols, width};
      struct transpose_shape loose = {rows + random_64() % 19, cols + random_64() % 19, rows, cols,
                                      width};
      check_transpose(&tight, k & 1);
      check_transpose(&loose, !(k & 1));
    }
}

static void random_transposes(void) {
  for (int i = 0; i < 300; i++) {
    size_t rows = random_64() % SIDE_MAX, cols = random_64() % SIDE_MAX;
    struct transpose_shape s = {rows + random_64() % 40, cols + random_64() % 40, rows, cols,
                                1u << random_64() % 5};
    check_transpose(&s, random_64() & 1);
  }
}

static void test_transpose(void **state) {
  (void)state;
  size_t most = (size_t)(SIDE_MAX + 40) * (SIDE_MAX + 40) * 16;
  in_pages = guarded_open(most);
  out_pages = guarded_open(most);
  for_each_feature_set(transposes_of_every_size);
  for_each_feature_set(random_transposes);
  guarded_close(&in_pages);
  guarded_close(&out_pages);
}

// ---- conversions: references -------------------------------------------------------------------

// A 16-bit float format; value(i) is the number that the positive pattern i stands for.
struct half_format {
  unsigned mantissa; // bits
  uint16_t infinity;
};
static const struct half_format f16 = {10, 0x7c00}, bf16 = {7, 0x7f80};

static double half_value(uint16_t bits, struct half_format f) {
  int bias = (f.infinity >> f.mantissa) / 2, e = bits >> f.mantissa;
  int fraction = bits & ((1 << f.mantissa) - 1);
  if (e) fraction |= 1 << f.mantissa;
  return ldexp(fraction, (e ? e : 1) - bias - (int)f.mantissa);
}

// The pattern nearest to |x| by bisection over all finite patterns; ties to the even one. The first
// number past the largest finite one that would have been representable counts as infinity.
static uint16_t half_nearest(double x, struct half_format f) {
  uint16_t low = 0, high = f.infinity; // half_value(infinity) is that next number
  x = fabs(x);
  if (x >= half_value(high, f)) return high;
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (half_value(middle, f) <= x)
      low = middle;
    else
      high = middle;
  }
  double below = x - half_value(low, f), above = half_value(high, f) - x; // exact where they tie
  if (below != above) return below < above ? low : high;
  return low & 1 ? high : low;
}

static uint64_t bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return bits;
}

static uint32_t bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

static uint16_t half_of_double(double x, struct half_format f) {
  uint64_t bits = bits_of_double(x);
  uint16_t sign = (uint16_t)(bits >> 63 << 15);
  if (!isnan(x)) return (uint16_t)(sign | half_nearest(x, f));
  uint64_t payload = (bits & (((uint64_t)1 << 52) - 1)) >> (52 - f.mantissa);
  return (uint16_t)(sign | f.infinity | 1u << (f.mantissa - 1) | payload);
}

// Widening by hand, so that a signalling NaN does not meet the compiler's idea of a load.
static double double_of_float_bits(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000) {
    uint64_t wide = (uint64_t)(bits >> 31) << 63 | (uint64_t)0x7ff << 52 | (uint64_t)1 << 51 |
                    (uint64_t)(bits & 0x7fffff) << 29;
    double x;
    memcpy(&x, &wide, 8);
    return x;
  }
  float x;
  memcpy(&x, &bits, 4);
  return (double)x;
}

static uint32_t float_bits_of_half(uint16_t bits, struct half_format f) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  uint32_t payload = magnitude & ((1u << f.mantissa) - 1);
  if (magnitude > f.infinity) return sign | 0x7fc00000 | payload << (23 - f.mantissa);
  if (magnitude == f.infinity) return sign | 0x7f800000;
  return sign | bits_of_float((float)half_value((uint16_t)magnitude, f));
}

static uint32_t float_bits_of_double(double x) {
  uint64_t bits = bits_of_double(x);
  if (isnan(x))
    return (uint32_t)(bits >> 63 << 31) | 0x7fc00000 | (uint32_t)(bits >> 29 & 0x7fffff);
  return bits_of_float((float)x);
}

// ---- conversions: cases ------------------------------------------------------------------------

static uint32_t float_case(size_t i) {
  static const uint32_t special[] = {
      0,          0x80000000, 0x7f800000, 0xff800000, 0x7f800001, 0xffbfffff, 0x7fc00000,
      0xffc12345, 0x7fa55555, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0xff7fffff,
      0x477fe000, 0x477fefff, 0x477ff000, 0x477ff001, 0x33000000, 0x33000001, 0x32ffffff,
      0x387fc000, 0x387fe000, 0x387fffff, 0x38800000, 0x3f801000, 0x3f803000, 0x3f808000,
      0x3f818000, 0x3f808001, 0x00008000, 0x00018000, 0x00007fff, 0x7f7f8000, 0x7f7f7fff,
  };
  enum { N = sizeof special / sizeof *special };
  uint64_t x = random_64();
  if (i < N) return special[i];
  // A third anywhere; a third where binary16 lives; a third exactly between two 16-bit numbers.
  uint32_t any = (uint32_t)x, near = (any & 0x807fffff) | ((uint32_t)(x >> 32) % 48 + 98) << 23;
  if (i % 3 == 0) return any;
  if (i % 3 == 1) return near;
  return x >> 63 ? (near & 0xffffe000) | 0x1000 : (any & 0xffff0000) | 0x8000;
}

static uint64_t double_case(size_t i) {
  uint64_t wide = bits_of_double(double_of_float_bits(float_case(i))), x = random_64();
  switch (i % 5) {
  case 0: return wide;
  case 1: return wide + 1; // just past what would tie: rounding twice gets this one wrong
  case 2: return wide - 1;
  case 3: return x;
  default: return (x & ~((uint64_t)0x7ff << 52)) | ((x >> 32) % 288 + 865) << 52;
  }
}

enum { CASES = 40000 };

// One conversion: sizes, how to make an input element, what it must become.
struct conversion {
  const char *name;
  size_t in_bytes, out_bytes;
  void (*convert)(void *out, const void *in, size_t n);
  void (*input)(uint8_t *in, size_t i);
  void (*expect)(uint8_t *out, const uint8_t *in);
};

static void put_float(uint8_t *in, size_t i) {
  uint32_t x = float_case(i);
  memcpy(in, &x, 4);
}

static void put_double(uint8_t *in, size_t i) {
  uint64_t x = double_case(i);
  memcpy(in, &x, 8);
}

static void put_half(uint8_t *in, size_t i) {
  uint16_t x = (uint16_t)(i * 40503 >> 1); // every pattern before long
  memcpy(in, &x, 2);
}

static double float_at(const uint8_t *in) {
  uint32_t bits;
  memcpy(&bits, in, 4);
  return double_of_float_bits(bits);
}

static double double_at(const uint8_t *in) {
  double x;
  memcpy(&x, in, 8);
  return x;
}

static uint16_t half_at(const uint8_t *in) {
  uint16_t x;
  memcpy(&x, in, 2);
  return x;
}

#define EXPECT(name, type, expression)                                                             \
  static void name(uint8_t *out, const uint8_t *in) {                                              \
    type x = expression;                                                                           \
    memcpy(out, &x, sizeof x);                                                                     \
  }
EXPECT(expect_f32_f16, uint16_t, half_of_double(float_at(in), f16))
EXPECT(expect_f32_bf16, uint16_t, half_of_double(float_at(in), bf16))
EXPECT(expect_f16_f32, uint32_t, float_bits_of_half(half_at(in), f16))
EXPECT(expect_bf16_f32, uint32_t, float_bits_of_half(half_at(in), bf16))
EXPECT(expect_f64_f32, uint32_t, float_bits_of_double(double_at(in)))
EXPECT(expect_f32_f64, uint64_t, bits_of_double(float_at(in)))
EXPECT(expect_f64_f16, uint16_t, half_of_double(double_at(in), f16))
EXPECT(expect_f64_bf16, uint16_t, half_of_double(double_at(in), bf16))

#define CALL(name, out_type, in_type)                                                              \
  static void call_##name(void *out, const void *in, size_t n) {                                   \
    kernels_##name((out_type *)out, (const in_type *)in, n);                                       \
  }
CALL(f32_to_f16, uint16_t, float)
CALL(f32_to_bf16, uint16_t, float)
CALL(f16_to_f32, float, uint16_t)
CALL(bf16_to_f32, float, uint16_t)
CALL(f64_to_f32, float, double)
CALL(f32_to_f64, double, float)
CALL(f64_to_f16, uint16_t, double)
CALL(f64_to_bf16, uint16_t, double)

static const struct conversion conversions[] = {
    {"f32_to_f16", 4, 2, call_f32_to_f16, put_float, expect_f32_f16},
    {"f32_to_bf16", 4, 2, call_f32_to_bf16, put_float, expect_f32_bf16},
    {"f16_to_f32", 2, 4, call_f16_to_f32, put_half, expect_f16_f32},
    {"bf16_to_f32", 2, 4, call_bf16_to_f32, put_half, expect_bf16_f32},
    {"f64_to_f32", 8, 4, call_f64_to_f32, put_double, expect_f64_f32},
    {"f32_to_f64", 4, 8, call_f32_to_f64, put_float, expect_f32_f64},
    {"f64_to_f16", 8, 2, call_f64_to_f16, put_double, expect_f64_f16},
    {"f64_to_bf16", 8, 2, call_f64_to_bf16, put_double, expect_f64_bf16},
};

enum placement { AT_START, AT_END, UNALIGNED };

static void check_conversion(const struct conversion *v, const uint8_t *inputs,
                             const uint8_t *expected, size_t n, enum placement where) {
  uint8_t *in = guarded_at(&in_pages, n * v->in_bytes, where == AT_END) + (where == UNALIGNED);
  uint8_t *out = guarded_at(&out_pages, n * v->out_bytes, where == AT_END) + (where == UNALIGNED);
  memcpy(in, inputs, n * v->in_bytes);
  memset(out, JUNK, n * v->out_bytes);
  v->convert(out, in, n);
  for (size_t i = 0; i < n; i++) {
    const uint8_t *got = out + i * v->out_bytes, *want = expected + i * v->out_bytes;
    if (memcmp(got, want, v->out_bytes) == 0) continue;
    uint64_t x = 0, y = 0, z = 0;
    memcpy(&x, inputs + i * v->in_bytes, v->in_bytes);
    memcpy(&y, got, v->out_bytes);
    memcpy(&z, want, v->out_bytes);
    fail_msg("%s of %#llx, element %zu of %zu: %#llx, not %#llx, on %s", v->name,
             (unsigned long long)x, i, n, (unsigned long long)y, (unsigned long long)z,
             kernels_isa_name());
  }
}

static uint8_t *case_inputs, *case_outputs;
static const struct conversion *conversion;

static void convert_every_size(void) {
  check_conversion(conversion, case_inputs, case_outputs, CASES, AT_END);
  for (size_t n = 0; n <= 40; n++)
    for (enum placement where = AT_START; where <= UNALIGNED; where++) {
      size_t from = random_64() % (CASES - 40);
      check_conversion(conversion, case_inputs + from * conversion->in_bytes,
                       case_outputs + from * conversion->out_bytes, n, where);
    }
}

static void test_conversions(void **state) {
  (void)state;
  in_pages = guarded_open(CASES * 8);
  out_pages = guarded_open(CASES * 8);
  case_inputs = malloc(CASES * 8);
  case_outputs = malloc(CASES * 8);
  for (size_t k = 0; k < sizeof conversions / sizeof *conversions; k++) {
    conversion = &conversions[k];
    for (size_t i = 0; i < CASES; i++) {
      conversion->input(case_inputs + i * conversion->in_bytes, i);
      conversion->expect(case_outputs + i * conversion->out_bytes,
                         case_inputs + i * conversion->in_bytes);
    }
    for_each_feature_set(convert_every_size);
  }
  free(case_inputs);
  free(case_outputs);
  guarded_close(&in_pages);
  guarded_close(&out_pages);
}

// The reference of the references: values anyone can look up.
static void test_known_values(void **state) {
  (void)state;
  assert_int_equal(half_of_double(1.0, f16), 0x3c00);
  assert_int_equal(half_of_double(-2.0, bf16), 0xc000);
  assert_int_equal(half_of_double(65504.0, f16), 0x7bff);
  assert_int_equal(half_of_double(65519.99, f16), 0x7bff);
  assert_int_equal(half_of_double(65520.0, f16), 0x7c00);
  assert_int_equal(half_of_double(0x1p-24, f16), 0x0001);
  assert_int_equal(half_of_double(0x1p-25, f16), 0x0000);
  assert_int_equal(half_of_double(0x1.8p-25, f16), 0x0001);
  assert_int_equal(half_of_double(-0.0, f16), 0x8000);
  assert_int_equal(float_bits_of_half(0x0001, f16), 0x33800000);
  assert_int_equal(float_bits_of_half(0x7c01, f16), 0x7fc02000);
  // 1 + 2^-11 + 2^-40: nearest half is 1 + 2^-10; by way of float it would tie and become 1.
  assert_int_equal(half_of_double(1.0 + 0x1p-11 + 0x1p-40, f16), 0x3c01);
}

// Features are a mask: taking all away leaves the portable rows, and giving back restores.
static void test_mask(void **state) {
  (void)state;
  uint32_t all = kernels_features();
  kernels_mask(0);
  assert_int_equal(kernels_features(), 0);
  assert_string_equal(kernels_isa_name(), "portable");
  kernels_mask(UINT32_MAX);
  assert_int_equal(kernels_features(), all);
#if defined(__x86_64__)
  if (all & KERNELS_AVX2) assert_string_not_equal(kernels_isa_name(), "portable");
  assert_true(kernels_choose(KERNELS_AVX2).transpose == transpose_avx2);
#elif defined(__aarch64__)
  assert_string_equal(kernels_isa_name(), "neon");
  assert_true(kernels_choose(KERNELS_NEON).transpose == transpose_neon);
#endif
}

int test_kernels(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mask),
      cmocka_unit_test(test_known_values),
      cmocka_unit_test(test_transpose),
      cmocka_unit_test(test_conversions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
