// Sorting with a context: the order is that of the comparison, rows are kept whole, and the steps are few for rows in any order.
#include "base/table.h"

#include "chance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

enum { MOST = 300, SIZES = 4 };

// A row is its key at the front, and bytes that follow from the key.
static const size_t sizes[SIZES] = {2, 12, 64, 150};

struct asked {
  bool down;
  uint64_t *times;
};

static uint16_t key_of(const void *row) {
  uint16_t key;
  memcpy(&key, row, sizeof key);
  return key;
}

static int by_key(const void *a, const void *b, const void *ctx) {
  const struct asked *asked = ctx;
  const int x = key_of(a), y = key_of(b);
  assert_ptr_not_equal(a, b);
  ++*asked->times;
  return asked->down ? y - x : x - y;
}

static void make_row(uint8_t *row, size_t bytes, uint16_t key) {
  memcpy(row, &key, sizeof key);
  for (size_t i = sizeof key; i < bytes; i++)
    row[i] = (uint8_t)(key + i);
}

static uint16_t key_at(unsigned kind, size_t i, size_t n) {
  return (uint16_t)(kind == 0 ? i : kind == 1 ? n - i : kind == 2 ? 7 : chance_below(n + 1));
}

static void check(size_t n, size_t bytes, unsigned kind, bool down) {
  static uint8_t rows[MOST * 150], row[150];
  uint64_t times = 0, sum = 0, steps = 1;
  for (size_t i = 0; i < n; i++) {
    const uint16_t key = key_at(kind, i, n);
    make_row(rows + i * bytes, bytes, key);
    sum += key;
  }
  table_sort(rows, n, bytes, by_key, &(struct asked){down, &times});
  for (size_t i = 0; i < n; i++) {
    const uint16_t key = key_of(rows + i * bytes);
    make_row(row, bytes, key);
    assert_memory_equal(rows + i * bytes, row, bytes);
    if (i > 0 && down) assert_true(key <= key_of(rows + (i - 1) * bytes));
    if (i > 0 && !down) assert_true(key >= key_of(rows + (i - 1) * bytes));
    sum -= key;
  }
  assert_int_equal(sum, 0);
  while ((size_t)1 << steps < n)
    steps++;
  assert_true(times <= 2 * n * (steps + 1));
}

static void rows_of_any_size_come_in_order(void **state) {
  (void)state;
  for (unsigned kind = 0; kind < 4; kind++)
    for (size_t s = 0; s < SIZES; s++)
      for (size_t n = 0; n <= MOST; n += n < 20 ? 1 : 35) {
        check(n, sizes[s], kind, false);
        check(n, sizes[s], kind, true);
      }
}

int test_sort(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_any_size_come_in_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
