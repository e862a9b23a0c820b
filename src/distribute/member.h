// One member of a plan that several processes carry out.
//
//   PLAN ──join──▶ whose units? ──▶ those recorded: hashed again ──▶ those missing: made ──▶ recorded
//
// Whatever other members do at the same time is harmless: a unit has the same bytes whoever makes it.
#ifndef WEIR_MEMBER_H
#define WEIR_MEMBER_H

#include "distribute/planned.h"
#include "execute/commit/execute_plan.h"

struct member_request {
  struct request_limits limits;
  const volatile int *stop;
  const char *source_folder; // NULL: the one that the plan names
  uint32_t count;            // of shards; 0: as the scheduler or the plan says
  bool numbered;             // by `index`; else by the scheduler
  uint32_t index;
};

struct member {
  uint32_t index, count, first, end; // units [first, end)
  uint32_t before;                   // of these, how many were there already
  struct run_stats stats;
  double seconds;
};

// Of a plan that was opened as a member's, and that is not in place. Counts what is missing of the plan then.
int member_make(const struct member_request *r, struct planned *x, struct member *made,
                struct err *err);

#endif
