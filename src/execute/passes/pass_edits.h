// Room: commands whose edits are those of passes: one pass or a pipeline of them, on one model,
// with one plan, one read and one write. Keeps what the passes say of their sites, for the report.
#ifndef WEIR_PASS_EDITS_H
#define WEIR_PASS_EDITS_H

#include "execute/execution.h"
#include "pipeline/pass_run.h"
#include "rank/rank.h"
#include "report/run_passes.h"

// pass_edits_init begins one, pass_edits_free frees.
struct pass_edits {
  struct observer *observer;
  const struct pass *pass;  // the one that the command is; NULL: it has others
  struct pipeline pipeline; // filled by the command
  struct run_passes
      found; // sites and warnings, as passes report them; the rest by pass_edits_collect
  // By step: 1 + the last site that it left alone and that is not gone; 0: none.
  TABLE(uint32_t, left);
  uint32_t step;               // the one that runs
  struct execution *exec;      // that it runs for
  struct rank rank;            // --rank
  struct pass_run_step *steps; // what came of them; NULL: none ran yet
  const struct run_forms *forms;
  bool all_external; // where there is a data file, it gets all tensors, however small
  struct arena arena;
};

// forms: of the command; NULL: it has none
void pass_edits_init(struct pass_edits *pj, struct observer *observer,
                     const struct run_forms *forms);
void pass_edits_free(struct pass_edits *pj);

// A line for each target: what it sets.
void pass_edits_tell_targets(struct pass_edits *pj);
// What passes are given of an execution; sites and warnings go to *pj, and warnings are printed as they come.
struct pass_env pass_edits_env(struct pass_edits *pj, struct execution *exec);

// Before the execution is opened: the steps fit each other, the files that their options name are read, and targets are told of.
int pass_edits_check(struct pass_edits *pj, struct err *err);
// Between execution_open and execution_finish, for execution_command: ctx is the pass_edits, which was checked. Begins the edit log, runs the steps
// (pass_run.h).
int pass_edits_edit(struct execution *exec, void *ctx, struct err *err);

// After the last step: fills all of pj->found but the sites and warnings that are there, from the pipeline, what came of its
// steps and the model as it is now. Linear in nodes and sites.
void pass_edits_collect(struct pass_edits *pj, const struct execution *exec);

#endif
