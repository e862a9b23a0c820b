// What all ways of measuring share: a team of workers that take items, each with a reader of its
// own, and which recipe a question is about.
#ifndef WEIR_MEASURE_READER_H
#define WEIR_MEASURE_READER_H

#include "arena.h"
#include "memory_split.h"
#include "eval.h"
#include "measure.h"

#include <pthread.h>
#include <stdatomic.h>

struct measure_reader;

// Set the first part; the rest is zero and the module's own, but budget, which work may look at.
struct measure_reader_team {
  const struct recipes *r;
  struct sources *sources;
  const struct work_options *o;
  struct measure_stats *stats; // added to
  uint64_t n_items, bytes_total;
  void *ctx; // the caller's
  // One worker: takes items until there are none, or measure_reader_stopped. 0, or -1 with *err.
  int (*work)(struct measure_reader *rd, struct err *err);

  struct memory_split budget;
  _Atomic uint64_t next;
  _Atomic bool stopped;
  pthread_mutex_t mu; // guards stats and what follows
  struct err err;
  uint64_t bytes_done, told_ms;
};

// A worker's; ends with its work.
struct measure_reader {
  struct measure_reader_team *team;
  struct eval *ev;    // for recipe_read
  struct arena arena; // for what the worker needs until it ends
  struct io *io;
};

// Splits the memory of the options, works all items off and checks that the sources are unchanged.
// -1 with the first failure of a worker; ERR_RETRY after a stop.
int measure_reader_run(struct measure_reader_team *t, struct err *err);

// The next item that nobody has taken; false: none is left, or all are to stop.
bool measure_reader_next(struct measure_reader *rd, uint64_t *item);
bool measure_reader_stopped(struct measure_reader *rd);
// So many more of bytes_total are done.
void measure_reader_tell(struct measure_reader *rd, uint64_t bytes);

// Finds the row of the quantization whose codes these are, also behind what only moves them. False:
// they are no codes.
bool measure_reader_codes(const struct recipes *r, uint32_t id, uint32_t *row);

#endif
