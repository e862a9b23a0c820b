// Messages: what is sent comes as it was sent; of every message cut short, or with a byte too many, nothing is taken; and
// what is wrong is said with its place.
#include "frames/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static const int64_t two[] = {2}, matrix[] = {1024, 512}, none[] = {0, 7}, unknown[] = {-1, 3};
static const struct span strings[] = {{(const uint8_t *)"a\0b", 3}, {(const uint8_t *)"", 0}};
static const struct frame_array items[] = {
    {.name = "",
     .dtype = DTYPE_INT64,
     .dims = two,
     .rank = 0,
     .bytes = {(const uint8_t *)"12345678", 8}},
    {.name = "",
     .dtype = DTYPE_STRING,
     .dims = two,
     .rank = 1,
     .place = FRAME_STRINGS,
     .strings = strings,
     .n_strings = 2},
};
static const struct frame_array arrays[] = {
    {.name = "small",
     .dtype = DTYPE_FLOAT16,
     .dims = two,
     .rank = 1,
     .bytes = {(const uint8_t *)"abcd", 4}},
    {.name = "large",
     .dtype = DTYPE_FLOAT,
     .dims = matrix,
     .rank = 2,
     .place = FRAME_FILE,
     .offset = 4096,
     .length = 2 << 20},
    {.name = "packed",
     .dtype = DTYPE_INT4,
     .dims = two,
     .rank = 1,
     .bytes = {(const uint8_t *)"x", 1}},
    {.name = "none", .dtype = DTYPE_BOOL, .dims = none, .rank = 2},
    {.name = "sequence", .form = FRAME_SEQUENCE, .items = items, .n_items = 2},
    {.name = "nothing", .form = FRAME_NOTHING},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };
static const struct frame_value values[] = {
    {.name = "x", .dtype = DTYPE_FLOAT, .ranked = true, .rank = 2, .dims = unknown},
    {.name = "s", .form = FRAME_SEQUENCE, .dtype = DTYPE_STRING, .optional = true},
    {.name = "m", .form = FRAME_UNKNOWN},
};
static const char *const words[] = {"one", "", "three"};

static const struct frame frames[] = {
    {FRAME_hello, .hello = {FRAME_PROTOCOL, "/lib/libonnxruntime.so.1", "cuda"}},
    {FRAME_ready, .ready = {FRAME_PROTOCOL, "1.20.1", 20, "/lib/x"}},
    {FRAME_open, .open = {"m.onnx", "data", 4, 1, {words, 3}}},
    {FRAME_opened, .opened = {7, {values, 3}, {values, 1}}},
    {FRAME_run, .run = {7, {arrays, ARRAYS}, {words, 1}, 1 << 20, 4096}},
    {FRAME_ran, .ran = {{arrays, ARRAYS}, 123456789012}},
    {FRAME_close, .close = {7}},
    {FRAME_closed, .closed = {7}},
    {FRAME_failed, .failed = {FRAME_TOO_OLD, "it is too old"}},
};
enum { FRAMES = sizeof frames / sizeof *frames };

static struct arena arena;

static struct frame_buffer encoded(const struct frame *f) {
  struct frame_buffer b = {0};
  struct err err = {0};
  assert_int_equal(frame_encode(&b, f, &err), 0);
  return b;
}

static struct span body_of(const struct frame_buffer *b) {
  return span_of(b->bytes + FRAME_HEAD, b->n_bytes - FRAME_HEAD);
}

static void what_is_sent_comes(void **state) {
  (void)state;
  for (size_t i = 0; i < FRAMES; i++) {
    struct frame_buffer b = encoded(&frames[i]), again;
    struct err err = {0};
    struct frame f;
    enum frame_kind kind;
    uint64_t n;
    assert_int_equal(frame_head(b.bytes, &kind, &n, &err), 0);
    assert_int_equal(kind, frames[i].kind);
    assert_int_equal(n, b.n_bytes - FRAME_HEAD);
    assert_int_equal(frame_decode(&f, kind, body_of(&b), &arena, &err), 0);
    again = encoded(&f);
    assert_int_equal(again.n_bytes, b.n_bytes);
    assert_memory_equal(again.bytes, b.bytes, b.n_bytes);
    frame_buffer_done(&again);
    frame_buffer_done(&b);
  }
}

