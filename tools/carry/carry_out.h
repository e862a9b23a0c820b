// Carrying out a plan: a staging folder is opened or taken up again, and its units are made.
// Whoever has a plan and its sources can do that; how the plan came about does not matter.
//
//   carry_out_open ──▶ carry_out_run ──▶ put_in_place, or carry_out_leave after a failure
#ifndef WEIR_CARRY_OUT_H
#define WEIR_CARRY_OUT_H

#include "run.h"
#include "staging.h"

struct carry_out {
  const struct plan *plan;
  struct sources *sources;
  struct staging_options where;
  bool closed;              // nobody else may look into the staging folder
  struct work_options work; // mode IO_NULL: nothing is written, the staging is in memory only
};

struct carried {
  struct staging st;
  enum staging_resume how; // STAGING_SEALED: only seal_finish is left to do
  struct run_stats stats;
  bool all_made; // every unit of the plan is recorded
  uint32_t read; // units that carry_out_check_units hashed
};

// Opens the staging, and compares what an interrupted run left with its records. Tells the user what it
// finds there. On failure nothing stays open.
int carry_out_open(const struct carry_out *c, struct carried *made, struct err *err);
// The same without that comparison, and with a folder for the null engine too: for others to carry it out.
int carry_out_prepare(const struct carry_out *c, struct carried *made, struct err *err);
// That comparison: of the units that are recorded and not another's, or of those among them whose records contradict
// each other. On failure the staging is closed.
int carry_out_check_units(const struct carry_out *c, struct carried *made, enum staging_which which,
                          struct err *err);
// Makes what has no record. The staging stays open, on failure too.
int carry_out_run(const struct carry_out *c, struct carried *made, struct err *err);
// After a failure, of the run or of the seal: closes the staging, and removes it unless going on
// with it makes sense; then the hint says how.
void carry_out_leave(const struct carry_out *c, struct carried *made, struct err *err);
// seal_check of a staging that an interrupted run left, with progress.
int carry_out_check_seal(const struct work_options *work, const struct staging *st,
                         struct err *err);
// Is what was finished before this failure worth keeping?
bool carry_out_worth_resuming(const struct err *err);

#endif
