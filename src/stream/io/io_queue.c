// The queue: tiles on their way out, and the rules that hold for every engine.
//
//              io_tile_get              io_tile_write            engine->start
//     FREE ───────────────▶ TAKEN ───────────────────▶ QUEUED ◀─────────┐
//      ▲                      │ io_tile_drop               │ engine->reap  │ short, EINTR, EAGAIN
//      └──────────────────────┴───────────────── settle ◀──┴───────────────┘
//
// Rules, in one place (goes_on, settle): a short write is continued from where it ended; EINTR,
// EAGAIN and a write of nothing are tried again, a bounded number of times in a row; every other
// error is kept (the first one), ends all further writing and is reported by io_drain. A tile that
// looks at a window of a source gives it back here, and a source that shrank meanwhile is such an
// error too.
//
// A ring can be lost in the middle of a run: the system refuses a call, or says of a write what an ordinary
// write does not say. What was queued is then taken back and written again, which is harmless: the
// same bytes at the same places. With `auto` the sync engine does that and all that follows; who
// asked for a ring gets an error. But the kernel may still hold such a write and make it at any time until
// the process ends, from the bytes that are then where the tile was. So those never change again:
//
//   in doubt ──written by sync──▶ freed: a fence takes the place of its pages (pages_fence), and the
//                                 tile goes on with pages of its own in the region's other half
//
// Free tiles are taken lowest first. With an engine that finishes at once the same tile serves
// again and again, still in cache, and the rest of the region is never touched.
//
// Writeback behind: once 8 MiB in a row are written the engine is told to hand them to the disk, so
// that it works while we compute and the sync before a record finds little left to do. How a write
// is made, and whether it needs that hint, is a question to the output file: io_outlet.c.
//
// bench/README.md has the figures that this rests on.
#include "stream/io/inside/io_parts.h"

#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/sys/threads.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
  DEFAULT_TILES = 8,
  DEFAULT_TILE_BYTES = 1 << 20,
  MIN_WINDOW_BYTES = 4 << 20,
  BEHIND_BYTES = 8 << 20,
  TRIES_MAX = 1000, // attempts in a row that moved nothing
};

static bool may_have_ring(enum io_mode mode) {
  return mode == IO_AUTO || mode == IO_URING || mode == IO_RING_OR_SYNC;
}

static uint64_t wake_bytes(const struct io_options *o, const struct sources *sources) {
  if (o->wake_bytes > 0) return o->wake_bytes;
  uint64_t total = 0;
  for (uint32_t i = 0; i < sources_count(sources); i++)
    total += sources_size(sources, i);
  return io_wake_most(total, machine_memory(), threads_processors());
}

static int make_tiles(struct io *io, struct err *err) {
  io->slots = resources_zalloc(io->n_slots, sizeof *io->slots);
  io->stride = pages_round(io->tile_bytes);
  io->region_bytes = io->n_slots * io->stride * (may_have_ring(io->mode) ? 2 : 1);
  io->region = pages_new(io->region_bytes);
  if (!io->slots || !io->region) {
    err_fill(err, ERR_NO_MEMORY, "no memory for %u tiles of %zu bytes", io->n_slots,
             io->tile_bytes);
    return err_because(err, REASON_TILES);
  }
  for (uint32_t i = 0; i < io->n_slots; i++) {
    struct io_tile *t = &io->slots[i].tile;
    t->buf = io->region + i * io->stride;
    t->data = t->buf;
  }
  return 0;
}

static void free_tiles(struct io *io) {
  if (io->region && io->ring_lost)
    pages_fence(io->region, io->region_bytes);
  else if (io->region)
    pages_free(io->region, io->region_bytes);
  resources_free(io->slots);
}

// Nobody waits for what it has in flight, but its buffers go next.
static void close_left(void *left, size_t n) {
  struct io *io = left;
  (void)n;
  io->thread = pthread_self();
  io_close(io);
}

int io_open(struct io **out, const struct io_options *options, struct sources *sources,
            struct err *err) {
  struct io *io = resources_zalloc(1, sizeof *io);
  if (!io) return err_set(err, ERR_NO_MEMORY, "no memory for a queue");
  io->sources = sources;
  io->thread = pthread_self();
  io->mode = options->mode;
  io->engine = io_engine_of(options->mode);
  io->n_slots = options->tiles ? options->tiles : DEFAULT_TILES;
  io->tile_bytes = options->tile_bytes ? options->tile_bytes : DEFAULT_TILE_BYTES;
  uint64_t region = io->n_slots * (uint64_t)io->tile_bytes;
  io->window_bytes_max =
      options->window_bytes ? options->window_bytes : max_u64(region, (uint64_t)MIN_WINDOW_BYTES);
  io->wake.most = wake_bytes(options, sources);
  if (io->engine->reads != IO_READS_WHOLE) maps_guard();
  if (make_tiles(io, err) < 0) goto fail;
  int r = io->engine->open(io->engine, io->n_slots, &io->self);
  if (r < 0 && options->mode == IO_RING_OR_SYNC) {
    io->engine = io_engine_of(IO_SYNC);
    r = io->engine->open(io->engine, io->n_slots, &io->self);
  }
  if (r < 0) {
    err_fill_errno(err, -r, ERR_IO, "the %s engine cannot be opened", io->engine->name);
    err_fill_reason(err, REASON_ENGINE);
    goto fail;
  }
  resources_hold_user(io, 0, close_left);
  *out = io;
  return 0;
fail:
  free_tiles(io);
  resources_free(io);
  return -1;
}

