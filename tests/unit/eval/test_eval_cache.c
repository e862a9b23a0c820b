// Turns at the run's statistics: what several threads want at the same time is computed by one, a
// failure gives the turn to the next, a stop ends the wait. And the same through evaluators,
// counted in source bytes. Without turns (the controls) every thread computes for itself. What
// memory does not hold goes to a file, and with a file that fails, or none, it is not there.
#include "fake_io.h"
#include "fs_fault.h"
#include "platform/descriptor.h"
#include "stream/eval/eval.h"
#include "stream/eval/shared/eval_turns.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { THREADS = 4, UNITS = 3, ROUNDS = 50, MIB = 1 << 20 };

static const struct eval_cache_file nowhere;
static const struct eval_go_on always;

static void each_thread(uint32_t n, void *(*work)(void *), void *const *ctx) {
  pthread_t threads[THREADS];
  for (uint32_t i = 0; i < n; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, ctx[i]), 0);
  for (uint32_t i = 0; i < n; i++)
    pthread_join(threads[i], NULL);
}

// ---- turns -------------------------------------------------------------------------------------

struct job {
  struct eval_cache *c;
  struct eval_cache_key key;
  pthread_barrier_t all_looked; // the control: nobody puts before all have looked
  bool takes_turns;
  _Atomic uint32_t failures_left;
  _Atomic uint32_t computed[UNITS], bad;
};

static struct eval_cache_key a_key(void) {
  return (struct eval_cache_key){.of = 7, .units = UNITS, .bytes = {1, 8}};
}

static bool fetch(struct job *j, uint64_t unit) {
  uint8_t scale[8], zero;
  if (!eval_cache_get(j->c, &j->key, unit, EVAL_CACHE_OTHER, 0, scale, sizeof scale)) return false;
  if (!eval_cache_get(j->c, &j->key, unit, EVAL_CACHE_FIRST, 0, &zero, 1)) return false;
  if (scale[7] != 10 + unit || zero != unit) j->bad++;
  return true;
}

static void compute(struct job *j, uint64_t unit) {
  uint8_t scale[8], zero = (uint8_t)unit;
  memset(scale, (int)(10 + unit), sizeof scale);
  j->computed[unit]++;
  uint32_t left = j->failures_left;
  while (left > 0)
    if (atomic_compare_exchange_weak(&j->failures_left, &left, left - 1)) return;
  eval_cache_put(j->c, &j->key, unit, &zero, scale);
}

static void want_unit(struct job *j, uint64_t unit) {
  if (!j->takes_turns) {
    const bool there = fetch(j, unit);
    pthread_barrier_wait(&j->all_looked);
    if (!there) compute(j, unit);
    return;
  }
  const enum eval_turns_next turn = eval_turns_wait(j->c, &j->key, unit, always);
  if (turn == EVAL_TURNS_LOOK && !fetch(j, unit)) j->bad++;
  if (turn == EVAL_TURNS_STOPPED) j->bad++;
  if (turn != EVAL_TURNS_MINE) return;
  compute(j, unit);
  eval_turns_done(j->c, &j->key, unit);
}

static void *want_all(void *ctx) {
  for (uint64_t unit = 0; unit < UNITS; unit++)
    want_unit(ctx, unit);
  return NULL;
}

static void start(struct job *j, bool takes_turns, uint32_t failures) {
  memset(j, 0, sizeof *j);
  j->c = eval_cache_open(1 << 16, nowhere);
  j->key = a_key();
  j->takes_turns = takes_turns;
  j->failures_left = failures;
  pthread_barrier_init(&j->all_looked, NULL, THREADS);
  each_thread(THREADS, want_all, (void *[]){j, j, j, j});
  pthread_barrier_destroy(&j->all_looked);
  eval_cache_close(j->c);
  assert_int_equal(j->bad, 0);
}

