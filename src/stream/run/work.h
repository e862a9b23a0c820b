// What everybody who reads or makes many bytes is told: by how many workers, in how much memory,
// through which engine, whom to tell of progress, and when to stop.
#ifndef WEIR_WORK_H
#define WEIR_WORK_H

#include "io.h"

enum { WORK_DEFAULT_MEMORY = 48 << 20 };

// How far it is. `already`: what of it another process had done before.
struct work_told {
  uint64_t bytes_done, bytes_total, bytes_already;
  double work_done, work_total, work_already; // bytes by what they cost (effort.h)
  const char *tensor;                         // the name of the one that a worker is at, or NULL
  const char *pieces; // what is counted where it is no bytes: "runs"; or NULL
};

struct work_progress {
  // Called from worker threads under a lock, at most every 50 ms and once at the end.
  void (*tick)(void *ctx, const struct work_told *told);
  void *ctx;
};

struct work_options {
  uint32_t jobs;     // workers; 0: processors available to us, fewer if memory is short
  uint64_t memory;   // budget for tiles, caches, rings and windows; 0: WORK_DEFAULT_MEMORY
  enum io_mode mode; // decided by io_choose
  struct work_progress progress;
  const volatile int
      *stop; // set by a signal handler: abandon the unit, flush, ERR_RETRY within 2 s
};

#endif
