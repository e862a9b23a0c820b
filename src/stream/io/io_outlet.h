// An outlet: how the file that an engine writes to is best written, asked of the file itself, once.
#ifndef WEIR_IO_OUTLET_H
#define WEIR_IO_OUTLET_H

#include "stream/io/inside/io_engines.h"

// Of the file that was written last. All zero: nothing known yet. Used by one thread.
struct io_outlet {
  struct file fd;
  bool tried;    // `uncached` has been found out
  bool uncached; // takes writes that leave nothing behind in the page cache
  bool asked;    // `async` has been found out
  bool async;    // takes writes without blocking, so that a ring need not pass them to a thread
};

// One blocking attempt at a WRITE op. Bytes moved, possibly fewer than op->n, or -errno.
int64_t io_outlet_write(struct io_outlet *outlet, const struct io_op *op);

// The same for an engine that would rather write in the background: true if the attempt was made
// here and is in op->result; false if the engine shall make it, with at most io_outlet_bytes and
// io_outlet_how.
bool io_outlet_write_here(struct io_outlet *outlet, struct io_op *op);
size_t io_outlet_bytes(const struct io_outlet *outlet, const struct io_op *op);
unsigned io_outlet_how(const struct io_outlet *outlet); // of file_write_how

// Hints that [off, off+n) of fd should go to disk, unless the writes have said so themselves. Does
// not wait for it, cannot fail.
void io_outlet_writeback(const struct io_outlet *outlet, struct file fd, uint64_t off, uint64_t n);

#endif
