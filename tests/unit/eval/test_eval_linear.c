// FORMAT_LINEAR, codes by given parameters and roomy scales: numbers of onnxruntime's tools
// (linear_golden.def), which are the same however the operand lies and however much memory there is; what is
// refused; how often operands are read.
#include "eval_fixture.h"
#include "stream/eval/core/eval_parts.h"
#include "stream/eval/shared/eval_cache.h"

#include <math.h>

#define LIST(...)                                                                                  \
  { __VA_ARGS__ }

enum { ELEMENTS = 24, ROWS = 4, COLUMNS = 6 };

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

static uint32_t floats(struct fixture *f, const float *x, const int64_t *dims, uint32_t rank) {
  uint64_t n = 0;
  assert_true(dims_product(dims, rank, &n));
  return recipe_bytes(&f->r, DTYPE_FLOAT, dims, rank, span_of(x, n * 4));
}

static uint32_t list(struct fixture *f, const uint32_t *bits, int64_t n, bool scalar) {
  return recipe_bytes(&f->r, DTYPE_FLOAT, &n, !scalar, span_of(bits, (size_t)n * 4));
}

static uint32_t the_weight(struct fixture *f) {
  static const int64_t dims[] = {ROWS, COLUMNS};
  float w[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++)
    w[i] = (float)(7 * i % 31 - 11) / 8;
  w[5] = 2.4999998f;
  return floats(f, w, dims, 2);
}

static void begin(struct fixture *f) {
  *f = (struct fixture){0};
  recipes_init(&f->r);
}

