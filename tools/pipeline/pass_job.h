// A writing command whose edits are those of passes: one pass or a pipeline of them, on one model,
// with one plan, one read and one write. Keeps what the passes say of their sites, for the report.
#ifndef WEIR_PASS_JOB_H
#define WEIR_PASS_JOB_H

#include "execution.h"
#include "pass_run.h"
#include "rank.h"
#include "run_site.h"

// pass_job_init begins one, pass_job_free frees.
struct pass_job {
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
  // The job's, as in execution.h: pass_job_report and pass_job_tell where the command sets no others.
  void (*report)(struct execution *exec, struct json_out *j);
  bool plain_report;
  bool all_external; // where there is a data file, it gets all tensors, however small
  void (*tell)(struct execution *exec, struct run_summary *told);
  void (*hint)(struct execution *exec);
  struct arena arena;
};

void pass_job_init(struct pass_job *pj, struct observer *observer);
void pass_job_free(struct pass_job *pj);

// A line for each target: what it sets.
void pass_job_tell_targets(struct pass_job *pj);
// What passes are given of a job; sites and warnings go to *pj, and warnings are printed as they come.
struct pass_env pass_job_env(struct pass_job *pj, struct execution *exec);

// Before the job is opened: the steps fit each other, the files that their options name are read, and targets are told of.
int pass_job_check(struct pass_job *pj, struct err *err);
// Between execution_open and execution_finish, for execution_command: ctx is the pass_job, which was checked. Begins the edit log, runs the steps
// (pass_run.h).
int pass_job_edit(struct execution *exec, void *ctx, struct err *err);

// Sites of one step.
struct pass_job_counts {
  uint64_t converted, skipped;
};
struct pass_job_counts pass_job_count(const struct pass_job *pj, uint32_t step);

// Different words that sites have, each with how many and the first of them: why they were left alone,
// or, of those where `chosen_by` picked something, what. Words are constants of the passes, a dozen or
// so for each; past the room here they are left out.
enum { PASS_JOB_WORDS = 48 };
#define PASS_JOB_ALL_STEPS NO_ID
struct pass_job_words {
  const char *word[PASS_JOB_WORDS];
  const struct run_site *first[PASS_JOB_WORDS];
  uint32_t count[PASS_JOB_WORDS];
  uint32_t n;
};
void pass_job_words(const struct pass_job *pj, uint32_t step, const char *chosen_by,
                    struct pass_job_words *out);

// pass_job_report.c. exec->ctx is the pass_job.
// The member "passes" of the report (docs/files.md).
void pass_job_report(struct execution *exec, struct json_out *j);
// pass_job_tell.c. What all steps did together, the worst layer, and what was kept as it was.
void pass_job_tell(struct execution *exec, struct run_summary *told);
// Is it a node that was kept as it was, and that people are told of? Not one that a later round took, nor where there
// was nothing to take.
bool pass_job_kept_site(const struct pass_job *pj, const struct run_site *s, struct arena *a);
// Does the step infer types and shapes? It keeps nothing: it says what is not known.
bool pass_job_infers(const struct pass_job *pj, uint32_t step);
// What else could be done, and is not.
void pass_job_hint(struct execution *exec);
// With the numbers of nodes before and after, bodies and functions included.
void pass_job_tell_nodes(struct execution *exec, struct run_summary *told);
// A reason as people read it: a literal, or in *a. NULL: it is not said.
const char *pass_job_reason_words(const char *reason, struct arena *a);
// "27 Conv (kernel larger than 1x1), 3 MatMul (excluded)" in *arena; NULL where nothing was. Of all steps: but of those
// that infer, which keep nothing.
const char *pass_job_kept(const struct pass_job *pj, uint32_t step, struct arena *arena);

#endif
