// The wire reader: every way to write a field, every way to break one, and windows that move.
#include "pb_build.h"
#include "stream/load/inside/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static struct wire over(const void *bytes, size_t n) {
  struct wire w;
  wire_open_memory(&w, span_of(bytes, n), "t.onnx");
  return w;
}

static void test_reads_every_wire_type(void **state) {
  (void)state;
  struct pb p = {0};
  pb_varint(&p, 1, 300);
  pb_fixed64(&p, 2, 0x1122334455667788u);
  pb_text(&p, 3, "abc");
  pb_fixed32(&p, 15, 0xdeadbeef);
  pb_varint(&p, 16, UINT64_MAX);
  struct wire w = over(p.at, p.n);
  struct wire_field f;
  struct err err = {0};
  assert_int_equal(wire_next(&w, p.n, &f, &err), 0);
  assert_int_equal(f.number, 1);
  assert_int_equal(f.value, 300);
  assert_int_equal(f.len, 2);
  assert_int_equal(wire_next(&w, p.n, &f, &err), 0);
  assert_true(f.value == 0x1122334455667788u && f.len == 8 && f.type == WIRE_FIXED64);
  assert_int_equal(wire_next(&w, p.n, &f, &err), 0);
  assert_true(f.type == WIRE_BYTES && f.len == 3 && f.body == f.start + 2);
  char text[4] = {0};
  assert_int_equal(wire_copy(&w, text, 3, &err), 0);
  assert_string_equal(text, "abc");
  assert_int_equal(wire_next(&w, p.n, &f, &err), 0);
  assert_true(f.value == 0xdeadbeef && f.tag_bytes == 1);
  assert_int_equal(wire_next(&w, p.n, &f, &err), 0);
  assert_true(f.value == UINT64_MAX && f.number == 16 && f.tag_bytes == 2 && f.len == 10);
  assert_int_equal(wire_offset(&w), p.n);
  pb_free(&p);
}

// Reads all fields of the bytes; the error, or "" if there is none.
static const char *fate(const void *bytes, size_t n) {
  static struct err err;
  err = (struct err){0};
  struct wire w = over(bytes, n);
  while (wire_offset(&w) < n) {
    struct wire_field f;
    if (wire_next(&w, n, &f, &err) || wire_skip_value(&w, &f, n, &err)) {
      assert_int_equal(err.kind, ERR_MODEL);
      return err.msg;
    }
  }
  return "";
}
#define FATE(literal) fate(literal, sizeof literal - 1)

static void test_refuses_broken_fields(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t n;
    const char *message;
  } rows[] = {
      {"\x00\x01", 2, "field number 0"},
      {"\x0e", 1, "wire type 6"},
      {"\x0f", 1, "wire type 7"},
      {"\x0c", 1, "which is not open"},
      {"\x08", 1, "past the end"},
      {"\x08\x80", 2, "past the end"},
      {"\x80", 1, "past the end"},
      {"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12, "longer than 10 bytes"},
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, "more than 64 bits"},
      {"\x88\x80\x80\x80\x80\x00\x01", 7, "tag is too long"},
      {"\xff\xff\xff\xff\x7f\x01", 6, "tag is too long"},
      {"\x0a\x05"
       "abcd",
       6, "5 bytes long"},
      {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "9223372036854775807 bytes long"},
      {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "18446744073709551615 bytes long"},
      {"\x0d\x01\x02\x03", 4, "4 bytes long"},
      {"\x09\x01\x02\x03\x04\x05\x06\x07", 8, "8 bytes long"},
      {"\x0b\x08\x01", 3, "group 1 does not end"},
      {"\x0b\x14", 2, "group 2 ends where group 1 is open"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *message = fate(rows[i].bytes, rows[i].n);
    if (!strstr(message, rows[i].message)) fail_msg("row %zu: '%s'", i, message);
    assert_non_null(strstr(message, "'t.onnx': byte "));
  }
}

