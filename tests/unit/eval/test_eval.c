// What the evaluator promises beyond right bytes (those: test_eval_random.c): how many source bytes
// it reads for shapes far larger than its budget, that its budget holds, that varints are decoded
// once, that small runs are not small reads, what it says of a file that changed, and what becomes
// of padding bits. Large sources are made up from their offset (fake_io.h), so that every element
// of a result can be checked without storing any.
#include "eval_fixture.h"
#include "stream/eval/core/eval_parts.h"

enum { MIB = 1 << 20, TILE = MIB };

static uint8_t tile[TILE];

static uint32_t transposed(struct fixture *f, uint32_t id) {
  static const int64_t swap[] = {1, 0};
  return recipe_transpose(&f->r, id, swap);
}

// Reads bytes [from, to) of a recipe, tile by tile, in order.
static void read_in_order(struct fixture *f, uint32_t id, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += TILE)
    read_ok(f, id, at, tile, (size_t)min_u64(TILE, to - at));
}

// ---- transposes --------------------------------------------------------------------------------

// Bytes [off, off+n) of the transpose of a made-up float matrix [rows, cols] at `base`.
static void check_transposed(const uint8_t *got, uint64_t off, size_t n, uint64_t base,
                             uint64_t rows, uint64_t cols) {
  for (size_t i = 0; i + 4 <= n; i += 4) {
    uint64_t at = (off + i) / 4, r = at % rows, c = at / rows;
    uint32_t x, want = made_up_bits(base + (r * cols + c) * 4);
    memcpy(&x, got + i, 4);
    if (x != want) fail_msg("element %llu: %x, not %x", (unsigned long long)at, x, want);
  }
}

static void transpose_once(uint64_t rows, uint64_t cols, size_t budget) {
  struct fixture f = {0};
  int64_t dims[] = {(int64_t)rows, (int64_t)cols};
  uint64_t n = rows * cols * 4;
  uint32_t id = transposed(&f, made_up(&f, DTYPE_FLOAT, dims, 2, 4096));
  open_eval(&f, budget);
  for (uint64_t at = 0; at < n; at += TILE) {
    size_t part = (size_t)min_u64(TILE, n - at);
    read_ok(&f, id, at, tile, part);
    check_transposed(tile, at, part, 4096, rows, cols);
  }
  assert_int_equal(io_source_bytes_read(&f.io), n);
  close_all(&f);
}

// In order, every source byte is read once, whether the matrix fits or takes many boxes.
static void test_transpose_reads_once(void **state) {
  (void)state;
  transpose_once(2048, 1024, 12 * MIB); // one box
  transpose_once(2048, 1024, MIB);      // many, of columns
  transpose_once(1000, 3001, MIB);      // of odd sides
  transpose_once(40, 70001, MIB);
  transpose_once(70001, 40, MIB); // a few columns a box
}

// The control arm: the same bytes, asked for from both ends in turn, must cost more than the bound.
static void test_disorder_costs_more(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t dims[] = {2048, 1024};
  uint64_t n = 2048 * 1024 * 4;
  uint32_t id = transposed(&f, made_up(&f, DTYPE_FLOAT, dims, 2, 0));
  open_eval(&f, MIB);
  for (uint64_t at = 0; at < n / 2; at += TILE / 16) {
    read_ok(&f, id, at, tile, TILE / 16);
    check_transposed(tile, at, TILE / 16, 0, 2048, 1024);
    read_ok(&f, id, n - at - TILE / 16, tile, TILE / 16);
    check_transposed(tile, n - at - TILE / 16, TILE / 16, 0, 2048, 1024);
  }
  assert_true(io_source_bytes_read(&f.io) > n * 21 / 10);
  close_all(&f);
}

