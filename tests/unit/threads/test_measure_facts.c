// Facts of tensors: what is found of elements of every type, in several parts, by any number of
// workers; and how much is read to tell multiples.
#include "stream/measure/measure_facts.h"
#include "toy.h"

#include <math.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { ROOM = 40 << 20, MOST = 16 };

struct fixture {
  struct toy toy;
  struct sources *sources;
  struct recipes r;
  uint8_t *data;
  uint64_t end;
  uint32_t of[MOST], n;
  struct tensor_stats out[MOST];
};

static void open_fixture(struct fixture *f) {
  *f = (struct fixture){0};
  toy_open(&f->toy);
  f->data = calloc(1, ROOM);
  recipes_init(&f->r);
}

// One more question: the elements of a matrix, which are put down.
static uint8_t *add(struct fixture *f, enum dtype dtype, int64_t rows, int64_t columns) {
  const uint64_t bytes = (uint64_t)(rows * columns) * dtype_bits(dtype) / 8;
  const int64_t dims[2] = {rows, columns};
  const struct piece p = {.at = {f->end, bytes, 1}, .count = bytes, .checkpoint = NO_ID};
  f->of[f->n++] = recipe_extent(&f->r, dtype, dims, 2, ENCODING_RAW, &p, 1, NULL);
  uint8_t *at = f->data + f->end;
  f->end += round_up(bytes, 4096);
  assert_true(f->end <= ROOM);
  return at;
}

static void put(uint8_t *at, uint64_t i, float x) {
  memcpy(at + 4 * i, &x, 4);
}

static uint64_t run(struct fixture *f, bool multiples, uint32_t jobs) {
  struct err err = {0};
  struct measure_stats stats;
  uint32_t file;
  char path[200];
  if (!f->sources) {
    toy_write(f->toy.src, "w.data", f->data, ROOM);
    snprintf(path, sizeof path, "%s/in.onnx", f->toy.src);
    toy_must(sources_open(&f->sources, path, &(struct sources_options){0}, &err) == 0, err.msg);
    toy_must(sources_add(f->sources, span_str("w.data"), &file, &err) == 0, err.msg);
  }
  const struct work_options options = {.jobs = jobs, .mode = IO_SYNC};
  memset(f->out, 0x5a, sizeof f->out); // junk: what is not written shows
  toy_must(measure_facts_run(&f->r, f->sources, f->of, f->n, multiples, &options, f->out, &stats,
                             &err) == 0,
           err.msg);
  return stats.source_bytes_read;
}

static void close_fixture(struct fixture *f) {
  recipes_free(&f->r);
  sources_close(f->sources);
  free(f->data);
  toy_close(&f->toy);
}

static void test_what_is_found(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  const float special[] = {1, -0.0f, NAN, INFINITY, -3.5f, 0, 0.25f, -INFINITY};
  uint8_t *at = add(&f, DTYPE_FLOAT, 2, 4);
  for (uint32_t i = 0; i < 8; i++)
    put(at, i, special[i]);
  memcpy(add(&f, DTYPE_INT8, 1, 3), (int8_t[]){-128, 5, 127}, 3);
  memcpy(add(&f, DTYPE_UINT64, 1, 2), (uint64_t[]){UINT64_MAX, 7}, 16);
  memcpy(add(&f, DTYPE_FLOAT16, 1, 2), (uint16_t[]){0x3c00, 0x3c00}, 4);
  add(&f, DTYPE_BOOL, 2, 2);
  add(&f, DTYPE_FLOAT, 0, 7);
  assert_true(measure_facts_can(&f.r, f.of[0]));
  run(&f, false, 1);
  const struct tensor_stats *x = f.out;
  assert_int_equal(x[0].elements, 8);
  assert_int_equal(x[0].zeros, 2);
  assert_int_equal(x[0].nans, 1);
  assert_int_equal(x[0].infinities, 2);
  assert_true(x[0].least == -(double)INFINITY && x[0].most == (double)INFINITY);
  assert_true(x[0].finest == 0.25);
  assert_false(x[0].alike || tensor_stats_finite(&x[0]));
  assert_true(x[1].least == -128 && x[1].most == 127 && x[1].finest == 5);
  assert_true(x[2].most == 0x1p64 && x[2].least == 7);
  assert_true(x[3].alike && x[3].least == 1 && x[3].most == 1);
  assert_true(x[4].alike && x[4].zeros == 4 && !x[4].identity && isinf(x[4].finest));
  assert_true(x[4].least == 0 && !signbit(x[4].least));
  assert_true(x[5].elements == 0 && x[5].alike && x[5].most == -(double)INFINITY);
  close_fixture(&f);
}