static void test_accepts_odd_but_legal_fields(void **state) {
  (void)state;
  assert_string_equal(FATE("\x88\x80\x80\x80\x00\x01"), "");                     // a tag of 5 bytes
  assert_string_equal(FATE("\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00"), ""); // 1 in 10 bytes
  assert_string_equal(FATE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), ""); // -1
  assert_string_equal(FATE("\x0a\x00"), "");
  assert_string_equal(FATE("\x0b\x13\x0a\x01z\x0d\x01\x02\x03\x04\x14\x0c"), ""); // groups
}

static void test_bounds_groups(void **state) {
  (void)state;
  uint8_t bytes[2 * (WIRE_GROUPS + 1)];
  for (size_t depth = WIRE_GROUPS; depth <= WIRE_GROUPS + 1; depth++) {
    memset(bytes, 0x0b, depth);
    memset(bytes + depth, 0x0c, depth);
    const char *message = fate(bytes, 2 * depth);
    if (depth == WIRE_GROUPS)
      assert_string_equal(message, "");
    else
      assert_non_null(strstr(message, "deeper than 100"));
  }
}

static void test_cut_anywhere_is_an_error(void **state) {
  (void)state;
  struct pb p = {0}, q = {0};
  pb_text(&q, 200, "inner");
  pb_fixed64(&q, 3, 7);
  pb_message(&p, 5, &q);
  const size_t n = p.n;
  pb_varint(&p, 1, 1u << 20);
  for (size_t cut = 1; cut < p.n; cut++)
    if (cut != n && strcmp(fate(p.at, cut), "") == 0) fail_msg("cut at %zu passes", cut);
  pb_free(&p);
}

// By their members: what lies between them is anything.
static bool same_field(const struct wire_field *a, const struct wire_field *b) {
  return a->start == b->start && a->body == b->body && a->len == b->len && a->value == b->value &&
         a->number == b->number && a->type == b->type && a->tag_bytes == b->tag_bytes;
}

// A file larger than the window: many small fields, then steps over large ones.
static void test_window_moves_over_a_file(void **state) {
  (void)state;
  struct pb_home h;
  pb_home_open(&h);
  struct pb p = {0};
  uint8_t *large = calloc(1, 3 * WIRE_WINDOW);
  assert_non_null(large);
  for (uint32_t i = 0; p.n < 2 * WIRE_WINDOW + 77; i++)
    pb_bytes(&p, 1 + i % 100, large, i % 60);
  const size_t small = p.n;
  for (uint32_t i = 0; i < 5; i++) {
    pb_varint(&p, 7, i);
    pb_bytes(&p, 8, large, 3 * WIRE_WINDOW);
  }
  pb_home_write(&h, "m.onnx", p.at, p.n);
  assert_int_equal(sources_open(&h.sources, h.onnx, NULL, &h.err), 0);
  struct wire w;
  wire_open(&w, h.sources);
  struct wire memory = over(p.at, p.n);
  uint32_t sevens = 0;
  while (wire_offset(&memory) < p.n) {
    struct wire_field a, b;
    assert_int_equal(wire_next(&w, p.n, &a, &h.err), 0);
    assert_int_equal(wire_next(&memory, p.n, &b, &h.err), 0);
    assert_true(same_field(&a, &b));
    assert_int_equal(wire_skip_value(&w, &a, p.n, &h.err), 0);
    assert_int_equal(wire_skip_value(&memory, &b, p.n, &h.err), 0);
    sevens += a.start >= small && a.number == 7 && a.value == sevens;
  }
  assert_int_equal(sevens, 5);
  assert_int_equal(wire_offset(&w), p.n);
  uint8_t back[100];
  assert_int_equal(wire_read_at(&w, 1000, back, sizeof back, &h.err), 0);
  assert_memory_equal(back, p.at + 1000, sizeof back);
  wire_close(&w);
  free(large);
  pb_free(&p);
  pb_home_close(&h);
}

int test_wire(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reads_every_wire_type),
      cmocka_unit_test(test_refuses_broken_fields),
      cmocka_unit_test(test_accepts_odd_but_legal_fields),
      cmocka_unit_test(test_bounds_groups),
      cmocka_unit_test(test_cut_anywhere_is_an_error),
      cmocka_unit_test(test_window_moves_over_a_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
