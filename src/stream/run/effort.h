// How much work the bytes of a plan are, so that what is left of a run can be told: a byte of codes that
// take a search is worth hundreds that are copied. In bytes copied: reading one, hashing it and writing it
// is 1.
//
// What a machine does in a second differs; what the work costs on the same machine, next to copying,
// hardly does. effort_costs.def has the figures.
#ifndef WEIR_EFFORT_H
#define WEIR_EFFORT_H

#include "plan.h"

// By segment what all before it cost, and behind the last the total: n_segments + 1 of them, in *a.
struct effort {
  const struct plan *p;
  const double *before;
};
struct effort effort_of_plan(const struct plan *p, struct arena *a);
double effort_total(const struct effort *e);
// Of bytes [off, off + n) of an output.
double effort_between(const struct effort *e, uint32_t output, uint64_t off, uint64_t n);

#endif
