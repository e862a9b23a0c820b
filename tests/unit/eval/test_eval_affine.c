// Quantization by tensor and channel against the formulas of eval_affine_grid.c, spelled out in
// float: random shapes and axes, from a file and computed, whole and at random ranges, with and
// without the run's statistics. (What float16 and double give is compared with NumPy in the
// end-to-end tests.)
#include "chance.h"
#include "fake_io.h"
#include "stream/eval/eval.h"
#include "stream/eval/quantize/inside/eval_affine.h"

#include <math.h>
#include <stdlib.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static const struct eval_cache_file nowhere;

enum { CASES = 400, SIDE = 40, MOST = SIDE * SIDE * SIDE };

static float values[MOST];
static struct recipes r;
static struct io io;

struct shape {
  int64_t dims[3];
  uint64_t count, channels, inner;
};

// What the parts must be.
struct wanted {
  uint8_t codes[MOST];
  float levels[MOST];
  float scales[MOST], zeros[MOST];
};
static struct wanted want;

static uint64_t channel_of(const struct shape *s, uint64_t i) {
  return i / s->inner % s->channels;
}

static void want_channel(const struct shape *s, const struct recipe_quantization *q, uint64_t c) {
  float lo = INFINITY, hi = -INFINITY;
  const bool levels = q->format == FORMAT_LEVELS;
  const float steps = levels ? (float)q->levels - 1 : 255,
              half = levels ? (float)q->levels / 2 : 128;
  for (uint64_t i = 0; i < s->count; i++)
    if (channel_of(s, i) == c) lo = fminf(lo, values[i]), hi = fmaxf(hi, values[i]);
  if (q->format == FORMAT_AFFINE) lo = fminf(lo, 0), hi = fmaxf(hi, 0);
  const bool flat = lo == hi, affine = q->format == FORMAT_AFFINE;
  const float range = hi - lo, inverse = 1 / range;
  const float first = -lo * inverse;
  float zero = rintf(first * steps) - half;
  float scale = affine ? (float)(((double)hi - lo) / 255) : range / steps;
  if (affine && scale == 0) scale = 1;
  if (affine) zero = fminf(lo < 0 ? (float)rint(-(double)lo / scale) : 0, 255);
  want.scales[c] = flat && !affine ? 0 : scale;
  want.zeros[c] = affine ? zero : flat ? lo : -zero * scale;
  for (uint64_t i = 0; i < s->count; i++) {
    if (channel_of(s, i) != c) continue;
    const float x = values[i], scaled = x * inverse;
    float step = affine ? rintf(x / scale) + zero : rintf(scaled * steps) + zero;
    step = fminf(fmaxf(step, affine ? 0 : -half), affine ? 255 : half - 1);
    want.codes[i] = flat && !affine ? 0 : (uint8_t)(int)step;
    want.levels[i] = flat ? x : (float)(((double)(int)step - zero) * (double)scale);
  }
}

static uint32_t operand(const struct shape *s) {
  const uint64_t bytes = s->count * sizeof *values;
  const struct piece all = {.at = {0, bytes, FAKE_MEMORY}, .count = bytes, .checkpoint = NO_ID};
  const uint32_t direct = recipe_extent(&r, DTYPE_FLOAT, s->dims, 3, ENCODING_RAW, &all, 1, NULL);
  if (chance_below(2)) return direct;
  // Through double and back: the same numbers, computed.
  return recipe_cast(&r, recipe_cast(&r, direct, DTYPE_DOUBLE), DTYPE_FLOAT);
}

static void random_values(struct shape *s, uint32_t axis) {
  s->count = 1;
  for (int i = 0; i < 3; i++)
    s->count *= (uint64_t)(s->dims[i] = 1 + chance_below(SIDE));
  s->channels = axis == RECIPE_PER_TENSOR ? 1 : (uint64_t)s->dims[axis];
  s->inner = axis == RECIPE_PER_TENSOR ? s->count : 1;
  for (uint32_t i = axis + 1; axis != RECIPE_PER_TENSOR && i < 3; i++)
    s->inner *= (uint64_t)s->dims[i];
  const float centre = chance_below(2) ? 0 : (float)chance_below(20) - 10;
  const bool flat = chance_below(8) == 0;
  for (uint64_t i = 0; i < s->count; i++)
    values[i] = flat ? centre
                     : centre + ((float)chance_below(1 << 20) / (1 << 19) - 1) * (float)(1 + i % 7);
}

