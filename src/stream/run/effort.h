// How much work the bytes of a plan are, so that what is left of a run can be told: a byte of codes that
// take a search is worth hundreds that are copied. In bytes copied: reading one, hashing it and writing it
// is 1.
//
// What a machine does in a second differs; what the work costs on the same machine, next to copying,
// hardly does. effort_costs.def has the figures.
#ifndef WEIR_EFFORT_H
#define WEIR_EFFORT_H

#include "plan.h"

// Codes whose scale comes of a look at all of the operand, before the first of them is made.
struct effort_look {
  uint32_t of, segment;   // the operand, a recipe; of the codes
  double cost;            // of the look, a part of the segment's
  uint64_t bytes, looked; // of the operand, and how many were looked at
  uint64_t made;          // bytes of the segment
};

// By segment what all before it cost, and behind the last the total: n_segments + 1 of them, in *a. Looks
// by operand and segment; the memory is of *a too.
struct effort {
  const struct plan *p;
  const double *before;
  struct effort_look *looks;
  size_t n_looks;
};
struct effort effort_of_plan(const struct plan *p, struct arena *a);
double effort_total(const struct effort *e);
// Of bytes [off, off + n) of an output, looks and all.
double effort_between(const struct effort *e, uint32_t output, uint64_t off, uint64_t n);

// What comes to the work that is done, never less than nothing, when bytes of an output were made (each once),
// or bytes of an operand were looked at, for the first time or once more (a resumed run must): a look counts as
// far as it is ahead of the codes. All of this together is effort_total when all bytes are made.
double effort_made(struct effort *e, uint32_t output, uint64_t off, uint64_t n);
double effort_looked(struct effort *e, uint32_t of, uint64_t bytes);

#endif
