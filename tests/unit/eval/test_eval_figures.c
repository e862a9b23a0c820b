// Error figures by chunks of elements: of every format that has them and of casts, made in any
// number of units, in pieces and in little memory, they are the same bytes, and what the stored
// parts say when they are read back and decoded in double. Elements that overflow or are not
// numbers are counted.
#include "chance.h"
#include "fake_io.h"
#include "stream/eval/core/eval_parts.h"
#include "stream/eval/eval.h"
#include "stream/staging/figure_sums.h"

#include <float.h>
#include <math.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { SIDE = 200, MOST = SIDE * SIDE, CASES = 300 };

static float values[MOST];
static uint8_t codes[MOST * 4];
static float scales[MOST], zeros[MOST];
static struct recipes r;
static struct io io;

static void add_leaf(void *ctx, uint64_t leaf, const struct figures *f) {
  figure_sums_push(ctx, 0, leaf, f);
}

// One unit: bytes [from, end) of the recipe, in pieces.
static void make_unit(uint32_t id, uint64_t from, uint64_t end, struct figure_sums *sums) {
  struct eval *ev;
  struct err err = {0};
  assert_int_equal(eval_open(&ev, &r, &io, EVAL_BUDGET_MIN << chance_below(3), &err), 0);
  eval_refuse_overflow(ev);
  const struct eval_watcher watcher = {add_leaf, sums};
  struct eval_task *t = eval_begin(ev, id, from, end - from, watcher);
  while (from < end) {
    const uint64_t n = min_u64(1 + chance_below(chance_below(2) ? 5000 : MOST), end - from);
    if (eval_read(t, from, codes, (size_t)n, &err) != 0) fail_msg("%s", err.msg);
    from += n;
  }
  if (eval_end(t, &err) != 0) fail_msg("%s", err.msg);
  eval_close(ev);
}

// The figures that all of these sums make: of one segment, with nothing missing and nothing over.
static struct figures whole_of(struct figure_sums *all) {
  struct figures f = {0};
  uint32_t segment;
  size_t at = 0;
  bool whole;
  figure_sums_sort(all);
  assert_true(figure_sums_next(all, &at, &segment, &f, &whole));
  assert_true(whole);
  assert_int_equal(at, all->n);
  figure_sums_free(all);
  return f;
}

static struct figures figures_of(uint32_t id, uint32_t units) {
  struct figure_sums all = {0};
  const uint64_t n = r.rows[id].bytes;
  uint64_t end = n;
  for (uint32_t unit = units; unit-- > 0;) {
    struct figure_sums one = {0};
    const uint64_t from = unit == 0 ? 0 : end - chance_below(end + 1);
    if (from < end) make_unit(id, from, end, &one);
    figure_sums_put_unit(&all, unit, &one);
    figure_sums_free(&one);
    end = from;
  }
  return whole_of(&all);
}

// ---- from what is stored -----------------------------------------------------------------------

static void read_part(uint32_t id, void *out) {
  struct eval *ev;
  struct err err = {0};
  assert_int_equal(eval_open(&ev, &r, &io, EVAL_BUDGET_MIN, &err), 0);
  assert_int_equal(recipe_read(ev, id, 0, out, (size_t)r.rows[id].bytes, &err), 0);
  eval_close(ev);
}

// Number i of a list of codes, a byte or two each.
static double code_of(enum dtype type, const void *list, uint64_t i) {
  uint16_t wide;
  memcpy(&wide, (const uint8_t *)list + 2 * i * (type == DTYPE_UINT16), 2);
  if (type == DTYPE_UINT16) return wide;
  const uint8_t byte = ((const uint8_t *)list)[i];
  return type == DTYPE_INT8 ? (double)(int8_t)byte : byte;
}

// Where each element has a scale of its own, and its code fits what kernels take, it is a float.
static double decoded_linear(const struct recipe_quantization *q, const int64_t dims[2], uint64_t i,
                             uint64_t channel) {
  const double zero = code_of(q->type, zeros, channel), code = code_of(q->type, codes, i);
  const bool each = q->axis == 1 || (q->axis == 0 && dims[1] == 1);
  const double value = (code - zero) * (double)scales[channel];
  const bool plain = q->type == DTYPE_UINT8 || (q->type == DTYPE_INT8 && q->symmetric);
  return each && plain ? (double)((float)(code - zero) * scales[channel]) : value;
}