// A tensor far larger than memory: 4 GiB at 8 MiB of budget. One unit of it, begun in its middle,
// and single places.
static void test_transpose_of_a_large_matrix(void **state) {
  (void)state;
  struct fixture f = {0};
  uint64_t rows = 16384, cols = 65536, unit = 64 * (uint64_t)MIB;
  int64_t dims[] = {(int64_t)rows, (int64_t)cols};
  uint32_t id = transposed(&f, made_up(&f, DTYPE_FLOAT, dims, 2, 100));
  open_eval(&f, 8 * MIB);
  read_in_order(&f, id, unit * 33, unit * 34);
  check_transposed(tile, unit * 34 - TILE, TILE, 100, rows, cols);
  assert_true(io_source_bytes_read(&f.io) <= unit * 21 / 10);
  // Fragments of a few hundred bytes: reads are few.
  assert_true(f.io.bytes / f.io.calls >= 256);
  for (uint64_t k = 0; k < 5; k++) {
    uint64_t at = (k * 1234567891 * 4) % (rows * cols * 4 - 4096);
    read_ok(&f, id, at, tile, 4096);
    check_transposed(tile, at, 4096, 100, rows, cols);
  }
  close_all(&f);
}

// Matrices whose single columns pass the budget: element by element, and still each byte once.
static void test_transpose_of_a_tall_matrix(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t dims[] = {300000, 3};
  uint64_t n = 300000 * 3 * 4;
  uint32_t id = transposed(&f, made_up(&f, DTYPE_FLOAT, dims, 2, 0));
  open_eval(&f, MIB);
  for (uint64_t at = 0; at < n; at += TILE) {
    size_t part = (size_t)min_u64(TILE, n - at);
    read_ok(&f, id, at, tile, part);
    check_transposed(tile, at, part, 0, 300000, 3);
  }
  assert_true(io_source_bytes_read(&f.io) <= n * 21 / 10);
  close_all(&f);
}

// Rows by the hundred thousand, a few columns at a time: fragments of some bytes are asked for by
// the million, but not with a call for each.
static void test_fragments_of_a_tall_matrix(void **state) {
  (void)state;
  struct fixture f = {0};
  const uint64_t rows = 200003, cols = 61, n = rows * cols * 4;
  int64_t dims[] = {(int64_t)rows, (int64_t)cols};
  uint32_t id = transposed(&f, made_up(&f, DTYPE_FLOAT, dims, 2, 100));
  open_eval(&f, 4 * MIB);
  for (uint64_t at = 0; at < n; at += TILE) {
    size_t part = (size_t)min_u64(TILE, n - at);
    read_ok(&f, id, at, tile, part);
    check_transposed(tile, at, part, 100, rows, cols);
  }
  assert_true(io_source_bytes_read(&f.io) <= n * 21 / 10);
  assert_true(f.io.calls <= cols);
  close_all(&f);
}

// Reads of any size within one box cost nothing more.
static void test_small_reads_of_a_transpose(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t dims[] = {512, 512};
  uint64_t n = 512 * 512 * 4;
  uint32_t id = transposed(&f, made_up(&f, DTYPE_FLOAT, dims, 2, 0));
  open_eval(&f, 4 * MIB);
  for (uint64_t at = 0; at < n; at += 780) {
    size_t part = (size_t)min_u64(780, n - at);
    read_ok(&f, id, at, tile, part);
    check_transposed(tile, at, part, 0, 512, 512);
  }
  assert_int_equal(io_source_bytes_read(&f.io), n);
  assert_int_equal(f.io.calls, 1);
  close_all(&f);
}

// A transpose over a conversion, and transposes side by side in the rows of a concatenation:
// several boxes share the budget and each source is still read about once.
static void test_boxes_share_the_budget(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t a_dims[] = {3000, 800}, b_dims[] = {1000, 800};
  uint32_t a = made_up(&f, DTYPE_FLOAT, a_dims, 2, 0);
  uint32_t b = made_up(&f, DTYPE_FLOAT, b_dims, 2, 1 << 30);
  uint32_t parts[] = {transposed(&f, a), transposed(&f, b), transposed(&f, a)};
  uint32_t id = recipe_concat(&f.r, parts, 3, 1);
  uint64_t n = f.r.rows[id].bytes;
  open_eval(&f, MIB);
  read_in_order(&f, id, 0, n);
  assert_true(io_source_bytes_read(&f.io) <= n * 21 / 10);
  f.io.bytes = 0;
  uint32_t halves = transposed(&f, recipe_cast(&f.r, a, DTYPE_FLOAT16));
  read_in_order(&f, halves, 0, f.r.rows[halves].bytes);
  assert_true(io_source_bytes_read(&f.io) <= f.r.rows[a].bytes * 21 / 10);
  assert_int_equal(f.ev->n_boxes, 1);
  close_all(&f);
}