static void test_one_computes(void **state) {
  (void)state;
  struct job j;
  for (int round = 0; round < ROUNDS; round++) {
    start(&j, true, 0);
    for (uint32_t unit = 0; unit < UNITS; unit++)
      assert_int_equal(j.computed[unit], 1);
  }
  start(&j, false, 0);
  for (uint32_t unit = 0; unit < UNITS; unit++)
    assert_int_equal(j.computed[unit], THREADS);
}

static void test_failure_gives_the_turn_on(void **state) {
  (void)state;
  struct job j;
  for (int round = 0; round < ROUNDS; round++) {
    start(&j, true, THREADS - 1); // at most: the last one that asks finds it
    assert_int_equal(j.computed[0] + j.computed[1] + j.computed[2], UNITS + THREADS - 1);
    assert_true(j.computed[0] > 1);
  }
}

static bool refuse(void *ctx) {
  (*(uint32_t *)ctx)++;
  return false;
}

// One after the other: the one whose turn it is need not come to an end for the other one to leave.
static void test_stop_ends_the_wait(void **state) {
  (void)state;
  struct eval_cache *c = eval_cache_open(1 << 16, nowhere);
  const struct eval_cache_key key = a_key();
  uint32_t asked = 0;
  const struct eval_go_on no = {.ask = refuse, .ctx = &asked};
  assert_int_equal(eval_turns_wait(c, &key, 1, no), EVAL_TURNS_MINE);
  assert_int_equal(eval_turns_wait(c, &key, 0, no), EVAL_TURNS_MINE); // another unit
  assert_int_equal(asked, 0);
  assert_int_equal(eval_turns_wait(c, &key, 1, no), EVAL_TURNS_STOPPED);
  assert_int_equal(asked, 1);
  eval_turns_done(c, &key, 0);
  eval_turns_done(c, &key, 1);
  assert_int_equal(eval_turns_wait(c, &key, 1, no), EVAL_TURNS_MINE);
  eval_turns_done(c, &key, 1);
  eval_cache_close(c);
}

// Unit 0 was put: is unit 2 computed for all, or by everybody alone, since there is no room for it?
static enum eval_turns_next turn_of_last(size_t bytes) {
  struct eval_cache *c = eval_cache_open(bytes, nowhere);
  struct eval_cache_key key = a_key();
  key.bytes[EVAL_CACHE_OTHER] = 32;
  const uint8_t scale[32] = {0}, zero = 0;
  eval_cache_put(c, &key, 0, &zero, scale);
  const enum eval_turns_next turn = eval_turns_wait(c, &key, 2, always);
  if (turn == EVAL_TURNS_MINE) eval_turns_done(c, &key, 2);
  eval_cache_close(c);
  return turn;
}

static void test_not_kept_is_not_waited_for(void **state) {
  (void)state;
  const struct eval_cache_key key = a_key();
  assert_int_equal(eval_turns_wait(NULL, &key, 0, always), EVAL_TURNS_LOOK);
  assert_int_equal(turn_of_last(17), EVAL_TURNS_LOOK); // nothing is kept
  assert_int_equal(turn_of_last(80), EVAL_TURNS_LOOK); // the scales of one unit
  assert_int_equal(turn_of_last(1 << 10), EVAL_TURNS_MINE);
}

// ---- the file ----------------------------------------------------------------------------------

// A place for one file: what was opened there, and in what mode.
struct disk {
  int flags; // -1: none can be opened
  int opened, fd;
};

static struct file open_file(void *ctx) {
  struct disk *p = ctx;
  char name[] = "/tmp/weir-cache-XXXXXX";
  p->opened++;
  if (p->flags < 0) return NO_FILE;
  const int made = mkstemp(name);
  assert_true(made >= 0);
  p->fd = open(name, p->flags);
  assert_true(p->fd >= 0);
  close(made);
  unlink(name);
  return file_of_descriptor(p->fd);
}

// Units of 40 bytes, ten of them unless said.
static struct eval_cache_key wide_key(uint32_t of) {
  return (struct eval_cache_key){.of = of, .units = 10, .bytes = {8, 32}};
}

