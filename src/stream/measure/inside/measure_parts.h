// Inside of measuring: the team of workers, and what is not measured by the evaluator alone.
#ifndef WEIR_MEASURE_PARTS_H
#define WEIR_MEASURE_PARTS_H

#include "base/arena.h"
#include "stream/eval/eval.h"
#include "stream/measure/measure.h"
#include "stream/run/memory_split.h"

#include <pthread.h>
#include <stdatomic.h>

struct measure_worker;

// Set the first part; the rest is zero and the team's own, but budget, which work may look at.
struct measure_team {
  const struct recipes *r;
  struct sources *sources;
  const struct work_options *o;
  struct measure_stats *stats; // added to
  uint64_t n_items, bytes_total;
  struct eval_cache_file file; // where what workers find out goes that the memory does not hold; or nowhere
  // One worker: takes items by measure_next until there are none. 0, or -1 with *err.
  int (*work)(struct measure_worker *w, struct err *err);
  void *ctx; // the caller's

  struct memory_split budget;
  struct eval_cache *cache; // what workers find out about lines that reach over many items
  _Atomic uint64_t next;
  _Atomic bool stopped;
  pthread_mutex_t mu; // guards stats and what follows
  struct err err;     // the first failure
  uint64_t bytes_done, told_ms;
};

struct measure_worker {
  struct measure_team *team;
  const struct recipes *r;
  struct eval *ev;
  struct io *io;
  struct arena arena; // for what it needs until it ends
};

// Splits the memory of the options, works all items off and checks that the sources are unchanged.
// -1 with the first failure of a worker; ERR_RETRY after a stop.
int measure_team_run(struct measure_team *team, struct err *err);
// The next item that nobody has taken; false: none is left, or all are to stop.
bool measure_next(struct measure_worker *w, uint64_t *item);
// Is everybody to leave? And: so many more of bytes_total are done.
bool measure_stopped(struct measure_worker *w);
void measure_tell(struct measure_worker *w, uint64_t bytes);

// What a scale per channel would cost (measure_axes.c): figures of n codes of FORMAT_SHRINK, all of
// one operand, each along its axis, into out. The operand is read twice, for the ranges of all
// channels and for the errors. Beside --memory it holds the ranges: three doubles a channel and
// axis. ERR_RETRY after a stop.
int measure_axes(struct measure_worker *w, const uint32_t *codes, uint32_t n, struct figures *out,
                 struct err *err);

#endif
