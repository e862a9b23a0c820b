// Commands whose edits are those of passes: their command line becomes steps of a pipeline and a request.
#ifndef WEIR_PASS_COMMAND_H
#define WEIR_PASS_COMMAND_H

#include "cli/cli.h"
#include "execute/passes/pass_edits.h"
#include "pipeline/infer_step.h"

// The step of --inputs-are-constant, where it is given: before all others.
int pass_command_take_inputs(struct pass_edits *pj, const struct cli_args *args, struct err *err);
// The command's pass with the flags of the command line (cli_pass_values), as the last step; the one
// above comes before it.
int pass_command_take_flags(struct pass_edits *pj, const struct cli_args *args, struct err *err);

// --set-shape and --set-dim.
struct infer_step_sets pass_command_sets(const struct cli_args *args);

// The whole command, once the steps are there: --exactness is taken here.
int pass_command_run(struct pass_edits *pj, const struct cli_args *args, struct err *err);
// The same of a command that is its pass with the flags of the command line.
int pass_command_flags(const struct cli_args *args, struct err *err);

#endif