static void put_unit(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit) {
  uint8_t scales[32], zeros[8];
  memset(scales, (int)(16 * key->of + unit), sizeof scales);
  memset(zeros, (int)(128 + 16 * key->of + unit), sizeof zeros);
  eval_cache_put(c, key, unit, zeros, scales);
}

// Of a unit: its scales in two pieces, and its zeros; or both as a whole. What is there has to be
// right.
static uint32_t parts_there(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                            bool whole) {
  uint8_t scales[32] = {0}, zeros[8] = {0};
  bool has[2];
  if (whole) {
    has[0] = has[1] = eval_cache_look(c, key, unit, EVAL_CACHE_OTHER, scales) &&
                      eval_cache_look(c, key, unit, EVAL_CACHE_FIRST, zeros);
  } else {
    has[0] = eval_cache_get(c, key, unit, EVAL_CACHE_OTHER, 12, scales + 12, 20) &&
             eval_cache_get(c, key, unit, EVAL_CACHE_OTHER, 0, scales, 12);
    has[1] = eval_cache_get(c, key, unit, EVAL_CACHE_FIRST, 0, zeros, sizeof zeros);
  }
  for (size_t i = 0; has[0] && i < sizeof scales; i++)
    assert_int_equal(scales[i], 16 * key->of + unit);
  for (size_t i = 0; has[1] && i < sizeof zeros; i++)
    assert_int_equal(zeros[i], 128 + 16 * key->of + unit);
  return (uint32_t)has[0] + has[1];
}

// Parts of two weights made and asked for by turns, in so much memory; 40 if all are there.
static uint32_t parts_of_two(size_t bytes, struct disk *disk) {
  const struct eval_cache_key keys[2] = {wide_key(1), wide_key(2)};
  struct eval_cache *c = eval_cache_open(bytes, (struct eval_cache_file){open_file, disk});
  uint32_t there = 0;
  for (uint64_t unit = 0; unit < 10; unit++)
    for (int i = 0; i < 2; i++)
      put_unit(c, &keys[i], unit * 7 % 10);
  for (int i = 0; i < 2; i++)
    for (uint64_t unit = 0; unit < 10; unit++)
      assert_int_equal(parts_there(c, &keys[i], unit, true),
                       2 * (parts_there(c, &keys[i], unit, true) == 2));
  for (int i = 0; i < 2; i++)
    for (uint64_t unit = 0; unit < 10; unit++)
      there += parts_there(c, &keys[i], unit, false);
  eval_cache_close(c);
  return there;
}

static void test_file_holds_the_rest(void **state) {
  (void)state;
  struct disk fits = {.flags = O_RDWR};
  assert_int_equal(parts_of_two(4096, &fits), 40);
  assert_int_equal(fits.opened, 0); // memory was enough
  for (size_t bytes = 64; bytes < 900; bytes += 7) {
    struct disk disk = {.flags = O_RDWR}, none = {.flags = -1}, broken = {.flags = O_RDONLY};
    assert_int_equal(parts_of_two(bytes, &disk), 40);
    assert_int_equal(disk.opened, bytes < 2 * (16 + 400));
    const uint32_t without = parts_of_two(bytes, &none);
    assert_true(bytes < 2 * (16 + 400) ? without < 40 : without == 40); // the control
    assert_true(parts_of_two(bytes, &broken) <= 40);                    // and nothing wrong
    assert_true(none.opened <= 1 && broken.opened <= 1);
  }
}

