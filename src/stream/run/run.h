// Room: from a plan to bytes, unit by unit. Each worker has a queue (io_queue.h) and an evaluator (eval.h). Workers share
// who makes what (schedule.h), the recorder (recorder.h) and what evaluators found (eval_cache.h): no byte of the
// outputs depends on it. Never decides anything.
#ifndef WEIR_RUN_H
#define WEIR_RUN_H

#include "plan/plan.h"
#include "stream/run/work.h"
#include "stream/staging/staging.h"

struct run_stats {
  uint64_t source_bytes_read, bytes_written, bytes_cloned, units_done, units_skipped;
  uint32_t jobs;
  uint32_t parts; // of units that another worker had begun
  int ring_lost; // 0, or the errno that a worker's ring was lost by (IO_RING_OR_SYNC: it went on with sync)
};

// Produces every unit that staging does not have yet and that is not another member's (staging.leave). Before a unit is recorded its bytes are
// durable and the sources are checked to be unchanged. ERR_USAGE if the budget is below
// run_min_memory(jobs). ERR_MODEL, with all units recorded, if finite elements became infinite
// where the plan does not clip them: names the tensors and how many. With staging_open_null and
// IO_NULL nothing is written; the digests are made.
int run_plan(const struct plan *p, struct sources *s, struct staging *st,
             const struct work_options *options, struct run_stats *stats, struct err *err);

// A look ahead: how many workers run_plan would have if no unit were done yet (of options, jobs,
// memory and mode are looked at). It refuses what run_plan would refuse of them.
int run_foresee(const struct plan *p, const struct work_options *options, uint32_t *jobs,
                struct err *err);

// How far the elements of a weight are from what is stored of them, found while that was made.
struct run_error {
  uint32_t tensor;  // the codes': first one in the plan's list with this segment
  uint32_t segment; //
  struct figures figures;
  bool whole; // false: units recorded by another version had no figures of some elements
};

// After run_plan made all units (also one that only finished an earlier run, or refused what it
// found): one for each tensor that is stored in another form, codes or casts, in the order of the
// outputs, in memory of `a`. Gives how many. They do not depend on jobs, memory, engine or on which
// runs made which units.
uint32_t run_errors(const struct plan *p, struct staging *st, struct arena *a,
                    struct run_error **list);

// For what a run of the plan would be refused that only a look at the weights shows: finite elements that
// would be stored as infinities, and (where weights are quantized) elements that are no finite numbers.
struct run_doubts {
  bool overflow, nonfinite;
};
struct run_doubts run_doubts(const struct plan *p);

// Where lines go, many at a time: -1 with an err ends what makes them.
struct run_lines {
  int (*put)(void *ctx, struct span text, struct err *err);
  void *ctx;
};

// The companion's JSON Lines text, after run_plan: one line a tensor of the plan, in its order,
//   {"name","file","offset","length","dtype","dims","sha256":[…],"from"}
// sha256: one per 64 MiB of the tensor from its own start (none for an empty one); from: what the
// plan makes it of, "copy" or a recipe in the words of recipe.h ("transpose(extent)"). Reads the
// staged outputs once more, in parallel (null staging: makes the bytes again). Memory is bounded.
int run_tensor_digests(const struct plan *p, struct sources *s, const struct staging *st,
                       const struct work_options *options, struct run_lines lines, struct err *err);
// How long that text will be, to the byte.
uint64_t run_tensor_digests_bytes(const struct plan *p);

// The smallest memory budget that works for `jobs` workers (0: one).
uint64_t run_min_memory(uint32_t jobs);

#endif
