// weir quantize: the pass matmulnbits as a command.
#include "commands.h"
#include "pass_job.h"

int cmd_quantize(const struct cli_args *args, struct err *err) {
  struct pass_job pj;
  pass_job_init(&pj);
  int rc = pass_job_take_flags(&pj, args, err);
  if (rc == 0) rc = pass_job_command(&pj, args, err);
  pass_job_free(&pj);
  return rc;
}
