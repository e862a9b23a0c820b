// Recipes: canonical form gives equal ids, and the JSON forms read back as the same rows and refuse
// every number that would break a constructor's promise.
#include "kernels/convert/kernels_convert.h"
#include "kernels/dequantize/kernels_dequantize.h"
#include "kernels/map/kernels_map.h"
#include "kernels/reduce/kernels_reduce.h"
#include "recipe/recipe.h"
#include "recipe/recipe_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct recipes r;

static int setup(void **state) {
  (void)state;
  recipes_init(&r);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  recipes_free(&r);
  return 0;
}

static uint32_t weight(int64_t a, int64_t b) {
  int64_t dims[2] = {a, b};
  uint64_t bytes = (uint64_t)(a * b) * 4;
  struct piece p = {.at = {64, bytes, 1}, .count = bytes, .checkpoint = NO_ID};
  return recipe_extent(&r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &p, 1, NULL);
}

// Small integers as elements.
static uint32_t numbers(enum dtype dtype, const int64_t *list, int64_t n) {
  uint8_t bytes[64];
  const size_t width = dtype_bits(dtype) / 8;
  for (int64_t i = 0; i < n; i++)
    memcpy(bytes + (size_t)i * width, &list[i], width);
  return recipe_bytes(&r, dtype, &n, 1, span_of(bytes, (size_t)n * width));
}

// One element, whose bits are this number.
static uint32_t scalar(enum dtype dtype, int64_t bits) {
  return recipe_bytes(&r, dtype, NULL, 0, span_of(&bits, dtype_bits(dtype) / 8));
}

static void equal_recipes_are_one(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0};
  uint32_t w = weight(3, 5);
  assert_int_equal(w, weight(3, 5));
  assert_int_not_equal(w, weight(5, 3));
  uint32_t t = recipe_transpose(&r, w, swap);
  assert_int_equal(t, recipe_transpose(&r, w, swap));
  assert_int_equal(r.n_rows, 3);
  assert_int_equal(recipe_dims(&r, t)[0], 5);
}

static void parts_of_rows_found_again_are_taken_back(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0};
  uint32_t w = weight(3, 5);
  recipe_transpose(&r, w, swap);
  uint32_t longs = r.n_longs, args = r.n_args, pieces = r.n_pieces;
  for (int i = 0; i < 100; i++)
    recipe_transpose(&r, weight(3, 5), swap);
  assert_int_equal(r.n_longs, longs);
  assert_int_equal(r.n_args, args);
  assert_int_equal(r.n_pieces, pieces);
}

static void transposes_compose(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0}, same[2] = {0, 1};
  uint32_t w = weight(3, 5);
  assert_int_equal(recipe_transpose(&r, recipe_transpose(&r, w, swap), swap), w);
  assert_int_equal(recipe_transpose(&r, w, same), w);
}

static void moving_unit_axes_is_a_reshape(void **state) {
  (void)state;
  static const int64_t dims[4] = {7, 9, 1, 1}, back[4] = {2, 0, 3, 1};
  uint32_t w = recipe_reshape(&r, weight(7, 9), dims, 4);
  assert_int_equal(r.rows[w].kind, RECIPE_EXTENT);
  uint32_t moved = recipe_transpose(&r, w, back);
  assert_int_equal(r.rows[moved].kind, RECIPE_EXTENT);
  static const int64_t turn[4] = {1, 0, 2, 3};
  assert_int_equal(r.rows[recipe_transpose(&r, w, turn)].kind, RECIPE_TRANSPOSE);
}

static void what_does_nothing_vanishes(void **state) {
  (void)state;
  static const int64_t zero[2] = {0, 0}, one[2] = {1, 1}, dims[2] = {3, 5};
  static const uint8_t pad[4] = {0};
  uint32_t w = weight(3, 5);
  assert_int_equal(recipe_slice(&r, w, zero, one, dims), w);
  assert_int_equal(recipe_pad(&r, w, zero, zero, span_of(pad, 4)), w);
  assert_int_equal(recipe_concat(&r, &w, 1, 0), w);
  assert_int_equal(recipe_cast(&r, w, DTYPE_FLOAT), w);
  assert_int_equal(recipe_reshape(&r, w, dims, 2), w);
}

static void ranks_past_the_limit_are_flattened(void **state) {
  (void)state;
  int64_t dims[RECIPE_MAX_RANK + 6];
  for (int i = 0; i < RECIPE_MAX_RANK + 6; i++)
    dims[i] = 1;
  dims[3] = 8;
  struct piece p = {.at = {0, 32, 0}, .count = 32, .checkpoint = NO_ID};
  uint32_t w = recipe_extent(&r, DTYPE_FLOAT, dims, RECIPE_MAX_RANK + 6, ENCODING_RAW, &p, 1, NULL);
  assert_int_equal(r.rows[w].rank, 1);
  assert_int_equal(recipe_dims(&r, w)[0], 8);
}

static void only_plain_bytes_are_copies(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0};
  struct extent at;
  uint32_t w = weight(3, 5);
  assert_true(recipe_is_copy(&r, w, &at));
  assert_int_equal(at.off, 64);
  assert_int_equal(at.len, 60);
  assert_false(recipe_is_copy(&r, recipe_transpose(&r, w, swap), &at));
  assert_false(recipe_is_copy(&r, recipe_cast(&r, w, DTYPE_FLOAT16), &at));
}

// ---- quantize ----------------------------------------------------------------------------------

static struct recipe_quantization nbits(uint32_t axis, uint64_t block) {
  return (struct recipe_quantization){
      .format = FORMAT_NBITS, .bits = 4, .axis = axis, .block = block};
}

static struct recipe_quantization plain(enum recipe_format format, uint32_t axis) {
  return (struct recipe_quantization){
      .format = format, .bits = format == FORMAT_LEVELS ? 0 : 8, .axis = axis, .levels = 256};
}

static void assert_type(uint32_t id, enum dtype dtype, uint32_t rank, const int64_t *dims) {
  assert_int_equal(r.rows[id].dtype, dtype);
  assert_int_equal(r.rows[id].rank, rank);
  for (uint32_t i = 0; i < rank; i++)
    assert_int_equal(recipe_dims(&r, id)[i], dims[i]);
}

static void parts_of_nbits_have_their_types(void **state) {
  (void)state;
  uint32_t w = weight(35, 3);
  struct recipe_quantization q = nbits(0, 16);
  assert_type(recipe_quantize(&r, w, &q, PART_CODES), DTYPE_UINT8, 3, (int64_t[]){3, 3, 8});
  assert_type(recipe_quantize(&r, w, &q, PART_SCALES), DTYPE_FLOAT, 2, (int64_t[]){3, 3});
  assert_type(recipe_quantize(&r, w, &q, PART_ZEROS), DTYPE_UINT8, 2, (int64_t[]){3, 2});
  q.bits = 2;
  assert_type(recipe_quantize(&r, w, &q, PART_ZEROS), DTYPE_UINT8, 2, (int64_t[]){3, 1});
  q = nbits(1, 16);
  assert_type(recipe_quantize(&r, w, &q, PART_CODES), DTYPE_UINT8, 3, (int64_t[]){35, 1, 8});
  q.format = FORMAT_NBITS_HQQ;
  assert_type(recipe_quantize(&r, w, &q, PART_ZEROS), DTYPE_FLOAT, 1, (int64_t[]){35});
  q = nbits(0, 32);
  w = recipe_cast(&r, weight(0, 3), DTYPE_FLOAT16);
  assert_type(recipe_quantize(&r, w, &q, PART_CODES), DTYPE_UINT8, 3, (int64_t[]){3, 0, 16});
  assert_type(recipe_quantize(&r, w, &q, PART_SCALES), DTYPE_FLOAT16, 2, (int64_t[]){3, 0});
}

