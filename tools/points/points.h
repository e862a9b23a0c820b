// What the model was at each step of a run: which edits came before it, kept while they are made, so that the model can be had
// as it was there once more.
//
//   steps    0 cleanup   1 verify   2 streamline            3 verify
//   groups   1 2 3       │          4 5 6 7 8 … 41 42       │
//                        model behind group 3               model behind group 42
//
// Whoever wants the model at a step replays the log up to its group. Nothing is kept unless the pipeline has such a step, or
// asks for files of models on the way.
#ifndef WEIR_POINTS_H
#define WEIR_POINTS_H

#include "execution.h"
#include "pipeline.h"
#include "plan.h"
#include "verify.h"

// A step that ran. Steps that are one call have the same group.
struct points_row {
  uint32_t step;
  uint32_t group; // of edits that came before it
};

struct points {
  const struct pipeline *pipeline;
  int log; // a file without a name, with the lines of the edit log; -1: it could not be made
  const char *log_path;
  TABLE(struct points_row, rows);
};

// NULL where the pipeline (NULL: there is none) does not want it: with verified false, for files alone. In *a.
struct points *points_begin(const struct pipeline *pipeline, bool verified, struct arena *a);
// Of one that may be NULL, as the others below.
void points_end(struct points *p);
// The edits begin, perhaps again; a line of their log; a step begins.
void points_begin_edits(struct points *p, struct execution *exec);
void points_line(struct points *p, struct span line);
void points_step(struct points *p, const struct execution *exec, uint32_t step);

// points_model.c. The model behind so many groups of a log, as files in a folder.
struct points_model {
  const char *path; // of its .onnx
  const char *files[PLAN_DATA_FILES_MAX + 1];
  uint32_t n_files;
};
struct points_source {
  const struct request *request;
  const char *model, *log; // paths
  uint64_t memory;
  const struct execution
      *of; // whose files must stay as they are; NULL: the folder is one for such models alone
  const struct pipeline *pipeline; // of that job
};
int points_write_model(const struct points_source *from, uint32_t group, const char *folder, int fd,
                       const char *name, struct points_model *out, struct arena *a,
                       struct err *err);
// The files of an edited model, in a folder for such models alone.
struct points_edited {
  struct edits *edits;
  struct sources *sources;
  uint64_t memory;
};
int points_write_edited(const struct points_edited *x, const char *folder, int fd, const char *name,
                        struct points_model *out, struct arena *a, struct err *err);
void points_remove_model(int folder, const struct points_model *m);

// points_files.c. The files that the pipeline asks for: the model behind each call that changed it, and before and after the
// last one.
int points_write_files(const struct points *p, struct execution *exec, struct err *err);
// points_verify.c. Steps of `verify`, in order, until one fails. source: what is compared with; result: the output, where it lies.
bool points_are_verified(const struct pipeline *p); // is there one that is not turned off?
int points_verify(const struct points *p, struct execution *exec, struct verify *v,
                  const char *source, const char *result, struct err *err);

#endif
