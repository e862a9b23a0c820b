// Tensors as files hold them: every typed field, packed and not, in one piece and in many; external
// data; and what is refused.
#include "pb_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

enum {
  FLOAT_DATA = 4,
  INT32_DATA = 5,
  STRING_DATA = 6,
  INT64_DATA = 7,
  RAW_DATA = 9,
  DOUBLE_DATA = 10,
  UINT64_DATA = 11,
  EXTERNAL_DATA = 13,
  DATA_LOCATION = 14
};

static struct pb_home home;

static int set_up(void **state) {
  pb_home_open(&home);
  *state = &home;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pb_home_close(&home);
  return 0;
}

// The head of a TensorProto named "w".
static struct pb head(enum dtype dtype, int64_t dim) {
  struct pb t = {0};
  pb_varint(&t, 1, (uint64_t)dim);
  pb_varint(&t, 2, dtype);
  pb_text(&t, 8, "w");
  return t;
}

// A model around one initializer (freed).
static struct pb model_with(struct pb *tensor) {
  struct pb g = {0};
  pb_identity(&g);
  pb_message(&g, 5, tensor);
  return pb_model(&g);
}

static const struct model_tensor *load_one(struct pb_home *h, struct pb *tensor) {
  struct pb p = model_with(tensor);
  const int rc = pb_home_load(h, &p);
  pb_free(&p);
  if (rc) fail_msg("%s", h->err.msg);
  assert_int_equal(h->m.n_tensors, 1);
  return &h->m.tensors[0];
}

static void refuse_one(struct pb_home *h, struct pb *tensor, const char *why) {
  struct pb p = model_with(tensor);
  const int rc = pb_home_load(h, &p);
  if (rc == 0) fail_msg("loads, though: %s", why);
  if (!strstr(h->err.msg, why)) fail_msg("'%s' is not in: %s", why, h->err.msg);
  assert_non_null(strstr(h->err.msg, "m.onnx"));
  // Collected, the same fault is reported and the load goes on.
  char first[1024];
  memcpy(first, h->err.msg, sizeof first);
  if (pb_home_collect(h, &p) == 0) {
    if (!strstr(h->faults, why)) fail_msg("not collected: %s", h->faults);
    assert_non_null(strstr(h->faults, "error "));
  }
  pb_free(&p);
}

// Where a tensor is said to lie plainly, its elements lie. Gives whether one is.
static bool expect_place(const struct pb_home *h, const void *want, size_t n) {
  struct extent at;
  uint8_t found[64];
  struct err err = {0};
  if (!model_plain_place(&h->m, 0, &at)) return false;
  assert_int_equal(at.len, n);
  assert_true(n <= sizeof found);
  assert_int_equal(sources_read(h->sources, at.file, at.off, found, n, &err), 0);
  assert_memory_equal(found, want, n);
  return true;
}

static void expect_small(const struct pb_home *h, const void *want, size_t n) {
  struct span bytes;
  uint32_t pieces;
  if (n <= 64) expect_place(h, want, n);
  assert_true(model_small_value(&h->m, 0, &bytes));
  assert_int_equal(bytes.n, n);
  if (n) assert_memory_equal(bytes.at, want, n);
  if (!(h->m.tensors[0].flags & TENSOR_EXTERNAL)) assert_null(model_pieces(&h->m, 0, &pieces));
}

// ---- inline -------------------------------------------------------------------------------------

// A materialized tensor keeps no pieces, but the place of its elements where that is one stretch.
static void test_plain_places(void **state) {
  struct pb_home *h = *state;
  static const float real[3] = {1, -2, 0.5F};
  static const struct {
    uint32_t field;
    enum { PACKED, UNPACKED, CHUNKED } how;
    bool plain;
  } rows[] = {{RAW_DATA, PACKED, true},
              {FLOAT_DATA, PACKED, true},
              {FLOAT_DATA, UNPACKED, false},
              {FLOAT_DATA, CHUNKED, false}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct pb t = head(DTYPE_FLOAT, 3);
    const size_t packed = rows[i].how == PACKED ? 12 : rows[i].how == CHUNKED ? 8 : 0;
    if (packed) pb_bytes(&t, rows[i].field, real, packed);
    for (size_t k = packed / 4; k < 3; k++) {
      uint32_t bits;
      memcpy(&bits, &real[k], sizeof bits);
      pb_fixed32(&t, rows[i].field, bits);
    }
    load_one(h, &t);
    assert_int_equal(expect_place(h, real, sizeof real), rows[i].plain);
  }
  struct pb t = head(DTYPE_INT32, 2);
  pb_varint(&t, INT32_DATA, 1);
  pb_varint(&t, INT32_DATA, 2);
  load_one(h, &t);
  assert_false(expect_place(h, real, 0));
}

