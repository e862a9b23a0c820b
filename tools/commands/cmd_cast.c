// weir cast: weights stored, or graphs computed, in another floating type.
//
// What is asked here is only that a type is named: there is no default for it. All else is that of every command with passes (pass_edits.h).
#include "cli/commands.h"
#include "request/pass_command.h"

int cmd_cast(const struct cli_args *args, struct err *err) {
  if (cli_given(args, cli_pass_option(args->command, "to"))) return pass_command_flags(args, err);
  err_fill(err, ERR_USAGE, "'weir cast' needs --to: the type to store weights in");
  return err_hint(err, "--to float16 or --to bfloat16");
}
