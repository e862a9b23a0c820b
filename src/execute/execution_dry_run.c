// --dry-run: what a run would change, and whether it would be let.
//
// A dry run that says yes must be true, so whatever refuses the real run is asked here too, through
// the same functions and in the same order: names and existing files (execution_output.c), the engine,
// space, lock and folder (staging_foresee), the memory of the workers (memory_split_of). But the
// answer is wanted also where one of them says no: the first refusal is kept (execution_refused), the
// report is printed whole, and the refusal ends the command after it with the exit code of the real
// run.
//
// Where OUT was left out only the model and its weights can refuse (a gate, a budget): figures are then
// those of the input's folder.
#include "base/version_number.h"
#include "execute/execution.h"

int execution_refused(struct execution *exec, const struct err *why, struct err *err) {
  if (!exec->request->dry_run) {
    *err = *why;
    return -1;
  }
  if (exec->outcome.refusal.kind == ERR_NONE && !exec->out.absent) exec->outcome.refusal = *why;
  return 0;
}

int execution_refused_anywhere(struct execution *exec, const struct err *why, struct err *err) {
  if (execution_refused(exec, why, err)) return -1;
  if (exec->outcome.refusal.kind == ERR_NONE) exec->outcome.refusal = *why;
  exec->outcome.no_such_output = true;
  return 0;
}

int execution_look_ahead(struct execution *exec, struct err *err) {
  struct staging_options options = {.dest_folder = exec->out.folder,
                                    .onnx_name = exec->out.onnx_name,
                                    .version = version_number,
                                    .fresh = exec->request->fresh};
  struct err why = {0};
  struct entry_facts at;
  if (execution_beside_bytes(exec, &options.beside_bytes, err)) return -1;
  if (execution_choose_io(exec, &why) && execution_refused(exec, &why, err)) return -1;
  why = (struct err){0};
  exec->reported.ahead.output_exists = !exec->out.absent && execution_output_there(exec, &at);
  exec->reported.ahead.folder_writable = entry_may(exec->out.dest, ".", MAY_WRITE | MAY_ENTER) == 0;
  if (staging_foresee(&exec->plan, &options, &exec->reported.ahead.space, &why) &&
      exec->mode != IO_NULL && execution_refused(exec, &why, err))
    return -1;
  why = (struct err){0};
  const struct work_options run = {
      .jobs = exec->request->limits.jobs, .memory = exec->memory, .mode = exec->mode};
  if (run_foresee(&exec->plan, &run, &exec->reported.work.stats.jobs, &why))
    return execution_refused(exec, &why, err);
  return 0;
}
