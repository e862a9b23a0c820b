// What an output file answers when it is asked how it would be written: every answer is used, and
// none costs a byte or hides an error.
#include "platform/descriptor.h"
#include "stream/io/io_outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { BYTES = (2 << 20) + 4096, CACHED = 128 << 10 };

static uint8_t *pattern(void) {
  uint8_t *at =
      mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // page-aligned
  assert_true(at != MAP_FAILED);
  for (size_t i = 0; i < BYTES; i++)
    at[i] = (uint8_t)(i * 2654435761u >> 24);
  return at;
}

static int file_in_tmp(int flags) {
  const char *tmp = getenv("TMPDIR");
  char path[300];
  snprintf(path, sizeof path, "%s/test_io_outlet.XXXXXX", tmp ? tmp : "/tmp");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  if (flags) {
    close(fd);
    fd = open(path, O_RDWR | flags);
  }
  unlink(path);
  return fd;
}

static int file_in_memory(void) {
  const int fd = memfd_create("test_io_outlet", MFD_CLOEXEC);
  assert_true(fd >= 0);
  return fd;
}

static struct io_op write_op(int fd, const uint8_t *at, size_t n, uint64_t off) {
  return (struct io_op){.fd = file_of_descriptor(fd), .at = at, .n = n, .off = off};
}

static void expect_bytes(int fd, const uint8_t *bytes) {
  uint8_t *got = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
  assert_true(got != MAP_FAILED);
  assert_memory_equal(got, bytes, BYTES);
  munmap(got, BYTES);
}

static void write_all(struct io_outlet *o, int fd, const uint8_t *bytes) {
  for (size_t off = 0; off < BYTES;) {
    const size_t n = min_u64(BYTES - off, IO_ATTEMPT_BYTES);
    const struct io_op op = write_op(fd, bytes + off, n, off);
    const int64_t r = io_outlet_write(o, &op);
    assert_int_equal(r, o->uncached ? n : min_u64(n, CACHED));
    off += (size_t)r;
  }
}

// A file system of memory has nothing to write back to: it refuses uncached writes.
static void a_refusal_is_met_by_cached_writes(void **state) {
  (void)state;
  uint8_t *bytes = pattern();
  struct io_outlet o = {.tried = false};
  const int fd = file_in_memory();
  write_all(&o, fd, bytes);
  assert_true(o.tried);
  assert_int_equal(io_outlet_how(&o) != 0, o.uncached);
  expect_bytes(fd, bytes);
  io_outlet_writeback(&o, file_of_descriptor(fd), 0, BYTES);
  close(fd);
  munmap(bytes, BYTES);
}

static void files_take_turns(void **state) {
  (void)state;
  uint8_t *bytes = pattern();
  struct io_outlet o = {.tried = false};
  const int fds[] = {file_in_tmp(0), file_in_memory()};
  for (size_t off = 0; off < BYTES; off += 4096) {
    for (int i = 0; i < 2; i++) {
      const struct io_op op = write_op(fds[i], bytes + off, 4096, off);
      assert_int_equal(io_outlet_write(&o, &op), 4096);
      assert_int_equal(file_descriptor(o.fd), fds[i]);
    }
  }
  for (int i = 0; i < 2; i++) {
    expect_bytes(fds[i], bytes);
    close(fds[i]);
  }
  munmap(bytes, BYTES);
}

// Where the answer was about another file of the same number, the refusal is still understood.
static void a_stale_answer_costs_no_bytes(void **state) {
  (void)state;
  uint8_t *bytes = pattern();
  const int fd = file_in_memory();
  struct io_outlet o = {.fd = fd, .tried = true, .uncached = true};
  write_all(&o, fd, bytes);
  expect_bytes(fd, bytes);
  close(fd);
  munmap(bytes, BYTES);
}

static void errors_are_told(void **state) {
  (void)state;
  static const uint8_t byte;
  struct io_outlet o = {.tried = false};
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  struct io_op op = write_op(fd, &byte, 1, 0);
  assert_int_equal(io_outlet_write(&o, &op), -EBADF);
  for (int k = 0; k < 3; k++) {
    if (io_outlet_write_here(&o, &op)) assert_int_equal(op.result, -EBADF);
  }
  close(fd);
}

// Copies through the engine; whether any write went to the background is told.
static bool copy_through_ring(int fd, const uint8_t *bytes) {
  const struct io_engine *e = &io_uring_engine;
  struct io_outlet twin = {.tried = false}; // is asked the same questions
  void *self;
  if (e->open(e, 2, &self) < 0) skip();
  for (size_t off = 0; off < BYTES;) {
    const size_t n = min_u64(BYTES - off, IO_ATTEMPT_BYTES);
    struct io_op op = write_op(fd, bytes + off, n, off);
    e->start(self, &op);
    assert_ptr_equal(e->reap(self, true), &op);
    assert_true(op.result > 0 && (size_t)op.result <= n);
    (void)io_outlet_write_here(&twin, &op); // the same bytes once more
    off += (size_t)op.result;
  }
  assert_null(e->reap(self, true));
  e->close(self);
  return twin.async;
}

static void ring_and_here_write_the_same(void **state) {
  (void)state;
  uint8_t *bytes = pattern();
  const int fds[] = {file_in_tmp(0), file_in_tmp(O_DIRECT), file_in_memory()};
  for (int i = 0; i < 3; i++) {
    if (fds[i] < 0) continue; // a file system without O_DIRECT
    const bool async = copy_through_ring(fds[i], bytes);
    print_message("file %d: %s\n", i, async ? "ring" : "here");
    expect_bytes(fds[i], bytes);
    close(fds[i]);
  }
  munmap(bytes, BYTES);
}

int test_io_outlet(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_refusal_is_met_by_cached_writes), cmocka_unit_test(files_take_turns),
      cmocka_unit_test(a_stale_answer_costs_no_bytes),     cmocka_unit_test(errors_are_told),
      cmocka_unit_test(ring_and_here_write_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