// Everything the evaluator hands out lies in its block, and parts do not overlap.
static void test_budget_holds(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t dims[] = {64, 3000};
  uint32_t a = transposed(&f, made_up(&f, DTYPE_FLOAT, dims, 2, 0));
  uint32_t parts[EVAL_BOXES + 3];
  for (uint32_t i = 0; i < EVAL_BOXES + 3; i++) {
    uint32_t m = made_up(&f, DTYPE_FLOAT, dims, 2, (i + 1) << 20);
    parts[i] = transposed(&f, m);
  }
  uint32_t all = recipe_concat(&f.r, parts, EVAL_BOXES + 3, 1);
  open_eval(&f, 3 * MIB + 12345);
  const uint32_t roots[] = {a, all};
  for (uint32_t k = 0; k < 2; k++) {
    read_in_order(&f, roots[k], 0, f.r.rows[roots[k]].bytes);
    struct eval *ev = f.ev;
    assert_int_equal(ev->n_boxes, k == 0 ? 1 : EVAL_BOXES);
    assert_true(ev->scratch == ev->memory);
    assert_true(ev->scratch + EVAL_DEPTH * EVAL_SCRATCH_BYTES <= ev->streams[0].buf);
    assert_true(ev->streams[EVAL_STREAMS - 1].buf + EVAL_STREAM_BYTES <= ev->cursors[0].buf);
    assert_true(ev->cursors[EVAL_CURSORS - 1].buf + EVAL_CURSOR_BYTES <= ev->box_memory);
    for (uint32_t i = 0; i < ev->n_boxes; i++) {
      const uint8_t *end = ev->boxes[i].data + ev->box_bytes;
      assert_true(i + 1 < ev->n_boxes ? end <= ev->boxes[i + 1].data
                                      : end <= ev->memory + ev->budget_bytes);
    }
  }
  close_all(&f);
}

// ---- slices, concatenations --------------------------------------------------------------------

// Every third element: read through the gaps, the source at most once, in few calls.
static void test_sparse_slice(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t dims[] = {3 * MIB}, out[] = {MIB}, start[] = {2}, step[] = {3};
  uint32_t id = recipe_slice(&f.r, made_up(&f, DTYPE_FLOAT, dims, 1, 0), start, step, out);
  open_eval(&f, MIB);
  for (uint64_t at = 0; at < 4 * MIB; at += TILE) {
    read_ok(&f, id, at, tile, TILE);
    for (size_t i = 0; i < TILE; i += 4) {
      uint32_t x;
      memcpy(&x, tile + i, 4);
      assert_int_equal(x, made_up_bits(8 + (at + i) * 3));
    }
  }
  assert_true(f.io.bytes <= 12 * MIB);
  assert_true(f.io.bytes / f.io.calls > 2048);
  close_all(&f);
}

// A few columns of a wide matrix: the gaps between them are not read.
static void test_narrow_slice(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t dims[] = {5000, 4000}, out[] = {5000, 10}, start[] = {0, 7}, step[] = {1, 1};
  uint32_t id = recipe_slice(&f.r, made_up(&f, DTYPE_FLOAT, dims, 2, 0), start, step, out);
  open_eval(&f, MIB);
  read_ok(&f, id, 0, tile, 5000 * 40);
  for (uint64_t r = 0; r < 5000; r++) {
    uint32_t x;
    memcpy(&x, tile + r * 40, 4);
    assert_int_equal(x, made_up_bits((r * 4000 + 7) * 4));
  }
  assert_int_equal(f.io.bytes, 5000 * 40);
  close_all(&f);
}

