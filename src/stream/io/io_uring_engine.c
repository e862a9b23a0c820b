// The io_uring engine, and the one home of liburing. A ring per worker: while the kernel moves one
// tile to the page cache, the worker computes and hashes the next. Where the file system cannot
// write without blocking, writes are made on the spot instead (io_outlet.c says why).
//
//   start ─┬▶ [submission ring] ─▶ kernel ─▶ [completion ring] ─┬▶ reap
//          └▶ written here ─▶ [done line] ──────────────────────┘
//   depth entries, submitted one by one: at 1 MiB a write the system call is noise
//
// Deliberately plain. No registered buffers (they count against RLIMIT_MEMLOCK, and containers keep
// that small), no linked operations (a short write breaks a chain), no polling threads (they eat
// one of two cores), non-vectored opcodes only.
//
// The ring is used by the thread that opened it and by no other. A system call that it refuses (a
// filter of system calls that came later, a descriptor that somebody closed) loses it: whose
// operations are still in the kernel then cannot be known, and is the queue's to deal with.
#include "platform/descriptor.h"
#include "resources/resources.h"
#include "stream/io/io_outlet.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>

enum { TRIES_MAX = 1000 }; // of a call that the system says to make again

struct uring {
  struct io_uring ring;
  uint32_t in_flight; // in the kernel's hands
  int lost;           // 0, or -errno
  struct io_outlet outlet;
  struct io_done_line done; // written here
};

// Completions are delivered when we ask, without interrupting the computation. Kernels before 6.0
// do not know these flags and say EINVAL.
static const unsigned ring_flags[] = {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER, 0};

// Linux 5.1 to 5.5 have rings without the opcodes that we use (and without the probe that tells).
static bool knows_our_opcodes(struct io_uring *ring) {
  struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
  if (!probe) return false;
  bool known = io_uring_opcode_supported(probe, IORING_OP_WRITE);
  io_uring_free_probe(probe);
  return known;
}

static int uring_open(const struct io_engine *row, uint32_t depth, void **self) {
  (void)row;
  struct uring *u = resources_zalloc(1, sizeof *u);
  if (!u) return -ENOMEM;
  int r = -EINVAL;
  for (size_t i = 0; i < sizeof ring_flags / sizeof *ring_flags && r == -EINVAL; i++)
    r = io_uring_queue_init(depth, &u->ring, ring_flags[i]);
  if (r == 0 && !knows_our_opcodes(&u->ring)) {
    io_uring_queue_exit(&u->ring);
    r = -ENOSYS;
  }
  if (r < 0) {
    resources_free(u);
    return r;
  }
  *self = u;
  return 0;
}

static void uring_close(void *self) {
  struct uring *u = self;
  assert(u->in_flight == 0 || u->lost);
  io_uring_queue_exit(&u->ring);
  resources_free(u);
}

static void submit(struct uring *u, struct io_op *op) {
  if (u->lost) return;
  struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
  assert(sqe); // depth covers all that can be in flight, and each is submitted at once
  io_uring_prep_write(sqe, file_descriptor(op->fd), op->at,
                      (unsigned)io_outlet_bytes(&u->outlet, op), op->off);
  sqe->rw_flags = descriptor_write_flags(io_outlet_how(&u->outlet));
  io_uring_sqe_set_data(sqe, op);
  int r;
  uint32_t tries = 0;
  do {
    r = io_uring_submit(&u->ring);
  } while (r == -EINTR || ((r == -EAGAIN || r == -EBUSY) && ++tries < TRIES_MAX));
  if (r == 1)
    u->in_flight++;
  else
    u->lost = r < 0 ? r : -EIO;
}

static void uring_start(void *self, struct io_op *op) {
  struct uring *u = self;
  if (io_outlet_write_here(&u->outlet, op))
    io_done_push(&u->done, op);
  else
    submit(u, op);
}

static struct io_op *uring_reap(void *self, bool wait) {
  struct uring *u = self;
  struct io_op *here = io_done_pop(&u->done);
  if (here) return here;
  if (u->in_flight == 0 || u->lost) return NULL;
  struct io_uring_cqe *cqe = NULL;
  int r;
  uint32_t tries = 0;
  do {
    r = wait ? io_uring_wait_cqe(&u->ring, &cqe) : io_uring_peek_cqe(&u->ring, &cqe);
  } while (r == -EINTR || (wait && r == -EAGAIN && ++tries < TRIES_MAX));
  if (r < 0) {
    if (wait || r != -EAGAIN) u->lost = r;
    return NULL;
  }
  struct io_op *op = io_uring_cqe_get_data(cqe);
  op->result = cqe->res;
  io_uring_cqe_seen(&u->ring, cqe);
  u->in_flight--;
  return op;
}

static int uring_lost(void *self) {
  const struct uring *u = self;
  return u->lost;
}

static void uring_writeback(void *self, struct file fd, uint64_t off, uint64_t n) {
  const struct uring *u = self;
  io_outlet_writeback(&u->outlet, fd, off, n);
}

const struct io_engine io_uring_engine = {
    .name = "uring",
    .reads = IO_READS_MAP,
    .open = uring_open,
    .close = uring_close,
    .start = uring_start,
    .reap = uring_reap,
    .lost = uring_lost,
    .read = io_sync_read,
    .writeback = uring_writeback,
    .clone = io_sync_clone,
};
