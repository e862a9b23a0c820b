// What callers rely on: a map begins anywhere, one that was cut says so at its end, and what is fenced is nobody's.
#include "platform/maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 300000 };

// A file whose bytes are their places, as far as a byte can be one.
static struct file numbered(void) {
  static uint8_t bytes[BYTES];
  char path[] = "/tmp/weir-maps-XXXXXX";
  for (uint32_t i = 0; i < BYTES; i++)
    bytes[i] = (uint8_t)(i * 7 + i / 256);
  assert_int_equal(folder_make_unique(path), 0);
  struct folder in = folder_open(HERE, path, 0);
  struct file f = file_open_to_write(in, "bytes", FILE_NEW | FILE_READ, 0600);
  assert_true(file_is_open(f));
  assert_int_equal(file_remove(in, "bytes"), 0);
  assert_int_equal(folder_remove(HERE, path), 0);
  folder_close(&in);
  assert_int_equal(file_write_all(f, bytes, BYTES), 0);
  return f;
}

static void a_map_begins_anywhere(void **state) {
  (void)state;
  static const uint64_t offsets[] = {0, 1, 4095, 4096, 65535, 65537, BYTES - 9000};
  struct file f = numbered();
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    uint8_t bytes[9000];
    struct file_map m;
    assert_int_equal(map_open(&m, f, offsets[i], sizeof bytes), 0);
    assert_int_equal(file_read_all_at(f, bytes, sizeof bytes, offsets[i]), sizeof bytes);
    assert_memory_equal(m.at, bytes, sizeof bytes);
    assert_false(map_is_broken(&m));
    assert_false(map_close(&m));
    assert_null(m.pages);
  }
  file_close(&f);
}

static void a_map_that_was_cut_says_so(void **state) {
  (void)state;
  struct file f = numbered();
  struct file_map cut, other;
  maps_guard();
  assert_int_equal(map_open_guarded(&cut, f, 0, BYTES), 0);
  assert_int_equal(map_open_guarded(&other, f, 0, 100), 0);
  const uint8_t first = cut.at[100];
  assert_int_equal(file_set_size(f, 100), 0);
  assert_false(map_is_broken(&cut));
  assert_int_equal(*(const volatile uint8_t *)&cut.at[BYTES - 1], 0);
  assert_int_equal(*(const volatile uint8_t *)&cut.at[BYTES / 2], 0);
  assert_true(map_is_broken(&cut));
  assert_int_equal(first, (uint8_t)(100 * 7));
  assert_int_equal(other.at[99], (uint8_t)(99 * 7));
  assert_false(map_close(&other));
  assert_true(map_close(&cut));
  assert_int_equal(map_open_guarded(&cut, f, 0, 100), 0);
  assert_false(map_fence(&cut));
  file_close(&f);
}

static void nobody_reads_what_is_fenced(void **state) {
  (void)state;
  struct file f = numbered();
  const size_t bytes = pages_round(1) * 4;
  uint8_t *at = pages_new(bytes);
  assert_non_null(at);
  assert_int_equal(at[bytes - 1], 0);
  at[0] = 1;
  pages_scatter(at, bytes);
  assert_int_equal(at[0], 1);
  pages_fence(at, bytes);
  assert_int_equal(file_write(f, at, 16), -1);
  assert_int_equal(errno, EFAULT);
  pages_free(at, bytes);
  file_close(&f);
}

static void lines_begin_where_lines_do(void **state) {
  (void)state;
  for (size_t n = 1; n < 1000; n += 37) {
    uint8_t *at = lines_new(n);
    assert_non_null(at);
    assert_int_equal((uintptr_t)at % 64, 0);
    memset(at, 1, n);
    lines_free(at);
  }
  lines_free(NULL);
}

int test_maps(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_map_begins_anywhere),
      cmocka_unit_test(a_map_that_was_cut_says_so),
      cmocka_unit_test(nobody_reads_what_is_fenced),
      cmocka_unit_test(lines_begin_where_lines_do),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
