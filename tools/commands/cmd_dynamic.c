// weir dynamic: weights in int8, activations quantized while the model runs. The pass of that name does the work.
#include "cli/commands.h"
#include "request/pass_command.h"

int cmd_dynamic(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}