// With a file system that does not tell how much room it has there is no file; one that takes no room back holds it until the end.
static void test_file_that_is_refused(void **state) {
  (void)state;
  static const char *const faults[] = {"EIO:room:1:persist", "EIO:punch:1:persist",
                                       "EIO:pwrite:1:persist", "EIO:read:1:persist"};
  struct disk none = {.flags = -1};
  const uint32_t without = parts_of_two(200, &none);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    struct disk disk = {.flags = O_RDWR};
    fs_fault_install(faults[i]);
    const uint32_t there = parts_of_two(200, &disk);
    fs_fault_remove();
    assert_int_equal(disk.opened, 1);
    if (i == 0) assert_int_equal(there, without);
    if (i == 1) assert_int_equal(there, 40);
    assert_true(there <= 40); // and nothing wrong
  }
}

// Many units at a time are the same as each by itself, wherever they lie: in memory, in the file, some here
// and some there, some known and some not.
static void test_many_units_at_a_time(void **state) {
  (void)state;
  uint8_t zeros[10][8], scales[10][32], some[10][32];
  for (uint8_t unit = 0; unit < 10; unit++) {
    memset(scales[unit], 16 + unit, sizeof scales[unit]);
    memset(zeros[unit], 144 + unit, sizeof zeros[unit]);
  }
  for (size_t bytes = 64; bytes < 900; bytes += 9)
    for (uint32_t from = 0; from < 10; from++)
      for (uint32_t n = 1; n <= 10 - from; n++) {
        struct disk disk = {.flags = O_RDWR};
        struct eval_cache *c = eval_cache_open(bytes, (struct eval_cache_file){open_file, &disk});
        const struct eval_cache_key key = wide_key(1);
        if (from > 2) put_unit(c, &key, 1); // one before them, by itself
        eval_cache_put_units(c, &key, from, n, zeros[from], scales[from]);
        assert_int_equal(eval_cache_next(c, &key, 2, 10),
                         max_u64(from, 2) < from + n ? max_u64(from, 2) : 10);
        for (uint32_t unit = 0; unit < 10; unit++) {
          const bool is = (unit >= from && unit < from + n) || (from > 2 && unit == 1);
          assert_int_equal(parts_there(c, &key, unit, false), is ? 2 : 0);
        }
        const uint64_t before = eval_cache_questions(c);
        uint32_t calls = 0;
        for (uint32_t part = 0; part < EVAL_CACHE_PARTS; part++)
          for (uint64_t unit = from, got; unit < 10; unit += got, calls++) {
            got = eval_cache_get_units(c, &key, unit, 10 - unit, part, some[0]);
            assert_int_equal(got > 0, unit < from + n);
            assert_true(unit + got <= from + n);
            const size_t each = key.bytes[part];
            const uint8_t *want = part ? scales[unit] : zeros[unit];
            if (got == 0) break;
            assert_memory_equal(some[0], want, got * each);
          }
        assert_true(calls <= 4); // in memory, then in the file
        assert_true(eval_cache_questions(c) - before <= 10);
        eval_cache_close(c);
      }
}

// What nobody needs any more makes room without a word to the file.
static void test_used_up_goes_nowhere(void **state) {
  (void)state;
  struct disk disk = {.flags = O_RDWR};
  struct eval_cache *c = eval_cache_open(16 + 400, (struct eval_cache_file){open_file, &disk});
  for (uint32_t of = 1; of < 6; of++) {
    const struct eval_cache_key key = wide_key(of);
    for (uint64_t unit = 0; unit < 10; unit++)
      put_unit(c, &key, unit);
    for (uint64_t unit = 0; unit < 10; unit++)
      assert_int_equal(parts_there(c, &key, unit, false), 2);
  }
  assert_int_equal(disk.opened, 0);
  const struct eval_cache_key left = wide_key(6), next = wide_key(7); // the control: not handed out
  put_unit(c, &left, 3);
  put_unit(c, &next, 3);
  assert_int_equal(disk.opened, 1);
  assert_int_equal(parts_there(c, &left, 3, false), 2);
  assert_int_equal(parts_there(c, &left, 4, false), 0);
  eval_cache_close(c);
}

// The system's pread, which the cache's file is read with. Before it reads, `meanwhile` (once) is what
// another thread does.
static _Thread_local struct eval_cache *meanwhile;