// Digests the result of an attempt; true if there is more to attempt.
static bool goes_on(struct io_op *op) {
  if (op->result > 0) {
    size_t moved = (size_t)op->result;
    assert(moved <= op->n);
    op->at += moved;
    op->off += moved;
    op->left -= moved;
    op->n = min_u64(op->left, IO_ATTEMPT_BYTES);
    op->tries = 0;
    return op->left > 0;
  }
  bool again = op->result == 0 || op->result == -EINTR || op->result == -EAGAIN;
  return again && ++op->tries < TRIES_MAX;
}

static void flush(struct io *io, struct io_behind *b) {
  if (b->n == 0) return;
  io->engine->writeback(io->self, b->fd, b->off, b->n);
  b->n = 0;
}

static void flush_behind(struct io *io) {
  for (uint32_t i = 0; i < IO_BEHIND; i++)
    flush(io, &io->behind[i]);
}

// The run of bytes that these join, or an empty one: the oldest is flushed for it if need be.
static struct io_behind *behind_of(struct io *io, struct file fd, uint64_t off) {
  for (struct io_behind *b = io->behind; b < io->behind + IO_BEHIND; b++)
    if (b->n > 0 && file_is_same(b->fd, fd) && b->off + b->n == off) return b;
  struct io_behind *b = &io->behind[io->next_behind++ % IO_BEHIND];
  flush(io, b);
  *b = (struct io_behind){.fd = fd, .off = off};
  return b;
}

static void written(struct io *io, struct file fd, uint64_t off, uint64_t n) {
  struct io_behind *b = behind_of(io, fd, off);
  b->n += n;
  if (b->n >= BEHIND_BYTES) flush(io, b);
}

// The bytes of the slot, which the system may still be reading, are there no longer.
static void end_doubt(struct io *io, struct io_slot *slot) {
  if (slot->viewing) {
    (void)io_view_fence(io, &slot->view, &io->failure);
  } else {
    pages_fence(slot->tile.buf, io->stride);
    slot->tile.buf += io->n_slots * io->stride;
  }
  slot->in_doubt = false;
}

static void free_slot(struct io *io, struct io_slot *slot) {
  if (slot->in_doubt)
    end_doubt(io, slot);
  else if (slot->viewing)
    (void)io_view_done(io, &slot->view, &io->failure);
  slot->viewing = false;
  slot->tile.data = slot->tile.buf;
  slot->tile.n = 0;
  slot->state = SLOT_FREE;
}

static void finish_write(struct io *io, struct io_slot *slot) {
  const struct io_op op = slot->op;
  const size_t n = slot->tile.n;
  // A page of the source that nobody had looked at yet and that cannot be read.
  if (op.left > 0 && op.result == -EFAULT && slot->viewing) io_view_break(&slot->view);
  // First, because a source that shrank is the cause of the EFAULT that its pages then give.
  free_slot(io, slot);
  if (op.left == 0) {
    written(io, op.fd, op.off - n, n);
    return;
  }
  int cause = op.result == 0 ? EIO : (int)-op.result;
  err_fill_errno(&io->failure, cause, ERR_IO, "writing %zu bytes at offset %s failed", op.left,
                 decimal(op.off).s);
}

// An engine of sync in place of the lost one. False: there is no memory for one.
static bool replace_engine(struct io *io) {
  const struct io_engine *sync = io_engine_of(IO_SYNC);
  void *self;
  if (sync->open(sync, io->n_slots, &self) < 0) return false;
  io->engine->close(io->self);
  io->engine = sync;
  io->self = self;
  return true;
}

// The ring is of no use any more: what it had is written without it, or, where it was asked for by
// name, not at all.
static void leave_ring(struct io *io, int cause) {
  const bool first = io->ring_lost == 0;
  const bool goes_on = io->mode == IO_RING_OR_SYNC && replace_engine(io);
  io->ring_lost = cause;
  for (struct io_slot *slot = io->slots; slot < io->slots + io->n_slots; slot++) {
    if (slot->state != SLOT_QUEUED) continue;
    slot->in_doubt = first;
    if (goes_on) {
      io->engine->start(io->self, &slot->op);
    } else {
      io->n_queued--;
      free_slot(io, slot);
    }
  }
  if (goes_on) return;
  err_fill_errno(&io->failure, -cause, ERR_IO, "io_uring stopped working during the run");
  err_fill_reason(&io->failure, REASON_RING_LOST);
}

