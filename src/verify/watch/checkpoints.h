// What the model was at each step of a run: which edits came before it, kept while they are made, so that the model can be had
// as it was there once more.
//
//   steps    0 cleanup   1 verify   2 streamline            3 verify
//   groups   1 2 3       │          4 5 6 7 8 … 41 42       │
//                        model behind group 3               model behind group 42
//
// Whoever wants the model at a step replays the log up to its group. Nothing is kept unless the pipeline has such a step, or
// asks for files of models on the way.
#ifndef WEIR_CHECKPOINTS_H
#define WEIR_CHECKPOINTS_H

#include "execute/execution.h"
#include "pipeline/pipeline.h"
#include "stream/sys/scratch.h"
#include "verify/run/verify.h"
#include "verify/sites/checkpoint_model.h"

// A step that ran. Steps that are one call have the same group.
struct checkpoint {
  uint32_t step;
  uint32_t group; // of edits that came before it
};

struct checkpoints {
  const struct pipeline *pipeline;
  struct file log; // with the lines of the edit log; none: it could not be made
  const char *log_path;
  struct scratch named; // where it lies, if it has a name
  TABLE(struct checkpoint, rows);
};

// NULL where the pipeline (NULL: there is none) does not want it: with verified false, for files alone. In *a.
struct checkpoints *checkpoints_begin(const struct pipeline *pipeline, bool verified,
                                      struct arena *a);
// Of one that may be NULL, as the others below.
void checkpoints_end(struct checkpoints *p);
// The edits begin, perhaps again; a line of their log; a step begins.
void checkpoints_begin_edits(struct checkpoints *p, struct execution *exec);
void checkpoints_line(struct checkpoints *p, struct span line);
void checkpoints_step(struct checkpoints *p, const struct execution *exec, uint32_t step);

// checkpoint_files.c. The files that the pipeline asks for: the model behind each call that changed it, and before and after the
// last one.
int checkpoints_write_files(const struct checkpoints *p, struct execution *exec, struct err *err);
// checkpoint_verify.c. Steps of `verify`, in order, until one fails. source: the reference; result: the output in its folder.
bool checkpoints_are_verified(const struct pipeline *p); // is there one that is not turned off?
int checkpoints_verify(const struct checkpoints *p, struct execution *exec, struct verify *v,
                       const char *source, const char *result, struct err *err);

#endif
