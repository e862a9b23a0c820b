// The inside of a queue, shared by its two halves: io_queue.c (tiles out) and io_views.c (sources in).
// Nobody else includes this.
#ifndef WEIR_IO_PARTS_H
#define WEIR_IO_PARTS_H

#include "stream/io/inside/io_engines.h"
#include "stream/io/io_wake.h"

#include <pthread.h>

enum slot_state {
  SLOT_FREE,
  SLOT_TAKEN,  // the caller's
  SLOT_QUEUED, // the engine's, between start and reap
};

struct io_slot {
  struct io_tile tile; // first: a tile's address is its slot's
  struct io_op op;
  struct io_view view; // held until the write is done, if `viewing`
  bool viewing;
  bool in_doubt; // the system may still be reading its bytes, for a write that was made otherwise
  enum slot_state state;
};

enum { IO_BEHIND = 4 };

// A source file held whole (IO_READS_WHOLE).
struct io_whole {
  uint8_t *at;
  size_t n;
};

struct io {
  enum io_mode mode; // that it was opened with
  int ring_lost;     // 0, or -errno: what its ring was lost by
  const struct io_engine *engine;
  void *self; // the engine's
  struct sources *sources;
  pthread_t thread; // the one that may use this queue

  struct io_slot *slots;
  uint32_t n_slots, n_queued;
  size_t tile_bytes;
  uint8_t *region; // a stride a slot; with a ring one more each, for slots that were in doubt
  size_t region_bytes, stride; // the latter: tile_bytes in whole pages
  struct err failure;          // the first since the last drain

  struct io_behind { // written and not yet handed to writeback, at several places by turns
    struct file fd;
    uint64_t off, n;
  } behind[IO_BEHIND];
  uint32_t next_behind; // to be taken where there is no other

  bool clone_refused;
  uint64_t source_bytes;
  struct io_wake wake;
  uint64_t window_bytes, window_bytes_max; // of live views
  uint8_t *spare;                          // memory of the last copied view, for the next one
  size_t spare_bytes;
  struct io_whole *whole; // by file, or NULL
  uint32_t n_whole;
};

// Takes one finished attempt from the engine and applies the rules to it, or leaves an engine that is
// lost. False if there was neither: with `wait` that means that nothing is in flight.
bool io_settle(struct io *io, bool wait);

// The system could not read pages of the view on our behalf: its end shall tell.
void io_view_break(struct io_view *view);

// Ends a view whose bytes the system may still be reading: their addresses are not used again.
int io_view_fence(struct io *io, struct io_view *view, struct err *err);

// Frees what the reading half holds.
void io_views_close(struct io *io);

#endif
