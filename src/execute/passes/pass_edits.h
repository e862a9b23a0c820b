// Room: commands whose edits are those of passes: one pass or a pipeline of them, on one model,
// with one plan, one read and one write. Keeps what the passes say of their sites, for the report.
#ifndef WEIR_PASS_EDITS_H
#define WEIR_PASS_EDITS_H

#include "execution.h"
#include "pass_run.h"
#include "rank.h"
#include "run_site.h"

// pass_edits_init begins one, pass_edits_free frees.
struct pass_edits {
  struct observer *observer;
  const struct pass *pass;  // the one that the command is; NULL: it has others
  struct pipeline pipeline; // filled by the command
  TABLE(struct run_site, sites);
  // By step: 1 + the last site that it left alone and that is not gone; 0: none.
  TABLE(uint32_t, left);
  TABLE(struct run_warning, warnings);
  uint32_t step;               // the one that runs
  struct execution *exec;      // that it runs for
  struct rank rank;            // --rank
  struct pass_run_step *steps; // what came of them; NULL: none ran yet
  // The execution's, as in execution.h: forms of the command; NULL: there is none.
  void (*report)(struct execution *exec, struct json_out *j);
  bool plain_report;
  bool all_external; // where there is a data file, it gets all tensors, however small
  void (*tell)(struct execution *exec, struct run_summary *told);
  void (*hint)(struct execution *exec);
  void (*print)(struct execution *exec); // of the rank, with --rank
  struct arena arena;
};

void pass_edits_init(struct pass_edits *pj, struct observer *observer);
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

// Sites of one step.
struct pass_edits_counts {
  uint64_t converted, skipped;
};
struct pass_edits_counts pass_edits_count(const struct pass_edits *pj, uint32_t step);

// Different words that sites have, each with how many and the first of them: why they were left alone,
// or, of those where `chosen_by` picked something, what. Words are constants of the passes, a dozen or
// so for each; past the room here they are left out.
enum { PASS_EDITS_WORDS = 48 };
#define PASS_EDITS_ALL_STEPS NO_ID
struct pass_edits_words {
  const char *word[PASS_EDITS_WORDS];
  const struct run_site *first[PASS_EDITS_WORDS];
  uint32_t count[PASS_EDITS_WORDS];
  uint32_t n;
};
void pass_edits_words(const struct pass_edits *pj, uint32_t step, const char *chosen_by,
                      struct pass_edits_words *out);

#endif
