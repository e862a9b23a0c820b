// Words of the command line that weir has not. All but one fill in ERR_USAGE, with a hint, and return -1.
#ifndef WEIR_CLI_UNKNOWN_H
#define WEIR_CLI_UNKNOWN_H

#include "cli/cli.h"

int cli_unknown_command(const char *name, struct err *err);
// --NAME, which the command does not have; "-x…", of which it does not have a letter.
int cli_unknown_option(const struct cli_args *args, const char *name, struct err *err);
int cli_unknown_letter(const struct cli_args *args, const char *word, struct err *err);
// Adds where the options are listed.
int cli_unknown_hint(const struct cli_args *args, struct err *err);
// Options of --verify have names of their own in 'weir verify', and it takes both: its option, or CLI_NONE.
enum cli_option cli_unknown_twin(enum cli_command command, struct span name);

#endif
