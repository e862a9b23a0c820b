// A model on the way: what it was after so many groups of its edits, as files of its own.
#ifndef WEIR_CHECKPOINT_MODEL_H
#define WEIR_CHECKPOINT_MODEL_H

#include "edit/edit.h"
#include "execute/execution.h"
#include "pipeline/pipeline.h"
#include "plan/plan.h"

// The model after so many groups of a log, as files in a folder.
struct checkpoint_model {
  const char *path; // of its .onnx
  const char *files[PLAN_DATA_FILES_MAX + 1];
  uint32_t n_files;
};
struct checkpoint_source {
  const struct request *request;
  const char *model, *log; // paths
  uint64_t memory;
  // Whose files must stay as they are; NULL: the folder is one for such models alone.
  const struct execution *of;
  const struct pipeline *pipeline; // of that execution
};
int checkpoint_model_write(const struct checkpoint_source *from, uint32_t group, const char *folder,
                           struct folder in, const char *name, struct checkpoint_model *out,
                           struct arena *a, struct err *err);
// The files of an edited model, in a folder for such models alone.
struct checkpoint_edited {
  struct edits *edits;
  struct sources *sources;
  uint64_t memory;
};
int checkpoint_model_write_edited(const struct checkpoint_edited *x, const char *folder,
                                  struct folder in, const char *name, struct checkpoint_model *out,
                                  struct arena *a, struct err *err);
void checkpoint_model_remove(struct folder in, const struct checkpoint_model *m);

#endif
