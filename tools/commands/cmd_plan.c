// weir plan: what 'weir run' does up to its first byte. The rest follows from `plans` (request.h).
#include "cli/commands.h"

int cmd_plan(const struct cli_args *args, struct err *err) {
  return cmd_run(args, err);
}
