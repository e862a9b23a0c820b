// What the kinds that compute promise beyond right bytes (those: test_eval_random.c): what they refuse
// and what they say then, that large operands stream, that what is used often is computed once, and
// that odd ranges and small boxes change nothing. Large sources are made up from their offset
// (fake_io.h).
#include "eval_fixture.h"
#include "reduce_reference.h"
#include "stream/eval/core/eval_parts.h"
#include "stream/eval/shared/eval_cache.h"

static uint32_t list(struct fixture *f, enum dtype dtype, const void *elements, int64_t n) {
  const uint32_t width = dtype_bits(dtype) / 8;
  return recipe_bytes(&f->r, dtype, &n, 1, span_of(elements, (size_t)n * width));
}

static float made_up_float(uint64_t off) {
  const uint32_t bits = made_up_bits(off);
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

// Lists and recipes are at fault themselves; else what was asked for is impossible with these elements.
static void check_refused(struct fixture *f, uint32_t id, enum err_kind kind, const char *want) {
  uint8_t buf[256];
  struct err err = {0};
  assert_int_equal(recipe_read(f->ev, id, 0, buf, (size_t)f->r.rows[id].bytes, &err), -1);
  assert_int_equal(err.kind, kind);
  if (!strstr(err.msg, want)) fail_msg("'%s' has no '%s'", err.msg, want);
}

// ---- casts -------------------------------------------------------------------------------------

static void test_open_casts(void **state) {
  (void)state;
  struct fixture f = {0};
  recipes_init(&f.r);
  const float x[] = {1, -2.5f, 3e9f, 4};
  const uint32_t of = list(&f, DTYPE_FLOAT, x, 4);
  open_eval(&f, EVAL_BUDGET_MIN);
  check_refused(&f, recipe_cast(&f.r, of, DTYPE_INT32), ERR_FAIL,
                "element 2 is 3e+09: ONNX does not define its Cast from float to int32");
  int64_t wide[4];
  read_ok(&f, recipe_cast(&f.r, of, DTYPE_INT64), 0, wide, sizeof wide);
  assert_int_equal(wide[1], -2);
  assert_int_equal(wide[2], 3000000000);
  check_refused(&f, recipe_cast(&f.r, of, DTYPE_FLOAT8E8M0), ERR_FAIL, "element 1 is -2.5");
  close_all(&f);
}

// ---- elementwise operations --------------------------------------------------------------------

// W * g by channel, W of 64 MiB: in order, and in odd pieces.
static void test_map_streams(void **state) {
  (void)state;
  enum { CHANNELS = 512, EACH = 32 * 1024, ODD = 70001 };
  static float got[ODD + 1];
  struct fixture f = {0};
  recipes_init(&f.r);
  const int64_t dims[] = {CHANNELS, 32, 1024}, by_channel[] = {CHANNELS, 1, 1};
  float g[CHANNELS];
  for (int i = 0; i < CHANNELS; i++)
    g[i] = (float)i - 7;
  const uint32_t w = made_up(&f, DTYPE_FLOAT, dims, 3, 12);
  const uint32_t factors = recipe_bytes(&f.r, DTYPE_FLOAT, by_channel, 3, span_of(g, sizeof g));
  const uint32_t ids[] = {w, factors};
  const uint32_t id = recipe_map(&f.r, RECIPE_MAP_MUL, ids);
  open_eval(&f, EVAL_BUDGET_MIN);
  for (uint64_t at = 3; at + ODD < (uint64_t)CHANNELS * EACH; at += 5 * (uint64_t)ODD) {
    read_ok(&f, id, at * 4 + 1, (uint8_t *)got + 1, ODD * 4 - 1);
    for (uint64_t i = 1; i < ODD; i++) {
      const float want = made_up_float(12 + 4 * (at + i)) * g[(at + i) / EACH];
      if (memcmp(&want, &got[i], 4) != 0 && want == want)
        fail_msg("element %llu", (unsigned long long)(at + i));
    }
  }
  f.io.bytes = 0;
  for (uint64_t at = 0; at < CHANNELS * (uint64_t)EACH; at += ODD - 1)
    read_ok(&f, id, at * 4, got, (size_t)min_u64(ODD - 1, (uint64_t)CHANNELS * EACH - at) * 4);
  assert_true(f.io.bytes <= (uint64_t)CHANNELS * EACH * 4 * 11 / 10);
  close_all(&f);
}

static void test_open_map(void **state) {
  (void)state;
  struct fixture f = {0};
  recipes_init(&f.r);
  const int32_t x[] = {7, -9, 5, INT32_MIN, 4, 4}, y[] = {2, 4, -1};
  const int64_t dims[] = {2, 3};
  const uint32_t above = recipe_bytes(&f.r, DTYPE_INT32, dims, 2, span_of(x, sizeof x));
  uint32_t ids[] = {above, list(&f, DTYPE_INT32, y, 3)};
  const uint32_t good = recipe_map(&f.r, RECIPE_MAP_DIV, ids);
  ids[1] = list(&f, DTYPE_INT32, (const int32_t[]){1, 1, 0}, 3);
  const uint32_t by_zero = recipe_map(&f.r, RECIPE_MAP_DIV, ids);
  ids[1] = list(&f, DTYPE_INT32, (const int32_t[]){-1, 1, 1}, 3);
  const uint32_t least = recipe_map(&f.r, RECIPE_MAP_DIV, ids);
  open_eval(&f, EVAL_BUDGET_MIN);
  int32_t got[6];
  read_ok(&f, good, 0, got, sizeof got);
  assert_int_equal(got[1], -2);
  assert_int_equal(got[3], INT32_MIN / 2);
  check_refused(&f, by_zero, ERR_FAIL, "element 2: ONNX does not define 'div' of these int32");
  check_refused(&f, least, ERR_FAIL, "element 3: ");
  close_all(&f);
}

// Operands of operands of operands … too deep to compute are refused, not obeyed.
static void test_too_deep(void **state) {
  (void)state;
  struct fixture f = {0};
  recipes_init(&f.r);
  uint32_t id = list(&f, DTYPE_FLOAT, (const float[]){1, 2}, 2);
  for (int i = 0; i < 40; i++)
    id = recipe_map(&f.r, i % 2 ? RECIPE_MAP_EXP : RECIPE_MAP_LOG, &id);
  open_eval(&f, EVAL_BUDGET_MIN);
  check_refused(&f, id, ERR_MODEL, "recipes are nested more than 31 deep");
  close_all(&f);
}

// ---- gathers -----------------------------------------------------------------------------------

static void test_index_out_of_range(void **state) {
  (void)state;
  struct fixture f = {0};
  recipes_init(&f.r);
  const uint32_t of = list(&f, DTYPE_INT16, (const int16_t[]){10, 11, 12}, 3);
  const uint32_t good = list(&f, DTYPE_FLOAT, (const float[]){2, -3, 1, 0}, 4);
  const uint32_t bad = list(&f, DTYPE_FLOAT, (const float[]){2, -4}, 2);
  const uint32_t past = list(&f, DTYPE_FLOAT, (const float[]){3}, 1);
  open_eval(&f, EVAL_BUDGET_MIN);
  int16_t got[4];
  read_ok(&f, recipe_gather(&f.r, of, recipe_cast(&f.r, good, DTYPE_INT32), 0), 0, got, 8);
  const int16_t want[] = {12, 10, 11, 10};
  assert_memory_equal(got, want, sizeof want);
  check_refused(&f, recipe_gather(&f.r, of, recipe_cast(&f.r, bad, DTYPE_INT64), 0), ERR_MODEL,
                "Gather index -4 is outside its axis of 3");
  check_refused(&f, recipe_gather(&f.r, of, recipe_cast(&f.r, past, DTYPE_INT32), 0), ERR_MODEL,
                "index 3 ");
  close_all(&f);
}

// A list of more indices than are looked at at once, for each of some rows; with a box for those and
// without.
static void test_long_lists(void **state) {
  (void)state;
  enum { ROWS = 3, N = 2000, M = 3000 };
  static int64_t indices[M];
  static int16_t elements[ROWS * N], got[ROWS * M];
  struct fixture f = {0};
  recipes_init(&f.r);
  for (int i = 0; i < M; i++)
    indices[i] = i * 7919 % N - (i % 3 ? 0 : N);
  for (int i = 0; i < ROWS * N; i++)
    elements[i] = (int16_t)(i * 31);
  const int64_t dims[] = {ROWS, N};
  const uint32_t of = recipe_bytes(&f.r, DTYPE_INT16, dims, 2, span_of(elements, sizeof elements));
  const uint32_t known = list(&f, DTYPE_INT64, indices, M);
  const uint32_t by[] = {known, recipe_cast(&f.r, known, DTYPE_INT32)};
  for (int way = 0; way < 4; way++) {
    const uint32_t id = recipe_gather(&f.r, of, by[way % 2], 1);
    open_eval(&f, EVAL_BUDGET_MIN);
    if (way >= 2) f.ev->box_memory_bytes = 1024;
    for (uint64_t at = 0; at < sizeof got; at += 5003)
      read_ok(&f, id, at, (uint8_t *)got + at, (size_t)min_u64(5003, sizeof got - at));
    for (int i = 0; i < ROWS * M; i++)
      assert_int_equal(got[i], elements[i / M * N + (indices[i % M] + N) % N]);
    eval_close(f.ev);
  }
  f.ev = NULL;
  close_all(&f);
}

// ---- reductions --------------------------------------------------------------------------------

// The outputs of a reduction of made-up floats at 0, element by element.
static void reduce_slowly(const int64_t dims[4], uint64_t axes, float *out) {
  const uint64_t n = (uint64_t)(dims[0] * dims[1] * dims[2] * dims[3]);
  uint64_t outputs = 1;
  for (int i = 0; i < 4; i++)
    outputs *= axes >> i & 1 ? 1 : (uint64_t)dims[i];
  const uint64_t column = n / outputs;
  float *columns = malloc(n * sizeof *columns);
  uint64_t *have = calloc(outputs, sizeof *have);
  for (uint64_t at = 0; at < n; at++) {
    int64_t c[4];
    uint64_t rest = at, to = 0;
    for (int i = 3; i >= 0; rest /= (uint64_t)dims[i--])
      c[i] = (int64_t)(rest % (uint64_t)dims[i]);
    for (int i = 0; i < 4; i++)
      if (!(axes >> i & 1)) to = to * (uint64_t)dims[i] + (uint64_t)c[i];
    columns[to * column + have[to]++] = made_up_float(4 * at);
  }
  for (uint64_t i = 0; i < outputs; i++)
    reduce_reference(&out[i], (const uint8_t *)(columns + i * column), column, KERNELS_SUM,
                     DTYPE_FLOAT);
  free(columns);
  free(have);
}

// Columns of several chunks in every layout, with boxes and without, whole and in odd pieces.
static void test_layouts_of_reductions(void **state) {
  (void)state;
  static const struct {
    int64_t dims[4];
    uint64_t axes;
  } cases[] = {{{9, 11, 13, 100}, 15}, {{3, 5, 7, 3000}, 8},   {{20000, 1, 1, 7}, 1},
               {{700, 3, 5, 17}, 9},   {{130, 90, 3, 11}, 11}, {{50, 3, 200, 5}, 5},
               {{9000, 2, 2, 2}, 7},   {{2, 6000, 3, 4}, 10},  {{4, 1, 1, 30000}, 8}};
  static float want[400000], got[400000];
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    for (int boxes = 0; boxes < 3; boxes++) {
      struct fixture f = {0};
      recipes_init(&f.r);
      const uint32_t of = made_up(&f, DTYPE_FLOAT, cases[k].dims, 4, 0);
      const struct recipe_reduction q = {.op = RECIPE_SUM, .axes = cases[k].axes};
      const uint32_t id = recipe_reduce(&f.r, of, &q);
      const size_t bytes = (size_t)f.r.rows[id].bytes;
      if (boxes == 0) reduce_slowly(cases[k].dims, q.axes, want);
      open_eval(&f, EVAL_BUDGET_MIN);
      if (boxes == 1) f.ev->box_memory_bytes = 256;
      if (boxes == 2) f.ev->box_memory_bytes = 50000;
      memset(got, 0xa5, sizeof got);
      read_ok(&f, id, 0, got, bytes);
      for (size_t i = 0; i < bytes; i++)
        if (((uint8_t *)got)[i] != ((uint8_t *)want)[i])
          fail_msg("case %zu, boxes %d: byte %zu", k, boxes, i);
      for (size_t at = 1; at < bytes; at += 1 + bytes / 5) {
        const size_t n = (size_t)min_u64(4099, bytes - at);
        read_ok(&f, id, at, got, n);
        assert_memory_equal(got, (const uint8_t *)want + at, n);
      }
      close_all(&f);
    }
  }
}