ssize_t pread(int fd, void *out, size_t n, off_t at) {
  struct eval_cache *c = meanwhile;
  meanwhile = NULL;
  const struct eval_cache_key other = wide_key(2);
  if (c) put_unit(c, &other, 0);
  return (ssize_t)syscall(SYS_pread64, fd, out, n, at);
}

// The last of an entry is asked for, and before it is read from the file another one needs the room.
static void test_what_goes_while_it_is_read_is_not_there(void **state) {
  (void)state;
  for (int goes = 0; goes < 2; goes++) {
    struct disk disk = {.flags = O_RDWR};
    struct eval_cache *c = eval_cache_open(200, (struct eval_cache_file){open_file, &disk});
    const struct eval_cache_key key = wide_key(1);
    uint8_t part[32];
    for (uint64_t unit = 0; unit < 10; unit++)
      put_unit(c, &key, unit);
    assert_int_equal(disk.opened, 1);
    for (uint64_t unit = 0; unit < 10; unit++)
      assert_true(eval_cache_get(c, &key, unit, EVAL_CACHE_FIRST, 0, part, 8));
    for (uint64_t unit = 0; unit < 9; unit++)
      assert_true(eval_cache_get(c, &key, unit, EVAL_CACHE_OTHER, 0, part, 32));
    meanwhile = goes ? c : NULL;
    const bool there = eval_cache_get(c, &key, 9, EVAL_CACHE_OTHER, 0, part, 32);
    for (size_t i = 0; there && i < sizeof part; i++)
      assert_int_equal(part[i], 16 * key.of + 9);
    assert_int_equal(there, !goes);
    assert_null(meanwhile);
    assert_false(goes && eval_cache_has(c, &key, 9));
    eval_cache_close(c);
  }
}

static void *put_some(void *ctx) {
  struct eval_cache *c = ctx;
  for (int round = 0; round < 20; round++)
    for (uint32_t of = 1; of < 4; of++) {
      const struct eval_cache_key key = wide_key(of);
      for (uint64_t unit = 0; unit < 10; unit++) {
        put_unit(c, &key, unit);
        assert_int_equal(parts_there(c, &key, unit, round % 2), 2);
      }
    }
  return NULL;
}

static void test_file_is_shared(void **state) {
  (void)state;
  for (int round = 0; round < 20; round++) {
    struct disk disk = {.flags = O_RDWR};
    struct eval_cache *c = eval_cache_open(700, (struct eval_cache_file){open_file, &disk});
    for (uint32_t of = 1; of < 4; of++) {
      const struct eval_cache_key key = wide_key(of);
      put_unit(c, &key, 0);
    }
    each_thread(THREADS, put_some, (void *[]){c, c, c, c});
    eval_cache_close(c);
  }
}

// ---- evaluators --------------------------------------------------------------------------------

// Half of the codes of one weight, and its scales.
struct half {
  struct io io;
  struct recipes *r;
  struct eval_cache *cache;
  pthread_barrier_t *ready;
  uint32_t codes, scales;
  uint64_t from, n;
  uint8_t *out;
  float scale;
  struct err err;
};

static void *make_half(void *ctx) {
  struct half *h = ctx;
  struct eval *ev;
  if (eval_open(&ev, h->r, &h->io, 2 * MIB, &h->err) != 0) return NULL;
  eval_share(ev, h->cache);
  pthread_barrier_wait(h->ready);
  struct eval_task *t = eval_begin(ev, h->codes, h->from, h->n, (struct eval_watcher){0});
  for (uint64_t at = 0; at < h->n && h->err.kind == ERR_NONE; at += MIB / 2)
    eval_read(t, h->from + at, h->out + h->from + at, (size_t)min_u64(MIB / 2, h->n - at), &h->err);
  if (h->err.kind == ERR_NONE) recipe_read(ev, h->scales, 0, &h->scale, sizeof h->scale, &h->err);
  eval_close(ev);
  return NULL;
}

