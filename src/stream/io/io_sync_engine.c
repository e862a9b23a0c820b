// The sync engine: plain system calls, one attempt each, finished before start returns. It is the
// reference for the others and what they fall back to; where threads are many and the page cache
// is warm it is hardly slower. Sources are read with pread, so that /proc/self/io counts them.
//
// `load` is the same engine with another way of reading (see io_views.c): it exists so that tests
// of bounded memory have something that must fail them.
#include "stream/io/io_outlet.h"

#include "resources/resources.h"

#include <errno.h>

struct sync {
  struct io_outlet outlet;
  struct io_done_line done;
};

static int sync_open(const struct io_engine *row, uint32_t depth, void **self) {
  (void)row;
  (void)depth;
  struct sync *s = resources_zalloc(1, sizeof *s);
  if (!s) return -ENOMEM;
  *self = s;
  return 0;
}

static void sync_close(void *self) {
  resources_free(self);
}

static int64_t or_errno(int64_t r) {
  return r < 0 ? -errno : r;
}

static void sync_start(void *self, struct io_op *op) {
  struct sync *s = self;
  op->result = io_outlet_write(&s->outlet, op);
  io_done_push(&s->done, op);
}

static struct io_op *sync_reap(void *self, bool wait) {
  (void)wait;
  struct sync *s = self;
  return io_done_pop(&s->done);
}

int64_t io_sync_read(void *self, struct file fd, void *buf, size_t n, uint64_t off) {
  (void)self;
  return or_errno(file_read_at(fd, buf, n, off));
}

static void sync_writeback(void *self, struct file fd, uint64_t off, uint64_t n) {
  const struct sync *s = self;
  io_outlet_writeback(&s->outlet, fd, off, n);
}

int io_sync_clone(void *self, struct file source, uint64_t off, struct file fd, uint64_t out_off,
                  uint64_t n) {
  (void)self;
  return (int)or_errno(file_clone(fd, out_off, source, off, n));
}

#define SYNC_CALLS                                                                                 \
  .open = sync_open, .close = sync_close, .start = sync_start, .reap = sync_reap,                  \
  .read = io_sync_read, .writeback = sync_writeback, .clone = io_sync_clone

const struct io_engine io_sync_engine = {.name = "sync", .reads = IO_READS_COPY, SYNC_CALLS};
const struct io_engine io_load_engine = {.name = "load", .reads = IO_READS_WHOLE, SYNC_CALLS};
