// Stages over the weights before the edits: what passes may ask for, and what becomes of the
// answers (artifact.h). execution.c calls the second half.
#ifndef WEIR_EXECUTION_STAGE_H
#define WEIR_EXECUTION_STAGE_H

#include "execute/execution.h"
#include "passes/pass.h"

struct execution_stage {
  struct run_stage found;
  struct artifact artifact;
  bool asked; // since the edits were begun
  struct execution_stage *next;
};

// pass_env's ask; ctx is the execution. Recorded in the edit log; the answer's text holds as long as the execution.
int execution_stage_ask(void *ctx, const struct pass_question *q, struct pass_answer *out,
                        struct err *err);
// edits' artifact: runs the recorded stage again. ERR_INPUT if it finds something else.
int execution_stage_replay(void *ctx, const struct edit_artifact *a, struct err *err);

// Answers without an artifact, for questions that decide nothing: nothing is stored, and the log has no line of it. The text
// is in exec->arena.
int execution_stage_answer(struct execution *exec, const struct pass_question *q,
                           struct pass_answer *out, uint64_t *source_bytes_read, struct err *err);

// What the plan says of them: a JSON array in exec->arena, or NULL without any.
const char *execution_stage_artifacts(struct execution *exec);
// Was any of them found, not made?
bool execution_stage_took_over(const struct execution *exec);
// Moves what was found into the staging folder of the plan; a copy goes where --artifacts says.
int execution_stage_move(struct execution *exec, const struct staging *st, struct err *err);
// What was asked is kept, for edits that are made over again. drop: what none of them asked goes.
void execution_stage_forget(struct execution *exec);
void execution_stage_drop(struct execution *exec);
// Closes all; the stages' own folders go, unless they are to be kept for a resume.
void execution_stage_end(struct execution *exec, bool keep);

#endif