static void test_integers_in_every_width(void **state) {
  struct pb_home *h = *state;
  static const int64_t entries[] = {0, 1, -1, 127, -128, 300};
  static const struct {
    enum dtype dtype;
    uint32_t field;
    size_t bytes;
  } rows[] = {
      {DTYPE_INT8, INT32_DATA, 1},     {DTYPE_UINT8, INT32_DATA, 1},
      {DTYPE_INT16, INT32_DATA, 2},    {DTYPE_FLOAT16, INT32_DATA, 2},
      {DTYPE_BFLOAT16, INT32_DATA, 2}, {DTYPE_INT32, INT32_DATA, 4},
      {DTYPE_INT64, INT64_DATA, 8},    {DTYPE_UINT64, UINT64_DATA, 8},
      {DTYPE_UINT32, UINT64_DATA, 4},  {DTYPE_FLOAT8E5M2, INT32_DATA, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int packed = 0; packed < 2; packed++) {
      struct pb t = head(rows[i].dtype, 6), list = {0};
      uint8_t want[48];
      for (size_t k = 0; k < 6; k++) {
        memcpy(want + k * rows[i].bytes, &entries[k], rows[i].bytes);
        if (packed)
          pb_number(&list, (uint64_t)entries[k]);
        else
          pb_varint(&t, rows[i].field, (uint64_t)entries[k]);
      }
      if (packed) pb_message(&t, rows[i].field, &list);
      const struct model_tensor *row = load_one(h, &t);
      assert_int_equal(row->encoding, ENCODING_VARINT);
      expect_small(h, want, 6 * rows[i].bytes);
    }
}

static void test_sub_byte_types(void **state) {
  struct pb_home *h = *state;
  struct pb t = head(DTYPE_INT4, 5); // an entry is a byte of two elements
  pb_varint(&t, INT32_DATA, 0x21);
  pb_varint(&t, INT32_DATA, 0xf3);
  pb_varint(&t, INT32_DATA, 0x05);
  load_one(h, &t);
  expect_small(h, "\x21\xf3\x05", 3);
  t = head(DTYPE_UINT2, 9); // four elements
  pb_varint(&t, INT32_DATA, 0xe4);
  pb_varint(&t, INT32_DATA, 0x1b);
  pb_varint(&t, INT32_DATA, 0x02);
  load_one(h, &t);
  expect_small(h, "\xe4\x1b\x02", 3);
  t = head(DTYPE_FLOAT6E2M3, 5); // one element an entry, packed to 6 bits here
  for (uint64_t i = 0; i < 5; i++)
    pb_varint(&t, INT32_DATA, 33 + i);
  load_one(h, &t);
  // 33, 34, 35, 36, 37 as a stream of 6-bit numbers, lowest bits first
  const uint64_t stream = 33 | 34 << 6 | 35 << 12 | 36 << 18 | (uint64_t)37 << 24;
  expect_small(h, &stream, 4);
  t = head(DTYPE_BOOL, 3);
  pb_varint(&t, INT32_DATA, 1);
  pb_varint(&t, INT32_DATA, 0);
  pb_varint(&t, INT32_DATA, 256);
  load_one(h, &t);
  expect_small(h, "\1\0\1", 3);
}

static void test_floats_packed_and_not(void **state) {
  struct pb_home *h = *state;
  const float x[4] = {1, 2, 3, 4};
  uint32_t bits[4];
  memcpy(bits, x, sizeof bits);
  struct pb t = head(DTYPE_FLOAT, 4); // two entries alone, two packed
  pb_fixed32(&t, FLOAT_DATA, bits[0]);
  pb_fixed32(&t, FLOAT_DATA, bits[1]);
  pb_bytes(&t, FLOAT_DATA, x + 2, 8);
  assert_int_equal(load_one(h, &t)->encoding, ENCODING_FIXED32);
  expect_small(h, x, sizeof x);
  t = head(DTYPE_COMPLEX64, 2);
  pb_bytes(&t, FLOAT_DATA, x, sizeof x);
  load_one(h, &t);
  expect_small(h, x, sizeof x);
  const double y[2] = {1.5, -2.5};
  t = head(DTYPE_DOUBLE, 2);
  pb_bytes(&t, DOUBLE_DATA, y, sizeof y);
  assert_int_equal(load_one(h, &t)->encoding, ENCODING_FIXED64);
  expect_small(h, y, sizeof y);
}

static void test_scalars_and_nothing(void **state) {
  struct pb_home *h = *state;
  struct pb t = {0};
  pb_varint(&t, 2, DTYPE_INT64);
  pb_text(&t, 8, "w");
  pb_varint(&t, INT64_DATA, 7);
  assert_int_equal(load_one(h, &t)->rank, 0);
  expect_small(h, "\7\0\0\0\0\0\0\0", 8);
  t = head(DTYPE_FLOAT, 0);
  assert_int_equal(load_one(h, &t)->encoding, ENCODING_NONE);
  expect_small(h, "", 0);
  t = head(DTYPE_FLOAT, 0);
  pb_bytes(&t, RAW_DATA, "", 0);
  load_one(h, &t);
  expect_small(h, "", 0);
}

static void test_what_is_small(void **state) {
  struct pb_home *h = *state;
  static uint8_t zeros[70000];
  static const struct {
    enum dtype dtype;
    uint32_t n, bytes;
    bool small;
  } rows[] = {
      {DTYPE_FLOAT, 256, 1024, true},   {DTYPE_FLOAT, 257, 1028, false},
      {DTYPE_INT64, 8192, 65536, true}, {DTYPE_INT64, 8193, 65544, false},
      {DTYPE_BOOL, 65536, 65536, true}, {DTYPE_FLOAT16, 513, 1026, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct pb t = head(rows[i].dtype, rows[i].n);
    pb_bytes(&t, RAW_DATA, zeros, rows[i].bytes);
    const struct model_tensor *row = load_one(h, &t);
    assert_int_equal(row->bytes, rows[i].bytes);
    assert_int_equal(row->small != NO_ID, rows[i].small);
    uint32_t n;
    const struct piece *piece = model_pieces(&h->m, 0, &n);
    assert_int_equal(n, !rows[i].small);
    if (n) assert_true(piece->at.len == rows[i].bytes && piece->count == rows[i].bytes);
  }
}

// Runs of unpacked entries, packed parts between them, and tags of two lengths.
static void test_pieces(void **state) {
  struct pb_home *h = *state;
  struct pb t = head(DTYPE_FLOAT, 1000), more = {0};
  uint32_t x = 0;
  for (int i = 0; i < 400; i++)
    pb_fixed32(&t, FLOAT_DATA, x++);
  pb_raw(&t, "\xa5\x00", 2); // the same tag in two bytes: a run of its own
  pb_raw(&t, &x, 4);
  x++;
  for (int i = 0; i < 200; i++, x++)
    pb_raw(&more, &x, 4);
  pb_message(&t, FLOAT_DATA, &more);
  pb_text(&t, 12, "a doc_string between the parts");
  while (x < 1000)
    pb_fixed32(&t, FLOAT_DATA, x++);
  load_one(h, &t);
  uint32_t n;
  const struct piece *p = model_pieces(&h->m, 0, &n);
  assert_int_equal(n, 4);
  assert_true(p[0].first == 0 && p[0].count == 400 && p[0].tag_bytes == 1 && p[0].at.len == 2000);
  assert_true(p[1].first == 400 && p[1].count == 1 && p[1].tag_bytes == 2 && p[1].at.len == 6);
  assert_true(p[2].first == 401 && p[2].count == 200 && p[2].tag_bytes == 0 && p[2].at.len == 800);
  assert_true(p[3].first == 601 && p[3].count == 399 && p[3].tag_bytes == 1);
}

static void test_more_pieces_than_a_row_can_count(void **state) {
  struct pb_home *h = *state;
  enum { PARTS = 70000 };
  struct pb t = head(DTYPE_FLOAT, PARTS);
  for (uint32_t i = 0; i < PARTS; i++)
    pb_bytes(&t, FLOAT_DATA, &i, 4);
  load_one(h, &t);
  uint32_t n;
  const struct piece *p = model_pieces(&h->m, 0, &n);
  assert_int_equal(n, PARTS);
  assert_true(p[PARTS - 1].first == PARTS - 1 && p[PARTS - 1].at.len == 4);
}

static void test_checkpoints(void **state) {
  struct pb_home *h = *state;
  enum { N = CHECKPOINT_ENTRIES * 2 + 5 };
  for (int packed = 0; packed < 2; packed++) {
    struct pb t = head(DTYPE_INT64, N), list = {0};
    uint64_t want[3] = {0};
    const size_t base = t.n;
    for (uint64_t i = 0; i < N; i++) {
      struct pb *to = packed ? &list : &t;
      if (i % CHECKPOINT_ENTRIES == 0) want[i / CHECKPOINT_ENTRIES] = to->n - (packed ? 0 : base);
      if (!packed) pb_number(to, INT64_DATA << 3);
      pb_number(to, i * 977);
    }
    if (packed) pb_message(&t, INT64_DATA, &list);
    load_one(h, &t);
    uint32_t n;
    const struct piece *p = model_pieces(&h->m, 0, &n);
    assert_true(n == 1 && p->count == N && h->m.n_checkpoints == 3);
    assert_memory_equal(h->m.checkpoints + p->checkpoint, want, sizeof want);
  }
}

static void test_strings(void **state) {
  struct pb_home *h = *state;
  struct pb t = head(DTYPE_STRING, 3);
  pb_text(&t, STRING_DATA, "one");
  pb_text(&t, STRING_DATA, "");
  pb_text(&t, STRING_DATA, "three");
  const struct model_tensor *row = load_one(h, &t);
  assert_true(row->encoding == ENCODING_STRINGS && row->bytes == 0 && row->small == NO_ID);
  uint32_t n;
  const struct piece *p = model_pieces(&h->m, 0, &n);
  assert_true(n == 1 && p->count == 3 && p->at.len == 5 + 2 + 7);
}

// raw_data is singular: the last one wins.
static void test_raw_data_twice(void **state) {
  struct pb_home *h = *state;
  struct pb t = head(DTYPE_UINT8, 2);
  pb_bytes(&t, RAW_DATA, "abc", 3);
  pb_bytes(&t, RAW_DATA, "de", 2);
  load_one(h, &t);
  expect_small(h, "de", 2);
}

static struct pb raw_of(enum dtype dtype, int64_t dim, size_t bytes) {
  static const uint8_t zeros[64];
  struct pb t = head(dtype, dim);
  pb_bytes(&t, RAW_DATA, zeros, bytes);
  return t;
}

static void test_refuses_claims(void **state) {
  struct pb_home *h = *state;
  struct pb t = raw_of(DTYPE_FLOAT, 3, 16);
  refuse_one(h, &t, "tensor 'w': dims and type float need 12 bytes, but raw_data has 16");
  t = raw_of(DTYPE_INT4, 5, 2);
  refuse_one(h, &t, "need 3 bytes");
  t = raw_of(DTYPE_FLOAT, -1, 4);
  refuse_one(h, &t, "dims [-1] are negative");
  t = raw_of(DTYPE_FLOAT, INT64_MAX, 4);
  refuse_one(h, &t, "need more than 2^63-1 bytes");
  t = raw_of(DTYPE_FLOAT, (int64_t)1 << 32, 4);
  pb_varint(&t, 1, (uint64_t)1 << 32);
  refuse_one(h, &t, "their product overflows");
  t = raw_of((enum dtype)0, 1, 4);
  refuse_one(h, &t, "data_type 0");
  t = raw_of((enum dtype)99, 1, 4);
  refuse_one(h, &t, "data_type 99");
  t = head(DTYPE_FLOAT, 2);
  refuse_one(h, &t, "need 8 bytes, but it has 0");
  t = head(DTYPE_FLOAT, 1);
  pb_varint(&t, INT32_DATA, 1);
  refuse_one(h, &t, "cannot be stored in int32_data");
  t = head(DTYPE_INT32, 1);
  pb_varint(&t, INT64_DATA, 1);
  refuse_one(h, &t, "cannot be stored in int64_data");
  t = head(DTYPE_STRING, 1);
  pb_bytes(&t, RAW_DATA, "x", 1);
  refuse_one(h, &t, "cannot be stored in raw_data");
  t = raw_of(DTYPE_FLOAT, 1, 4);
  pb_fixed32(&t, FLOAT_DATA, 1);
  refuse_one(h, &t, "has both raw_data and float_data");
  t = raw_of(DTYPE_FLOAT, 1, 4);
  pb_bytes(&t, 3, "\x08\x01", 2);
  refuse_one(h, &t, "segment");
  t = raw_of(DTYPE_FLOAT, 1, 4);
  pb_varint(&t, DATA_LOCATION, 2);
  refuse_one(h, &t, "data_location 2");
  t = head(DTYPE_FLOAT, 2);
  pb_bytes(&t, FLOAT_DATA, "1234567", 7);
  refuse_one(h, &t, "not a whole number of 4-byte entries");
  t = head(DTYPE_INT64, 2);
  pb_bytes(&t, INT64_DATA, "\x01\x80", 2);
  refuse_one(h, &t, "entry 1, the last one, is cut");
  t = head(DTYPE_INT64, 1);
  pb_bytes(&t, INT64_DATA, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
  refuse_one(h, &t, "longer than 10 bytes");
  t = head(DTYPE_FLOAT, 0);
  for (int i = 0; i < 1024; i++)
    pb_varint(&t, 1, 1);
  refuse_one(h, &t, "1025 dims");
}

// ---- external -----------------------------------------------------------------------------------

static struct pb external(enum dtype dtype, int64_t dim) {
  struct pb t = head(dtype, dim);
  pb_varint(&t, DATA_LOCATION, 1);
  return t;
}

static void key(struct pb *t, const char *name, const char *text) {
  pb_entry(t, EXTERNAL_DATA, name, text);
}

static void test_external(void **state) {
  struct pb_home *h = *state;
  pb_home_write(h, "w.bin", "0123456789abcdef", 16);
  struct pb t = external(DTYPE_UINT8, 4);
  key(&t, "location", "absent");
  key(&t, "location", "w.bin"); // the last one wins
  key(&t, "offset", "007");
  key(&t, "length", "4");
  key(&t, "checksum", "whatever");
  const struct model_tensor *row = load_one(h, &t);
  assert_true(row->flags & TENSOR_EXTERNAL && row->encoding == ENCODING_RAW);
  expect_small(h, "789a", 4);
  uint32_t n;
  const struct piece *p = model_pieces(&h->m, 0, &n); // external ones keep their place
  assert_true(n == 1 && p->at.file == 1 && p->at.off == 7 && p->at.len == 4);
  assert_string_equal(h->m.files[1].name, "w.bin");
  assert_int_equal(h->m.files[1].size, 16);
  t = external(DTYPE_UINT8, 16); // no offset, no length
  key(&t, "location", "w.bin");
  load_one(h, &t);
  expect_small(h, "0123456789abcdef", 16);
  t = external(DTYPE_FLOAT, 0); // nothing, at the very end
  key(&t, "location", "w.bin");
  key(&t, "offset", "16");
  key(&t, "length", "0");
  load_one(h, &t);
  expect_small(h, "", 0);
}

static void test_external_numbers(void **state) {
  struct pb_home *h = *state;
  pb_home_write(h, "w.bin", "0123456789abcdef", 16);
  static const char *const bad[] = {"-1",
                                    "+5",
                                    " 5",
                                    "5 ",
                                    "0x10",
                                    "1e3",
                                    "1_000",
                                    "",
                                    "\xd9\xa5",
                                    "5.0",
                                    "9223372036854775808",
                                    "18446744073709551615",
                                    "18446744073709551616"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    for (int length = 0; length < 2; length++) {
      struct pb t = external(DTYPE_UINT8, 4);
      key(&t, "location", "w.bin");
      key(&t, length ? "length" : "offset", bad[i]);
      refuse_one(h, &t, "is not a decimal number");
    }
  static const char *const offsets[] = {"13", "17", "9223372036854775807"};
  for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
    struct pb t = external(DTYPE_UINT8, 4);
    key(&t, "location", "w.bin");
    key(&t, "offset", offsets[i]);
    refuse_one(h, &t, "/w.bin' (16 bytes)");
  }
  struct pb t = external(DTYPE_UINT8, 4);
  key(&t, "location", "w.bin");
  key(&t, "length", "0");
  refuse_one(h, &t, "length is 0, but its dims and type need 4 bytes");
}

static void test_external_faults(void **state) {
  struct pb_home *h = *state;
  pb_home_write(h, "w.bin", "0123456789abcdef", 16);
  struct pb t = external(DTYPE_UINT8, 4);
  refuse_one(h, &t, "no location is given");
  t = external(DTYPE_UINT8, 4);
  key(&t, "location", "absent.bin");
  refuse_one(h, &t, "/absent.bin' is missing");
  t = external(DTYPE_UINT8, 4);
  key(&t, "location", "../w.bin");
  refuse_one(h, &t, "leaves the model's folder");
  t = external(DTYPE_STRING, 1);
  key(&t, "location", "w.bin");
  refuse_one(h, &t, "strings cannot be external data");
  t = external(DTYPE_UINT8, 1);
  key(&t, "location", "w.bin");
  pb_bytes(&t, RAW_DATA, "x", 1);
  refuse_one(h, &t, "is EXTERNAL, but has raw_data too");
  t = external(DTYPE_UINT8, 4);
  for (int i = 0; i < 17; i++)
    key(&t, "location", "w.bin");
  refuse_one(h, &t, "more than 16 external_data entries");
  t = external(DTYPE_UINT8, 4);
  pb_bytes(&t, EXTERNAL_DATA,
           "\x0a\x08location\x12\x03"
           "a\0b",
           15);
  refuse_one(h, &t, "contains a NUL byte");
}

static void test_external_warnings(void **state) {
  struct pb_home *h = *state;
  pb_home_write(h, "w.bin", "0123", 4);
  struct pb t = external(DTYPE_UINT8, 4);
  key(&t, "location", "w.bin");
  key(&t, "surprise", "1");
  key(&t, "prepacked_0", "1");
  struct pb p = model_with(&t);
  assert_int_equal(pb_home_collect(h, &p), 0);
  assert_non_null(strstr(h->faults, "warning tensor 'w': external_data key 'surprise' is ignored"));
  assert_non_null(strstr(h->faults, "prepacked for one runtime"));
  assert_null(strstr(h->faults, "error"));
  assert_int_equal(pb_home_load(h, &p), 0);
  pb_free(&p);
  t = raw_of(DTYPE_UINT8, 4, 4);
  key(&t, "location", "absent");
  p = model_with(&t);
  assert_int_equal(pb_home_collect(h, &p), 0);
  assert_non_null(strstr(h->faults, "external_data is ignored"));
  pb_free(&p);
}

static void test_no_external(void **state) {
  struct pb_home *h = *state;
  struct pb t = external(DTYPE_FLOAT, 10);
  key(&t, "location", "absent.bin");
  key(&t, "offset", "4096");
  struct pb p = model_with(&t);
  const struct load_options options = {.no_external = true};
  if (pb_home_load_with(h, &p, options)) fail_msg("%s", h->err.msg);
  uint32_t n;
  const struct piece *piece = model_pieces(&h->m, 0, &n);
  assert_true(n == 1 && piece->at.file == 1 && piece->at.off == 4096 && piece->at.len == 40);
  assert_string_equal(h->m.files[1].name, "absent.bin");
  struct span bytes;
  assert_false(model_small_value(&h->m, 0, &bytes));
  pb_free(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int test_load_tensor(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_plain_places),
      TEST(test_integers_in_every_width),
      TEST(test_sub_byte_types),
      TEST(test_floats_packed_and_not),
      TEST(test_scalars_and_nothing),
      TEST(test_what_is_small),
      TEST(test_pieces),
      TEST(test_more_pieces_than_a_row_can_count),
      TEST(test_checkpoints),
      TEST(test_strings),
      TEST(test_raw_data_twice),
      TEST(test_refuses_claims),
      TEST(test_external),
      TEST(test_external_numbers),
      TEST(test_external_faults),
      TEST(test_external_warnings),
      TEST(test_no_external),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