// Rows of 3 and of 5 elements in turn: reads follow the two sources, not the rows.
static void test_concat_of_short_rows(void **state) {
  (void)state;
  struct fixture f = {0};
  enum { ROWS = 20000 };
  int64_t a_dims[] = {ROWS, 3}, b_dims[] = {ROWS, 5};
  uint32_t parts[] = {made_up(&f, DTYPE_FLOAT, a_dims, 2, 0),
                      made_up(&f, DTYPE_FLOAT, b_dims, 2, 1 << 24)};
  uint32_t id = recipe_concat(&f.r, parts, 2, 1);
  open_eval(&f, MIB);
  read_ok(&f, id, 0, tile, ROWS * 32);
  for (uint64_t r = 0; r < ROWS; r++) {
    uint32_t x[8];
    memcpy(x, tile + r * 32, 32);
    assert_int_equal(x[2], made_up_bits((r * 3 + 2) * 4));
    assert_int_equal(x[3], made_up_bits((1 << 24) + r * 20));
  }
  assert_true(f.io.bytes <= ROWS * 32 * 21 / 10);
  assert_true(f.io.calls < ROWS / 50);
  close_all(&f);
}

// ---- encodings ---------------------------------------------------------------------------------

enum { VARINTS = 300000 };

static uint64_t varint_value(uint64_t i) {
  return fake_word(i) >> (fake_word(i + VARINTS) % 64);
}

// `VARINTS` int64 entries of a packed field, with checkpoints.
static uint32_t make_varints(struct fixture *f, uint64_t *bytes) {
  uint64_t checkpoints[VARINTS / CHECKPOINT_ENTRIES + 1];
  uint8_t *at = f->io.memory = malloc(VARINTS * 10);
  for (uint64_t i = 0; i < VARINTS; i++) {
    if (i % CHECKPOINT_ENTRIES == 0)
      checkpoints[i / CHECKPOINT_ENTRIES] = (uint64_t)(at - f->io.memory);
    uint64_t x = varint_value(i);
    for (; x >= 0x80; x >>= 7)
      *at++ = (uint8_t)(x | 0x80);
    *at++ = (uint8_t)x;
  }
  *bytes = (uint64_t)(at - f->io.memory);
  int64_t dims[] = {VARINTS};
  struct piece p = {.at = {0, *bytes, FAKE_MEMORY}, .count = VARINTS, .checkpoint = 0};
  fake_allow(&f->io, p.at);
  return recipe_extent(&f->r, DTYPE_INT64, dims, 1, ENCODING_VARINT, &p, 1, checkpoints);
}

static void check_varints(struct fixture *f, uint32_t id, uint64_t first, uint64_t count) {
  read_ok(f, id, first * 8, tile, count * 8);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t x;
    memcpy(&x, tile + i * 8, 8);
    if (x != varint_value(first + i)) fail_msg("entry %llu", (unsigned long long)(first + i));
  }
}

// In order, in reads of any size, each byte is read and decoded once; any other place costs at most
// one interval.
static void test_varints(void **state) {
  (void)state;
  struct fixture f = {0};
  uint64_t bytes;
  uint32_t id = make_varints(&f, &bytes);
  open_eval(&f, MIB);
  for (uint64_t at = 0, n; at < VARINTS; at += n) {
    n = min_u64(1 + at % 1000, VARINTS - at);
    check_varints(&f, id, at, n);
  }
  assert_int_equal(f.io.bytes, bytes);
  for (uint64_t k = 0; k < 40; k++) {
    f.io.bytes = 0;
    check_varints(&f, id, k * 7777777 % (VARINTS - 5), 5);
    assert_true(f.io.bytes <= CHECKPOINT_ENTRIES * 10 + EVAL_CURSOR_BYTES);
  }
  // Right after a checkpoint: nothing before it is read.
  f.io.bytes = 0;
  check_varints(&f, id, 3 * CHECKPOINT_ENTRIES, 5);
  assert_true(f.io.bytes <= 50);
  free(f.io.memory);
  close_all(&f);
}

