// Faults of models (model_check.h), on standard output: lines as they are found, or a document.
#ifndef WEIR_RENDER_FAULTS_H
#define WEIR_RENDER_FAULTS_H

#include "check/model/model_check.h"
#include "json/json.h"

struct render_faults {
  bool json;
  const char *model; // of a folder: the path below it; else NULL
  struct json_out j; // the open document
};

// The head of the document, if there is one.
void render_faults_begin(struct render_faults *r, bool json);
// For model_check.tell; ctx is the render_faults.
void render_fault(void *ctx, const struct model_check_fault *fault);
// Members of the document: faults are all there. Its caller ends it.
void render_faults_counts_json(struct render_faults *r, const uint64_t count[FAULT_ERROR + 1]);
// The last line: of the model or folder at this path.
void render_faults_counts(const char *path, const uint64_t count[FAULT_ERROR + 1]);

#endif