static void parts_of_the_others_have_their_types(void **state) {
  (void)state;
  uint32_t w = weight(35, 3);
  struct recipe_quantization q = {.format = FORMAT_QDQ, .bits = 4, .axis = 0, .block = 16};
  assert_type(recipe_quantize(&r, w, &q, PART_CODES), DTYPE_UINT4, 2, (int64_t[]){35, 3});
  assert_type(recipe_quantize(&r, w, &q, PART_SCALES), DTYPE_FLOAT, 2, (int64_t[]){3, 3});
  assert_type(recipe_quantize(&r, w, &q, PART_ZEROS), DTYPE_UINT4, 2, (int64_t[]){3, 3});
  q.symmetric = true;
  assert_type(recipe_quantize(&r, w, &q, PART_CODES), DTYPE_INT4, 2, (int64_t[]){35, 3});
  assert_false(recipe_can_quantize(&r, w, &q, PART_ZEROS));
  q = plain(FORMAT_SHRINK, RECIPE_PER_TENSOR);
  assert_type(recipe_quantize(&r, w, &q, PART_CODES), DTYPE_INT8, 2, (int64_t[]){35, 3});
  assert_type(recipe_quantize(&r, w, &q, PART_ZEROS), DTYPE_FLOAT, 1, (int64_t[]){1});
  q.axis = 1;
  assert_type(recipe_quantize(&r, w, &q, PART_SCALES), DTYPE_FLOAT, 1, (int64_t[]){3});
  q = plain(FORMAT_AFFINE, RECIPE_PER_TENSOR);
  assert_type(recipe_quantize(&r, w, &q, PART_SCALES), DTYPE_FLOAT, 0, NULL);
  assert_type(recipe_quantize(&r, w, &q, PART_ZEROS), DTYPE_UINT8, 0, NULL);
  q = plain(FORMAT_LEVELS, RECIPE_PER_TENSOR);
  assert_type(recipe_quantize(&r, w, &q, PART_CODES), DTYPE_FLOAT, 2, (int64_t[]){35, 3});
  assert_false(recipe_can_quantize(&r, w, &q, PART_SCALES));
}

static void quantizing_a_turned_matrix_turns_the_axis(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0}, box[4] = {5, 1, 37, 1}, turn[4] = {2, 1, 3, 0};
  static const int64_t flat[2] = {37, 5};
  uint32_t w = weight(5, 37);
  struct recipe_quantization down = nbits(0, 16), along = nbits(1, 16);
  for (enum recipe_part part = PART_CODES; part <= PART_ZEROS; part++) {
    uint32_t want = recipe_quantize(&r, w, &along, part);
    assert_int_equal(recipe_quantize(&r, recipe_transpose(&r, w, swap), &down, part), want);
    uint32_t boxed = recipe_transpose(&r, recipe_reshape(&r, w, box, 4), turn);
    assert_int_equal(recipe_quantize(&r, recipe_reshape(&r, boxed, flat, 2), &down, part), want);
  }
}

static void formats_that_keep_layout_go_below_what_moves_elements(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0}, thin[3] = {37, 1, 5};
  uint32_t w = weight(5, 37), t = recipe_transpose(&r, w, swap);
  struct recipe_quantization q = {.format = FORMAT_QDQ, .bits = 4, .axis = 1, .block = 16};
  struct recipe_quantization turned = q;
  turned.axis = 0;
  for (enum recipe_part part = PART_CODES; part <= PART_ZEROS; part++) {
    uint32_t want = recipe_transpose(&r, recipe_quantize(&r, w, &q, part), swap);
    assert_int_equal(recipe_quantize(&r, t, &turned, part), want);
    uint32_t got = recipe_quantize(&r, recipe_reshape(&r, t, thin, 3), &turned, part);
    assert_int_equal(r.rows[got].kind, RECIPE_RESHAPE);
    assert_int_equal(r.args[r.rows[got].args], want);
  }
}

static void scales_of_a_tensor_do_not_move(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0}, flat[1] = {15};
  uint32_t w = weight(3, 5), t = recipe_transpose(&r, w, swap);
  uint32_t f = recipe_reshape(&r, t, flat, 1);
  struct recipe_quantization all = plain(FORMAT_SHRINK, RECIPE_PER_TENSOR);
  assert_int_equal(recipe_quantize(&r, f, &all, PART_SCALES),
                   recipe_quantize(&r, w, &all, PART_SCALES));
  struct recipe_quantization rows = plain(FORMAT_SHRINK, 0), columns = plain(FORMAT_SHRINK, 1);
  assert_int_equal(recipe_quantize(&r, t, &rows, PART_ZEROS),
                   recipe_quantize(&r, w, &columns, PART_ZEROS));
  assert_int_not_equal(recipe_quantize(&r, w, &rows, PART_ZEROS),
                       recipe_quantize(&r, w, &columns, PART_ZEROS));
}

static void what_does_not_matter_makes_no_other_row(void **state) {
  (void)state;
  uint32_t w = weight(35, 3);
  struct recipe_quantization a = {.format = FORMAT_QDQ, .bits = 4, .axis = 0}, b = a;
  b.block = 35;
  b.levels = 7;
  assert_int_equal(recipe_quantize(&r, w, &a, PART_CODES), recipe_quantize(&r, w, &b, PART_CODES));
  b.block = 34;
  assert_int_not_equal(recipe_quantize(&r, w, &a, PART_CODES),
                       recipe_quantize(&r, w, &b, PART_CODES));
  struct recipe_quantization back = recipe_quantization_of(&r, r.n_rows - 1);
  assert_int_equal(back.format, FORMAT_QDQ);
  assert_int_equal(back.block, 34);
  assert_int_equal(recipe_part_of(&r, r.n_rows - 1), PART_CODES);
}

static void what_cannot_be_quantized_is_known(void **state) {
  (void)state;
  uint32_t w = weight(35, 3);
  static const int64_t flat[1] = {105};
  struct recipe_quantization good = nbits(0, 16), q = good;
  assert_true(recipe_can_quantize(&r, w, &q, PART_ZEROS));
  assert_false(recipe_can_quantize(&r, recipe_reshape(&r, w, flat, 1), &q, PART_CODES));
  assert_false(recipe_can_quantize(&r, recipe_cast(&r, w, DTYPE_DOUBLE), &q, PART_CODES));
  q.axis = 2;
  assert_false(recipe_can_quantize(&r, w, &q, PART_CODES));
  q = good;
  q.block = 48;
  assert_false(recipe_can_quantize(&r, w, &q, PART_CODES));
  q = good;
  q.bits = 3;
  assert_false(recipe_can_quantize(&r, w, &q, PART_CODES));
  q = good;
  q.symmetric = true;
  assert_false(recipe_can_quantize(&r, w, &q, PART_ZEROS));
  q = plain(FORMAT_LEVELS, RECIPE_PER_TENSOR);
  assert_true(recipe_can_quantize(&r, recipe_cast(&r, w, DTYPE_DOUBLE), &q, PART_CODES));
  q.levels = 1;
  assert_false(recipe_can_quantize(&r, w, &q, PART_CODES));
}