enum { ROWS = 4096, COLUMNS = 1024 };
static float values[ROWS * COLUMNS];

static void make_up_values(void) {
  for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
    values[i] = (float)(fake_word(i) % 2000) - 700;
}

// The weight that two evaluators make half of each is read so many times; its codes.
static double reads(const struct recipe_quantization *q, bool cached, uint8_t *out) {
  static struct half halves[2];
  struct recipes r;
  pthread_barrier_t ready;
  recipes_init(&r);
  const int64_t dims[2] = {ROWS, COLUMNS};
  const uint64_t count = (uint64_t)ROWS * COLUMNS;
  const struct piece p = {
      .at = {0, sizeof values, FAKE_MEMORY}, .count = sizeof values, .checkpoint = NO_ID};
  const uint32_t w = recipe_extent(&r, DTYPE_FLOAT, dims, 2, ENCODING_RAW, &p, 1, NULL);
  struct eval_cache *cache = cached ? eval_cache_open(MIB, nowhere) : NULL;
  pthread_barrier_init(&ready, NULL, 2);
  for (uint32_t i = 0; i < 2; i++) {
    halves[i] = (struct half){.io = {.memory = (uint8_t *)values, .memory_bytes = sizeof values},
                              .r = &r,
                              .cache = cache,
                              .ready = &ready,
                              .codes = recipe_quantize(&r, w, q, PART_CODES),
                              .scales = recipe_quantize(&r, w, q, PART_SCALES),
                              .from = i * count / 2,
                              .n = count / 2,
                              .out = out};
    fake_allow(&halves[i].io, p.at);
  }
  each_thread(2, make_half, (void *[]){&halves[0], &halves[1]});
  for (uint32_t i = 0; i < 2; i++)
    if (halves[i].err.kind != ERR_NONE) fail_msg("%s", halves[i].err.msg);
  assert_memory_equal(&halves[0].scale, &halves[1].scale, sizeof(float));
  pthread_barrier_destroy(&ready);
  eval_cache_close(cache);
  recipes_free(&r);
  return (double)(halves[0].io.bytes + halves[1].io.bytes) / (double)sizeof values;
}

static void test_source_is_read_twice(void **state) {
  (void)state;
  static const struct recipe_quantization formats[] = {
      {.format = FORMAT_QDQ, .bits = 8, .axis = 0},
      {.format = FORMAT_QDQ, .bits = 8, .axis = 0, .symmetric = true},
      {.format = FORMAT_SHRINK, .bits = 8, .axis = RECIPE_PER_TENSOR},
      {.format = FORMAT_SHRINK, .bits = 8, .axis = 1},
      {.format = FORMAT_AFFINE, .bits = 8, .axis = RECIPE_PER_TENSOR},
  };
  make_up_values();
  static uint8_t shared[ROWS * COLUMNS], alone[ROWS * COLUMNS];
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    memset(shared, 0xa5, sizeof shared);
    memset(alone, 0x5a, sizeof alone);
    assert_true(reads(&formats[i], true, shared) <= 2.1);
    assert_true(reads(&formats[i], false, alone) >= 3.0); // the control
    assert_memory_equal(shared, alone, sizeof shared);
  }
}

int test_eval_cache(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_computes),
      cmocka_unit_test(test_failure_gives_the_turn_on),
      cmocka_unit_test(test_stop_ends_the_wait),
      cmocka_unit_test(test_not_kept_is_not_waited_for),
      cmocka_unit_test(test_file_holds_the_rest),
      cmocka_unit_test(test_file_that_is_refused),
      cmocka_unit_test(test_many_units_at_a_time),
      cmocka_unit_test(test_used_up_goes_nowhere),
      cmocka_unit_test(test_what_goes_while_it_is_read_is_not_there),
      cmocka_unit_test(test_file_is_shared),
      cmocka_unit_test(test_source_is_read_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
