// Room: input and output: sources, and the queue that every worker owns, on top of one engine.
//
// The queue keeps the rules once: short transfers are resubmitted, EINTR and EAGAIN retried, a zero
// read inside a file is a truncated input, an error fails the unit. An engine (io_engines.h) only
// moves bytes: `uring` and `sync` for real, `null` swallows writes, `fault` (tests) fails the nth
// operation.
//
//   io_tile_get ──fill──▶ io_tile_write ──engine──▶ (tile is free again)
//        ▲ waits for a free tile; at most `tiles` in flight
//
// A tile is filled either by the caller (tile->buf) or by pointing it at a window of a source file
// (io_tile_view: no copy; released when the write is done).
//
// Source reads: io_view maps a window (uring, null) or reads it (sync) and gives a pointer that
// holds until io_view_done; io_read copies a range. Mapped windows are looked at before use; a file
// truncated under us shows as an error of the call that ends the use (io_view_done, io_drain),
// never as a signal.
#ifndef WEIR_IO_QUEUE_H
#define WEIR_IO_QUEUE_H

#include "base/err.h"
#include "stream/io/io_window.h"
#include "stream/io/sources.h"

// IO_RING_OR_SYNC: what IO_AUTO becomes where a ring can be had now: a queue for which there is none later
// (limits on descriptors or locked memory are used up), or whose ring stops working, goes on with sync.
enum io_mode { IO_AUTO, IO_URING, IO_SYNC, IO_NULL, IO_LOAD, IO_RING_OR_SYNC };

struct io_options {
  enum io_mode mode;     // IO_AUTO counts as IO_URING: see io_choose
  uint32_t tiles;        // in flight per worker (default 8)
  size_t tile_bytes;     // default 1 MiB; however large, it is written in pieces of 1 MiB at most
  uint64_t window_bytes; // live views are kept to this (default tiles * tile_bytes, at least 4 MiB)
  uint64_t wake_bytes; // source bytes left behind in the page cache (default: as io_wake_most says)
};

// One worker's queue: opened, used and closed by one thread. It holds tiles * tile_bytes of address
// space (a tile that never was filled through its buf takes no memory; sync reuses one tile as long
// as one is enough) and up to window_bytes of views.
struct io;

struct io_tile {
  uint8_t *buf;        // tile_bytes of memory of ours
  const uint8_t *data; // what will be written: buf, or a view
  size_t n;
};

// Is io_uring part of this build?
bool io_has_ring(void);
// Decides IO_AUTO once for the process: tries to set up a ring, and makes it IO_RING_OR_SYNC. On EPERM, ENOSYS, ENOMEM, EMFILE
// (or no uring at build time) falls back to sync, and *why says what io_uring is ("not permitted
// here: …"), else it is NULL. With IO_URING asked for explicitly a failure is an error.
int io_choose(enum io_mode *mode, const char **why, struct err *err);
const char *io_mode_name(enum io_mode mode);
bool io_mode_by_name(const char *name, enum io_mode *mode);

int io_open(struct io **out, const struct io_options *options, struct sources *sources,
            struct err *err);
void io_close(struct io *io); // waits for what is in flight

// A free tile, waiting for one if need be. NULL after a failure (then io_drain reports it). The
// caller may hold several, but not all of them at once when it asks for one more.
struct io_tile *io_tile_get(struct io *io);
// Points the tile at source bytes, 0 < n <= IO_VIEW_MAX: a mapped window, or in sync mode a read
// into tile->buf where they fit. Sets tile->n. Waits for writes that hold windows while
// window_bytes would be passed. -1 if they cannot be had.
int io_tile_view(struct io *io, struct io_tile *tile, uint32_t file, uint64_t off, size_t n,
                 struct err *err);
// Queues tile->data[0..n) for `fd` at `off`, 0 < n. The tile belongs to the queue until written.
// After a failure nothing more is written and the tile is just given back.
// Writeback of what was written is started at once or behind, every 8 MiB, without waiting.
void io_tile_write(struct io *io, struct io_tile *tile, struct file fd, uint64_t off, size_t n);
// Gives back a tile that was not written.
void io_tile_drop(struct io *io, struct io_tile *tile);
// Waits until everything queued is written; reports the first failure since the last drain
// (message: output name is not known here; the caller adds the file).
int io_drain(struct io *io, struct err *err);

enum { IO_VIEW_MAX = 16 << 20 };
struct io_view {
  const uint8_t *at;
  size_t n;
  // internal:
  uint64_t off;
  uint32_t file;
  enum { IO_VIEW_ENDED, IO_VIEW_MAPPED, IO_VIEW_COPIED, IO_VIEW_LENT } kind;
  struct file_map window; // COPIED: its pages are memory of ours
  bool unreadable;        // MAPPED: found out by the system on our behalf
};
// n <= IO_VIEW_MAX. -1 (ERR_INPUT, ERR_IO) if the bytes cannot be had, and then there is no view to
// end. Waits for written tiles to give back their windows while window_bytes would be passed; views
// that the caller itself holds are its own care. A view is used on this thread only.
int io_view(struct io *io, uint32_t file, uint64_t off, size_t n, struct io_view *view,
            struct err *err);
// -1 (ERR_INPUT) if the file turned out truncated while the view was used: what was computed from
// it is worthless. ERR_IO where pages could not be read.
int io_view_done(struct io *io, struct io_view *view, struct err *err);
// Copies [off, off+n) of the file. ERR_INPUT if the file is shorter.
int io_read(struct io *io, uint32_t file, uint64_t off, void *buf, size_t n, struct err *err);
// Copies n fragments of `run` bytes, `stride` bytes apart (run <= stride <= IO_GATHER_STRIDE_MAX),
// from `off` on, one behind the other into buf, through views over many of them at a time. To be
// used where fragments are small and nearly every page has some: then a call for each costs more
// than the pages. Mapped whatever the engine does (but one that holds all), and then only the
// fragments count as bytes read: whole pages come from the disk in any case.
enum { IO_GATHER_STRIDE_MAX = 8 << 10 };
struct io_fragments {
  uint64_t off, n;
  uint32_t file;
  size_t run, stride;
};
int io_gather(struct io *io, const struct io_fragments *f, uint8_t *buf, struct err *err);
// Asks the system to read ahead; never fails.
void io_will_need(struct io *io, uint32_t file, uint64_t off, uint64_t n);

// Tries to share the blocks of a source range with the output (FICLONERANGE). Returns the number of
// bytes shared from the start of the range: 0 where file system, alignment or engine do not allow
// it. Both ends must start on a block (io_clone_lead); what is left behind the last whole block is
// the caller's to write. Shared bytes are still to be hashed, through a view.
uint64_t io_clone(struct io *io, uint32_t file, uint64_t off, struct file fd, uint64_t out_off,
                  uint64_t n);
// Bytes from the start of a range to where both ends start on a block; UINT64_MAX if they never do.
enum { IO_CLONE_BLOCK = 4096 };
uint64_t io_clone_lead(uint64_t off, uint64_t out_off);

uint64_t io_source_bytes_read(const struct io *io); // by this queue: views and reads
// 0, or the errno that this queue's ring was lost by, after which IO_RING_OR_SYNC goes on with sync.
int io_ring_lost(const struct io *io);

#endif
