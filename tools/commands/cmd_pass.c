// Commands that are their pass and no more: the pass does the work, and its options are the command's. All else is that of every
// command with passes (pass_edits.h).
#include "cli/commands.h"
#include "request/pass_command.h"

int cmd_dynamic(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}

int cmd_infer(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}

int cmd_requantize(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}

int cmd_smooth(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}

int cmd_static(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}
