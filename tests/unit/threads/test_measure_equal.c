// Telling equal tensors: who is read whole, how many bytes are read, for any number of workers; tensors
// of all sizes around that of the sample; pieces of the sample reach from end to end.
#include "stream/measure/measure_equal.h"
#include "toy.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { SAMPLE = CONTENT_HASH_SAMPLE_BYTES, LARGE = 1 << 20, ROOM = 8 << 20, MOST = 16 };

struct fixture {
  struct toy toy;
  struct sources *sources;
  struct recipes r;
  uint8_t *data;
  uint64_t end;
  uint32_t of[MOST], n;
  struct content_hash out[MOST];
};

static void open_fixture(struct fixture *f) {
  *f = (struct fixture){0};
  toy_open(&f->toy);
  f->data = calloc(1, ROOM);
  recipes_init(&f->r);
}

static uint32_t tensor(struct fixture *f, enum dtype dtype, uint64_t off, uint64_t bytes) {
  const int64_t dims[1] = {(int64_t)(bytes * 8 / dtype_bits(dtype))};
  const struct piece p = {.at = {off, bytes, 1}, .count = (uint64_t)dims[0], .checkpoint = NO_ID};
  return recipe_extent(&f->r, dtype, dims, 1, ENCODING_RAW, &p, 1, NULL);
}

// One more question: a tensor of so many bytes, zeros but for a byte (NO_ID: none), behind the others.
static void add(struct fixture *f, uint64_t bytes, uint32_t one_at) {
  if (one_at != NO_ID) f->data[f->end + one_at] = 1;
  f->of[f->n++] = tensor(f, DTYPE_UINT8, f->end, bytes);
  f->end += round_up(bytes, 4096);
  assert_true(f->end <= ROOM);
}

static uint64_t run(struct fixture *f, uint32_t jobs) {
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
  toy_must(measure_equal_run(&f->r, f->sources, f->of, f->n, &options, f->out, &stats, &err) == 0,
           err.msg);
  return stats.source_bytes_read;
}

static void close_fixture(struct fixture *f) {
  recipes_free(&f->r);
  sources_close(f->sources);
  free(f->data);
  toy_close(&f->toy);
}

static bool equal(const struct fixture *f, uint32_t i, uint32_t k) {
  return f->out[i].whole && f->out[k].whole &&
         memcmp(f->out[i].all, f->out[k].all, DIGEST_BYTES) == 0;
}

static void test_what_is_read(void **state) {
  (void)state;
  struct fixture f;
  struct content_hash first[MOST];
  open_fixture(&f);
  add(&f, LARGE, NO_ID);
  add(&f, LARGE, NO_ID);                          // equal
  add(&f, LARGE, 100000);                         // like it in the sample, but not equal
  add(&f, LARGE, 3);                              // not like any other
  add(&f, LARGE - 1, NO_ID);                      // of other dims
  f.of[f.n++] = tensor(&f, DTYPE_INT8, 0, LARGE); // of another type
  assert_int_equal(run(&f, 1), 6 * SAMPLE + 3 * LARGE);
  assert_true(equal(&f, 0, 1));
  assert_true(f.out[2].whole && !equal(&f, 0, 2));
  for (uint32_t i = 3; i < 6; i++)
    assert_false(f.out[i].whole);
  memcpy(first, f.out, sizeof first);
  for (uint32_t jobs = 2; jobs <= 4; jobs++) {
    assert_int_equal(run(&f, jobs), 6 * SAMPLE + 3 * LARGE);
    for (uint32_t i = 0; i < f.n; i++) {
      assert_memory_equal(first[i].sample, f.out[i].sample, DIGEST_BYTES);
      assert_int_equal(first[i].whole, f.out[i].whole);
      if (first[i].whole) assert_memory_equal(first[i].all, f.out[i].all, DIGEST_BYTES);
    }
  }
  close_fixture(&f);
}

static void test_sizes_around_the_sample(void **state) {
  (void)state;
  struct fixture f;
  open_fixture(&f);
  for (uint32_t i = 0; i < 2; i++) {
    add(&f, 1, NO_ID);
    add(&f, SAMPLE, NO_ID);
    add(&f, SAMPLE + 1, NO_ID);
  }
  add(&f, SAMPLE, SAMPLE - 1);
  add(&f, SAMPLE + 1, SAMPLE);
  // The small ones are read once; of those one byte larger, the two that agree once more.
  assert_int_equal(run(&f, 1), 2 * 1 + 3 * SAMPLE + 3 * SAMPLE + 2 * (SAMPLE + 1));
  for (uint32_t i = 0; i < 3; i++)
    assert_true(equal(&f, i, i + 3));
  assert_true(f.out[6].whole && !equal(&f, 1, 6));
  assert_false(f.out[7].whole); // its last byte is in the sample
  close_fixture(&f);
}

static void test_nothing_to_read(void **state) {
  (void)state;
  struct fixture f;
  const int64_t none[2] = {0, 4};
  open_fixture(&f);
  f.of[f.n++] = recipe_bytes(&f.r, DTYPE_FLOAT, none, 2, span_of(NULL, 0));
  assert_int_equal(run(&f, 2), 0);
  assert_true(equal(&f, 0, 0));
  f.n = 0;
  assert_int_equal(run(&f, 2), 0);
  close_fixture(&f);
}

static void test_stopped(void **state) {
  (void)state;
  struct fixture f;
  struct err err = {0};
  struct measure_stats stats;
  const volatile int stop = 1;
  open_fixture(&f);
  add(&f, LARGE, NO_ID);
  run(&f, 1);
  const struct work_options options = {.jobs = 1, .mode = IO_SYNC, .stop = &stop};
  assert_int_equal(measure_equal_run(&f.r, f.sources, f.of, f.n, &options, f.out, &stats, &err),
                   -1);
  assert_int_equal(err.kind, ERR_RETRY);
  close_fixture(&f);
}

int test_measure_equal(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_read),
      cmocka_unit_test(test_sizes_around_the_sample),
      cmocka_unit_test(test_nothing_to_read),
      cmocka_unit_test(test_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
