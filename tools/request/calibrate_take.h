// The command line of `weir calibrate` as a request.
#ifndef WEIR_CALIBRATE_TAKE_H
#define WEIR_CALIBRATE_TAKE_H

#include "calibrate_request.h"
#include "cli.h"

// base, source: filled, and part of *r. ERR_USAGE.
int calibrate_take(struct calibrate_request *r, struct request *base, struct request_source *source,
                   const struct cli_args *args, struct observer *o, struct arena *a,
                   struct err *err);

#endif
