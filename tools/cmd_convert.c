// weir convert: the same model in another layout.
//
// No edit is made: only where payloads lie changes, and those fields of the .onnx that name them.
// So the edit log of this command has a head and nothing else, and the layout in the head is what a
// replay repeats.
#include "commands.h"
#include "job.h"

static int set_layout(struct job *job, struct err *err) {
  const struct cli_args *args = job->args;
  job->layout.data_name = cli_string(args, OPT_DATA_FILE);
  job->layout.align = cli_size(args, OPT_ALIGN);
  if (cli_flag(args, OPT_EXTERNAL)) job->layout.form = PLAN_DATA_EXTERNAL;
  if (cli_flag(args, OPT_INLINE)) job->layout.form = PLAN_DATA_INLINE;
  uint64_t align = job->layout.align;
  if ((align & (align - 1)) == 0) return 0;
  err_set(err, ERR_USAGE, "--align %lu is not a power of two", align);
  return err_hint(err, "64, 4KiB and 64KiB are common");
}

int cmd_convert(const struct cli_args *args, struct err *err) {
  struct job job;
  int rc;
  if (job_finish_seal(args, &rc, err)) return rc;
  if (job_open(&job, args, err)) return -1;
  rc = set_layout(&job, err);
  if (rc == 0) rc = job_begin_edits(&job, "convert", "{}", err);
  if (rc == 0) rc = job_finish(&job, err);
  job_close(&job);
  return rc;
}