// ---- JSON --------------------------------------------------------------------------------------

static const uint64_t sizes[2] = {1000, 1 << 20};

// One of every kind, varint and unpacked pieces included.
// A row of each kind that computes, with every member of its JSON.
static void build_arithmetic(uint32_t w, uint32_t t) {
  static const int64_t known[3] = {4, 0, -5};
  const struct recipe_conversion narrow = {.to = DTYPE_FLOAT8E5M2},
                                 power = {.to = DTYPE_FLOAT8E8M0, .round = RECIPE_ROUND_DOWN};
  recipe_convert(&r, w, &narrow);
  recipe_convert(&r, w, &power);
  recipe_gather(&r, w, numbers(DTYPE_INT64, known, 3), 1);
  recipe_reduce(&r, t, &(struct recipe_reduction){RECIPE_MAX, 3});
  const uint32_t sum = recipe_reduce(&r, w, &(struct recipe_reduction){RECIPE_SUM, 2});
  const uint32_t less = recipe_map(&r, RECIPE_MAP_LESS, (uint32_t[]){t, sum});
  recipe_map(&r, RECIPE_MAP_WHERE, (uint32_t[]){less, t, sum});
  recipe_map(&r, RECIPE_MAP_NEG, (uint32_t[]){t});
  const struct recipe_quantization q = {.format = FORMAT_QDQ, .bits = 4, .axis = 1, .block = 2};
  struct recipe_dequantization back = {.scales = recipe_quantize(&r, w, &q, PART_SCALES),
                                       .zeros = recipe_quantize(&r, w, &q, PART_ZEROS),
                                       .axis = 1,
                                       .block = 2};
  const uint32_t codes = recipe_quantize(&r, w, &q, PART_CODES);
  recipe_dequantize(&r, codes, &back);
  back = (struct recipe_dequantization){
      .scales = scalar(DTYPE_FLOAT16, 1), .zeros = NO_ID, .axis = RECIPE_PER_TENSOR};
  recipe_dequantize(&r, codes, &back);
  const struct recipe_quantization found = {.format = FORMAT_LINEAR,
                                            .type = DTYPE_UINT16,
                                            .axis = 1,
                                            .block = 2,
                                            .reduced = true,
                                            .guard = GUARD_NORMAL};
  recipe_quantize(&r, t, &found, PART_CODES);
  struct recipe_quantization later = found;
  later.guard = GUARD_NUMBER;
  recipe_quantize(&r, t, &later, PART_CODES);
  const struct recipe_linear bias = {.type = DTYPE_INT32,
                                     .scales = scalar(DTYPE_FLOAT, 1),
                                     .zeros = NO_ID,
                                     .axis = RECIPE_PER_TENSOR};
  recipe_quantize_linear(&r, w, &bias);
}

static void build_everything(void) {
  static const int64_t swap[2] = {1, 0}, starts[2] = {4, 0}, steps[2] = {-2, 1}, cut[2] = {2, 3};
  static const int64_t one[2] = {1, 0}, two[2] = {0, 2}, flat[1] = {15};
  static const uint8_t pad[4] = {0, 0, 0x80, 0x3f};
  static const uint64_t points[2] = {0, 70000};
  uint32_t w = weight(3, 5);
  uint32_t t = recipe_transpose(&r, w, swap);
  uint32_t s = recipe_slice(&r, t, starts, steps, cut);
  recipe_pad(&r, s, one, two, span_of(pad, 4));
  uint32_t both[2] = {w, w};
  const uint32_t joined = recipe_concat(&r, both, 2, 1);
  const uint32_t cast = recipe_cast(&r, joined, DTYPE_BFLOAT16);
  const uint32_t clipped = recipe_cast_clipped(&r, joined, DTYPE_BFLOAT16);
  assert_int_not_equal(cast, clipped);
  assert_true(recipe_cast_clips(&r, clipped) && !recipe_cast_clips(&r, cast));
  assert_int_equal(recipe_cast_clipped(&r, joined, DTYPE_BFLOAT16), clipped);
  recipe_reshape(&r, t, flat, 1);
  struct recipe_quantization q = nbits(0, 16), all = plain(FORMAT_LEVELS, RECIPE_PER_TENSOR);
  recipe_quantize(&r, w, &q, PART_CODES);
  recipe_quantize(&r, w, &q, PART_ZEROS);
  recipe_quantize(&r, t, &all, PART_CODES);
  q.format = FORMAT_NBITS_GPTQ;
  const int64_t moments = 9;
  const struct piece g = {.at = {8, 72, 1}, .count = 72, .checkpoint = NO_ID};
  const uint32_t gram = recipe_extent(&r, DTYPE_DOUBLE, &moments, 1, ENCODING_RAW, &g, 1, NULL);
  const struct recipe_statistics by = {gram, NO_ID};
  const uint32_t codes = recipe_quantize_by(&r, w, &by, &q, PART_CODES);
  assert_int_equal(recipe_statistics_of(&r, codes).gram, gram);
  assert_false(recipe_can_quantize(&r, w, &q, PART_CODES));
  assert_false(recipe_can_quantize_by(&r, t, &by, &q, PART_CODES)); // 5 rows
  q.axis = 1;
  assert_int_equal(recipe_quantize_by(&r, t, &by, &q, PART_CODES), codes);
  q.axis = 0;
  const int64_t three = 3;
  const struct recipe_awq awq = {
      .means = recipe_bytes(&r, DTYPE_FLOAT, &three, 1, span_of("012345678901", 12)),
      .gram = gram,
      .bits = 4,
      .block = 32};
  const uint32_t rows = recipe_awq(&r, &awq, both, 2);
  assert_int_equal(r.rows[rows].count, 3);
  assert_int_equal(recipe_awq_of(&r, rows).block, 32);
  q.format = FORMAT_NBITS_CLIPPED;
  assert_false(recipe_can_quantize_by(&r, w, &by, &q, PART_CODES));
  recipe_quantize_by(&r, w, &(struct recipe_statistics){gram, rows}, &q, PART_ZEROS);
  q.format = FORMAT_QDQ;
  assert_false(recipe_can_quantize_by(&r, w, &by, &q, PART_CODES));
  recipe_quantize(&r, t, &q, PART_SCALES);
  recipe_fill(&r, DTYPE_FLOAT, flat, 1, span_of(pad, 4));
  recipe_bytes(&r, DTYPE_FLOAT, NULL, 0, span_of(pad, 4));
  int64_t many = 70000;
  struct piece v = {.at = {5, 80000, 1}, .count = 70000, .checkpoint = 0};
  recipe_extent(&r, DTYPE_INT64, &many, 1, ENCODING_VARINT, &v, 1, points);
  struct piece u = {.at = {5, 50, 0}, .count = 10, .tag_bytes = 1, .checkpoint = NO_ID};
  int64_t ten = 10;
  recipe_extent(&r, DTYPE_FLOAT, &ten, 1, ENCODING_FIXED32, &u, 1, NULL);
  build_arithmetic(w, t);
}

