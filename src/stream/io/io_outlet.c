// Two questions that only the output file can answer, asked by the first writes to it.
//
//   first write    WRITE_UNCACHED  taken                 uncached: whole attempts, no writeback hints
//                                  EOPNOTSUPP, EINVAL    cached: small attempts, writeback behind
//   second write   WRITE_NO_WAIT   taken, EAGAIN         async: the ring does it
//   (ring only)                    EOPNOTSUPP, EINVAL    here, by an ordinary system call
//
// Why uncached. What a run writes is often larger than what memory is free, and nobody reads it
// soon. Kept in the page cache it pushes out the source and everything else, and every page of it
// is memory that has to be found first: on a machine whose memory is not at hand (a virtual one
// whose host has to back it, a busy one that has to reclaim it) that costs several times the copy.
// An uncached write (Linux 6.14 and a file system that knows it) starts writeback at once and gives
// its pages back when they are on disk, so that the next writes use the same few again, and the
// sync before a record finds little left to do. Attempts may then be large. Cached ones had better
// not: the page cache takes blocks of the size of the write, and large ones are the first to be
// missing.
//
// Why not always the ring. A buffered write is a copy: work of a processor, not of a disk. A ring
// gains by it only where the file system can promise not to block; where it cannot (ext4), the
// kernel hands every such write to a thread of its own, and with a worker on each processor those
// threads take turns with the hashing, at the price of a wake-up and two switches a write. There
// the worker makes the copy itself, while the bytes that it has just hashed are still in its cache.
//
// Where there is no call that takes flags (sandboxes, emulators; a C library may then answer for it), it is as
// if the file had refused them.
//
// Answers are kept for one file, the last. A wrong one (another file under the same number) costs
// time and never bytes: an unexpected refusal of WRITE_UNCACHED is met by asking again without.
#include "stream/io/io_outlet.h"

#include <errno.h>

enum { CACHED_BYTES = 128 << 10 };

static int64_t attempt(const struct io_op *op, size_t n, unsigned how) {
  const int64_t r = file_try_write_at(op->fd, op->at, n, op->off, how);
  return r < 0 ? -errno : r;
}

static bool is_refusal(int64_t r) {
  return r == -EOPNOTSUPP || r == -EINVAL || r == -ENOSYS;
}

static void turn_to(struct io_outlet *o, struct file fd) {
  if (!file_is_same(o->fd, fd)) *o = (struct io_outlet){.fd = fd};
}

size_t io_outlet_bytes(const struct io_outlet *o, const struct io_op *op) {
  return o->uncached || op->n < CACHED_BYTES ? op->n : CACHED_BYTES;
}

unsigned io_outlet_how(const struct io_outlet *o) {
  return o->uncached ? WRITE_UNCACHED : 0;
}

int64_t io_outlet_write(struct io_outlet *o, const struct io_op *op) {
  turn_to(o, op->fd);
  if (!o->tried || o->uncached) {
    const int64_t r = attempt(op, op->n, WRITE_UNCACHED);
    if (r == -EINTR) return r; // no answer: the next write asks
    o->tried = true;
    o->uncached = !is_refusal(r);
    if (o->uncached) return r;
  }
  return attempt(op, io_outlet_bytes(o, op), 0);
}

bool io_outlet_write_here(struct io_outlet *o, struct io_op *op) {
  turn_to(o, op->fd);
  if (o->tried && !o->asked) {
    op->result = attempt(op, io_outlet_bytes(o, op), io_outlet_how(o) | WRITE_NO_WAIT);
    if (op->result == -EINTR) return true;
    o->asked = true;
    o->async = !is_refusal(op->result);
    if (op->result > 0) return true;
  }
  if (o->async) return false;
  op->result = io_outlet_write(o, op);
  return true;
}

void io_outlet_writeback(const struct io_outlet *o, struct file fd, uint64_t off, uint64_t n) {
  if (file_is_same(o->fd, fd) && o->uncached) return;
  // File systems without it, and descriptors of other kinds, simply do not take it.
  file_write_out(fd, off, n);
}
