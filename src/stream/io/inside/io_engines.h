// Engines: what moves bytes under the queue (io_queue.h). An engine decides nothing and repairs nothing:
// it makes one attempt and tells what came of it. Retries, short transfers, truncation and messages
// are the queue's, so that every engine gets the same treatment. So is what becomes of operations that
// an engine had when it was lost.
//
//   queue                               engine
//   io_tile_write ── start(op) ───────▶ the attempt, now or later
//   io_tile_get   ◀── reap() ────────── the same op, op->result filled
//
// To add one: a file io_<name>_engine.c with a row, one line below, one in the table of io_engines.c, a mode in io_queue.h, its word
// in the row of --io (options.def) and in test_io.c. WEIR_FAULT_IO=submit:3:EPERM build/plain/tests/weir-fault … loses a ring.
#ifndef WEIR_IO_ENGINES_H
#define WEIR_IO_ENGINES_H

#include "stream/io/io_queue.h"

// The most that is asked of an engine at once. It may move less, and does where large writes would
// cost more than they save (io_outlet.c).
enum { IO_ATTEMPT_BYTES = 1 << 20 };

// One attempt. Between start and reap it belongs to the engine, and the bytes at `at` stay in
// place.
struct io_op {
  struct file fd;
  const uint8_t *at;  // the bytes
  size_t n;           // how many of them in this attempt, 1..IO_ATTEMPT_BYTES
  uint64_t off;       // where in fd
  int64_t result;     // set by the engine: bytes moved or -errno
  size_t left;        // the queue's: bytes to write in this and later attempts
  uint32_t tries;     // the queue's: attempts in a row that moved nothing
  struct io_op *next; // the engine's: to line it up
};

// How a queue on this engine looks at source bytes.
enum io_reads {
  IO_READS_MAP,   // windows mapped from the file (io_window.h)
  IO_READS_COPY,  // pread into memory: every source byte passes a read system call
  IO_READS_WHOLE, // the whole file into memory at its first use: what weir exists to avoid
};

struct io_engine {
  const char *name;
  enum io_reads reads;

  // Called once per queue, on the thread that will use it, before anything else. `depth`: the most
  // operations that will ever be in flight. Leaves *self for the other calls. 0 or -errno, and then
  // leaves nothing behind. `row` is the row it was called through.
  int (*open)(const struct io_engine *row, uint32_t depth, void **self);
  // Called last; nothing is in flight, or the engine is lost. Does not wait.
  void (*close)(void *self);
  // Takes an op (fd, at, n, off filled). Never fails: what goes wrong is op->result later.
  void (*start)(void *self, struct io_op *op);
  // A finished op, each exactly once, in any order. Without `wait`: NULL if none has finished yet.
  // With `wait`: blocks until one has; NULL only if none is in flight, or the engine is lost. Signals
  // do not end the wait.
  struct io_op *(*reap)(void *self, bool wait);
  // 0, or -errno for what the engine was lost by: from then on nothing that is started is attempted,
  // and once reap gives NULL it gives nothing any more. The system may still be reading the bytes of
  // any op that was not reaped, as long as the process lives. NULL: an engine that cannot be lost.
  int (*lost)(void *self);
  // One attempt to read, blocking. Bytes moved, 0 at the end of the file, or -errno.
  int64_t (*read)(void *self, struct file fd, void *buf, size_t n, uint64_t off);
  // A hint that [off, off+n) of fd should go to disk; does not wait for it, cannot fail.
  void (*writeback)(void *self, struct file fd, uint64_t off, uint64_t n);
  // One attempt to make [out_off, +n) of fd share the blocks of [off, +n) of source. 0 or -errno.
  int (*clone)(void *self, struct file source, uint64_t off, struct file fd, uint64_t out_off,
               uint64_t n);
};

extern const struct io_engine io_uring_engine; // io_uring: writes overlap where they can
extern const struct io_engine io_sync_engine;  // pread, pwrite: the reference
extern const struct io_engine io_null_engine;  // reads for real, swallows writes
extern const struct io_engine io_load_engine;  // sync, but loads whole sources: the control arm

// The engine of a mode (IO_AUTO: uring), seen through the wrap hook.
const struct io_engine *io_engine_of(enum io_mode mode);

// For tests: every queue opened (and ring tried) afterwards gets wrap(engine) instead of its
// engine. NULL takes it away. Not to be called while another thread opens queues.
void io_engine_wrap(const struct io_engine *(*wrap)(const struct io_engine *engine));

// The plain system calls that several engines share: one attempt each, -errno on failure.
int64_t io_sync_read(void *self, struct file fd, void *buf, size_t n, uint64_t off);
int io_sync_clone(void *self, struct file source, uint64_t off, struct file fd, uint64_t out_off,
                  uint64_t n);

// A line of finished ops, for engines that finish them on the spot.
struct io_done_line {
  struct io_op *first, *last;
};
void io_done_push(struct io_done_line *line, struct io_op *op);
struct io_op *io_done_pop(struct io_done_line *line); // NULL if empty

#endif
