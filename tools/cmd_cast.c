// weir cast: weights stored in another floating type.
//
// The pass does the work, and its options are the command's. What is asked here is only that a type
// is named: there is no default for it. Reading, planning, writing and reports are those of every
// command with passes (pass_job.h).
#include "commands.h"
#include "pass_job.h"

int cmd_cast(const struct cli_args *args, struct err *err) {
  struct pass_job pj;
  if (!cli_given(args, cli_pass_option(args->command, "to"))) {
    err_fill(err, ERR_USAGE, "'weir cast' needs --to: the type to store weights in");
    return err_hint(err, "--to float16 or --to bfloat16");
  }
  pass_job_init(&pj);
  int rc = pass_job_take_flags(&pj, args, err);
  if (rc == 0) rc = pass_job_command(&pj, args, err);
  pass_job_free(&pj);
  return rc;
}