static void check_part(struct eval *ev, uint32_t id, const void *wanted) {
  static uint8_t got[MOST * sizeof(float)];
  struct err err = {0};
  const uint64_t n = r.rows[id].bytes;
  assert_int_equal(recipe_read(ev, id, 0, got, (size_t)n, &err), 0);
  assert_memory_equal(got, wanted, n);
  for (int i = 0; i < 4; i++) {
    const uint64_t off = chance_below(n), len = chance_below(n - off + 1);
    memset(got, 0xa5, sizeof got);
    assert_int_equal(recipe_read(ev, id, off, got, (size_t)len, &err), 0);
    assert_memory_equal(got, (const uint8_t *)wanted + off, len);
    assert_int_equal(got[len], 0xa5);
  }
}

static void check_parts(struct eval *ev, uint32_t of, const struct recipe_quantization *q) {
  uint8_t zeros[SIDE];
  if (q->format == FORMAT_LEVELS) {
    check_part(ev, recipe_quantize(&r, of, q, PART_CODES), want.levels);
    return;
  }
  for (uint32_t c = 0; q->format == FORMAT_AFFINE && c < SIDE; c++)
    zeros[c] = (uint8_t)(int)fmaxf(0, fminf(want.zeros[c], 255));
  const void *const parts[] = {want.codes, want.scales,
                               q->format == FORMAT_AFFINE ? (const void *)zeros : want.zeros};
  const uint32_t start = chance_below(3);
  for (uint32_t i = 0; i < 3; i++) {
    const enum recipe_part part = (enum recipe_part)((start + i) % 3);
    check_part(ev, recipe_quantize(&r, of, q, part), parts[part]);
  }
}

static void random_case(void) {
  static const enum recipe_format formats[] = {FORMAT_SHRINK, FORMAT_LEVELS, FORMAT_AFFINE};
  const enum recipe_format format = formats[chance_below(3)];
  const uint32_t axis =
      format == FORMAT_LEVELS || chance_below(3) == 0 ? RECIPE_PER_TENSOR : chance_below(3);
  const struct recipe_quantization q = {
      .format = format,
      .bits = 8,
      .axis = axis,
      .levels = format == FORMAT_LEVELS ? 2 * (1 + chance_below(150)) : 0};
  struct shape s;
  struct eval *ev;
  struct err err = {0};
  random_values(&s, axis);
  for (uint64_t c = 0; c < s.channels; c++)
    want_channel(&s, &q, c);
  recipes_init(&r);
  const uint32_t of = operand(&s);
  io = (struct io){.memory = (uint8_t *)values, .memory_bytes = s.count * sizeof *values};
  fake_allow(&io, (struct extent){0, s.count * sizeof *values, FAKE_MEMORY});
  struct eval_cache *cache = chance_below(2) ? eval_cache_open(1 << 16, nowhere) : NULL;
  assert_int_equal(eval_open(&ev, &r, &io, EVAL_BUDGET_MIN, &err), 0);
  eval_share(ev, cache);
  check_parts(ev, of, &q);
  eval_close(ev);
  eval_cache_close(cache);
  recipes_free(&r);
}

static void test_random(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++)
    random_case();
}

// A weight that is read for its range once, however many evaluators ask, as long as they share.
static uint64_t bytes_read_for_scales(struct eval_cache *cache) {
  const int64_t dims[2] = {64, 64};
  const uint64_t bytes = 64 * 64 * sizeof *values;
  const struct piece all = {.at = {0, bytes, FAKE_MEMORY}, .count = bytes, .checkpoint = NO_ID};
  const struct recipe_quantization q = {
      .format = FORMAT_SHRINK, .bits = 8, .axis = RECIPE_PER_TENSOR};
  io = (struct io){.memory = (uint8_t *)values, .memory_bytes = bytes};
  fake_allow(&io, (struct extent){0, bytes, FAKE_MEMORY});
  recipes_init(&r);
  const uint32_t of = recipe_extent(&r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &all, 1, NULL);
  for (uint64_t i = 0; i < 64 * 64; i++)
    values[i] = (float)chance_below(100);
  for (int i = 0; i < 3; i++) {
    struct eval *ev;
    struct err err = {0};
    float scale;
    assert_int_equal(eval_open(&ev, &r, &io, EVAL_BUDGET_MIN, &err), 0);
    eval_share(ev, cache);
    const uint32_t id = recipe_quantize(&r, of, &q, PART_SCALES);
    assert_int_equal(recipe_read(ev, id, 0, &scale, sizeof scale, &err), 0);
    eval_close(ev);
  }
  recipes_free(&r);
  return io.bytes / bytes;
}

static void test_ranges_are_shared(void **state) {
  (void)state;
  struct eval_cache *cache = eval_cache_open(1 << 16, nowhere);
  assert_int_equal(bytes_read_for_scales(cache), 1);
  eval_cache_close(cache);
  assert_int_equal(bytes_read_for_scales(NULL), 3);
}

