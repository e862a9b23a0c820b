// Inside of measuring: a worker, and what is not measured by the evaluator alone.
#ifndef WEIR_MEASURE_PARTS_H
#define WEIR_MEASURE_PARTS_H

#include "arena.h"
#include "eval.h"
#include "measure.h"

struct measure_team;

struct measure_worker {
  struct measure_team *team;
  const struct recipes *r;
  struct eval *ev;
  struct io *io;
  struct arena arena; // for what it needs until it ends
};

// Is everybody to leave? And: so many more bytes of operands are done.
bool measure_stopped(struct measure_worker *w);
void measure_tell(struct measure_worker *w, uint64_t bytes);

// What a scale per channel would cost (measure_axes.c): figures of n codes of FORMAT_SHRINK, all of
// one operand, each along its axis, into out. The operand is read twice, for the ranges of all
// channels and for the errors. Beside --memory it holds the ranges: three doubles a channel and
// axis. ERR_RETRY after a stop.
int measure_axes(struct measure_worker *w, const uint32_t *codes, uint32_t n, struct figures *out,
                 struct err *err);

#endif