// 20 MiB are two parts: what holds of all must hold across them.
static void test_parts_are_joined(void **state) {
  (void)state;
  struct fixture f;
  enum { SIDE = 2290 };
  open_fixture(&f);
  uint8_t *at = add(&f, DTYPE_FLOAT, SIDE, SIDE);
  for (uint64_t i = 0; i < SIDE; i++)
    put(at, i * SIDE + i, 1);
  const uint64_t bytes = (uint64_t)SIDE * SIDE * 4;
  for (uint32_t jobs = 1; jobs <= 3; jobs++) {
    const uint64_t read = run(&f, false, jobs);
    assert_in_range(read, bytes, bytes + 2 * 4096);
    assert_true(f.out[0].identity && !f.out[0].alike);
    assert_int_equal(f.out[0].zeros, (uint64_t)SIDE * (SIDE - 1));
  }
  close_fixture(&f);
  // The same elements, but for the last one: alike in each part, or nearly.
  open_fixture(&f);
  at = add(&f, DTYPE_FLOAT, SIDE, SIDE);
  for (uint64_t i = 0; i < (uint64_t)SIDE * SIDE; i++)
    put(at, i, i < 4u << 20 ? 2 : 4);
  run(&f, true, 2);
  assert_true(!f.out[0].alike && !f.out[0].identity && f.out[0].multiples);
  assert_true(f.out[0].least == 2 && f.out[0].most == 4);
  close_fixture(&f);
}

// Multiples are told by a second read, of finite floats only, that ends where it is seen.
static void test_multiples(void **state) {
  (void)state;
  struct fixture f;
  enum { COUNT = 1 << 20 };
  open_fixture(&f);
  uint8_t *eighths = add(&f, DTYPE_FLOAT, 1, COUNT), *others = add(&f, DTYPE_FLOAT, 1, COUNT);
  for (uint32_t i = 0; i < COUNT; i++) {
    put(eighths, i, (float)(i % 100) / 8);
    put(others, i, 1 + (float)(i % 7) / 10);
  }
  put(add(&f, DTYPE_FLOAT, 1, 2), 1, INFINITY);
  memcpy(add(&f, DTYPE_INT64, 1, 1), (int64_t[]){3}, 8);
  const uint64_t once = run(&f, false, 1), twice = run(&f, true, 1);
  assert_true(f.out[0].multiples && f.out[0].finest == 0.125);
  assert_false(f.out[1].multiples || f.out[2].multiples || f.out[3].multiples);
  assert_in_range(twice - once, 4 * COUNT, 5 * COUNT);
  close_fixture(&f);
}

// Whole is a quotient up to 2^24 that a type's rounding explains: every larger one would be.
static void test_which_quotients_are_whole(void **state) {
  (void)state;
  const double tenth = (double)0.1f;
  assert_true(tensor_stats_multiple((double)(1234567 * 0.1f), tenth));
  assert_true(tensor_stats_multiple(-(1 << 24) * 0x1p-100, 0x1p-100));
  assert_true(tensor_stats_multiple(0, tenth));
  assert_false(tensor_stats_multiple((1 << 24) * 0x1p-100 + 0x1p-99, 0x1p-100));
  assert_false(tensor_stats_multiple(1, 2e-39));
  assert_false(tensor_stats_multiple(1.4e-9, 1e-9));
  assert_false(tensor_stats_multiple(1.00001, 1));
  assert_false(tensor_stats_multiple(8000000.4, 1));
  assert_false(tensor_stats_multiple((double)INFINITY, 1));
  assert_false(tensor_stats_multiple((double)NAN, 1));
}

int test_measure_facts(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_found),
      cmocka_unit_test(test_parts_are_joined),
      cmocka_unit_test(test_multiples),
      cmocka_unit_test(test_which_quotients_are_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
