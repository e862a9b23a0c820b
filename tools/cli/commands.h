// The commands as functions, one for each row of commands.def, each in its file cmd_<stem>.c.
#ifndef WEIR_COMMANDS_H
#define WEIR_COMMANDS_H

#include "cli/cli.h"

// int cmd_<stem>(args, err): does what the command line asks for. 0: done. -1: *err says why not,
// its kind is the exit code. A positive number is the exit code of a command that has said all
// there is to say.
#define COMMAND(stem, ...) int cmd_##stem(const struct cli_args *args, struct err *err);
#include "cli/commands.def"

#endif
