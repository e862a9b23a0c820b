// The step "infer" as commands that are no pass themselves ask for it.
#ifndef WEIR_INFER_STEP_H
#define WEIR_INFER_STEP_H

#include "cli.h"
#include "pipeline.h"

// Does the command line set shapes or dims of inputs?
bool infer_step_sets(const struct cli_args *args);
// Appends it: with --set-shape and --set-dim if `first`, and those further keys, such as
// "int_max=7,strict=true", or "". ERR_USAGE.
int infer_step_add(struct pipeline *p, const struct cli_args *args, bool first, const char *keys,
                   struct err *err);

#endif
