// The sync engine: plain system calls, one attempt each, finished before start returns. It is the
// reference for the others and what they fall back to; where threads are many and the page cache
// is warm it is hardly slower. Sources are read with pread, so that /proc/self/io counts them.
//
// `load` is the same engine with another way of reading (see io_views.c): it exists so that tests
// of bounded memory have something that must fail them.
#include "io_engines.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int sync_open(const struct io_engine *row, uint32_t depth, void **self) {
  (void)row;
  (void)depth;
  *self = calloc(1, sizeof(struct io_done_line));
  return *self ? 0 : -ENOMEM;
}

static void sync_close(void *self) {
  free(self);
}

static ssize_t or_errno(ssize_t r) {
  return r < 0 ? -errno : r;
}

static void sync_start(void *self, struct io_op *op) {
  if (op->kind == IO_OP_WRITE)
    op->result = or_errno(pwrite(op->fd, op->at, op->n, (off_t)op->off));
  else
    op->result = or_errno(fdatasync(op->fd));
  io_done_push(self, op);
}

static struct io_op *sync_reap(void *self, bool wait) {
  (void)wait;
  return io_done_pop(self);
}

ssize_t io_sync_read(void *self, int fd, void *buf, size_t n, uint64_t off) {
  (void)self;
  return or_errno(pread(fd, buf, n, (off_t)off));
}

void io_sync_writeback(void *self, int fd, uint64_t off, uint64_t n) {
  (void)self;
  // A hint: file systems without it, and descriptors of other kinds, simply do not take it.
  (void)sync_file_range(fd, (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

int io_sync_clone(void *self, int source, uint64_t off, int fd, uint64_t out_off, uint64_t n) {
  (void)self;
  struct file_clone_range range = {
      .src_fd = source, .src_offset = off, .src_length = n, .dest_offset = out_off};
  return (int)or_errno(ioctl(fd, FICLONERANGE, &range));
}

#define SYNC_CALLS                                                                                 \
  .open = sync_open, .close = sync_close, .start = sync_start, .reap = sync_reap,                  \
  .read = io_sync_read, .writeback = io_sync_writeback, .clone = io_sync_clone

const struct io_engine io_sync_engine = {.name = "sync", .reads = IO_READS_COPY, SYNC_CALLS};
const struct io_engine io_load_engine = {.name = "load", .reads = IO_READS_WHOLE, SYNC_CALLS};