static double decoded(const struct recipe_quantization *q, const int64_t dims[2], uint64_t i) {
  const uint64_t row = i / (uint64_t)dims[1], column = i % (uint64_t)dims[1];
  const uint64_t channel = q->axis == 0 ? row : q->axis == 1 ? column : 0;
  float level;
  memcpy(&level, codes + i * 4, 4);
  if (q->format == FORMAT_LEVELS) return level;
  if (q->format == FORMAT_SHRINK)
    return (double)(int8_t)codes[i] * (double)scales[channel] + (double)zeros[channel];
  if (q->format == FORMAT_LINEAR) return decoded_linear(q, dims, i, channel);
  if (q->format == FORMAT_AFFINE)
    return (codes[i] - (double)((uint8_t *)zeros)[channel]) * (double)scales[channel];
  const uint64_t blocks = ((uint64_t)dims[1] - 1) / q->block + 1;
  const uint64_t block = row * blocks + column / q->block;
  const int zero = ((uint8_t *)zeros)[block / 2] >> (block % 2 * 4) & 15;
  return (double)((float)((codes[i / 2] >> (i % 2 * 4) & 15) - zero) * scales[block]);
}

static struct figures naive(uint32_t of, const struct recipe_quantization *q,
                            const int64_t dims[2]) {
  struct figures f = {.elements = (uint64_t)(dims[0] * dims[1])};
  read_part(recipe_quantize(&r, of, q, PART_CODES), codes);
  if (q->format != FORMAT_LEVELS) {
    read_part(recipe_quantize(&r, of, q, PART_SCALES), scales);
    read_part(recipe_quantize(&r, of, q, PART_ZEROS), zeros);
  }
  for (uint64_t i = 0; i < f.elements; i++) {
    const double v = values[i], e = v - decoded(q, dims, i);
    f.vv += v * v;
    f.ee += e * e;
    f.ve += v * e;
    f.max_error = fmax(f.max_error, fabs(e));
  }
  return f;
}

static void assert_close(const struct figures *a, const struct figures *b) {
  assert_int_equal(a->elements, b->elements);
  assert_int_equal(a->nonfinite, b->nonfinite);
  assert_int_equal(a->overflows, b->overflows);
  assert_true(fabs(a->vv - b->vv) <= 1e-12 * b->vv);
  assert_true(fabs(a->ee - b->ee) <= 1e-12 * b->ee);
  assert_true(fabs(a->ve - b->ve) <= 1e-12 * b->vv);
  assert_true(a->max_error == b->max_error);
}

static uint32_t make_weight(int64_t dims[2]) {
  for (int i = 0; i < 2; i++)
    dims[i] = 1 + chance_below(SIDE);
  const uint64_t count = (uint64_t)(dims[0] * dims[1]), bytes = count * 4;
  for (uint64_t i = 0; i < count; i++)
    values[i] = ((float)chance_below(1 << 20) / (1 << 19) - 1) * 3;
  const struct piece p = {.at = {0, bytes, FAKE_MEMORY}, .count = bytes, .checkpoint = NO_ID};
  io = (struct io){.memory = (uint8_t *)values, .memory_bytes = bytes};
  fake_allow(&io, p.at);
  recipes_init(&r);
  const uint32_t id = recipe_extent(&r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &p, 1, NULL);
  return chance_below(2) ? id : recipe_cast(&r, recipe_cast(&r, id, DTYPE_DOUBLE), DTYPE_FLOAT);
}

// However it is cut, and whatever only moves elements behind.
static struct figures however(uint32_t id, uint64_t number) {
  const struct figures f = figures_of(id, 1);
  const uint32_t turned = recipe_transpose(&r, id, (const int64_t[]){1, 0});
  const int64_t flat = (int64_t)r.rows[id].count;
  const uint32_t ids[] = {id, turned, recipe_reshape(&r, id, &flat, 1),
                          recipe_reshape(&r, turned, &flat, 1)};
  for (uint32_t units = 1; units < 6; units++) {
    const struct figures got = figures_of(ids[chance_below(4)], units);
    if (memcmp(&got, &f, sizeof f) != 0)
      fail_msg("case %llu: figures of %u units differ", (unsigned long long)number, units);
  }
  return f;
}