static void rows_read_back_as_they_were(void **state) {
  (void)state;
  struct recipes again;
  struct err err = {0};
  build_everything();
  recipes_init(&again);
  for (uint32_t id = 0; id < r.n_rows; id++) {
    struct json_out a = {0}, b = {0};
    recipe_json_write_row(&a, &r, id, NULL);
    struct json_value *v = json_parse(span_of(a.text, a.n), "row", &err);
    assert_non_null(v);
    if (recipe_json_read_row(&again, v, 2, sizes, &err)) fail_msg("%s: %s", a.text, err.msg);
    recipe_json_write_row(&b, &again, id, NULL);
    assert_string_equal(a.text, b.text);
    json_free(v);
    json_done(&a);
    json_done(&b);
  }
  assert_int_equal(again.n_rows, r.n_rows);
  recipes_free(&again);
}

static void nested_form_reads_back(void **state) {
  (void)state;
  struct recipe_json_leaves leaves = {.n_files = 2, .file_sizes = sizes};
  struct err err = {0};
  build_everything();
  for (uint32_t id = 0; id < r.n_rows; id++) {
    struct json_out j = {0};
    uint32_t got;
    recipe_json_write(&j, &r, id, &leaves);
    struct json_value *v = json_parse(span_of(j.text, j.n), "recipe", &err);
    assert_non_null(v);
    assert_int_equal(recipe_json_read(&r, v, &leaves, &got, &err), 0);
    assert_int_equal(got, id);
    json_free(v);
    json_done(&j);
  }
}

static void maps_broadcast_and_have_types(void **state) {
  (void)state;
  const uint32_t w = weight(3, 5), row = recipe_reshape(&r, weight(1, 5), (int64_t[]){5}, 1);
  const uint32_t column = weight(3, 1), other = weight(5, 3), whole = scalar(DTYPE_INT32, 7);
  const uint32_t sum = recipe_map(&r, RECIPE_MAP_ADD, (uint32_t[]){column, row});
  assert_int_equal(r.rows[sum].kind, RECIPE_MAP);
  assert_int_equal(r.rows[sum].dtype, DTYPE_FLOAT);
  assert_int_equal(recipe_dims(&r, sum)[0], 3);
  assert_int_equal(recipe_dims(&r, sum)[1], 5);
  assert_int_equal(recipe_map_op_of(&r, sum), RECIPE_MAP_ADD);
  const uint32_t less = recipe_map(&r, RECIPE_MAP_LESS, (uint32_t[]){w, row});
  assert_int_equal(r.rows[less].dtype, DTYPE_BOOL);
  assert_int_equal(r.rows[less].bytes, 15);
  assert_true(recipe_can_map(&r, RECIPE_MAP_WHERE, (uint32_t[]){less, w, row}));
  assert_false(recipe_can_map(&r, RECIPE_MAP_WHERE, (uint32_t[]){w, w, row}));
  assert_false(recipe_can_map(&r, RECIPE_MAP_ADD, (uint32_t[]){w, other}));
  assert_false(recipe_can_map(&r, RECIPE_MAP_ADD, (uint32_t[]){w, whole}));
  assert_false(recipe_can_map(&r, RECIPE_MAP_ADD, (uint32_t[]){less, less}));
  assert_false(recipe_can_map(&r, RECIPE_MAP_SQRT, (uint32_t[]){whole}));
  assert_true(recipe_can_map(&r, RECIPE_MAP_SQRT, (uint32_t[]){w}));
  const uint32_t none = weight(0, 5);
  assert_int_equal(recipe_dims(&r, recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){none, row}))[0], 0);
  assert_int_equal(recipe_map_result(RECIPE_MAP_POW, DTYPE_DOUBLE), DTYPE_UNDEFINED);
  for (uint32_t op = 0; op < RECIPE_MAP_OPS; op++) {
    assert_non_null(recipe_map_name(op));
    assert_int_equal(recipe_map_result((enum recipe_map_op)op, DTYPE_STRING), DTYPE_UNDEFINED);
  }
}

static void maps_that_change_nothing_vanish(void **state) {
  (void)state;
  const uint32_t x = numbers(DTYPE_INT16, (int64_t[]){3, -4, 5}, 3);
  const uint32_t zero = scalar(DTYPE_INT16, 0), one = scalar(DTYPE_INT16, 1);
  const uint32_t ones = recipe_fill(&r, DTYPE_INT16, (int64_t[]){2, 3}, 2, span_of("\1", 2));
  assert_int_equal(recipe_map(&r, RECIPE_MAP_ADD, (uint32_t[]){x, zero}), x);
  assert_int_equal(recipe_map(&r, RECIPE_MAP_ADD, (uint32_t[]){zero, x}), x);
  assert_int_equal(recipe_map(&r, RECIPE_MAP_SUB, (uint32_t[]){x, zero}), x);
  assert_int_not_equal(recipe_map(&r, RECIPE_MAP_SUB, (uint32_t[]){zero, x}), x);
  assert_int_equal(recipe_map(&r, RECIPE_MAP_DIV, (uint32_t[]){x, one}), x);
  assert_int_equal(recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){one, x}), x);
  assert_int_equal(recipe_map(&r, RECIPE_MAP_AND, (uint32_t[]){x, scalar(DTYPE_INT16, -1)}), x);
  assert_int_not_equal(recipe_map(&r, RECIPE_MAP_ADD, (uint32_t[]){x, one}), x);
  // Not where the result is larger, nor where a NaN would keep its payload.
  assert_int_not_equal(recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){x, ones}), x);
  const uint32_t w = weight(3, 5);
  const uint32_t unit = scalar(DTYPE_FLOAT, 0x3f800000);
  const uint32_t product = recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){w, unit}); // moves the rows
  assert_int_equal(r.rows[product].kind, RECIPE_MAP);
}

static void what_moves_elements_comes_out_above_a_map(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0};
  const uint32_t w = weight(3, 5), t = recipe_transpose(&r, w, swap); // [5,3]
  const uint32_t wide = recipe_reshape(&r, weight(1, 5), (int64_t[]){5}, 1);
  const uint32_t tall = recipe_reshape(&r, wide, (int64_t[]){5, 1}, 2);
  const uint32_t unit = recipe_fill(&r, DTYPE_FLOAT, (int64_t[]){1, 1, 1}, 3, span_of("\0\0\1", 4));
  const uint32_t plain = recipe_fill(&r, DTYPE_FLOAT, NULL, 0, span_of("\0\0\1", 4));
  // A vector along the transposed matrix' rows is one along the matrix' columns.
  const uint32_t made = recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){t, tall});
  const uint32_t below = recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){w, wide});
  assert_int_equal(made, recipe_transpose(&r, below, swap));
  assert_int_equal(r.rows[below].kind, RECIPE_MAP);
  assert_int_equal(r.args[r.rows[below].args], w);
  const uint32_t both = recipe_map(&r, RECIPE_MAP_SUB, (uint32_t[]){t, t});
  assert_int_equal(both,
                   recipe_transpose(&r, recipe_map(&r, RECIPE_MAP_SUB, (uint32_t[]){w, w}), swap));
  // A matrix that is not transposed alike stays where it is.
  const uint32_t mixed = recipe_map(&r, RECIPE_MAP_SUB, (uint32_t[]){t, weight(5, 3)});
  assert_int_equal(r.rows[mixed].kind, RECIPE_MAP);
  assert_int_equal(r.args[r.rows[mixed].args], t);
  // Unit axes and reshapes.
  const uint32_t neg = recipe_map(&r, RECIPE_MAP_NEG, (uint32_t[]){w});
  const int64_t flat[1] = {15}, deep[4] = {1, 1, 3, 5};
  assert_int_equal(recipe_map(&r, RECIPE_MAP_NEG, (uint32_t[]){recipe_reshape(&r, w, deep, 4)}),
                   recipe_reshape(&r, neg, deep, 4));
  const uint32_t line = recipe_reshape(&r, t, flat, 1);
  assert_int_equal(
      recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){line, plain}),
      recipe_reshape(&r, recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){t, plain}), flat, 1));
  const uint32_t higher = recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){w, unit});
  assert_int_equal(r.rows[higher].rank, 3);
  assert_int_equal(r.args[r.rows[higher].args],
                   recipe_map(&r, RECIPE_MAP_MUL, (uint32_t[]){w, plain}));
}

