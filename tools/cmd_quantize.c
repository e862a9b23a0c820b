// weir quantize: weights of MatMul and Gemm in blocks of 2 to 8 bits.
//
// This is the pass of that name as a command: the pass chooses the weights, decides and edits, and
// its options are the command's. All else is that of every command with passes (pass_job.h).
#include "commands.h"
#include "pass_job.h"

int cmd_quantize(const struct cli_args *args, struct err *err) {
  return pass_job_flags_command(args, err);
}
