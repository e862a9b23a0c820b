// Room: verification of a command's outputs in the staging folder, before anything has its final name.
#ifndef WEIR_VERIFY_WATCH_H
#define WEIR_VERIFY_WATCH_H

#include "execute/execution.h"
#include "verify/run/verify.h"

struct checkpoints; // checkpoints.h

// `options` is filled by who asks: with VERIFY_NOTHING only files of models on the way are written, where the pipeline wants
// them. The rest is zero.
struct verify_watch {
  struct verify_options options;
  struct err refused; // the options do not fit: its beginning fails with this
  struct verify v;
  bool runs; // v was begun
  struct checkpoints *points;
};

// Its beginning starts the runtime (ERR_USAGE, ERR_RUNTIME); its commit is ERR_FAIL where the output is not the same, or
// that could not be found out. *x lives as long as the execution.
struct execution_watch verify_watch(struct verify_watch *x);

#endif
