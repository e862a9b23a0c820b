// Scales and zero points of ranges: the numbers of onnxruntime's compute_scale_zp, bit for bit, and where ours differ.
#include "passes/int8/int8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static void expect(enum dtype type, struct int8_range range, struct int8_how how, uint32_t bits,
                   int64_t zero) {
  struct int8_params p;
  const float scale = (range.type = type, int8_scale_zero(&range, &how, &p)) ? (float)p.scale : 0;
  uint32_t got;
  memcpy(&got, &scale, 4);
  assert_int_equal(got, bits);
  assert_int_equal(p.zero, zero);
}

static const struct int8_range around = {.least = -1, .most = 2}, above = {.least = 0.5, .most = 3};

static void test_scales_of_onnxruntime(void **state) {
  (void)state;
  expect(DTYPE_FLOAT, around, (struct int8_how){.type = DTYPE_INT8}, 0x3c40c0c1, -43);
  expect(DTYPE_FLOAT, around, (struct int8_how){.type = DTYPE_INT8, .symmetric = true}, 0x3c810204,
         0);
  expect(DTYPE_FLOAT, around, (struct int8_how){.type = DTYPE_UINT8}, 0x3c40c0c1, 85);
  expect(DTYPE_FLOAT, around, (struct int8_how){.type = DTYPE_UINT8, .reduced = true}, 0x3cc18306,
         42);
  expect(DTYPE_FLOAT, around, (struct int8_how){.type = DTYPE_UINT8, .restricted = true},
         0x3c810204, 128);
  expect(DTYPE_FLOAT, above, (struct int8_how){.type = DTYPE_UINT8}, 0x3c40c0c1, 0);
  expect(DTYPE_FLOAT, above, (struct int8_how){.type = DTYPE_UINT8, .restricted = true}, 0x3c40c0c1,
         0);
  expect(DTYPE_FLOAT, around, (struct int8_how){.type = DTYPE_UINT8, .symmetric = true}, 0x3c808081,
         128);
}

static void test_codes_of_types(void **state) {
  (void)state;
  static const struct {
    enum dtype type;
    bool symmetric, reduced;
    int64_t least, most;
  } rows[] = {
      {DTYPE_INT8, false, false, -128, 127},     {DTYPE_INT8, true, false, -127, 127},
      {DTYPE_INT8, true, true, -64, 64},         {DTYPE_UINT8, true, false, 0, 255},
      {DTYPE_UINT8, false, true, 0, 127},        {DTYPE_INT16, true, false, -32767, 32767},
      {DTYPE_INT16, false, true, -16384, 16384}, {DTYPE_UINT16, true, true, 0, 32767},
      {DTYPE_INT4, true, false, -8, 7},          {DTYPE_INT4, false, true, -4, 3},
      {DTYPE_UINT4, true, false, 0, 15},         {DTYPE_UINT4, false, true, 0, 7},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t least, most;
    int8_codes_of(&(struct int8_how){.type = rows[i].type,
                                     .symmetric = rows[i].symmetric,
                                     .reduced = rows[i].reduced},
                  &least, &most);
    assert_int_equal(least, rows[i].least);
    assert_int_equal(most, rows[i].most);
  }
}

// A range that is next to nothing: onnxruntime takes 1, and so all codes are 0; ours holds it.
static void test_small_ranges(void **state) {
  (void)state;
  const struct int8_range small = {.least = -0x1p-20, .most = 0x1p-20}, none = {.least = 0};
  const struct int8_how guarded = {.type = DTYPE_INT8, .symmetric = true, .guard = GUARD_NORMAL},
                        later = {.type = DTYPE_INT8, .symmetric = true, .guard = GUARD_NUMBER},
                        ours = {.type = DTYPE_INT8, .symmetric = true};
  struct int8_params p;
  struct int8_range half = small;
  half.type = DTYPE_FLOAT16;
  assert_true(int8_scale_zero(&half, &guarded, &p));
  assert_true(p.scale == 1);
  assert_true(int8_scale_zero(&half, &ours, &p));
  assert_true(p.scale == 0x1p-24); // rounded up: nothing is clipped
  assert_true(int8_scale_zero(&half, &later, &p));
  assert_true(p.scale == 1); // 2^-20 / 127.5 is rounded to 0
  half.least = -0x1p-16, half.most = 0x1p-16;
  assert_true(int8_scale_zero(&half, &guarded, &p));
  assert_true(p.scale == 1);
  assert_true(int8_scale_zero(&half, &later, &p));
  assert_true(p.scale == 0x1p-23); // 2.008 steps: the nearest, so that the ends are clipped
  expect(DTYPE_FLOAT, none, ours, 0x3f800000, 0);
  expect(DTYPE_FLOAT, none, guarded, 0x3f800000, 0);
}

static void test_floors_and_float8(void **state) {
  (void)state;
  const struct int8_range tiny = {.least = -0.001, .most = 0.001};
  expect(DTYPE_FLOAT, tiny,
         (struct int8_how){.type = DTYPE_UINT8, .has_floor = true, .real_floor = 2.55}, 0x3c23d70a,
         0);
  struct int8_range spread = {.type = DTYPE_FLOAT, .has_deviation = true, .deviation = 1};
  struct int8_params p;
  const struct int8_how how = {.type = DTYPE_FLOAT8E4M3FN};
  assert_true(int8_scale_zero(&spread, &how, &p));
  assert_true((float)p.scale == 1.0f / 0x1.903b1cp+6F && p.zero == 0);
  spread.has_deviation = false;
  assert_false(int8_scale_zero(&spread, &how, &p));
}

int test_int8(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scales_of_onnxruntime),
      cmocka_unit_test(test_codes_of_types),
      cmocka_unit_test(test_small_ranges),
      cmocka_unit_test(test_floors_and_float8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