// Bytes of a recipe that were read for its range.
struct looks {
  uint64_t bytes;
  uint32_t of;
  unsigned asked;
};

static bool count_asked(void *ctx) {
  ((struct looks *)ctx)->asked++;
  return true;
}

static void count_look(void *ctx, uint32_t of, uint64_t bytes) {
  struct looks *l = ctx;
  l->bytes += bytes;
  l->of = of;
}

// Elements that are read for the range are kept as far as there is memory. Codes from `from` to the
// end in pieces, then those before: as the formula has them. Gives how many bytes were read.
static uint64_t bytes_read_for_codes(float *weight, uint64_t n, uint64_t from) {
  const int64_t dim = (int64_t)n;
  const uint64_t bytes = n * sizeof *weight;
  const struct piece all = {.at = {0, bytes, FAKE_MEMORY}, .count = bytes, .checkpoint = NO_ID};
  const struct recipe_quantization q = {
      .format = FORMAT_SHRINK, .bits = 8, .axis = RECIPE_PER_TENSOR};
  const uint64_t starts[] = {from, 0};
  struct eval *ev;
  struct err err = {0};
  for (uint64_t i = 0; i < n; i++)
    weight[i] = (float)chance_below(1 << 20) / (1 << 20); // with the next two: a range of 1
  weight[chance_below(n / 2)] = 0;
  weight[n / 2 + chance_below(n / 2)] = 1;
  io = (struct io){.memory = (uint8_t *)weight, .memory_bytes = bytes};
  fake_allow(&io, (struct extent){0, bytes, FAKE_MEMORY});
  recipes_init(&r);
  const uint32_t of = recipe_extent(&r, DTYPE_FLOAT, &dim, 1, ENCODING_RAW, &all, 1, NULL);
  const uint32_t id = recipe_quantize(&r, of, &q, PART_CODES);
  struct looks looks = {0};
  assert_int_equal(eval_open(&ev, &r, &io, 2 * EVAL_BUDGET_MIN, &err), 0);
  eval_interrupt(ev, (struct eval_go_on){.ask = count_asked, .looked = count_look, .ctx = &looks});
  for (int k = 0; k < 2; k++) {
    for (uint64_t i = starts[k], end = k == 0 ? n : from, m; i < end; i += m) {
      int8_t codes[7000];
      m = end - i < sizeof codes ? end - i : sizeof codes;
      assert_int_equal(recipe_read(ev, id, i, codes, (size_t)m, &err), 0);
      for (uint64_t j = 0; j < m; j++)
        assert_int_equal(codes[j], (int)rintf(weight[i + j] * 255) - 128);
      assert_int_equal(looks.bytes, bytes); // with the first of the codes, once
      assert_int_equal(looks.of, of);
      assert_true(looks.asked == 0 || n > 1 << 18);
    }
  }
  eval_close(ev);
  recipes_free(&r);
  return io.bytes;
}

static void test_elements_are_kept(void **state) {
  (void)state;
  enum { LARGE = 3 << 20 }; // bytes, more than there is memory
  float *weight = malloc(LARGE);
  const uint64_t n = LARGE / sizeof *weight;
  assert_non_null(weight);
  assert_int_equal(bytes_read_for_codes(weight, n / 4, n / 9), LARGE / 4);
  for (int i = 0; i < 5; i++) {
    const uint64_t bytes = bytes_read_for_codes(weight, n, i ? chance_below(n) : 0);
    assert_true(bytes > LARGE && bytes < 2 * LARGE);
  }
  free(weight);
}

static void test_not_finite(void **state) {
  (void)state;
  const int64_t dim = 4;
  const float x[4] = {1, NAN, 2, INFINITY};
  struct eval *ev;
  struct err err = {0};
  uint8_t codes[4];
  recipes_init(&r);
  io = (struct io){0};
  const uint32_t of = recipe_bytes(&r, DTYPE_FLOAT, &dim, 1, span_of(x, sizeof x));
  const struct recipe_quantization q = {
      .format = FORMAT_SHRINK, .bits = 8, .axis = RECIPE_PER_TENSOR};
  const uint32_t id = recipe_quantize(&r, of, &q, PART_CODES);
  assert_int_equal(eval_open(&ev, &r, &io, EVAL_BUDGET_MIN, &err), 0);
  assert_int_equal(recipe_read(ev, id, 0, codes, sizeof codes, &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  assert_non_null(strstr(err.msg, "has 2 that are NaN or infinite"));
  eval_close(ev);
  recipes_free(&r);
}

int test_eval_affine(void) {
  chance_seed = 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_ranges_are_shared),
      cmocka_unit_test(test_elements_are_kept),
      cmocka_unit_test(test_not_finite),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
