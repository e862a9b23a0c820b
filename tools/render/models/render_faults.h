// Faults of models (model_check.h), on standard output: lines as they are found, or a document.
#ifndef WEIR_RENDER_FAULTS_H
#define WEIR_RENDER_FAULTS_H

#include "check/model/model_check.h"
#include "json/json.h"
#include "stream/load/model_folder.h"

struct render_faults {
  bool json;
  const char *model; // of a folder: the path below it; else NULL
  struct json_out j; // the open document
};

// The head of the document, if there is one.
void render_faults_begin(struct render_faults *r, bool json);
// For model_check.tell; ctx is the render_faults.
void render_fault(void *ctx, const struct model_check_fault *fault);
// Counts of the faults, which are all there: members of the document, and its end; or the last line, of the model or folder
// at this path. Before it comes what is said of the folder; NULL: it is a model.
void render_faults_end(struct render_faults *r, const char *path,
                       const uint64_t count[FAULT_ERROR + 1], const struct model_folder *folder);

#endif