static void reductions_lose_their_axes(void **state) {
  (void)state;
  const uint32_t w = weight(3, 5);
  struct recipe_reduction q = {RECIPE_SUM, 1};
  const uint32_t columns = recipe_reduce(&r, w, &q);
  assert_int_equal(r.rows[columns].rank, 1);
  assert_int_equal(recipe_dims(&r, columns)[0], 5);
  assert_int_equal(recipe_reduction_of(&r, columns).axes, 1);
  q.axes = 3;
  const uint32_t all = recipe_reduce(&r, w, &q);
  assert_int_equal(r.rows[all].rank, 0);
  assert_int_equal(r.rows[all].bytes, 4);
  q.axes = 4;
  assert_false(recipe_can_reduce(&r, w, &q));
  q.axes = 0;
  assert_false(recipe_can_reduce(&r, w, &q));
  q.axes = 1;
  assert_false(recipe_can_reduce(&r, weight(0, 5), &q));
  assert_false(recipe_can_reduce(
      &r, recipe_convert(&r, w, &(struct recipe_conversion){.to = DTYPE_BOOL}), &q));
}

static void gathers_by_known_indices_are_slices_where_they_can_be(void **state) {
  (void)state;
  const uint32_t w = weight(3, 5);
  const uint32_t back = numbers(DTYPE_INT32, (int64_t[]){-1, -3}, 2);
  const uint32_t odd = numbers(DTYPE_INT32, (int64_t[]){0, 3, -1}, 3);
  const int64_t starts[2] = {0, 4}, steps[2] = {1, -2}, dims[2] = {3, 2};
  assert_int_equal(recipe_gather(&r, w, back, 1), recipe_slice(&r, w, starts, steps, dims));
  const uint32_t one = recipe_gather(&r, w, scalar(DTYPE_INT64, 2), 0);
  assert_int_equal(r.rows[one].kind, RECIPE_RESHAPE);
  assert_int_equal(r.rows[one].rank, 1);
  const uint32_t made = recipe_gather(&r, w, odd, 1);
  assert_int_equal(r.rows[made].kind, RECIPE_GATHER);
  assert_int_equal(recipe_axis_of(&r, made), 1);
  assert_int_equal(r.args[r.rows[made].args + 1], numbers(DTYPE_INT64, (int64_t[]){0, 3, 4}, 3));
  assert_int_equal(recipe_gather(&r, w, numbers(DTYPE_INT64, (int64_t[]){0, 3, 4}, 3), 1), made);
  // Indices that come from a file take the place of the axis.
  struct piece p = {.at = {0, 96, 1}, .count = 96, .checkpoint = NO_ID};
  const uint32_t read =
      recipe_extent(&r, DTYPE_INT64, (int64_t[]){4, 3}, 2, ENCODING_RAW, &p, 1, NULL);
  const uint32_t table = recipe_gather(&r, w, read, 0);
  assert_int_equal(r.rows[table].rank, 3);
  assert_int_equal(recipe_dims(&r, table)[1], 3);
  assert_int_equal(recipe_dims(&r, table)[2], 5);
  assert_false(recipe_can_gather(&r, w, numbers(DTYPE_INT64, (int64_t[]){3}, 1), 0));
  assert_false(recipe_can_gather(&r, w, numbers(DTYPE_INT64, (int64_t[]){-4}, 1), 0));
  assert_false(recipe_can_gather(&r, w, numbers(DTYPE_INT16, (int64_t[]){1}, 1), 0));
  assert_false(recipe_can_gather(&r, w, odd, 2));
  const int64_t many[1] = {RECIPE_INDEX_BYTES / 8 + 1};
  assert_false(recipe_can_gather(
      &r, w, recipe_fill(&r, DTYPE_INT64, many, 1, span_of("\0\0\0\0\0\0\0", 8)), 0));
}

static void dequantization_undoes_layouts_too(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0};
  const uint32_t w = weight(3, 5);
  const struct recipe_quantization a = {.format = FORMAT_AFFINE, .bits = 8, .axis = 0};
  const uint32_t codes = recipe_quantize(&r, w, &a, PART_CODES);
  struct recipe_dequantization q = {.scales = recipe_quantize(&r, w, &a, PART_SCALES),
                                    .zeros = recipe_quantize(&r, w, &a, PART_ZEROS)};
  const uint32_t back = recipe_dequantize(&r, codes, &q);
  assert_int_equal(r.rows[back].dtype, DTYPE_FLOAT);
  assert_int_equal(recipe_dims(&r, back)[1], 5);
  assert_int_equal(recipe_dequantization_of(&r, back).zeros, q.zeros);
  q.axis = 1;
  assert_false(recipe_can_dequantize(&r, codes, &q));
  assert_int_equal(recipe_dequantize(&r, recipe_transpose(&r, codes, swap), &q),
                   recipe_transpose(&r, back, swap));
  q.axis = 0;
  q.zeros = numbers(DTYPE_UINT8, (int64_t[]){1, 2}, 2);
  assert_false(recipe_can_dequantize(&r, codes, &q));
  q.zeros = numbers(DTYPE_INT8, (int64_t[]){1, 2, 3}, 3);
  assert_false(recipe_can_dequantize(&r, codes, &q));
  assert_false(recipe_can_dequantize(&r, w, &q));
  q = (struct recipe_dequantization){
      .scales = recipe_reshape(&r, scalar(DTYPE_BFLOAT16, 3), (int64_t[]){1}, 1),
      .zeros = NO_ID,
      .axis = RECIPE_PER_TENSOR};
  const uint32_t whole = recipe_dequantize(&r, codes, &q);
  assert_int_equal(r.rows[whole].dtype, DTYPE_BFLOAT16);
  assert_int_equal(r.args[r.rows[whole].args + 1], scalar(DTYPE_BFLOAT16, 3));
  const int64_t flat[1] = {15};
  const uint32_t turned = recipe_transpose(&r, codes, swap);
  assert_int_equal(recipe_dequantize(&r, recipe_reshape(&r, turned, flat, 1), &q),
                   recipe_reshape(&r, recipe_transpose(&r, whole, swap), flat, 1));
  q.block = 4;
  assert_false(recipe_can_dequantize(&r, codes, &q));
}

