// Verification of what members made, in the plan's folder, before it gets its name (weir finalize --verify).
#ifndef WEIR_VERIFY_STAGED_H
#define WEIR_VERIFY_STAGED_H

#include "distribute/planned.h"
#include "verify/run/verify.h"

struct verify_staged {
  bool wanted;
  struct verify v;
  const char *log; // --edits, or NULL
  struct arena arena;
};

// Starts the runtime if the options want a verification. log: --edits, or NULL. ERR_USAGE, ERR_RUNTIME. verify_staged_end in any case.
int verify_staged_begin(struct verify_staged *s, const struct verify_options *o, const char *log,
                        struct err *err);
// The log, if there is one, is that of the plan, or it is ERR_INPUT; the plan is one that is written, or it is ERR_USAGE.
int verify_staged_check(const struct verify_staged *s, const struct planned *x, struct err *err);
// Of a plan whose units are all there. ERR_FAIL: the output is not what the source is, or that could not be found out.
int verify_staged_run(struct verify_staged *s, const struct planned *x,
                      const struct request_limits *limits, const char *source_folder,
                      struct err *err);
void verify_staged_end(struct verify_staged *s);

#endif