// Code i of a tensor that is read as it is packed.
static int32_t code_at(enum dtype type, const void *codes, size_t i) {
  const uint8_t *at = codes;
  int16_t wide;
  switch (type) {
  case DTYPE_UINT4: return at[i / 2] >> (i % 2 * 4) & 15;
  case DTYPE_INT4: return ((at[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
  case DTYPE_UINT8: return at[i];
  case DTYPE_INT8: return (int8_t)at[i];
  default: memcpy(&wide, at + 2 * i, 2); return type == DTYPE_UINT16 ? (uint16_t)wide : wide;
  }
}

struct part_ids {
  uint32_t codes, scales, zeros;
};

static struct part_ids parts_of(struct fixture *f, uint32_t w,
                                const struct recipe_quantization *q) {
  for (enum recipe_part part = PART_CODES; part <= PART_ZEROS; part++)
    assert_true(recipe_can_quantize(&f->r, w, q, part));
  return (struct part_ids){.codes = recipe_quantize(&f->r, w, q, PART_CODES),
                           .scales = recipe_quantize(&f->r, w, q, PART_SCALES),
                           .zeros = recipe_quantize(&f->r, w, q, PART_ZEROS)};
}

static struct recipe_quantization linear(enum dtype type, bool symmetric, uint32_t axis) {
  return (struct recipe_quantization){
      .format = FORMAT_LINEAR, .type = type, .symmetric = symmetric, .axis = axis};
}

static uint32_t read_bits(struct fixture *f, uint32_t id, uint64_t i) {
  uint32_t bits = 0;
  const size_t width = eval_width(&f->r, id);
  read_ok(f, id, i * width, &bits, width);
  return bits;
}

static int32_t read_code(struct fixture *f, uint32_t id, uint64_t i) {
  uint8_t bytes[64];
  read_ok(f, id, 0, bytes, (size_t)f->r.rows[id].bytes);
  return code_at((enum dtype)f->r.rows[id].dtype, bytes, (size_t)i);
}

// ---- against onnxruntime -----------------------------------------------------------------------

struct range_row {
  uint32_t lo, hi;
  enum dtype type;
  bool symmetric, reduced;
  int32_t zero;
  uint32_t scale;
};
static const struct range_row ranges[] = {
#define LINEAR_RANGE(lo, hi, type, ...) {lo, hi, DTYPE_##type, __VA_ARGS__},
#include "linear_golden.def"
};

static void test_ranges(void **state) {
  (void)state;
  static const int64_t two = 2;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    const struct range_row *row = &ranges[i];
    struct fixture f;
    begin(&f);
    const float x[] = {float_of(row->lo), float_of(row->hi)};
    struct recipe_quantization q = linear(row->type, row->symmetric, RECIPE_PER_TENSOR);
    q.reduced = row->reduced;
    q.guard = GUARD_NORMAL;
    const struct part_ids p = parts_of(&f, floats(&f, x, &two, 1), &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    if (read_bits(&f, p.scales, 0) != row->scale || read_code(&f, p.zeros, 0) != row->zero)
      fail_msg("row %zu: scale %08x, zero point %d", i, read_bits(&f, p.scales, 0),
               read_code(&f, p.zeros, 0));
    close_all(&f);
  }
}

struct tensor_row {
  enum dtype type;
  bool symmetric, reduced;
  int32_t zero;
  uint32_t scale;
  int32_t codes[ELEMENTS];
};
static const struct tensor_row tensors[] = {
#define LINEAR_TENSOR(type, symmetric, reduced, zero, scale, ...)                                  \
  {DTYPE_##type, symmetric, reduced, zero, scale, {__VA_ARGS__}},
#include "linear_golden.def"
};

static void check_codes(struct fixture *f, uint32_t id, const int32_t *want, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const int32_t got = read_code(f, id, i);
    if (got != want[i]) fail_msg("code %zu is %d, not %d", i, got, want[i]);
  }
}

static void test_tensors(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
    const struct tensor_row *row = &tensors[i];
    struct fixture f;
    begin(&f);
    struct recipe_quantization q = linear(row->type, row->symmetric, RECIPE_PER_TENSOR);
    q.reduced = row->reduced;
    const struct part_ids p = parts_of(&f, the_weight(&f), &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    assert_int_equal(f.r.rows[p.codes].dtype, row->type);
    assert_int_equal(f.r.rows[p.scales].rank, 0);
    assert_int_equal(read_bits(&f, p.scales, 0), row->scale);
    assert_int_equal(read_code(&f, p.zeros, 0), row->zero);
    check_codes(&f, p.codes, row->codes, ELEMENTS);
    close_all(&f);
  }
}

struct channel_row {
  uint32_t axis, index, scale;
  int32_t codes[COLUMNS];
};
static const struct channel_row channels[] = {
#define LINEAR_CHANNEL(axis, index, scale, ...) {axis, index, scale, {__VA_ARGS__}},
#include "linear_golden.def"
};

static void test_channels(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
    const struct channel_row *row = &channels[i];
    struct fixture f;
    begin(&f);
    const struct recipe_quantization q = linear(DTYPE_INT8, true, row->axis);
    const struct part_ids p = parts_of(&f, the_weight(&f), &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    assert_int_equal(read_bits(&f, p.scales, row->index), row->scale);
    assert_int_equal(read_code(&f, p.zeros, row->index), 0);
    for (uint32_t k = 0; k < (row->axis ? ROWS : COLUMNS); k++)
      assert_int_equal(
          read_code(&f, p.codes, row->axis ? k * COLUMNS + row->index : row->index * COLUMNS + k),
          row->codes[k]);
    close_all(&f);
  }
}

struct half_row {
  bool symmetric;
  uint32_t scale;
  int32_t zero;
  int32_t codes[ELEMENTS];
};
static const struct half_row halves[] = {
#define LINEAR_HALF(symmetric, scale, zero, ...) {symmetric, scale, zero, {__VA_ARGS__}},
#include "linear_golden.def"
};

static void test_halves(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
    const struct half_row *row = &halves[i];
    struct fixture f;
    begin(&f);
    const struct recipe_quantization q = linear(DTYPE_INT8, row->symmetric, RECIPE_PER_TENSOR);
    const struct part_ids p = parts_of(&f, recipe_cast(&f.r, the_weight(&f), DTYPE_FLOAT16), &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    assert_int_equal(read_bits(&f, p.scales, 0), row->scale);
    assert_int_equal(read_code(&f, p.zeros, 0), row->zero);
    check_codes(&f, p.codes, row->codes, ELEMENTS);
    close_all(&f);
  }
}

struct half_channel_row {
  uint32_t column;
  bool reduced;
  uint32_t scale;
  int32_t codes[ROWS];
};
static const struct half_channel_row half_channels[] = {
#define LINEAR_HALF_CHANNEL(column, reduced, scale, ...) {column, reduced, scale, {__VA_ARGS__}},
#include "linear_golden.def"
};

static void test_columns_of_halves(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof half_channels / sizeof *half_channels; i++) {
    const struct half_channel_row *row = &half_channels[i];
    struct fixture f;
    begin(&f);
    struct recipe_quantization q = linear(DTYPE_INT8, true, 1);
    q.reduced = row->reduced;
    const struct part_ids p = parts_of(&f, recipe_cast(&f.r, the_weight(&f), DTYPE_FLOAT16), &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    assert_int_equal(f.r.rows[p.scales].dtype, DTYPE_FLOAT16);
    assert_int_equal(read_bits(&f, p.scales, row->column), row->scale);
    assert_int_equal(read_code(&f, p.zeros, row->column), 0);
    for (uint32_t k = 0; k < ROWS; k++)
      assert_int_equal(read_code(&f, p.codes, k * COLUMNS + row->column), row->codes[k]);
    close_all(&f);
  }
}

struct block_row {
  enum dtype type;
  bool symmetric;
  uint32_t scales[2 * COLUMNS];
  int32_t zeros[2 * COLUMNS];
  uint8_t codes[ELEMENTS];
};
static const struct block_row blocks[] = {
#define LINEAR_BLOCKS(type, ...) {DTYPE_##type, __VA_ARGS__},
#include "linear_golden.def"
};

// As it lies, and as the transpose of a matrix with rows for columns.
static void test_blocks(void **state) {
  (void)state;
  static const int64_t swap[] = {1, 0}, turned_dims[] = {COLUMNS, ROWS};
  for (size_t i = 0; i < 2 * sizeof blocks / sizeof *blocks; i++) {
    const struct block_row *row = &blocks[i / 2];
    struct fixture f;
    begin(&f);
    struct recipe_quantization q = linear(row->type, row->symmetric, 0);
    q.block = 3;
    q.guard = GUARD_NORMAL;
    uint32_t w = the_weight(&f);
    if (i % 2) {
      float turned[ELEMENTS], x[ELEMENTS];
      memcpy(x, recipe_elements(&f.r, w).at, sizeof x);
      for (int k = 0; k < ELEMENTS; k++)
        turned[k] = x[k % ROWS * COLUMNS + k / ROWS];
      w = recipe_transpose(&f.r, floats(&f, turned, turned_dims, 2), swap);
    }
    const struct part_ids p = parts_of(&f, w, &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    for (uint32_t k = 0; k < 2 * COLUMNS; k++) {
      assert_int_equal(read_bits(&f, p.scales, k), row->scales[k]);
      assert_int_equal(read_code(&f, p.zeros, k), row->zeros[k]);
    }
    for (uint32_t k = 0; k < ELEMENTS; k++)
      assert_int_equal(read_code(&f, p.codes, k), code_at(row->type, row->codes, k));
    close_all(&f);
  }
}

struct float8_row {
  uint32_t scale;
  uint8_t codes[ELEMENTS];
};
static const struct float8_row float8 =
#define LINEAR_FLOAT8(scale, ...)                                                                  \
  {                                                                                                \
    scale, {                                                                                       \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#include "linear_golden.def"
    ;

static void test_float8(void **state) {
  (void)state;
  struct fixture f;
  begin(&f);
  const struct recipe_quantization q = linear(DTYPE_FLOAT8E4M3FN, true, RECIPE_PER_TENSOR);
  const struct part_ids p = parts_of(&f, the_weight(&f), &q);
  open_eval(&f, EVAL_BUDGET_MIN);
  uint8_t codes[ELEMENTS];
  read_ok(&f, p.codes, 0, codes, sizeof codes);
  assert_int_equal(read_bits(&f, p.scales, 0), float8.scale);
  assert_int_equal(read_bits(&f, p.zeros, 0), 0);
  assert_memory_equal(codes, float8.codes, sizeof codes);
  close_all(&f);
}

// The deviation of n made-up elements by numpy.std, over the unit.
static void test_deviations(void **state) {
  (void)state;
  enum { MOST = 100003 };
  static const struct {
    int64_t n;
    uint32_t scale;
  } want[] = {{5, 0x3c488a6c},   {8, 0x3c24a9fb},   {9, 0x3c1b58b2},    {127, 0x3c08af2b},
              {128, 0x3c082ae8}, {129, 0x3c07c97a}, {1000, 0x3c2bc3aa}, {MOST, 0x3c2e0250}};
  float *x = calloc(2 * MOST, sizeof *x);
  uint32_t s = 7;
  for (int i = 0; i < MOST; i++) {
    double sum = 0;
    for (int k = 0; k < 2; k++) {
      s = 1664525 * s + 1013904223;
      sum += (double)(s >> 8) / 0x1p24 - 0.5;
    }
    x[i] = (float)(2 * sum * (i % 97 ? 1 : 8));
  }
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    struct fixture f;
    begin(&f);
    const struct recipe_quantization q = linear(DTYPE_FLOAT8E4M3FN, false, RECIPE_PER_TENSOR);
    const struct part_ids p = parts_of(&f, floats(&f, x, &want[i].n, 1), &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    assert_int_equal(read_bits(&f, p.scales, 0), want[i].scale);
    close_all(&f);
  }
  // A channel each, along an axis that does not lie together.
  struct fixture f;
  begin(&f);
  static const int64_t dims[] = {1000, 2};
  for (int i = 999; i >= 0; i--)
    x[2 * i] = x[2 * i + 1] = x[i];
  struct recipe_quantization q = linear(DTYPE_FLOAT8E4M3FN, false, 1);
  const struct part_ids p = parts_of(&f, floats(&f, x, dims, 2), &q);
  open_eval(&f, EVAL_BUDGET_MIN);
  assert_int_equal(read_bits(&f, p.scales, 0), 0x3c2bc3aa);
  assert_int_equal(read_bits(&f, p.scales, 1), 0x3c2bc3aa);
  free(x);
  close_all(&f);
}

// Roomy scales of float16, to the nearest number and up. numpy: float64 w * (1.0001 * 2 |b| / (2^32 - 2) / (x * w)).
static void test_roomy_halves(void **state) {
  (void)state;
  static const struct {
    float bias;
    uint32_t nearest, up; // bits
  } rows[] = {{0, 0x0c00, 0x0c00},
              {1, 0x1000, 0x1001},
              {3, 0x1600, 0x1601},
              {100, 0x2a40, 0x2a41},
              {60000, 0x4f53, 0x4f54}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fixture f;
    begin(&f);
    const float small = 0x1p-12f, tiny = 0x1p-20f;
    static const int64_t one = 1;
    const uint32_t w = recipe_cast(&f.r, floats(&f, &small, &one, 1), DTYPE_FLOAT16),
                   x = recipe_cast(&f.r, floats(&f, &tiny, &one, 1), DTYPE_FLOAT16),
                   b = recipe_cast(&f.r, floats(&f, &rows[i].bias, &one, 1), DTYPE_FLOAT16);
    const uint32_t nearest = recipe_roomy_scales(&f.r, w, x, b, false),
                   up = recipe_roomy_scales(&f.r, w, x, b, true);
    open_eval(&f, EVAL_BUDGET_MIN);
    assert_int_equal(read_bits(&f, nearest, 0), rows[i].nearest);
    assert_int_equal(read_bits(&f, up, 0), rows[i].up);
    close_all(&f);
  }
}

struct bias_row {
  uint32_t x_scale, w_scales[3], bias[3], roomy[3], scales[3];
  int32_t codes[3];
};
static const struct bias_row biases[] = {
#define LINEAR_BIAS(...) {__VA_ARGS__},
#include "linear_golden.def"
};

static void test_biases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
    const struct bias_row *row = &biases[i];
    const bool one = row->w_scales[1] == 0;
    struct fixture f;
    begin(&f);
    const uint32_t x = list(&f, &row->x_scale, 1, true), b = list(&f, row->bias, 3, false);
    const uint32_t w = list(&f, row->w_scales, one ? 1 : 3, one);
    assert_true(recipe_can_have_roomy_scales(&f.r, w, x, b));
    const uint32_t roomy = recipe_roomy_scales(&f.r, w, x, b, false);
    const uint32_t two_rows[6] = {0, 0, 0, row->bias[0], row->bias[1], row->bias[2]};
    const uint32_t rows = recipe_reshape(&f.r, list(&f, two_rows, 6, false), (int64_t[]){2, 3}, 2);
    assert_true(recipe_can_have_roomy_scales(&f.r, w, x, rows));
    const uint32_t of_rows = recipe_roomy_scales(&f.r, w, x, rows, false);
    const uint32_t scales = recipe_map(&f.r, RECIPE_MAP_MUL, (uint32_t[]){x, roomy});
    const struct recipe_linear q = {
        .type = DTYPE_INT32, .scales = scales, .zeros = NO_ID, .axis = one ? RECIPE_PER_TENSOR : 0};
    assert_true(recipe_can_quantize_linear(&f.r, b, &q));
    const uint32_t codes = recipe_quantize_linear(&f.r, b, &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    for (uint32_t k = 0; k < 3; k++) {
      assert_int_equal((int32_t)read_bits(&f, codes, k), row->codes[k]);
      if (k > 0 && one) continue;
      assert_int_equal(read_bits(&f, roomy, k), row->roomy[k]);
      assert_int_equal(read_bits(&f, of_rows, k), row->roomy[k]);
      assert_int_equal(read_bits(&f, scales, k), row->scales[k]);
    }
    close_all(&f);
  }
}

// ---- the ends of the type ----------------------------------------------------------------------

// Float16, with the guard of onnxruntime up to 1.31: a scale below 2^-14 is 1 and codes are 0. With that of 1.32: what is
// rounded to 0, and others are the nearest number. Without: subnormal scales, rounded up.
static void test_guard(void **state) {
  (void)state;
  static const int64_t n = 3;
  static const struct {
    float largest;
    enum recipe_guard guard;
    bool symmetric;
    enum dtype type;
    uint32_t scale; // bits
    int32_t zero, code;
  } rows[] = {{0.0074f, GUARD_NORMAL, true, DTYPE_INT8, 0x3c00, 0, 0},
              {0.0074f, GUARD_NONE, true, DTYPE_INT8, 0x03d2, 0, 127},
              {0.0074f, GUARD_NORMAL, true, DTYPE_UINT8, 0x3c00, 0, 0},
              {0.0074f, GUARD_NONE, true, DTYPE_UINT8, 0x03ce, 128, 255},
              {0.0079f, GUARD_NORMAL, true, DTYPE_INT8, 0x0413, 0, 127},
              {0, GUARD_NONE, true, DTYPE_UINT8, 0x3c00, 128, 128},
              {0, GUARD_NORMAL, true, DTYPE_UINT8, 0x3c00, 0, 0},
              {0, GUARD_NONE, false, DTYPE_UINT8, 0x3c00, 0, 0},
              {6e-8f, GUARD_NONE, true, DTYPE_UINT8, 0x0001, 128, 129},
              {6e-8f, GUARD_NORMAL, true, DTYPE_UINT8, 0x3c00, 0, 0},
              {1e-5f, GUARD_NONE, true, DTYPE_INT8, 0x0002, 0, 84},
              {0.0074f, GUARD_NUMBER, true, DTYPE_INT8, 0x03d2, 0, 127},
              {0.0074f, GUARD_NUMBER, false, DTYPE_UINT8, 0x03ce, 128, 255},
              {0.0079f, GUARD_NUMBER, true, DTYPE_INT8, 0x0413, 0, 127},
              {4e-6f, GUARD_NUMBER, true, DTYPE_INT8, 0x0001, 0, 67},
              {1e-5f, GUARD_NUMBER, true, DTYPE_INT8, 0x0001, 0, 127}, // clipped
              {3e-6f, GUARD_NUMBER, true, DTYPE_INT8, 0x3c00, 0, 0},
              {0, GUARD_NUMBER, true, DTYPE_UINT8, 0x3c00, 0, 0}};

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fixture f;
    begin(&f);
    const float x[] = {rows[i].largest, 0, -rows[i].largest};
    struct recipe_quantization q = linear(rows[i].type, rows[i].symmetric, RECIPE_PER_TENSOR);
    q.guard = rows[i].guard;
    const uint32_t w = recipe_cast(&f.r, floats(&f, x, &n, 1), DTYPE_FLOAT16);
    const struct part_ids p = parts_of(&f, w, &q);
    open_eval(&f, EVAL_BUDGET_MIN);
    if (read_bits(&f, p.scales, 0) != rows[i].scale || read_code(&f, p.zeros, 0) != rows[i].zero ||
        read_code(&f, p.codes, 0) != rows[i].code)
      fail_msg("row %zu: scale %04x, zero point %d, code %d", i, read_bits(&f, p.scales, 0),
               read_code(&f, p.zeros, 0), read_code(&f, p.codes, 0));
    close_all(&f);
  }
}

static void check_refused(struct fixture *f, uint32_t id, const char *want) {
  uint8_t buf[256];
  struct err err = {0};
  assert_int_equal(recipe_read(f->ev, id, 0, buf, (size_t)f->r.rows[id].bytes, &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  if (!strstr(err.msg, want)) fail_msg("'%s' has no '%s'", err.msg, want);
}

static void test_what_is_refused(void **state) {
  (void)state;
  static const int64_t dims[] = {2, 2};
  struct fixture f;
  begin(&f);
  const float infinite[] = {1, 2, 3, INFINITY}, wide[] = {3e38f, -3e38f, 1, 0};
  const float fine[] = {1, 2, 3, 4}, odd[] = {1, 0}, nan[] = {1, NAN}, far[] = {INFINITY, 1};
  const uint32_t w = floats(&f, infinite, dims, 2), ok = floats(&f, fine, dims, 2);
  const struct recipe_quantization q = linear(DTYPE_INT8, true, RECIPE_PER_TENSOR);
  struct recipe_quantization in_blocks = linear(DTYPE_INT8, true, 1), both = q;
  in_blocks.block = 2;
  both.symmetric = false;
  both.type = DTYPE_UINT4;
  open_eval(&f, EVAL_BUDGET_MIN);
  const struct part_ids p = parts_of(&f, w, &q);
  check_refused(&f, p.scales, "a weight of 4 elements has 1 that are NaN or infinite");
  check_refused(&f, p.codes, "a weight of 4 elements has 1 that are NaN or infinite");
  check_refused(&f, parts_of(&f, w, &in_blocks).scales, "elements that are NaN or infinite");
  struct recipe_linear by = {
      .type = DTYPE_INT8, .zeros = NO_ID, .scales = floats(&f, odd, dims, 1), .axis = 1};
  check_refused(&f, recipe_quantize_linear(&f.r, ok, &by), "scale 1 of a weight is 0");
  by.scales = floats(&f, nan, dims, 1);
  check_refused(&f, recipe_quantize_linear(&f.r, ok, &by), "scale 1 of a weight is nan");
  by.scales = floats(&f, far, dims, 1);
  check_refused(&f, recipe_quantize_linear(&f.r, ok, &by), "scale 0 of a weight is inf");
  by.scales = floats(&f, fine, dims, 1);
  check_refused(&f, recipe_quantize_linear(&f.r, w, &by),
                "element [1,1] of the weight is not finite");
  // A range that float32 cannot hold the width of has a scale all the same.
  const struct part_ids large = parts_of(&f, floats(&f, wide, dims, 2), &both);
  assert_int_equal(read_code(&f, large.codes, 0), 15);
  assert_int_equal(read_code(&f, large.codes, 1), 0);
  close_all(&f);
}

// ---- memory ------------------------------------------------------------------------------------

// Finite floats from made-up bits: floats of 16 bits are half as many.
static uint32_t made_up_weight(struct fixture *f, const int64_t *dims, uint32_t rank) {
  const uint32_t bits = made_up(f, DTYPE_UINT16, dims, rank, 4096);
  return recipe_cast(&f->r, bits, DTYPE_FLOAT);
}

// Codes of a large weight, whatever the memory, the pieces and the order: those of one call a channel.
static void test_memory_does_not_show(void **state) {
  (void)state;
  static const int64_t dims[] = {37, 41, 53};
  enum { COUNT = 37 * 41 * 53 };
  static const size_t budgets[] = {EVAL_BUDGET_MIN, 8 << 20};
  static uint8_t want[COUNT], got[COUNT];
  for (uint32_t way = 0; way < 8; way++) {
    struct recipe_quantization q =
        linear(DTYPE_UINT8, false, way % 4 == 3 ? RECIPE_PER_TENSOR : way % 4);
    q.block = way >= 4 && way != 7 ? 5 : 0;
    for (int i = 0; i < 2; i++) {
      struct fixture f;
      begin(&f);
      const uint32_t w = made_up_weight(&f, dims, 3);
      const struct part_ids p = parts_of(&f, w, &q);
      open_eval(&f, budgets[i]);
      struct eval_cache *cache = i ? eval_cache_open(1 << 20, (struct eval_cache_file){0}) : NULL;
      eval_share(f.ev, cache);
      read_ok(&f, p.codes, 0, i ? got : want, COUNT);
      if (i) assert_memory_equal(got, want, COUNT);
      for (uint64_t at = 0; i && at < COUNT; at += 7919)
        read_ok(&f, p.codes, at, got + at, (size_t)min_u64(7919, COUNT - at));
      if (i) assert_memory_equal(got, want, COUNT);
      eval_cache_close(cache);
      close_all(&f);
    }
  }
}

// A weight of floats in memory, which counts as a source.
enum { ROWS_MOST = 600, COLUMNS_MOST = 1300 };
static float elements[ROWS_MOST * COLUMNS_MOST];

static uint32_t weight_in_memory(struct fixture *f, const int64_t dims[2]) {
  const uint64_t n = (uint64_t)(dims[0] * dims[1]), bytes = n * sizeof *elements;
  const struct piece all = {.at = {0, bytes, FAKE_MEMORY}, .count = bytes, .checkpoint = NO_ID};
  for (uint64_t i = 0; i < n; i++)
    elements[i] = (float)((i * 2654435761u >> 8) % 20011) / 1000 - 7 - (float)(i % 13);
  f->io = (struct io){.memory = (uint8_t *)elements, .memory_bytes = bytes};
  fake_allow(&f->io, (struct extent){0, bytes, FAKE_MEMORY});
  return recipe_extent(&f->r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &all, 1, NULL);
}

// Reads of a weight of 3 MB, in hundredths, for its codes and then for its scales and zero points.
static void test_reads(void **state) {
  (void)state;
  enum { SMALL = 2 << 20, LARGE = 8 << 20, BLOCK = 128 };
  static const int64_t dims[] = {ROWS_MOST, COLUMNS_MOST};
  static const struct {
    uint32_t axis;
    enum dtype type;
    size_t budget, cache;
    uint64_t block, least, most;
  } rows[] = {
      {0, DTYPE_UINT8, SMALL, 1 << 20, 0, 100, 100}, // a row after the other
      {0, DTYPE_INT16, SMALL, 1 << 20, 0, 100, 100},
      {0, DTYPE_FLOAT8E4M3FN, SMALL, 1 << 20, 0, 100, 100}, // a mean and a deviation too
      {1, DTYPE_UINT8, SMALL, 4 << 20, 0, 100, 100},        // panels of columns
      {1, DTYPE_INT8, SMALL, 4 << 20, 0, 100, 100},
      {1, DTYPE_UINT8, LARGE, 1 << 20, 0, 100, 100}, // all of it is kept
      {1, DTYPE_INT16, LARGE, 1 << 20, 0, 100, 100},
      {RECIPE_PER_TENSOR, DTYPE_UINT8, LARGE, 1 << 20, 0, 100, 100},
      // Codes of panels have no place, or are no bytes; a tensor is larger than what is kept.
      {1, DTYPE_UINT8, SMALL, 1 << 20, 0, 150, 199},
      {1, DTYPE_UINT8, EVAL_BUDGET_MIN, 4 << 20, 0, 180, 200},
      {1, DTYPE_INT16, SMALL, 4 << 20, 0, 150, 199},
      {RECIPE_PER_TENSOR, DTYPE_UINT8, SMALL, 4 << 20, 0, 150, 199},
      {1, DTYPE_UINT8, EVAL_BUDGET_MIN, 4 << 20, 5 * BLOCK, 100, 100}, // blocks, line by line
      {1, DTYPE_UINT8, SMALL, 4 << 20, BLOCK, 100, 100},
      {0, DTYPE_UINT8, LARGE, 4 << 20, BLOCK, 100, 100},
      {0, DTYPE_INT16, LARGE, 4 << 20, BLOCK, 100, 100},
      // A line is larger, and its ranges are not kept.
      {0, DTYPE_UINT8, SMALL, 4 << 20, 3 * BLOCK, 500, 500},
  };
  static uint8_t codes[2 * ROWS_MOST * COLUMNS_MOST], rest[1 << 16];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fixture f;
    begin(&f);
    struct recipe_quantization q = linear(rows[i].type, rows[i].type != DTYPE_UINT8, rows[i].axis);
    q.block = rows[i].block;
    const struct part_ids p = parts_of(&f, weight_in_memory(&f, dims), &q);
    open_eval(&f, rows[i].budget);
    struct eval_cache *cache = eval_cache_open(rows[i].cache, (struct eval_cache_file){0});
    eval_share(f.ev, cache);
    read_ok(&f, p.codes, 0, codes, (size_t)f.r.rows[p.codes].bytes);
    read_ok(&f, p.scales, 0, rest, (size_t)f.r.rows[p.scales].bytes);
    read_ok(&f, p.zeros, 0, rest, (size_t)f.r.rows[p.zeros].bytes);
    const uint64_t reads = f.io.bytes * 100 / f.io.memory_bytes;
    if (reads < rows[i].least || reads > rows[i].most)
      fail_msg("row %zu: %llu bytes are read of %llu", i, (unsigned long long)f.io.bytes,
               (unsigned long long)f.io.memory_bytes);
    eval_cache_close(cache);
    close_all(&f);
  }
}

// Scales that are made of found ones cost no read of their own; what comes of them is what they make when they are given.
static void test_reads_by_roomy_scales(void **state) {
  (void)state;
  static const int64_t dims[] = {ROWS_MOST, COLUMNS_MOST};
  static const struct {
    uint32_t axis;
    size_t budget, cache;
    uint64_t least, most;
  } rows[] = {{0, 2 << 20, 1 << 20, 100, 100},
              {1, 8 << 20, 1 << 20, 100, 100},
              {1, 2 << 20, 4 << 20, 100, 100}, // panels of columns
              {RECIPE_PER_TENSOR, 12 << 20, 1 << 20, 100, 100},
              {1, 2 << 20, 1 << 20, 150, 199}};
  static uint8_t codes[ROWS_MOST * COLUMNS_MOST], want[ROWS_MOST * COLUMNS_MOST];
  static float biases[COLUMNS_MOST], scales[COLUMNS_MOST];
  const float x_scale = 1e-7f;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fixture f;
    begin(&f);
    const uint32_t axis = rows[i].axis, w = weight_in_memory(&f, dims);
    const uint64_t all = f.io.memory_bytes;
    const int64_t n = axis == RECIPE_PER_TENSOR ? 1 : dims[axis];
    for (int64_t k = 0; k < n; k++)
      biases[k] = k % 3 ? 0.25f : (float)(90 + k);
    const struct recipe_quantization q = linear(DTYPE_INT8, true, axis);
    const struct part_ids p = parts_of(&f, w, &q);
    const uint32_t roomy = recipe_roomy_scales(
        &f.r, p.scales, recipe_bytes(&f.r, DTYPE_FLOAT, NULL, 0, span_of(&x_scale, 4)),
        floats(&f, biases, &n, 1), false);
    struct recipe_linear by = {.type = DTYPE_INT8, .scales = roomy, .zeros = NO_ID, .axis = axis};
    const uint32_t id = recipe_quantize_linear(&f.r, w, &by);
    assert_int_equal(recipe_quantize_linear_scales(&f.r, id), p.scales);
    open_eval(&f, rows[i].budget);
    struct eval_cache *cache = eval_cache_open(rows[i].cache, (struct eval_cache_file){0});
    eval_share(f.ev, cache);
    read_ok(&f, id, 0, codes, sizeof codes);
    read_ok(&f, roomy, 0, scales, (size_t)f.r.rows[roomy].bytes);
    const uint64_t reads = f.io.bytes * 100 / all;
    if (reads < rows[i].least || reads > rows[i].most)
      fail_msg("row %zu: %llu bytes are read of %llu", i, (unsigned long long)f.io.bytes,
               (unsigned long long)all);
    eval_close(f.ev);
    eval_cache_close(cache);
    by.scales = axis == RECIPE_PER_TENSOR
                    ? recipe_bytes(&f.r, DTYPE_FLOAT, NULL, 0, span_of(scales, 4))
                    : floats(&f, scales, &n, 1);
    const uint32_t given = recipe_quantize_linear(&f.r, w, &by);
    open_eval(&f, 8 << 20);
    read_ok(&f, given, 0, want, sizeof want);
    assert_memory_equal(codes, want, sizeof want);
    const uint32_t plain = recipe_quantize(&f.r, w, &q, PART_CODES);
    read_ok(&f, plain, 0, want, sizeof want);
    assert_memory_not_equal(codes, want, sizeof want); // some were enlarged
    close_all(&f);
  }
}

// A budget of what is wanted is one read, without a cache; with less there are more, and it is not said to be wanted.
static void test_wanted(void **state) {
  (void)state;
  static const int64_t dims[] = {ROWS_MOST, COLUMNS_MOST};
  static const int64_t turned[] = {1, 0};
  static const struct {
    uint32_t axis;
    enum dtype type;
    bool turns, is_kept; // all of it together
  } rows[] = {{1, DTYPE_INT8, false, true},
              {1, DTYPE_INT16, false, true},
              {RECIPE_PER_TENSOR, DTYPE_UINT8, false, true},
              {0, DTYPE_INT8, false, false},
              {0, DTYPE_INT8, true, true}};
  static uint8_t codes[2 * ROWS_MOST * COLUMNS_MOST];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fixture f;
    begin(&f);
    const struct recipe_quantization q =
        linear(rows[i].type, rows[i].type != DTYPE_UINT8, rows[i].axis);
    uint32_t w = weight_in_memory(&f, dims);
    const uint64_t all = f.io.memory_bytes;
    if (rows[i].turns) w = recipe_transpose(&f.r, w, turned);
    const uint32_t id = recipe_quantize(&f.r, w, &q, PART_CODES);
    const uint64_t wanted = eval_wanted(&f.r, &id, 1, 64 << 20);
    assert_in_range(wanted, rows[i].is_kept ? all : 1, (rows[i].turns ? 2 : 1) * all + (3 << 20));
    assert_int_equal(eval_wanted(&f.r, &id, 1, wanted), wanted);
    assert_int_equal(eval_wanted(&f.r, &id, 1, wanted - 1), 0);
    assert_int_equal(eval_wanted(&f.r, &w, 1, 64 << 20), 0); // nothing is looked at
    open_eval(&f, max_u64(wanted, EVAL_BUDGET_MIN));
    read_ok(&f, id, 0, codes, (size_t)f.r.rows[id].bytes);
    assert_int_equal(f.io.bytes, all);
    eval_close(f.ev);
    f.io.bytes = 0;
    open_eval(&f, max_u64(wanted - min_u64(wanted, all / 2), EVAL_BUDGET_MIN));
    read_ok(&f, id, 0, codes, (size_t)f.r.rows[id].bytes);
    assert_int_equal(f.io.bytes > all, rows[i].is_kept);
    close_all(&f);
  }
}

struct leaves {
  struct figures of[ROWS_MOST * COLUMNS_MOST / EVAL_CHUNK + 1];
};

static void keep_leaf(void *ctx, uint64_t leaf, const struct figures *figures) {
  struct leaves *l = ctx;
  assert_int_equal(l->of[leaf].elements, 0); // told once
  l->of[leaf] = *figures;
}

// Codes and figures of a matrix with a scale a column, in tasks of a third each, in pieces.
static void make_codes(struct fixture *f, uint32_t id, size_t budget, size_t cache_bytes,
                       size_t piece, uint8_t *codes, struct leaves *leaves) {
  const uint64_t n = f->r.rows[id].bytes;
  struct err err = {0};
  struct eval_cache *cache = eval_cache_open(cache_bytes, (struct eval_cache_file){0});
  memset(leaves, 0, sizeof *leaves);
  f->io.bytes = 0;
  open_eval(f, budget);
  eval_share(f->ev, cache);
  for (uint64_t k = 0; k < 3; k++) {
    const uint64_t from = n * k / 3, end = n * (k + 1) / 3;
    const struct eval_watcher watcher = {keep_leaf, leaves};
    struct eval_task *t = eval_begin(f->ev, id, from, end - from, watcher);
    for (uint64_t at = from, m; at < end; at += m) {
      m = min_u64(piece, end - at);
      if (eval_read(t, at, codes + at, (size_t)m, &err) != 0) fail_msg("%s", err.msg);
    }
    if (eval_end(t, &err) != 0) fail_msg("%s", err.msg);
  }
  eval_close(f->ev);
  eval_cache_close(cache);
}

// What is made in panels of columns is what is made of all of it: codes and figures, whatever the lines, the memory
// and the pieces that are asked for.
static void test_panels_do_not_show(void **state) {
  (void)state;
  static const int64_t shapes[][2] = {{ROWS_MOST, COLUMNS_MOST}, {ROWS_MOST, 1280}, {800, 513}};
  static const enum dtype types[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_UINT4};
  static const size_t pieces[] = {1 << 20, 4099, 1280};
  static uint8_t want[ROWS_MOST * COLUMNS_MOST], got[ROWS_MOST * COLUMNS_MOST];
  static struct leaves wanted, told;
  for (uint32_t way = 0; way < 9; way++) {
    struct fixture f;
    begin(&f);
    const int64_t *dims = shapes[way % 3];
    const struct recipe_quantization q = linear(types[way / 3], types[way / 3] == DTYPE_INT8, 1);
    const size_t budget = dims[0] == 800 ? 1800 << 10 : 2 << 20;
    uint32_t id = recipe_quantize(&f.r, weight_in_memory(&f, dims), &q, PART_CODES);
    make_codes(&f, id, 16 << 20, 1 << 20, 1 << 20, want, &wanted);
    assert_int_equal(f.io.bytes, f.io.memory_bytes);
    for (uint32_t i = 0; i < 6; i++) {
      // Without room for codes: what does not fit is read once more.
      const size_t cache = i < 3 ? 4 << 20 : 1 << 16;
      make_codes(&f, id, budget, cache, pieces[i % 3], got, &told);
      assert_memory_equal(got, want, f.r.rows[id].bytes);
      assert_memory_equal(&told, &wanted, sizeof told);
      if (i < 3) assert_int_equal(f.io.bytes, f.io.memory_bytes);
      if (i >= 3) assert_true(f.io.bytes > f.io.memory_bytes * 11 / 10);
    }
    f.ev = NULL;
    recipes_free(&f.r);
  }
}

int test_eval_linear(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_tensors),
      cmocka_unit_test(test_channels),
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_columns_of_halves),
      cmocka_unit_test(test_blocks),
      cmocka_unit_test(test_float8),
      cmocka_unit_test(test_deviations),
      cmocka_unit_test(test_roomy_halves),
      cmocka_unit_test(test_biases),
      cmocka_unit_test(test_guard),
      cmocka_unit_test(test_what_is_refused),
      cmocka_unit_test(test_memory_does_not_show),
      cmocka_unit_test(test_reads),
      cmocka_unit_test(test_reads_by_roomy_scales),
      cmocka_unit_test(test_wanted),
      cmocka_unit_test(test_panels_do_not_show),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
