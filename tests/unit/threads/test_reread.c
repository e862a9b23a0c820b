// Hashing what is in a file: all of it through a small buffer, not past its end, not after a stop.
#include "stream/sys/reread.h"

#include "kernels/kernels.h"
#include "platform/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { BYTES = 100000 };

static uint8_t bytes[BYTES];
static int fd;

static int set_up(void **state) {
  (void)state;
  char path[400];
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/weir-written-XXXXXX", tmp ? tmp : "/tmp");
  fd = mkstemp(path);
  if (fd < 0 || unlink(path)) return -1;
  for (size_t i = 0; i < BYTES; i++)
    bytes[i] = (uint8_t)(i * 2654435761u >> 13);
  return write(fd, bytes, BYTES) == BYTES ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  return close(fd);
}

struct hashing {
  int pieces;
  struct digest *sha;
};

static bool counted(void *ctx) {
  struct hashing *h = ctx;
  return h->pieces-- > 0;
}

static void add(void *ctx, const uint8_t *at, size_t n) {
  struct hashing *h = ctx;
  digest_add(h->sha, at, n);
}

static int hash(uint64_t off, uint64_t len, int pieces, uint8_t sum[DIGEST_BYTES],
                struct err *err) {
  uint8_t buf[4096];
  struct hashing h = {pieces, digest_new()};
  const struct reread range = {.file = file_of_descriptor(fd),
                               .name = "x.data",
                               .off = off,
                               .len = len,
                               .add = add,
                               .go_on = counted,
                               .ctx = &h};
  const int r = reread_hash(&range, buf, sizeof buf, err);
  digest_finish(h.sha, sum);
  return r;
}

static void test_range(void **state) {
  (void)state;
  static const struct {
    uint64_t off, len;
  } ranges[] = {{0, BYTES}, {1, 4096}, {4095, 4098}, {BYTES - 1, 1}, {77, 0}};
  uint8_t must[DIGEST_BYTES], is[DIGEST_BYTES];
  struct err err = {0};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    assert_int_equal(hash(ranges[i].off, ranges[i].len, 1000, is, &err), 0);
    digest_of(bytes + ranges[i].off, ranges[i].len, must);
    assert_memory_equal(is, must, DIGEST_BYTES);
  }
}

static void test_short_file(void **state) {
  (void)state;
  uint8_t is[DIGEST_BYTES];
  struct err err = {0};
  assert_int_equal(hash(BYTES - 5000, 5001, 1000, is, &err), -1);
  assert_int_equal(err.kind, ERR_IO);
  assert_non_null(strstr(err.msg, "cannot read back output 'x.data' at 100000"));
}

static void test_stop(void **state) {
  (void)state;
  uint8_t must[DIGEST_BYTES], is[DIGEST_BYTES];
  struct err err = {0};
  assert_int_equal(hash(0, BYTES, 2, is, &err), 1);
  assert_int_equal(err.kind, ERR_NONE);
  digest_of(bytes, 2 * 4096, must);
  assert_memory_equal(is, must, DIGEST_BYTES);
}

// Many at once: each has its own answer, whoever gives it.
static void test_compare(void **state) {
  (void)state;
  enum { N = 50 };
  uint8_t sums[N][DIGEST_BYTES];
  struct reread_known rows[N];
  const struct reread_work work = {.jobs = 3};
  for (uint32_t i = 0; i < N; i++) {
    const uint64_t off = i * 1999u, len = 100 + i;
    digest_of(bytes + off, len, sums[i]);
    if (i % 7 == 3) sums[i][i % DIGEST_BYTES] ^= 1;
    rows[i] = (struct reread_known){
        .file = file_of_descriptor(fd), .off = off, .len = len, .sha256 = sums[i]};
  }
  rows[10].file = NO_FILE;
  rows[11].off = BYTES - 5; // longer than what is there
  assert_true(reread_compare(rows, N, &work));
  for (uint32_t i = 0; i < N; i++)
    assert_int_equal(rows[i].differs, i % 7 == 3 || i == 10 || i == 11);
  assert_true(reread_compare(rows, 0, &work));
}

