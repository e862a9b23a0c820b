// plan -> bytes, unit by unit. Workers share the unit cursor and nothing else; each has a queue
// (io.h) and an evaluator (eval.h). Never decides anything.
#ifndef WEIR_RUN_H
#define WEIR_RUN_H

#include "io.h"
#include "plan.h"
#include "staging.h"

struct run_progress {
  // Called from worker threads under a lock, at most every 50 ms and once at the end.
  void (*tick)(void *ctx, uint64_t bytes_done, uint64_t bytes_total, const char *tensor);
  void *ctx;
};

struct run_options {
  uint32_t jobs;            // workers; 0: processors available to us
  uint64_t memory;          // budget for tiles, caches, rings and windows (default 48 MiB)
  enum io_mode mode;        // decided by io_choose
  bool tensor_digests;      // per-tensor SHA-256 over 64 MiB pieces
  struct run_progress progress;
  const volatile int *stop; // set by a signal handler: abandon the unit, flush, ERR_RETRY within 2 s
};

struct run_stats {
  uint64_t source_bytes_read, bytes_written, bytes_cloned, units_done, units_skipped;
  uint32_t jobs;
};

// Produces every unit that staging does not have yet. Before a unit is recorded its bytes are
// durable and the sources are checked to be unchanged.
int run_plan(const struct plan *p, struct sources *s, struct staging *st,
             const struct run_options *options, struct run_stats *stats, struct err *err);

// The smallest memory budget that works for `jobs` workers, and the jobs that fit a budget.
uint64_t run_min_memory(uint32_t jobs);

#endif
