// The rows and the log of a run (points.h).
//
// The log lies in a file without a name in the folder for temporary files: it is as long as the run has edits, and goes with
// the process.
#include "points.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

bool points_are_verified(const struct pipeline *p) {
  for (uint32_t i = 0; p && p->verify.proof != PIPELINE_PROOF_OFF && i < p->n_steps; i++)
    if (pipeline_point_of(p, i) && p->steps[i].verify.proof != PIPELINE_PROOF_OFF) return true;
  return false;
}

void points_begin(struct job *job, const struct pipeline *pipeline, bool verified) {
  const bool files = pipeline && (pipeline->checkpoint || pipeline->intermediates);
  if (!files && !(verified && points_are_verified(pipeline))) return;
  job->points = arena_zalloc(&job->arena, sizeof *job->points);
  *job->points = (struct points){.pipeline = pipeline, .log = -1};
}

void points_end(struct job *job) {
  if (!job->points) return;
  if (job->points->log >= 0) close(job->points->log);
  TABLE_FREE(job->points, rows);
  job->points = NULL;
}

void points_begin_edits(struct job *job) {
  struct points *p = job->points;
  if (!p) return;
  if (p->log >= 0) close(p->log);
  p->log = job_unnamed_file(NULL);
  p->log_path = arena_printf(&job->arena, "/proc/self/fd/%d", p->log);
  p->n_rows = 0;
  edit_groups_keep(&job->edits);
}

// What cannot be kept is said by whoever wants it.
void points_line(struct job *job, struct span line) {
  struct points *p = job->points;
  if (!p || p->log < 0) return;
  for (size_t done = 0; done < line.n;) {
    const ssize_t n = write(p->log, line.at + done, line.n - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      close(p->log);
      p->log = -1;
      return;
    }
    done += (size_t)n;
  }
}

void points_step(struct job *job, uint32_t step) {
  if (job->points) *TABLE_PUSH(job->points, rows) = (struct points_row){step, job->edits.group};
}