static void linear_quantization_moves_to_where_its_operand_lies(void **state) {
  (void)state;
  static const int64_t swap[2] = {1, 0}, flat[1] = {15}, thin[3] = {5, 1, 3};
  const uint32_t w = weight(3, 5), t = recipe_transpose(&r, w, swap);
  struct recipe_quantization q = {
      .format = FORMAT_LINEAR, .type = DTYPE_INT8, .symmetric = true, .axis = 0, .bits = 17};
  struct recipe_quantization turned = q, back;
  turned.axis = 1;
  assert_true(recipe_can_quantize(&r, w, &q, PART_ZEROS));
  const uint32_t codes = recipe_quantize(&r, w, &q, PART_CODES);
  const uint32_t scales = recipe_quantize(&r, w, &q, PART_SCALES);
  assert_type(codes, DTYPE_INT8, 2, (int64_t[]){3, 5});
  assert_type(scales, DTYPE_FLOAT, 1, (int64_t[]){3});
  // Zero points that are known: none for the codes.
  assert_int_equal(r.rows[recipe_quantize(&r, w, &q, PART_ZEROS)].kind, RECIPE_FILL);
  assert_int_equal(recipe_quantize_linear_of(&r, codes).zeros, NO_ID);
  assert_int_equal(recipe_quantize_linear_of(&r, codes).scales, scales);
  assert_true(recipe_quantize_linear_found(&r, codes, &back));
  assert_int_equal(back.bits, 8);
  assert_int_equal(recipe_quantize(&r, t, &turned, PART_CODES), recipe_transpose(&r, codes, swap));
  assert_int_equal(recipe_quantize(&r, t, &turned, PART_SCALES), scales);
  turned.axis = 2;
  assert_int_equal(recipe_quantize(&r, recipe_reshape(&r, t, thin, 3), &turned, PART_CODES),
                   recipe_reshape(&r, recipe_transpose(&r, codes, swap), thin, 3));
  turned.axis = 1;
  // An axis that is gone is none to go below.
  const struct recipe_linear by = {.type = DTYPE_INT8,
                                   .scales = scalar(DTYPE_FLOAT, 1),
                                   .zeros = scalar(DTYPE_INT8, 1),
                                   .axis = RECIPE_PER_TENSOR};
  const uint32_t given = recipe_quantize_linear(&r, w, &by);
  assert_false(recipe_quantize_linear_found(&r, given, &back));
  assert_int_equal(recipe_quantize_linear(&r, recipe_reshape(&r, t, flat, 1), &by),
                   recipe_reshape(&r, recipe_transpose(&r, given, swap), flat, 1));
  // Scales of blocks lie as the operand does.
  q.block = 2;
  q.symmetric = turned.symmetric = false;
  turned.block = 2;
  for (enum recipe_part part = PART_CODES; part <= PART_ZEROS; part++)
    assert_int_equal(recipe_quantize(&r, t, &turned, part),
                     recipe_transpose(&r, recipe_quantize(&r, w, &q, part), swap));
  assert_type(recipe_quantize(&r, w, &q, PART_SCALES), DTYPE_FLOAT, 2, (int64_t[]){2, 5});
  // The sum of a deviation depends on the order of elements.
  q = (struct recipe_quantization){
      .format = FORMAT_LINEAR, .type = DTYPE_FLOAT8E4M3FN, .axis = RECIPE_PER_TENSOR};
  assert_int_not_equal(recipe_quantize(&r, w, &q, PART_SCALES),
                       recipe_quantize(&r, t, &q, PART_SCALES));
}

// What there is a row for is what there is a kernel for.
static void what_can_be_asked_for_can_be_computed(void **state) {
  (void)state;
  assert_int_equal(RECIPE_MAP_OPS, KERNELS_MAPS);
  assert_int_equal(RECIPE_MAP_WHERE, KERNELS_WHERE);
  assert_int_equal(RECIPE_MAP_RELU, KERNELS_RELU);
  assert_int_equal(RECIPE_SUM_SQUARE, KERNELS_SUM_SQUARES);
  assert_int_equal(RECIPE_MIN, KERNELS_LEAST);
  assert_int_equal(RECIPE_ROUND_NEAREST, KERNELS_ROUND_NEAREST);
  for (int64_t t = 0; t <= DTYPE_FLOAT6E3M2; t++) {
    const enum dtype type = (enum dtype)t;
    for (int op = 0; op < KERNELS_MAPS; op++) {
      assert_int_equal(recipe_map_operands((enum recipe_map_op)op),
                       kernels_map_operands((enum kernels_map)op));
      if (recipe_map_result((enum recipe_map_op)op, type) !=
          kernels_map_result((enum kernels_map)op, type))
        fail_msg("%s of %s", recipe_map_name((uint32_t)op), dtype_name(type));
    }
    assert_int_equal(recipe_can_convert(type, DTYPE_FLOAT), kernels_convert_takes(type));
    if (dtype_bits(type) == 0) continue;
    const struct kernels_dequantized d = {
        .codes = (uint8_t)type, .scales = DTYPE_FLOAT, .out = DTYPE_FLOAT};
    const uint8_t element[16] = {0};
    const uint32_t codes =
        recipe_fill(&r, type, (int64_t[]){4}, 1, span_of(element, (dtype_bits(type) + 7) / 8));
    const struct recipe_dequantization q = {
        .scales = scalar(DTYPE_FLOAT, 1), .zeros = NO_ID, .axis = RECIPE_PER_TENSOR};
    if (recipe_can_dequantize(&r, codes, &q) != kernels_dequantize_takes(&d))
      fail_msg("codes of %s", dtype_name(type));
  }
}

static void casts_go_between_all_numbers(void **state) {
  (void)state;
  const uint32_t w = weight(3, 5);
  assert_true(recipe_can_convert(DTYPE_BOOL, DTYPE_FLOAT6E2M3));
  assert_false(recipe_can_convert(DTYPE_FLOAT, DTYPE_STRING));
  assert_false(recipe_can_convert(DTYPE_COMPLEX64, DTYPE_FLOAT));
  assert_false(recipe_can_cast(DTYPE_FLOAT, DTYPE_INT8));
  const uint32_t codes = recipe_cast(&r, w, DTYPE_INT4);
  assert_int_equal(r.rows[codes].bytes, 8);
  // What does not matter to the type makes no other row.
  const struct recipe_conversion odd = {.to = DTYPE_INT4, .round = RECIPE_ROUND_NEAREST};
  assert_int_equal(recipe_convert(&r, w, &odd), codes);
  const struct recipe_conversion narrow = {.to = DTYPE_FLOAT8E4M3FN};
  assert_int_not_equal(recipe_convert(&r, w, &narrow), recipe_cast(&r, w, DTYPE_FLOAT8E4M3FN));
  assert_false(recipe_conversion_of(&r, recipe_convert(&r, w, &narrow)).saturates);
}

#define QUANTIZE(part, format, rest)                                                               \
  "{\"quantize\":0,\"part\":\"" part "\",\"format\":\"" format "\"," rest "}"

