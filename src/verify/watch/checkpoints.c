// The log lies in a file without a name in the folder for temporary files: it is as long as the run has edits, and goes with
// the process. A system that opens no such file a second time gets one with a name, in a folder of its own.
#include "verify/watch/checkpoints.h"

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

static void end_log(struct checkpoints *p) {
  file_close(&p->log);
  if (p->named.path) (void)file_remove(p->named.at, path_base(p->log_path));
  scratch_end(&p->named);
}

void checkpoints_end(struct checkpoints *p) {
  if (!p) return;
  end_log(p);
  TABLE_FREE(p, rows);
}

static void begin_log(struct checkpoints *p, struct arena *a) {
  char path[PATH_BYTES];
  struct err ignored = {0};
  p->log = execution_unnamed_file(NULL);
  if (!file_is_open(p->log)) return;
  if (file_path(p->log, path)) {
    p->log_path = arena_string(a, span_str(path));
    return;
  }
  file_close(&p->log);
  if (scratch_make(&p->named, "edits", a, &ignored)) return;
  p->log_path = arena_printf(a, "%s/edits.jsonl", p->named.path);
  p->log = file_open_to_write(HERE, p->log_path, FILE_NEW | FILE_NO_LINK, 0600);
}

void checkpoints_begin_edits(struct checkpoints *p, struct execution *exec) {
  if (!p) return;
  end_log(p);
  begin_log(p, &exec->arena);
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
