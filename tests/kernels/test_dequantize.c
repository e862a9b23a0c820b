// Dequantization against its formula, one element at a time, for all types of codes, scales and
// results, over all sets of features, with guard pages and junk; and against what ONNX Runtime
// 1.31 makes of a few.
#include "guarded.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/dequantize/kernels_dequantize.h"

enum { MOST = 700, SIZES = 8, PAGES = 4 };

static struct guarded pages[PAGES];
static uint8_t codes[MOST * 4], scales[MOST * 4], zeros[MOST * 4], wanted[MOST * 4];
static struct kernels_dequantized form;
static unsigned still; // 1: scales, 2: zeros
static bool without;   // zeros

static size_t width_of(uint8_t t) {
  return dtype_bits((enum dtype)t) < 8 ? 1 : dtype_bits((enum dtype)t) / 8;
}

static void convert(void *out, uint8_t to, const void *in, uint8_t from) {
  const struct kernels_cast c = {.from = from, .to = to};
  kernels_convert(out, in, 1, &c);
}

static void make_wanted(void) {
  const size_t in_width = width_of(form.codes), out_width = width_of(form.out);
  for (size_t i = 0; i < MOST; i++) {
    float value, scale;
    convert(&scale, DTYPE_FLOAT, scales + (still & 1 ? 0 : i) * width_of(form.scales), form.scales);
    if (dtype_is_integer((enum dtype)form.codes)) {
      int64_t code, zero = 0;
      convert(&code, DTYPE_INT64, codes + i * in_width, form.codes);
      if (!without) convert(&zero, DTYPE_INT64, zeros + (still & 2 ? 0 : i) * in_width, form.codes);
      value = (float)(code - zero) * scale;
    } else {
      convert(&value, DTYPE_FLOAT, codes + i * in_width, form.codes);
      value *= scale;
    }
    if (isnan(value)) {
      const uint32_t quiet = 0x7fc00000;
      memcpy(&value, &quiet, sizeof value);
    }
    convert(wanted + i * out_width, form.out, &value, DTYPE_FLOAT);
  }
}

static void check_size(size_t first, size_t n, unsigned place) {
  const uint8_t *from[] = {codes, scales, zeros};
  const uint8_t types[] = {form.codes, form.scales, form.codes};
  const bool stands[] = {false, still & 1, still >> 1};
  const size_t off = place == 2, out_width = width_of(form.out);
  uint8_t *at[3];
  for (int k = 0; k < 3; k++) {
    const size_t width = width_of(types[k]), bytes = width * (stands[k] ? 1 : n);
    at[k] = guarded_at(&pages[k], bytes + off, place == 1) + off;
    memcpy(at[k], from[k] + (stands[k] ? 0 : first * width), bytes);
  }
  uint8_t *out = guarded_at(&pages[3], n * out_width + off, place == 1) + off;
  memset(out, JUNK, n * out_width);
  kernels_dequantize(&form, out, at[0], (struct kernels_operand){at[1], !stands[1]},
                     (struct kernels_operand){without ? NULL : at[2], !stands[2]}, n);
  assert_memory_equal(out, wanted + first * out_width, n * out_width);
}

static void check_sizes(void) {
  check_size(0, MOST, 1);
  for (unsigned i = 0; i < SIZES; i++) {
    const size_t n = random_64() % 45;
    check_size(random_64() % (MOST - n), n, i % 3);
  }
}

// Scales of all sizes, now and then of any bits: infinite, NaN, denormal.
static void random_elements(void) {
  for (size_t i = 0; i < sizeof codes; i++) {
    codes[i] = (uint8_t)random_64();
    zeros[i] = (uint8_t)random_64();
  }
  for (size_t i = 0; i < MOST; i++) {
    const uint32_t any = (uint32_t)random_64();
    double x = ldexp((double)(int64_t)random_64(), -63 - (int)(random_64() % 20));
    if (form.scales == DTYPE_FLOAT8E8M0) x = 0;
    const struct kernels_cast c = {.from = DTYPE_DOUBLE, .to = form.scales};
    kernels_convert(scales + i * width_of(form.scales), &x, 1, &c);
    if (x == 0 || (random_64() % 40 == 0 && i))
      memcpy(scales + i * width_of(form.scales), &any, width_of(form.scales));
  }
}

static void test_all(void **state) {
  (void)state;
  int taken = 0;
  for (int t = 0; t <= DTYPE_FLOAT6E3M2; t++)
    for (int s = 0; s <= DTYPE_FLOAT6E3M2; s++)
      for (int o = 0; o <= DTYPE_FLOAT6E3M2; o++) {
        form = (struct kernels_dequantized){(uint8_t)t, (uint8_t)s, (uint8_t)o};
        if (!kernels_dequantize_takes(&form)) continue;
        taken++;
        const bool has_zeros = dtype_is_integer((enum dtype)t) && t != DTYPE_INT32;
        for (unsigned how = 0; how < (has_zeros ? 6 : 2); how++) {
          still = how % 2 | (how & 2);
          without = !has_zeros || how >= 4;
          random_elements();
          make_wanted();
          for_each_feature_set(check_sizes);
        }
      }
  assert_int_equal(taken, 16 * 4 * 3);
}

static void test_known(void **state) {
  (void)state;
  const int16_t code[] = {-32768, 32767, -1, 1000}, zero = 1234;
  const uint16_t half_scale = 0x224c; // 0.0123
  const float scale = 0.0123f;
  const uint16_t halves[] = {0xde89, 0x5e0f, 0xcb98, 0xc1c1};
  const uint32_t floats[] = {0xc3d11cbf, 0x43c1ed8e, 0xc1730c49, 0xc038346d};
  uint32_t out[4];
  form = (struct kernels_dequantized){DTYPE_INT16, DTYPE_FLOAT16, DTYPE_FLOAT16};
  kernels_dequantize(&form, out, code, (struct kernels_operand){&half_scale, 0},
                     (struct kernels_operand){&zero, 0}, 4);
  assert_memory_equal(out, halves, sizeof halves);
  form = (struct kernels_dequantized){DTYPE_INT16, DTYPE_FLOAT, DTYPE_FLOAT};
  kernels_dequantize(&form, out, code, (struct kernels_operand){&scale, 0},
                     (struct kernels_operand){&zero, 0}, 4);
  assert_memory_equal(out, floats, sizeof floats);
  form.codes = DTYPE_BOOL;
  assert_false(kernels_dequantize_takes(&form));
  form.codes = DTYPE_FLOAT8E8M0;
  assert_false(kernels_dequantize_takes(&form));
  form.codes = DTYPE_UINT32;
  assert_false(kernels_dequantize_takes(&form));
}

static int open_pages(void **state) {
  (void)state;
  for (int k = 0; k < PAGES; k++)
    pages[k] = guarded_open(MOST * 4 + 1);
  return 0;
}

static int close_pages(void **state) {
  (void)state;
  for (int k = 0; k < PAGES; k++)
    guarded_close(&pages[k]);
  return 0;
}

int test_dequantize(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_all)};
  return cmocka_run_group_tests(tests, open_pages, close_pages);
}
