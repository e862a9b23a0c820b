// How much work the bytes of a plan are, for the remaining time (ETA) of a run: a byte of codes that
// take a search is worth hundreds that are copied. In bytes copied: reading one, hashing it and writing it
// is 1.
//
// What a machine does in a second differs; what the work costs on the same machine, next to copying,
// hardly does. effort_costs.def has the figures.
#ifndef WEIR_EFFORT_H
#define WEIR_EFFORT_H

#include "plan/plan.h"

// What comes before the first of a segment's bytes is made: a look at all of the operand, for a scale; columns of codes that
// are made together; a factor, or a search, that several segments wait for, the first of which has it.
struct effort_look {
  uint32_t of, segment;   // the operand, or what is found, a recipe
  double cost;            // a part of the segment's
  uint64_t bytes, looked; // of the operand (or steps of what is found), and how many are behind
  uint64_t made;          // bytes of the segment
};

// By segment what all before it cost, and behind the last the total: n_segments + 1 of them, in *a. Looks
// by operand and segment; the memory is of *a too.
struct effort {
  const struct plan *p;
  const double *before;
  struct effort_look *looks;
  size_t n_looks;
  const uint32_t *waits; // by segment, what it is the first to wait for, a recipe; NO_ID
};
struct effort effort_of_plan(const struct plan *p, struct arena *a);
double effort_total(const struct effort *e);
// Of bytes [off, off + n) of an output, looks and all.
double effort_between(const struct effort *e, uint32_t output, uint64_t off, uint64_t n);

// What comes to the work that is done, never less than nothing, when bytes of an output were made (each once),
// or bytes of an operand were looked at (steps taken), for the first time or once more (a resumed run must): a look counts
// as far as it is ahead of the codes. All of this together is effort_total when all bytes are made.
double effort_made(struct effort *e, uint32_t output, uint64_t off, uint64_t n);
double effort_looked(struct effort *e, uint32_t of, uint64_t bytes);

#endif