// A file that changed under us: varints that run out of their field, or never end.
static void test_broken_varints(void **state) {
  (void)state;
  struct fixture f = {0};
  uint8_t memory[64];
  memset(memory, 0x81, sizeof memory);
  f.io.memory = memory;
  int64_t dims[] = {3};
  struct piece p = {.at = {0, 8, FAKE_MEMORY}, .count = 3, .checkpoint = NO_ID};
  struct piece long_one = {.at = {8, 50, FAKE_MEMORY}, .count = 3, .checkpoint = NO_ID};
  fake_allow(&f.io, p.at);
  fake_allow(&f.io, long_one.at);
  uint32_t ids[] = {recipe_extent(&f.r, DTYPE_INT32, dims, 1, ENCODING_VARINT, &p, 1, NULL),
                    recipe_extent(&f.r, DTYPE_INT32, dims, 1, ENCODING_VARINT, &long_one, 1, NULL)};
  open_eval(&f, MIB);
  for (int i = 0; i < 2; i++) {
    struct err err = {0};
    assert_int_equal(recipe_read(f.ev, ids[i], 4, tile, 8, &err), -1);
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.msg, i ? "bytes 8..58" : "bytes 0..8"));
    assert_true(err.hint[0]);
  }
  memset(memory, 1, sizeof memory); // and no trace of it is kept
  memset(memory + 3, 2, 5);
  read_ok(&f, ids[0], 0, tile, 12);
  assert_int_equal(tile[8], 1);
  close_all(&f);
}

// Padding bits of a packed source are copied with it, as they stand; whatever is computed has
// zeros.
static void test_padding_bits(void **state) {
  (void)state;
  struct fixture f = {0};
  uint8_t memory[] = {0x21, 0xf3}, literal[] = {0x21, 0xf3}, got[2];
  f.io.memory = memory;
  int64_t dims[] = {3}, column[] = {3, 1}, start[] = {2}, back[] = {-1};
  struct piece p = {.at = {0, 2, FAKE_MEMORY}, .count = 2, .checkpoint = NO_ID};
  fake_allow(&f.io, p.at);
  uint32_t id = recipe_extent(&f.r, DTYPE_INT4, dims, 1, ENCODING_RAW, &p, 1, NULL);
  uint32_t bytes = recipe_bytes(&f.r, DTYPE_INT4, dims, 1, span_of(literal, 2));
  const uint32_t plain[] = {id, bytes, recipe_reshape(&f.r, id, column, 2)};
  open_eval(&f, MIB);
  for (int i = 0; i < 3; i++) {
    read_ok(&f, plain[i], 0, got, 2);
    assert_memory_equal(got, memory, 2);
  }
  read_ok(&f, recipe_slice(&f.r, id, start, back, dims), 0, got, 2);
  assert_int_equal(got[0], 0x23);
  assert_int_equal(got[1], 0x01);
  close_all(&f);
}

// Nothing of nothing.
static void test_empty(void **state) {
  (void)state;
  struct fixture f = {0};
  int64_t dims[] = {0, 5};
  uint32_t empty = recipe_extent(&f.r, DTYPE_FLOAT, dims, 2, ENCODING_NONE, NULL, 0, NULL);
  uint32_t parts[] = {empty, empty};
  open_eval(&f, MIB);
  read_ok(&f, empty, 0, tile, 0);
  read_ok(&f, transposed(&f, empty), 0, tile, 0);
  read_ok(&f, recipe_concat(&f.r, parts, 2, 1), 0, tile, 0);
  read_ok(&f, recipe_cast(&f.r, empty, DTYPE_FLOAT16), 0, tile, 0);
  close_all(&f);
}

int test_eval(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transpose_reads_once),
      cmocka_unit_test(test_disorder_costs_more),
      cmocka_unit_test(test_transpose_of_a_large_matrix),
      cmocka_unit_test(test_transpose_of_a_tall_matrix),
      cmocka_unit_test(test_fragments_of_a_tall_matrix),
      cmocka_unit_test(test_small_reads_of_a_transpose),
      cmocka_unit_test(test_boxes_share_the_budget),
      cmocka_unit_test(test_budget_holds),
      cmocka_unit_test(test_sparse_slice),
      cmocka_unit_test(test_narrow_slice),
      cmocka_unit_test(test_concat_of_short_rows),
      cmocka_unit_test(test_varints),
      cmocka_unit_test(test_broken_varints),
      cmocka_unit_test(test_padding_bits),
      cmocka_unit_test(test_empty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
