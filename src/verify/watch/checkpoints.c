// The log lies in a file without a name in the folder for temporary files: it is as long as the run has edits, and goes with
// the process.
#include "verify/watch/checkpoints.h"

#include "platform/descriptor.h"

#include <stdlib.h>

bool checkpoints_are_verified(const struct pipeline *p) {
  for (uint32_t i = 0; p && p->verify.proof != PIPELINE_PROOF_OFF && i < p->n_steps; i++)
    if (pipeline_point_of(p, i) && p->steps[i].verify.proof != PIPELINE_PROOF_OFF) return true;
  return false;
}

struct checkpoints *checkpoints_begin(const struct pipeline *pipeline, bool verified,
                                      struct arena *a) {
  const bool files = pipeline && (pipeline->checkpoint || pipeline->intermediates);
  if (!files && !(verified && checkpoints_are_verified(pipeline))) return NULL;
  struct checkpoints *p = arena_zalloc(a, sizeof *p);
  *p = (struct checkpoints){.pipeline = pipeline};
  return p;
}

void checkpoints_end(struct checkpoints *p) {
  if (!p) return;
  file_close(&p->log);
  TABLE_FREE(p, rows);
}

void checkpoints_begin_edits(struct checkpoints *p, struct execution *exec) {
  if (!p) return;
  file_close(&p->log);
  p->log = execution_unnamed_file(NULL);
  p->log_path = arena_printf(&exec->arena, "/proc/self/fd/%d", file_descriptor(p->log));
  p->n_rows = 0;
  edit_groups_keep(&exec->edits);
}

// What cannot be kept is said by whoever wants it.
void checkpoints_line(struct checkpoints *p, struct span line) {
  if (!p || !file_is_open(p->log) || file_write_all(p->log, line.at, line.n) == 0) return;
  file_close(&p->log);
}

void checkpoints_step(struct checkpoints *p, const struct execution *exec, uint32_t step) {
  if (p) *TABLE_PUSH(p, rows) = (struct checkpoint){step, exec->edits.group};
}