// Everything here must be refused, whatever the constructors would assert.
static const char *const refused[] = {
    "[]",
    "{}",
    "{\"extent\":[[0,0,60]],\"encoding\":\"raw\",\"dtype\":\"float\",\"dims\":[3,5,2]}",
    "{\"extent\":[[0,990,60]],\"encoding\":\"raw\",\"dtype\":\"float\",\"dims\":[3,5]}",
    "{\"extent\":[[2,0,60]],\"encoding\":\"raw\",\"dtype\":\"float\",\"dims\":[3,5]}",
    "{\"extent\":[[0,0,60]],\"encoding\":\"raw\",\"dtype\":\"float\",\"dims\":[-3,5]}",
    "{\"extent\":[[0,0,60]],\"encoding\":\"raw\",\"dtype\":\"string\",\"dims\":[3,5]}",
    "{\"extent\":[[0,0,60]],\"encoding\":\"odd\",\"dtype\":\"float\",\"dims\":[3,5]}",
    "{\"extent\":[[0,0,60]],\"encoding\":\"fixed32\",\"dtype\":\"float\",\"dims\":[3,5]}",
    "{\"extent\":[[0,0,60,15,1]],\"encoding\":\"fixed32\",\"dtype\":\"float\",\"dims\":[3,5]}",
    "{\"extent\":[[0,10,4,1,0]],\"encoding\":\"fixed32\",\"dtype\":\"int8\",\"dims\":[6]}",
    "{\"extent\":[[0,10,8,1,0]],\"encoding\":\"fixed64\",\"dtype\":\"float\",\"dims\":[2]}",
    "{\"extent\":[[0,10,2,2,0,[0]]],\"encoding\":\"varint\",\"dtype\":\"complex128\",\"dims\":[2]}",
    "{\"extent\":[[0,0,60,60,0,[7]]],\"encoding\":\"varint\",\"dtype\":\"int64\",\"dims\":[61]}",
    "{\"extent\":[[0,0,60,60,0,[70]]],\"encoding\":\"varint\",\"dtype\":\"int64\",\"dims\":[60]}",
    "{\"extent\":[],\"encoding\":\"raw\",\"dtype\":\"float\",\"dims\":[\"4611686018427387904\",8]}",
    "{\"bytes\":\"00\",\"dtype\":\"float\",\"dims\":[]}",
    "{\"bytes\":\"0g000000\",\"dtype\":\"float\",\"dims\":[]}",
    "{\"fill\":\"0000\",\"dtype\":\"float\",\"dims\":[4]}",
    "{\"transpose\":0,\"perm\":[0,0]}",
    "{\"transpose\":0,\"perm\":[0,2]}",
    "{\"transpose\":0,\"perm\":[1]}",
    "{\"transpose\":1,\"perm\":[1,0]}",
    "{\"transpose\":-1,\"perm\":[1,0]}",
    "{\"reshape\":0,\"dims\":[16]}",
    "{\"slice\":0,\"starts\":[0,0],\"steps\":[1,0],\"dims\":[1,1]}",
    "{\"slice\":0,\"starts\":[0,0],\"steps\":[1,1],\"dims\":[1,6]}",
    "{\"slice\":0,\"starts\":[0,9007199254740991],\"steps\":[1,1],\"dims\":[1,9007199254740991]}",
    "{\"slice\":0,\"starts\":[0,-1],\"steps\":[1,1],\"dims\":[1,1]}",
    "{\"slice\":0,\"starts\":[0],\"steps\":[1],\"dims\":[1]}",
    "{\"concat\":[],\"axis\":0}",
    "{\"concat\":[0,0],\"axis\":2}",
    "{\"pad\":0,\"befores\":[-1,0],\"afters\":[0,0],\"value\":\"00000000\"}",
    "{\"pad\":0,\"befores\":[\"9223372036854775807\",0],\"afters\":[1,0],\"value\":\"00000000\"}",
    "{\"pad\":0,\"befores\":[1,0],\"afters\":[1,0],\"value\":\"0000\"}",
    "{\"cast\":0,\"to\":\"complex64\"}",
    "{\"cast\":0,\"to\":\"nonsense\"}",
    "{\"cast\":0,\"to\":\"float16\",\"clip\":1}",
    QUANTIZE("middle", "nbits", "\"bits\":4,\"symmetric\":false,\"axis\":0,\"block\":16"),
    QUANTIZE("codes", "bits", "\"bits\":4,\"symmetric\":false,\"axis\":0,\"block\":16"),
    QUANTIZE("codes", "nbits", "\"bits\":3,\"symmetric\":false,\"axis\":0,\"block\":16"),
    QUANTIZE("codes", "nbits", "\"bits\":4,\"axis\":0,\"block\":16"),
    QUANTIZE("codes", "nbits", "\"bits\":4,\"symmetric\":false,\"axis\":0"),
    QUANTIZE("codes", "nbits", "\"bits\":4,\"symmetric\":false,\"axis\":2,\"block\":16"),
    QUANTIZE("codes", "nbits", "\"bits\":4,\"symmetric\":false,\"block\":16"),
    QUANTIZE("zeros", "nbits", "\"bits\":4,\"symmetric\":true,\"axis\":0,\"block\":16"),
    QUANTIZE("scales", "levels", "\"bits\":0,\"symmetric\":false,\"block\":0,\"levels\":4"),
    QUANTIZE("codes", "levels", "\"bits\":0,\"symmetric\":false,\"block\":0"),
    QUANTIZE("codes", "qdq", "\"bits\":4294967300,\"symmetric\":false,\"axis\":0,\"block\":1"),
    "{\"cast\":0,\"to\":\"int8\",\"clip\":true}",
    "{\"cast\":0,\"to\":\"float8e8m0\",\"round\":\"even\"}",
    "{\"cast\":0,\"to\":\"float8e8m0\",\"saturate\":0}",
    "{\"map\":[0],\"op\":\"add\"}",
    "{\"map\":[0,0],\"op\":\"and\"}",
    "{\"map\":[0,0],\"op\":\"nonsense\"}",
    "{\"map\":[0,1],\"op\":\"add\"}",
    "{\"map\":0,\"op\":\"neg\"}",
    "{\"map\":[0]}",
    "{\"reduce\":0,\"op\":\"sum\",\"axes\":[]}",
    "{\"reduce\":0,\"op\":\"sum\",\"axes\":[2]}",
    "{\"reduce\":0,\"op\":\"sum\",\"axes\":[1,0]}",
    "{\"reduce\":0,\"op\":\"sum\",\"axes\":[64]}",
    "{\"reduce\":0,\"op\":\"mean\",\"axes\":[1]}",
    "{\"gather\":[0],\"axis\":0}",
    "{\"gather\":[0,0],\"axis\":0}",
    "{\"dequantize\":[0,0]}",
    "{\"dequantize\":[0],\"axis\":0}",
    "{\"quantize_linear\":[0],\"to\":\"int8\"}",
    "{\"quantize_linear\":[0,0],\"to\":\"int8\"}",
    "{\"quantize_linear\":[0,0],\"to\":\"int8\",\"axis\":2,\"block\":1}",
    "{\"quantize_linear\":[0,0],\"to\":\"int8\",\"axis\":1,\"block\":\"18446744073709551615\"}",
    "{\"quantize_linear\":[0,0],\"to\":\"int64\",\"axis\":1,\"block\":1}",
    "{\"quantize_linear\":[0,0],\"to\":\"bool\",\"axis\":1,\"block\":1}",
    "{\"quantize_linear\":[0,0,0],\"to\":\"int8\",\"axis\":1,\"block\":1}",
    "{\"quantize_linear\":[0,0,0,0],\"to\":\"int8\",\"axis\":1,\"block\":1}",
    QUANTIZE("scales", "linear", "\"bits\":8,\"symmetric\":true,\"block\":0"),
    QUANTIZE("scales", "linear", "\"bits\":8,\"symmetric\":true,\"block\":0,\"type\":\"float\""),
    QUANTIZE("scales", "linear",
             "\"bits\":8,\"symmetric\":true,\"block\":0,\"type\":\"undefined\""),
    QUANTIZE("scales", "linear", "\"bits\":8,\"symmetric\":true,\"block\":2,\"type\":\"int8\""),
    QUANTIZE("scales", "linear",
             "\"bits\":8,\"symmetric\":true,\"axis\":2,\"block\":0,\"type\":\"int8\""),
    QUANTIZE(
        "scales", "linear",
        "\"bits\":8,\"symmetric\":false,\"block\":0,\"type\":\"float8e4m3fn\",\"reduced\":true"),
    QUANTIZE("scales", "linear",
             "\"bits\":8,\"symmetric\":false,\"axis\":1,\"block\":2,\"type\":\"float8e4m3fn\""),
    QUANTIZE("scales", "linear",
             "\"bits\":8,\"symmetric\":1,\"block\":0,\"type\":\"int8\",\"guarded\":1"),
    QUANTIZE("scales", "linear",
             "\"bits\":8,\"symmetric\":true,\"block\":0,\"type\":\"int8\",\"subnormal\":true"),
    "{\"cast\":0,\"to\":\"float8e5m2\",\"saturated\":false}",
    "{\"cast\":0,\"to\":\"int8\",\"transpose\":0,\"perm\":[1,0]}",
    // not canonical: equals the operand, or an earlier row
    "{\"transpose\":0,\"perm\":[0,1]}",
    "{\"extent\":[[1,64,60]],\"encoding\":\"raw\",\"dtype\":\"float\",\"dims\":[3,5]}",
};

