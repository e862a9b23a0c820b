// The options of `weir verify`, and of commands that verify what they write (--verify), as verify_options.
#ifndef WEIR_VERIFY_OPTIONS_H
#define WEIR_VERIFY_OPTIONS_H

#include "cli/cli.h"
#include "verify/run/verify.h"

// pipeline: of a command that runs one; NULL: there is none. ERR_USAGE.
int verify_options_take(struct verify_options *o, const struct cli_args *args,
                        struct observer *observer, const struct pipeline *pipeline, struct arena *a,
                        struct err *err);

#endif
