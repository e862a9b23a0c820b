// Whole models after every pass of a pipeline: "verify_on: model" of its file.
#ifndef WEIR_VERIFY_STEPS_H
#define WEIR_VERIFY_STEPS_H

#include "verify.h"

struct verify_steps {
  struct verify *v; // with a pipeline
  const struct edit_groups *groups;
  const struct request *request;
  const char *result;      // the output, where it is stored
  const char *model, *log; // log: all lines of it, NULL where it could not be kept
};

// Does the pipeline ask for that, and the command line for nothing else?
bool verify_steps_wanted(const struct verify *v);
// Behind every pass that changed something, the model as it is then is compared with the one before the pass, by the bounds of the
// pass. Ends at the first that fails.
int verify_steps_run(const struct verify_steps *s, struct err *err);

#endif
