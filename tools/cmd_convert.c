// weir convert: the same model in another layout.
//
// No edit is made: only where payloads lie changes, and those fields of the .onnx that name them.
// So the edit log of this command has a head and nothing else, and the layout in the head is what a
// replay repeats.
#include "commands.h"
#include "job.h"

static void tell(struct job *job, struct job_told *told) {
  told->did = job->plan.n_outputs > 1 ? "rewritten with one data file" : "rewritten as one file";
}

static int edit(struct job *job, void *ctx, struct err *err) {
  const struct cli_args *args = job->args;
  (void)ctx;
  job->tell = tell;
  job->layout.data_name = cli_string(args, OPT_DATA_FILE);
  job->layout.align = cli_size(args, OPT_ALIGN);
  if (cli_flag(args, OPT_EXTERNAL)) job->layout.form = PLAN_DATA_EXTERNAL;
  if (cli_flag(args, OPT_INLINE)) job->layout.form = PLAN_DATA_INLINE;
  return job_begin_edits(job, "convert", "{}", err);
}

int cmd_convert(const struct cli_args *args, struct err *err) {
  return job_command(args, edit, NULL, err);
}