// 0, or -errno if the result that a ring gave is its own and not the file's: an operation that it
// does not know, or is not let make. An ordinary write tells.
static int fault_of_ring(const struct io *io, const struct io_op *op) {
  if (io->mode != IO_RING_OR_SYNC || io->ring_lost || op->result >= 0) return 0;
  const int why = (int)-op->result;
  if (why == EINTR || why == EAGAIN || why == EIO || failure_is_no_room(why)) return 0;
  return file_try_write_at(op->fd, op->at, op->n, op->off, 0) > 0 ? -why : 0;
}

static int lost(const struct io *io) {
  return io->n_queued > 0 && io->engine->lost ? io->engine->lost(io->self) : 0;
}

bool io_settle(struct io *io, bool wait) {
  assert(pthread_equal(io->thread, pthread_self()));
  struct io_op *op = io->engine->reap(io->self, wait);
  const int cause = op ? fault_of_ring(io, op) : lost(io);
  if (cause) {
    leave_ring(io, cause);
    return true;
  }
  if (!op) return false;
  if (goes_on(op)) {
    io->engine->start(io->self, op);
  } else {
    io->n_queued--;
    finish_write(io, (struct io_slot *)((char *)op - offsetof(struct io_slot, op)));
  }
  return true;
}

static void settle_finished(struct io *io) {
  while (io_settle(io, false)) {
  }
}

struct io_tile *io_tile_get(struct io *io) {
  settle_finished(io);
  struct io_slot *slot = io->slots;
  while (slot->state != SLOT_FREE) {
    if (++slot < io->slots + io->n_slots) continue;
    bool settled = io_settle(io, true);
    assert(settled); // else the caller holds every tile and waits for itself
    slot = io->slots;
  }
  if (io->failure.kind != ERR_NONE) return NULL;
  slot->state = SLOT_TAKEN;
  return &slot->tile;
}

int io_tile_view(struct io *io, struct io_tile *tile, uint32_t file, uint64_t off, size_t n,
                 struct err *err) {
  struct io_slot *slot = (struct io_slot *)tile;
  assert(slot->state == SLOT_TAKEN && !slot->viewing && n > 0);
  if (io->engine->reads == IO_READS_COPY && n <= io->tile_bytes) {
    if (io_read(io, file, off, tile->buf, n, err) < 0) return -1;
  } else {
    if (io_view(io, file, off, n, &slot->view, err) < 0) return -1;
    slot->viewing = true;
    tile->data = slot->view.at;
  }
  tile->n = n;
  return 0;
}

void io_tile_write(struct io *io, struct io_tile *tile, struct file fd, uint64_t off, size_t n) {
  struct io_slot *slot = (struct io_slot *)tile;
  assert(slot->state == SLOT_TAKEN && n > 0);
  assert(n <= (slot->viewing ? slot->view.n : io->tile_bytes));
  if (io->failure.kind != ERR_NONE) {
    free_slot(io, slot);
    return;
  }
  tile->n = n;
  slot->state = SLOT_QUEUED;
  slot->op = (struct io_op){.fd = fd, .at = tile->data, .off = off};
  slot->op.left = n;
  slot->op.n = min_u64(n, IO_ATTEMPT_BYTES);
  io->n_queued++;
  io->engine->start(io->self, &slot->op);
  settle_finished(io);
}

void io_tile_drop(struct io *io, struct io_tile *tile) {
  struct io_slot *slot = (struct io_slot *)tile;
  assert(slot->state == SLOT_TAKEN);
  free_slot(io, slot);
}

int io_drain(struct io *io, struct err *err) {
  while (io->n_queued > 0)
    io_settle(io, true);
  flush_behind(io);
  if (io->failure.kind == ERR_NONE) return 0;
  if (err->kind == ERR_NONE) *err = io->failure;
  io->failure = (struct err){0};
  return -1;
}

int io_ring_lost(const struct io *io) {
  return -io->ring_lost;
}

void io_close(struct io *io) {
  if (!io) return;
  while (io->n_queued > 0)
    io_settle(io, true);
  for (uint32_t i = 0; i < io->n_slots; i++)
    if (io->slots[i].state == SLOT_TAKEN) free_slot(io, &io->slots[i]);
  resources_drop_thing(io, 0); // nothing is in flight any more
  io->engine->close(io->self);
  io_views_close(io);
  free_tiles(io);
  resources_free(io);
}