// W - sum(W): the sum of a large weight is found once for all evaluators, and in each.
static void test_reductions_are_kept(void **state) {
  (void)state;
  enum { N = 1 << 22 };
  static float got[1000];
  struct fixture f = {0};
  struct err err = {0};
  recipes_init(&f.r);
  const int64_t dims[] = {4, N / 4};
  const uint32_t w = made_up(&f, DTYPE_FLOAT, dims, 2, 0);
  const uint32_t most =
      recipe_reduce(&f.r, w, &(struct recipe_reduction){.op = RECIPE_MAX, .axes = 3});
  const uint32_t ids[] = {w, most}, id = recipe_map(&f.r, RECIPE_MAP_SUB, ids);
  struct eval_cache *cache = eval_cache_open(1 << 20, (struct eval_cache_file){0});
  struct eval *other;
  open_eval(&f, EVAL_BUDGET_MIN);
  assert_int_equal(eval_open(&other, &f.r, &f.io, EVAL_BUDGET_MIN, &err), 0);
  eval_share(f.ev, cache);
  eval_share(other, cache);
  for (uint64_t at = 0; at < N; at += N / 8)
    read_ok(&f, id, at * 4, got, sizeof got);
  assert_int_equal(recipe_read(other, id, 40, got, sizeof got, &err), 0);
  assert_true(f.io.bytes >= N * 4);
  assert_true(f.io.bytes <= N * 4 + (1 << 20));
  eval_close(other);
  close_all(&f);
  eval_cache_close(cache);
}

int test_eval_math(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_open_casts),
      cmocka_unit_test(test_map_streams),
      cmocka_unit_test(test_open_map),
      cmocka_unit_test(test_too_deep),
      cmocka_unit_test(test_index_out_of_range),
      cmocka_unit_test(test_long_lists),
      cmocka_unit_test(test_layouts_of_reductions),
      cmocka_unit_test(test_reductions_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