static void test_formats(void **state) {
  (void)state;
  static const enum recipe_format formats[] = {FORMAT_SHRINK, FORMAT_LEVELS, FORMAT_AFFINE,
                                               FORMAT_GATHER, FORMAT_LINEAR, FORMAT_LINEAR};
  static const enum dtype types[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_UINT16};
  for (uint64_t number = 0; number < CASES; number++) {
    struct recipe_quantization q = {.format = formats[chance_below(6)], .bits = 8};
    int64_t dims[2];
    const uint32_t of = make_weight(dims);
    q.axis = q.format == FORMAT_LEVELS || chance_below(2) ? RECIPE_PER_TENSOR : chance_below(2);
    if (q.format == FORMAT_LINEAR) q.type = types[chance_below(3)], q.symmetric = chance_below(2);
    if (q.format == FORMAT_LEVELS) q.levels = 2 + 2 * chance_below(100);
    if (q.format == FORMAT_GATHER)
      q = (struct recipe_quantization){
          .format = FORMAT_GATHER, .bits = 4, .axis = 1, .block = 16u << chance_below(3)};
    const struct figures f = however(recipe_quantize(&r, of, &q, PART_CODES), number);
    const struct figures want = naive(of, &q, dims);
    assert_close(&f, &want);
    recipes_free(&r);
  }
}

// ---- casts -------------------------------------------------------------------------------------

static double narrow(float x, enum dtype to) {
  uint16_t half;
  if (to == DTYPE_FLOAT16)
    kernels_f32_to_f16(&half, &x, 1), kernels_f16_to_f32(&x, &half, 1);
  else
    kernels_f32_to_bf16(&half, &x, 1), kernels_bf16_to_f32(&x, &half, 1);
  return x;
}

static struct figures naive_cast(uint64_t count, enum dtype to) {
  struct figures f = {.elements = count};
  for (uint64_t i = 0; i < count; i++) {
    const double v = values[i], w = narrow(values[i], to), e = v - w;
    f.nonfinite += !isfinite(v);
    f.overflows += isfinite(v) && !isfinite(w);
    if (!isfinite(v) || !isfinite(w)) continue;
    f.vv += v * v;
    f.ee += e * e;
    f.ve += v * e;
    f.max_error = fmax(f.max_error, fabs(e));
  }
  return f;
}

static void test_casts(void **state) {
  (void)state;
  static const float special[] = {65504, 65519.996f, 65520, -70000,  1e-7f,    6e-8f,
                                  2e-8f, NAN,        -0.0f, FLT_MAX, -INFINITY};
  uint64_t overflows = 0, nonfinite = 0;
  for (uint64_t number = 0; number < CASES; number++) {
    const enum dtype to = chance_below(2) ? DTYPE_FLOAT16 : DTYPE_BFLOAT16;
    int64_t dims[2];
    const uint32_t of = make_weight(dims);
    const uint64_t count = (uint64_t)(dims[0] * dims[1]);
    for (uint32_t k = chance_below(3) ? chance_below(9) : 0; k > 0; k--)
      values[chance_below(count)] = special[chance_below(sizeof special / sizeof *special)];
    const struct figures f = however(recipe_cast(&r, of, to), number);
    const struct figures want = naive_cast(count, to);
    assert_close(&f, &want);
    overflows += f.overflows;
    nonfinite += f.nonfinite;
    recipes_free(&r);
  }
  assert_true(overflows > 20 && nonfinite > 20);
}

