// What everybody who reads or makes many bytes is told: by how many workers, in how much memory,
// through which engine, whom to tell of progress, and when to stop.
#ifndef WEIR_WORK_H
#define WEIR_WORK_H

#include "base/observer.h"
#include "stream/io/io_queue.h"

enum { WORK_DEFAULT_MEMORY = 48 << 20 };

struct work_options {
  uint32_t jobs;     // workers; 0: processors available to us, fewer if memory is short
  uint64_t memory;   // budget for tiles, caches, rings and windows; 0: WORK_DEFAULT_MEMORY
  enum io_mode mode; // decided by io_choose
  // Its tick is called from worker threads under a lock, at most every 50 ms and once at the end. NULL: nobody.
  struct observer *observer;
  // Set by a signal handler: abandon the unit, flush, ERR_RETRY within 2 s.
  const volatile int *stop;
};

#endif
