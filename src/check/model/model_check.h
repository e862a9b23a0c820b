// Room: every fault of a model in files, not only the first.
//
// Loading reports what it meets to a sink and goes on where it can; what holds of a whole model
// (names, definitions, cycles) is looked at afterwards, then what operators want of their nodes, and last what inference says
// of shapes, and the dtypes that follow from it.
#ifndef WEIR_MODEL_CHECK_H
#define WEIR_MODEL_CHECK_H

#include "check/fault.h"
#include "stream/io/sources.h"

struct model_check_fault {
  enum fault_level level;
  const char *place, *text; // place "": the model as a whole
  const struct err *cause;  // whose message the text is, or NULL
  bool ends;                // the error that kept the rest from being looked at
};

struct model_check {
  const char *path;
  bool allow_links;
  void (*tell)(void *ctx, const struct model_check_fault *fault); // all holds during the call
  void *ctx;
  // what was found
  uint64_t count[FAULT_ERROR + 1]; // by enum fault_level
  enum err_kind code;              // of the errors: of a malformed model, else of the first
  bool unfinished;                 // told that the model's own run was interrupted
  char last_error[1024];           // the text of the newest error
};

// -1: it could not be loaded as far as it should be, and *found says why, which model_check_tell_end tells if it was not told
// before. `sources` are the caller's to close, NULL where the model could not be opened.
int model_check_run(struct model_check *c, struct sources **sources, struct err *found);
void model_check_tell_end(struct model_check *c, const struct err *found);
// Of a run that gave rc: what the check ends with. A missing permission or a failing disk says nothing about the model.
int model_check_code(const struct model_check *c, int rc, const struct err *found);

#endif
