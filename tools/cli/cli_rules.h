// The rules that a whole line of weir must keep to, beyond those that rows say.
#ifndef WEIR_CLI_RULES_H
#define WEIR_CLI_RULES_H

#include "cli/cli.h"

// ERR_USAGE: two records on standard output, no output or two.
int cli_rules(struct cli_args *args, struct err *err);

#endif
