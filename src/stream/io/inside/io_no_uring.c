// In place of io_uring_engine.c where the system has no io_uring: no queue opens with it.
#include "stream/io/inside/io_engines.h"

#include <errno.h>

static int no_ring(const struct io_engine *row, uint32_t depth, void **self) {
  (void)row, (void)depth, (void)self;
  return -EOPNOTSUPP;
}

const struct io_engine io_uring_engine = {.name = "uring", .reads = IO_READS_MAP, .open = no_ring};
