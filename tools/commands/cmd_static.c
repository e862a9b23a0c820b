// weir static: weights and activations in int8, by ranges that were found before. The pass of that name does the work.
#include "cli/commands.h"
#include "request/pass_command.h"

int cmd_static(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}
