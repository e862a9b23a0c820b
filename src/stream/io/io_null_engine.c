// The null engine: reads for real, swallows writes.
//
// It shows what reading, computing and hashing cost without the disk's say in it, and lets a plan
// for a file larger than the disk be run and hashed.
//
// Sources are read as by the uring engine. A write is done as soon as it is started, and shares no
// blocks, so that every byte is made and hashed.
#include "stream/io/inside/io_engines.h"

#include "resources/resources.h"

#include <errno.h>

static int null_open(const struct io_engine *row, uint32_t depth, void **self) {
  (void)row;
  (void)depth;
  *self = resources_zalloc(1, sizeof(struct io_done_line));
  return *self ? 0 : -ENOMEM;
}

static void null_close(void *self) {
  resources_free(self);
}

static void null_start(void *self, struct io_op *op) {
  op->result = (int64_t)op->n;
  io_done_push(self, op);
}

static struct io_op *null_reap(void *self, bool wait) {
  (void)wait;
  return io_done_pop(self);
}

static void null_writeback(void *self, struct file fd, uint64_t off, uint64_t n) {
  (void)self;
  (void)fd;
  (void)off;
  (void)n;
}

static int null_clone(void *self, struct file source, uint64_t off, struct file fd,
                      uint64_t out_off, uint64_t n) {
  (void)self;
  (void)source;
  (void)off;
  (void)fd;
  (void)out_off;
  (void)n;
  return -EOPNOTSUPP;
}

const struct io_engine io_null_engine = {
    .name = "null",
    .reads = IO_READS_MAP,
    .open = null_open,
    .close = null_close,
    .start = null_start,
    .reap = null_reap,
    .read = io_sync_read,
    .writeback = null_writeback,
    .clone = null_clone,
};
