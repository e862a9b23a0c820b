// weir infer: types and shapes as value_info. The pass of that name does the work.
#include "cli/commands.h"
#include "request/pass_command.h"

int cmd_infer(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}