// Scales are no weights: nothing is told of them, and one that overflows is refused at once.
static void test_scales_are_not_told(void **state) {
  (void)state;
  int64_t dims[2];
  struct figure_sums sums = {0};
  struct eval *ev;
  struct err err = {0};
  const uint32_t of = make_weight(dims);
  const uint64_t count = (uint64_t)(dims[0] * dims[1]);
  values[0] = 1e30f;
  const struct recipe_quantization q = {
      .format = FORMAT_SHRINK, .bits = 8, .axis = RECIPE_PER_TENSOR};
  const uint32_t id = recipe_cast(&r, recipe_quantize(&r, of, &q, PART_SCALES), DTYPE_FLOAT16);
  assert_true(count > 1);
  assert_int_equal(eval_open(&ev, &r, &io, EVAL_BUDGET_MIN, &err), 0);
  eval_refuse_overflow(ev);
  struct eval_task *t = eval_begin(ev, id, 0, 2, (struct eval_watcher){add_leaf, &sums});
  assert_int_equal(eval_read(t, 0, codes, 2, &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  assert_int_equal(sums.n, 0);
  eval_close(ev);
  recipes_free(&r);
}

static void test_not_finite_is_named(void **state) {
  (void)state;
  static const enum recipe_format formats[] = {FORMAT_QDQ, FORMAT_GATHER};
  for (uint32_t k = 0; k < 4; k++) {
    int64_t dims[2];
    struct figure_sums sums = {0};
    struct eval *ev;
    struct err err = {0};
    const uint32_t of = make_weight(dims);
    char place[64];
    const int64_t row = dims[0] / 2, column = dims[1] / 3;
    values[row * dims[1] + column] = k % 2 ? NAN : -INFINITY;
    const struct recipe_quantization q = {
        .format = formats[k / 2], .bits = 4, .axis = 1, .block = 16};
    const uint32_t id = recipe_quantize(&r, of, &q, PART_CODES);
    assert_int_equal(eval_open(&ev, &r, &io, EVAL_BUDGET_MIN, &err), 0);
    struct eval_task *t =
        eval_begin(ev, id, 0, r.rows[id].bytes, (struct eval_watcher){add_leaf, &sums});
    assert_int_equal(eval_read(t, 0, codes, (size_t)r.rows[id].bytes, &err), -1);
    assert_int_equal(err.kind, ERR_FAIL);
    snprintf(place, sizeof place, "element [%lld,%lld] ", (long long)row, (long long)column);
    if (!strstr(err.msg, place)) fail_msg("no '%s' in: %s", place, err.msg);
    figure_sums_free(&sums);
    eval_close(ev);
    recipes_free(&r);
  }
}

// ---- lines made in stripes ---------------------------------------------------------------------

enum { WIDE_MOST = 100 * 9001, LITTLE = EVAL_BUDGET_MIN, ENOUGH = 24 << 20 };
static float wide[WIDE_MOST];
static uint8_t wide_codes[WIDE_MOST];

// Codes of a weight in `units` ranges, by one evaluator each: their figures, and reads of the
// weight.
static struct figures in_stripes(uint32_t id, size_t budget, uint32_t units, double *reads) {
  struct figure_sums all = {0};
  const uint64_t n = r.rows[id].bytes, before = io.bytes;
  for (uint32_t unit = 0; unit < units; unit++) {
    struct figure_sums one = {0};
    struct err err = {0};
    struct eval *ev;
    const uint64_t from = n * unit / units, end = n * (unit + 1) / units;
    assert_int_equal(eval_open(&ev, &r, &io, budget, &err), 0);
    struct eval_task *t =
        eval_begin(ev, id, from, end - from, (struct eval_watcher){add_leaf, &one});
    assert_int_equal(eval_read(t, from, wide_codes, (size_t)(end - from), &err), 0);
    assert_int_equal(eval_end(t, &err), 0);
    figure_sums_put_unit(&all, unit, &one);
    figure_sums_free(&one);
    eval_close(ev);
  }
  const struct figures f = whole_of(&all);
  *reads = (double)(io.bytes - before) / (double)(r.rows[r.args[r.rows[id].args]].bytes);
  return f;
}

// Rows that end with a chunk need no second look at anything; others at what lies before their
// first whole chunk.
static void test_stripes(void **state) {
  (void)state;
  static const int64_t shapes[][3] = {
      {100, 8192, 20}, {100, 9001, 20}, {96, 4096, 32}, {90, 5001, 0}, {100, 4095, 32}};
  for (size_t i = 0; i < WIDE_MOST; i++)
    wide[i] = ((float)chance_below(1 << 20) / (1 << 19) - 1) * 3;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t *dims = shapes[i];
    const uint64_t bytes = (uint64_t)(dims[0] * dims[1]) * 4;
    const struct piece p = {.at = {0, bytes, FAKE_MEMORY}, .count = bytes, .checkpoint = NO_ID};
    const struct recipe_quantization q = {
        .format = FORMAT_QDQ, .bits = 4, .axis = 0, .block = (uint32_t)dims[2]};
    io = (struct io){.memory = (uint8_t *)wide, .memory_bytes = bytes};
    fake_allow(&io, p.at);
    recipes_init(&r);
    const uint32_t w = recipe_extent(&r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &p, 1, NULL);
    const uint32_t id = recipe_quantize(&r, w, &q, PART_CODES);
    double reads;
    const struct figures want = in_stripes(id, ENOUGH, 1, &reads);
    assert_true(reads <= 1.0);
    for (uint32_t units = 1; units < 4; units++) {
      const struct figures got = in_stripes(id, LITTLE, units, &reads);
      assert_memory_equal(&got, &want, sizeof got);
      if (units > 1) continue;
      if (dims[1] % EVAL_CHUNK == 0) assert_true(reads <= 1.0);
      assert_true(reads > 1.0 || dims[1] % EVAL_CHUNK == 0);
      assert_true(reads <= (dims[1] < EVAL_CHUNK ? 2.0 : 1.6));
    }
    recipes_free(&r);
  }
}

int test_eval_figures(void) {
  chance_seed = 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formats),
      cmocka_unit_test(test_casts),
      cmocka_unit_test(test_scales_are_not_told),
      cmocka_unit_test(test_not_finite_is_named),
      cmocka_unit_test(test_stripes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
