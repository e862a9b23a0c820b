// The model after the import that a run begins with. No runtime has the operators of the source, so that is what the result is
// compared with:
//
//   groups   1 2 3         │ 4 5 6 … 42
//   pass     import-qonnx  │ fuse, streamline …
//                          └ the log, replayed so far, is written into the folder for temporary files: it stands for the source
//
// The import itself is not verified, and no site is of it alone. 'weir verify SRC OUT' has no edits: it imports SRC itself.
#ifndef WEIR_VERIFY_IMPORT_H
#define WEIR_VERIFY_IMPORT_H

#include "edit/edit_groups.h"
#include "verify/run/verify_written.h"
#include "verify/sites/checkpoint_model.h"
#include "verify/sites/verify_replay.h"

struct verify_import {
  uint32_t groups;               // of edits that are the import
  struct checkpoint_model model; // in v->scratch
  struct edit_groups rest;       // the groups after it
  struct verify_replay at;       // the rows then, numbered as in the run
  // The same, with what the file has: it is what parts are cut out of.
  struct verify_written written;
};

struct verify_import_from {
  const struct model *result;       // as edited
  const struct edit_groups *groups; // of all its edits
  const struct request *request;
  const char *model, *log; // paths; log: with all of these groups, NULL: it could not be kept
  bool sites;              // rows are wanted too
};

// Sets v->lacking to the operator of the model that no runtime has; NULL: there is none.
void verify_import_look(struct verify *v, const struct model *source);
// Makes v->import, if v->lacking is set and the edits begin with an import; verify_end removes it. ERR_FAIL: there is nothing
// to compare, since edits after it change nothing that is computed.
int verify_import_open(struct verify *v, const struct verify_import_from *from, struct err *err);
// The same of a model without edits: it is imported here, in v->scratch.
int verify_import_source(struct verify *v, struct sources *sources, struct err *err);
// *e with the imported model as the source. No import: as it is.
struct verify_edited verify_import_edited(const struct verify *v, struct verify_edited e);

#endif