// Few rows or many, of one length or of all: the digests are those of libcrypto, each row is done once, and every
// descriptor that was asked for is closed.
enum { ROWS = 301 };
struct asked {
  uint32_t opened[ROWS], done[ROWS];
  uint8_t sums[ROWS][DIGEST_BYTES];
  int why[ROWS];
};

static struct file open_again(void *ctx, uint32_t row) {
  struct asked *a = ctx;
  a->opened[row]++;
  if (row % 50 != 17) return file_of_descriptor(dup(fd));
  errno = EACCES;
  return NO_FILE;
}

static void note_done(void *ctx, uint32_t row, const uint8_t *sha256, int why) {
  struct asked *a = ctx;
  a->done[row]++;
  a->why[row] = why;
  if (sha256) memcpy(a->sums[row], sha256, DIGEST_BYTES);
}

static void check_rows(uint32_t n, uint32_t jobs) {
  static struct asked a;
  struct reread_known rows[ROWS];
  const struct reread_work work = {.jobs = jobs, .open = open_again, .done = note_done, .ctx = &a};
  memset(&a, 0, sizeof a);
  for (uint32_t i = 0; i < n; i++) // every fifth is longer than the file
    rows[i] = (struct reread_known){.off = i % 5 == 4 ? BYTES - i / 2 : i * 3, .len = i};
  const int next = dup(fd);
  close(next);
  assert_true(reread_compare(rows, n, &work));
  for (uint32_t i = 0; i < n; i++) {
    uint8_t must[DIGEST_BYTES];
    const bool readable = i % 50 != 17 && (i % 5 != 4 || i == 0);
    assert_int_equal(a.opened[i], 1);
    assert_int_equal(a.done[i], 1);
    assert_int_equal(rows[i].differs, !readable);
    assert_int_equal(a.why[i], readable ? 0 : i % 50 == 17 ? EACCES : ENODATA);
    if (!readable) continue;
    digest_of(bytes + rows[i].off, rows[i].len, must);
    assert_memory_equal(a.sums[i], must, DIGEST_BYTES);
  }
  const int still = dup(fd);
  close(still);
  assert_int_equal(still, next);
}

static void test_rows(void **state) {
  (void)state;
  for (uint32_t jobs = 1; jobs <= 3; jobs++) {
    for (uint32_t n = 0; n < 9; n++)
      check_rows(n, jobs);
    check_rows(ROWS, jobs);
  }
  kernels_mask(0); // one lane
  check_rows(ROWS, 2);
  kernels_mask(UINT32_MAX);
}

static void count_ticks(void *ctx, uint64_t done, uint64_t total) {
  uint64_t *last = ctx;
  assert_true(done > *last && done <= total);
  *last = done;
}

static void test_compare_tells_and_stops(void **state) {
  (void)state;
  uint8_t sum[DIGEST_BYTES];
  uint64_t last = 0;
  int stop = 0;
  struct reread_known rows[4];
  struct reread_work work = {.jobs = 1, .stop = &stop, .tick = count_ticks, .ctx = &last};
  digest_of(bytes, BYTES, sum);
  for (uint32_t i = 0; i < 4; i++)
    rows[i] = (struct reread_known){.file = file_of_descriptor(fd), .len = BYTES, .sha256 = sum};
  assert_true(reread_compare(rows, 4, &work));
  assert_int_equal(last, 4 * BYTES);
  stop = 1;
  last = 0;
  assert_false(reread_compare(rows, 4, &work));
  assert_int_equal(last, 0);
}

int test_reread(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_range), cmocka_unit_test(test_short_file),
      cmocka_unit_test(test_stop),  cmocka_unit_test(test_compare),
      cmocka_unit_test(test_rows),  cmocka_unit_test(test_compare_tells_and_stops),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