static void bad_rows_are_refused(void **state) {
  (void)state;
  weight(3, 5);
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    struct err err = {0};
    struct json_value *v = json_parse(span_str(refused[i]), "row", &err);
    assert_non_null(v);
    if (recipe_json_read_row(&r, v, 2, sizes, &err) == 0) fail_msg("accepted: %s", refused[i]);
    assert_int_equal(err.kind, ERR_MODEL);
    assert_true(err.msg[0] != '\0');
    json_free(v);
    assert_int_equal(r.n_rows, 1);
  }
}

// int2 codes whose bytes can be counted, and those of the floats they stand for cannot.
static void sizes_that_cannot_be_counted_are_refused(void **state) {
  (void)state;
  const uint32_t codes =
      recipe_fill(&r, DTYPE_INT2, (int64_t[]){(int64_t)1 << 61}, 1, span_of("\1", 1));
  const struct recipe_dequantization q = {
      .scales = scalar(DTYPE_FLOAT, 1), .zeros = NO_ID, .axis = RECIPE_PER_TENSOR};
  assert_false(recipe_can_dequantize(&r, codes, &q));
}

// Transposes and reshapes by turns: a chain of them costs no stack.
static void quantization_by_given_scales_goes_below_any_number_of_moves(void **state) {
  (void)state;
  enum { MOVES = 200000 };
  static const int64_t swap[2] = {1, 0}, dims[2] = {3, 5};
  const struct recipe_linear by = {.type = DTYPE_INT8,
                                   .scales = scalar(DTYPE_FLOAT, 1),
                                   .zeros = scalar(DTYPE_INT8, 1),
                                   .axis = RECIPE_PER_TENSOR};
  const uint32_t w = weight(3, 5);
  uint32_t moved = w, codes = recipe_quantize_linear(&r, w, &by);
  for (uint32_t i = 0; i < MOVES; i++)
    moved = recipe_reshape(&r, recipe_transpose(&r, moved, swap), dims, 2);
  const uint32_t given = recipe_quantize_linear(&r, moved, &by);
  assert_int_equal(r.rows[moved].depth, 1 + 2 * MOVES);
  for (uint32_t i = 0; i < MOVES; i++)
    codes = recipe_reshape(&r, recipe_transpose(&r, codes, swap), dims, 2);
  assert_int_equal(given, codes);
}

static uint32_t roots(uint32_t of, uint32_t n) {
  for (; n > 0; n--)
    of = recipe_map(&r, n % 2 ? RECIPE_MAP_SQRT : RECIPE_MAP_NEG, (uint32_t[]){of});
  return of;
}

// What a log may say has an end; what passes make ends well before it.
static void recipes_too_deep_within_each_other_are_refused(void **state) {
  (void)state;
  struct err err = {0};
  const uint32_t w = weight(3, 5), deepest = roots(w, RECIPE_MAX_DEPTH - 1);
  assert_int_equal(r.rows[w].depth, 1);
  assert_int_equal(r.rows[deepest].depth, RECIPE_MAX_DEPTH);
  assert_true(recipe_can_grow(&r, roots(w, 2)));
  assert_false(recipe_can_grow(&r, roots(w, RECIPE_MAX_DEPTH / 2)));
  const uint32_t before = r.n_rows;
  char line[64];
  snprintf(line, sizeof line, "{\"map\":[%u],\"op\":\"abs\"}", deepest);
  struct json_value *v = json_parse(span_str(line), "row", &err);
  assert_int_equal(recipe_json_read_row(&r, v, 2, sizes, &err), -1);
  assert_string_equal(err.msg, "recipes are nested more than 31 deep");
  assert_int_equal(r.n_rows, before);
  json_free(v);
}

int test_recipe(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(equal_recipes_are_one, setup, teardown),
      cmocka_unit_test_setup_teardown(parts_of_rows_found_again_are_taken_back, setup, teardown),
      cmocka_unit_test_setup_teardown(transposes_compose, setup, teardown),
      cmocka_unit_test_setup_teardown(moving_unit_axes_is_a_reshape, setup, teardown),
      cmocka_unit_test_setup_teardown(what_does_nothing_vanishes, setup, teardown),
      cmocka_unit_test_setup_teardown(ranks_past_the_limit_are_flattened, setup, teardown),
      cmocka_unit_test_setup_teardown(only_plain_bytes_are_copies, setup, teardown),
      cmocka_unit_test_setup_teardown(parts_of_nbits_have_their_types, setup, teardown),
      cmocka_unit_test_setup_teardown(parts_of_the_others_have_their_types, setup, teardown),
      cmocka_unit_test_setup_teardown(quantizing_a_turned_matrix_turns_the_axis, setup, teardown),
      cmocka_unit_test_setup_teardown(formats_that_keep_layout_go_below_what_moves_elements, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(scales_of_a_tensor_do_not_move, setup, teardown),
      cmocka_unit_test_setup_teardown(what_does_not_matter_makes_no_other_row, setup, teardown),
      cmocka_unit_test_setup_teardown(what_cannot_be_quantized_is_known, setup, teardown),
      cmocka_unit_test_setup_teardown(linear_quantization_moves_to_where_its_operand_lies, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(quantization_by_given_scales_goes_below_any_number_of_moves,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(maps_broadcast_and_have_types, setup, teardown),
      cmocka_unit_test_setup_teardown(maps_that_change_nothing_vanish, setup, teardown),
      cmocka_unit_test_setup_teardown(what_moves_elements_comes_out_above_a_map, setup, teardown),
      cmocka_unit_test_setup_teardown(reductions_lose_their_axes, setup, teardown),
      cmocka_unit_test_setup_teardown(gathers_by_known_indices_are_slices_where_they_can_be, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(dequantization_undoes_layouts_too, setup, teardown),
      cmocka_unit_test_setup_teardown(what_can_be_asked_for_can_be_computed, setup, teardown),
      cmocka_unit_test_setup_teardown(casts_go_between_all_numbers, setup, teardown),
      cmocka_unit_test_setup_teardown(rows_read_back_as_they_were, setup, teardown),
      cmocka_unit_test_setup_teardown(nested_form_reads_back, setup, teardown),
      cmocka_unit_test_setup_teardown(bad_rows_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(sizes_that_cannot_be_counted_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(recipes_too_deep_within_each_other_are_refused, setup,
                                      teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