static void arrays_come_as_they_were(void **state) {
  (void)state;
  struct frame_buffer b = encoded(&frames[4]);
  struct err err = {0};
  struct frame f;
  assert_int_equal(frame_decode(&f, FRAME_run, body_of(&b), &arena, &err), 0);
  assert_int_equal(f.run.inputs.n, ARRAYS);
  const struct frame_array *x = f.run.inputs.list;
  assert_string_equal(x[0].name, "small");
  assert_memory_equal(x[0].bytes.at, "abcd", 4);
  assert_int_equal(x[1].dims[0] * x[1].dims[1], 1024 * 512);
  assert_int_equal(x[1].offset, 4096);
  assert_int_equal(x[1].length, 2 << 20);
  assert_int_equal(x[3].bytes.n, 0);
  assert_int_equal(x[4].form, FRAME_SEQUENCE);
  assert_int_equal(x[4].items[0].rank, 0);
  assert_true(span_eq(x[4].items[1].strings[0], strings[0]));
  assert_int_equal(x[5].form, FRAME_NOTHING);
  assert_string_equal(f.run.wanted.list[0], "one");
  frame_buffer_done(&b);
}

static void nothing_is_taken_of_a_part_or_of_more(void **state) {
  (void)state;
  for (size_t i = 0; i < FRAMES; i++) {
    struct frame_buffer b = encoded(&frames[i]);
    struct frame f;
    const struct span body = body_of(&b);
    for (size_t n = 0; n < body.n; n++) {
      struct err err = {0};
      assert_int_equal(frame_decode(&f, frames[i].kind, span_of(body.at, n), &arena, &err), -1);
      assert_int_equal(err.kind, ERR_FAIL);
    }
    *TABLE_PUSH(&b, bytes) = 0;
    struct err err = {0};
    assert_int_equal(frame_decode(&f, frames[i].kind, body_of(&b), &arena, &err), -1);
    assert_non_null(strstr(err.msg, "extra bytes"));
    frame_buffer_done(&b);
  }
}

// Every place of a head that can be wrong.
static void a_head_that_is_none_is_refused(void **state) {
  (void)state;
  static const struct {
    size_t at;
    uint8_t byte;
    const char *says;
  } wrong[] = {{0, 'X', "do not begin with 'WRT1'"},       {3, '2', "do not begin with 'WRT1'"},
               {4, 99, "message 99 (flags 0) is unknown"}, {5, 1, "is unknown"},
               {6, 1, "message 7 (flags 1) is unknown"},   {15, 1, "the limit is 256MiB"}};
  struct frame_buffer b = encoded(&frames[6]);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct err err = {0};
    enum frame_kind kind;
    uint64_t n;
    const uint8_t was = b.bytes[wrong[i].at];
    b.bytes[wrong[i].at] = wrong[i].byte;
    assert_int_equal(frame_head(b.bytes, &kind, &n, &err), -1);
    assert_non_null(strstr(err.msg, wrong[i].says));
    b.bytes[wrong[i].at] = was;
  }
  frame_buffer_done(&b);
}

static void a_body_has_a_limit(void **state) {
  (void)state;
  static const int64_t dims[] = {FRAME_MAX_BODY};
  static const struct frame_array x = {.name = "x", .dtype = DTYPE_UINT8, .rank = 1, .dims = dims};
  struct frame_array list = x;
  struct frame_buffer b = {0};
  struct err err = {0};
  uint8_t *bytes = arena_alloc(&arena, FRAME_MAX_BODY); // not looked at
  list.bytes = span_of(bytes, FRAME_MAX_BODY);
  const struct frame f = {FRAME_ran, .ran = {{&list, 1}, 0}};
  assert_int_equal(frame_encode(&b, &f, &err), -1);
  assert_non_null(strstr(err.msg, "is longer than 256MiB"));
  frame_buffer_done(&b);
}

static void kinds_have_words(void **state) {
  (void)state;
  assert_string_equal(frame_kind_words(FRAME_run).s, "run");
  assert_string_equal(frame_kind_words(77).s, "message 77");
}

int test_frames(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_sent_comes),
      cmocka_unit_test(arrays_come_as_they_were),
      cmocka_unit_test(nothing_is_taken_of_a_part_or_of_more),
      cmocka_unit_test(a_head_that_is_none_is_refused),
      cmocka_unit_test(a_body_has_a_limit),
      cmocka_unit_test(kinds_have_words),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  arena_free(&arena);
  return failed;
}
