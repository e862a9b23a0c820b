// weir dynamic: weights in int8, activations quantized while the model runs.
//
// This is the pass of that name as a command: the pass chooses the weights, decides and edits, and its options are the
// command's. All else is that of every command with passes (pass_edits.h).
#include "cli/commands.h"
#include "request/pass_command.h"

int cmd_dynamic(const struct cli_args *args, struct err *err) {
  return pass_command_flags(args, err);
}
