// Which tensors lie in a byte range, and how much of a file is used, over overlaps, gaps and files.
#include "stream/load/tensor_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static uint32_t add_tensor(struct model *m, uint32_t file, uint64_t off, uint64_t len) {
  uint32_t t = TABLE_ADD(m, tensors, 1), p = TABLE_ADD(m, pieces, 1);
  m->pieces[p] = (struct piece){.at = {.off = off, .len = len, .file = file}, .count = len};
  m->tensors[t].pieces = p;
  m->tensors[t].n_pieces = 1;
  m->tensors[t].bytes = len;
  return t;
}

// The tensors in [off, off+len) as a mask of their ids.
static uint64_t tensors_in(const struct tensor_map *map, uint32_t file, uint64_t off,
                           uint64_t len) {
  uint64_t found = 0;
  for (size_t i = tensor_map_first(map, file, off); i < map->n_rows && map->rows[i].file == file;
       i++) {
    const struct tensor_span *row = &map->rows[i];
    if (row->off < off + len && row->off + row->len > off) found |= (uint64_t)1 << row->tensor;
  }
  return found;
}

static void test_empty(void **state) {
  (void)state;
  struct model m;
  struct tensor_map map;
  model_init(&m);
  tensor_map_init(&map, &m, false);
  assert_int_equal(tensor_map_first(&map, 0, 0), 0);
  assert_int_equal(tensor_map_use(&map, 0).used, 0);
  tensor_map_done(&map);
  model_free(&m);
}

// Given out of order, one inside another, one in another file, one dead, one empty.
static void test_ranges(void **state) {
  (void)state;
  struct model m;
  struct tensor_map map;
  model_init(&m);
  add_tensor(&m, 1, 1000, 100); // 0
  add_tensor(&m, 1, 0, 500);    // 1
  add_tensor(&m, 1, 100, 10);   // 2: inside 1
  add_tensor(&m, 2, 0, 2000);   // 3
  m.tensors[add_tensor(&m, 1, 600, 100)].flags = TENSOR_DEAD;
  add_tensor(&m, 1, 700, 0); // 5
  tensor_map_init(&map, &m, false);
  assert_int_equal(map.n_rows, 4);
  assert_int_equal(tensors_in(&map, 1, 0, 1), 1 << 1);
  assert_int_equal(tensors_in(&map, 1, 109, 1), 1 << 1 | 1 << 2);
  assert_int_equal(tensors_in(&map, 1, 110, 1), 1 << 1);
  assert_int_equal(tensors_in(&map, 1, 499, 1), 1 << 1); // behind 2, which ends earlier
  assert_int_equal(tensors_in(&map, 1, 500, 500), 0);
  assert_int_equal(tensors_in(&map, 1, 499, 502), 1 << 0 | 1 << 1);
  assert_int_equal(tensors_in(&map, 1, 1099, 1), 1 << 0);
  assert_int_equal(tensors_in(&map, 1, 1100, 1000), 0);
  assert_int_equal(tensors_in(&map, 2, 1999, 1), 1 << 3);
  assert_int_equal(tensors_in(&map, 3, 0, 10), 0);
  tensor_map_done(&map);
  model_free(&m);
}

// What holds an inline tensor: its elements where they are plain, else the message around them.
static void test_held(void **state) {
  (void)state;
  struct model m;
  struct tensor_map map;
  model_init(&m);
  const uint32_t plain = TABLE_ADD(&m, tensors, 3), varints = plain + 1, outside = plain + 2;
  m.tensors[plain] = (struct model_tensor){
      .bytes = 8, .pieces = 20, .src = {100, 40}, .recipe = NO_ID, .owner = NO_ID};
  m.tensors[varints] = (struct model_tensor){
      .bytes = 8, .encoding = ENCODING_VARINT, .src = {200, 40}, .recipe = NO_ID, .owner = NO_ID};
  m.tensors[outside] = m.tensors[add_tensor(&m, 1, 0, 500)];
  m.tensors[outside].flags = TENSOR_EXTERNAL;
  m.n_tensors = 3;
  tensor_map_init(&map, &m, false);
  assert_int_equal(map.n_rows, 1);
  tensor_map_done(&map);
  tensor_map_init(&map, &m, true);
  assert_int_equal(map.n_rows, 3);
  assert_int_equal(tensors_in(&map, 0, 0, 120), 0);
  assert_int_equal(tensors_in(&map, 0, 127, 1), 1 << 0);
  assert_int_equal(tensors_in(&map, 0, 128, 72), 0);
  assert_int_equal(tensors_in(&map, 0, 200, 1), 1 << 1);
  assert_int_equal(tensors_in(&map, 1, 499, 1), 1 << 2);
  tensor_map_done(&map);
  model_free(&m);
}

static void test_use(void **state) {
  (void)state;
  struct model m;
  struct tensor_map map;
  model_init(&m);
  add_tensor(&m, 1, 64, 36);        // 64 bytes of padding before it
  add_tensor(&m, 1, 90, 20);        // overlaps it by 10
  add_tensor(&m, 1, 92, 4);         // inside both
  add_tensor(&m, 1, 4096, 4);       // 3986 bytes of padding
  add_tensor(&m, 1, 1 << 20, 1000); // a hole that is no padding
  tensor_map_init(&map, &m, false);
  struct tensor_map_use use = tensor_map_use(&map, 1);
  assert_int_equal(use.places, 5);
  assert_int_equal(use.used, 46 + 4 + 1000);
  assert_int_equal(use.padding, 64 + (4096 - 110));
  tensor_map_done(&map);
  model_free(&m);
}

// Offsets of a file that was never opened are as wild as its model says.
static void test_wild_offsets(void **state) {
  (void)state;
  struct model m;
  struct tensor_map map;
  model_init(&m);
  add_tensor(&m, 1, UINT64_MAX - 10, 100);
  add_tensor(&m, 1, 5, 5);
  tensor_map_init(&map, &m, false);
  assert_int_equal(tensor_map_first(&map, 1, 0), 0);
  assert_int_equal(tensor_map_first(&map, 1, 10), 1);
  assert_int_equal(tensor_map_use(&map, 1).places, 2);
  tensor_map_done(&map);
  model_free(&m);
}

int test_tensor_map(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_empty),        cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_held),         cmocka_unit_test(test_use),
      cmocka_unit_test(test_wild_offsets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
