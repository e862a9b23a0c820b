// Carrying out a plan: a staging folder is opened or taken up again, and its units are made.
// Whoever has a plan and its sources can do that; how the plan came about does not matter.
//
//   execute_plan_open ──▶ execute_plan_run ──▶ commit_outputs, or execute_plan_leave after a failure
#ifndef WEIR_EXECUTE_PLAN_H
#define WEIR_EXECUTE_PLAN_H

#include "stream/run/run.h"
#include "stream/staging/staging.h"

struct execute_plan {
  const struct plan *plan;
  struct sources *sources;
  struct staging_options where;
  bool closed;              // nobody else may look into the staging folder
  struct work_options work; // mode IO_NULL: nothing is written, the staging is in memory only
};

struct executed_plan {
  struct staging st;
  enum staging_resume how; // STAGING_SEALED: only seal_finish is left to do
  struct run_stats stats;
  bool all_made; // every unit of the plan is recorded
  uint32_t read; // units that execute_plan_check_units hashed
};

// Opens the staging, and compares what an interrupted run left with its records. Tells the user what it
// finds there. On failure nothing stays open.
int execute_plan_open(const struct execute_plan *c, struct executed_plan *made, struct err *err);
// The same without that comparison, and with a folder for the null engine too: for others to carry it out.
int execute_plan_prepare(const struct execute_plan *c, struct executed_plan *made, struct err *err);
// That comparison: of the units that are recorded and not another's, or of those among them whose records contradict
// each other. On failure the staging is closed.
int execute_plan_check_units(const struct execute_plan *c, struct executed_plan *made, enum staging_which which,
                          struct err *err);
// Makes what has no record. The staging stays open, on failure too.
int execute_plan_run(const struct execute_plan *c, struct executed_plan *made, struct err *err);
// After a failure, of the run or of the seal: closes the staging, and removes it unless going on
// with it makes sense; then the hint says how.
void execute_plan_leave(const struct execute_plan *c, struct executed_plan *made, struct err *err);
// seal_check of a staging that an interrupted run left, with progress.
int execute_plan_check_seal(const struct work_options *work, const struct staging *st,
                         struct err *err);
// Is what was finished before this failure worth keeping?
bool execute_plan_worth_resuming(const struct err *err);

#endif
