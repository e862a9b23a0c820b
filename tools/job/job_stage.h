// Stages over the weights before the edits: what passes may ask for, and what becomes of the
// answers (stream/artifact.h). job.c calls the second half.
#ifndef WEIR_JOB_STAGE_H
#define WEIR_JOB_STAGE_H

#include "figures.h"
#include "job.h"

struct job_stage {
  const char *name;
  uint32_t n; // measurements
  struct artifact artifact;
  uint8_t sha256[DIGEST_BYTES];
  uint64_t source_bytes_read;
  bool resumed; // found, not made
  struct job_stage *next;
};

// pass_env's evaluate; ctx is the job. One more read of what is asked for. Recorded in
// the edit log, and an input of the plan.
int job_stage_measure(void *ctx, const uint32_t *codes, uint32_t n, struct figures *out,
                      struct err *err);
// edits' artifact: runs the recorded stage again. ERR_INPUT if it finds something else.
int job_stage_replay(void *ctx, const struct edit_artifact *a, struct err *err);

// Was any of them found, not made?
bool job_stage_took_over(const struct job *job);
// Moves what was found into the staging folder of the plan.
int job_stage_move(struct job *job, const struct staging *st, struct err *err);
// Closes all; the stages' own folders go, unless they are to be kept for a resume.
void job_stage_end(struct job *job, bool keep);
// The member "stages" of the report.
void job_stage_write(const struct job *job, struct json_out *j);

#endif
