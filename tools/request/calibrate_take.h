// The command line of `weir calibrate` as a request.
#ifndef WEIR_CALIBRATE_TAKE_H
#define WEIR_CALIBRATE_TAKE_H

#include "calibrate/calibrate_request.h"
#include "cli/cli.h"

struct calibrate_record; // calibrate_job.h

// base, source: filled, and part of *r. ERR_USAGE.
int calibrate_take(struct calibrate_request *r, struct request *base, struct request_source *source,
                   const struct cli_args *args, struct observer *o, struct arena *a,
                   struct err *err);

// Carries out such a command line, for a file of ranges that is found again (recalibrate.h).
int calibrate_take_run(const char *const *words, int n, const struct calibrate_record *record,
                       struct err *err);

#endif
