// The steps that optimizing a model is made of (optimize.def).
#ifndef WEIR_OPTIMIZE_STEPS_H
#define WEIR_OPTIMIZE_STEPS_H

#include "pipeline/pipeline.h"

enum { OPTIMIZE_ROUNDS = 10 };
enum optimize_when { OPTIMIZE_ROUND, OPTIMIZE_LAST, OPTIMIZE_END }; // optimize.def says more
enum optimize_goal { GOAL_ONNX = 1, GOAL_QUANTIZATION = 2, GOAL_ONNXRUNTIME = 4 };

struct optimize_asked {
  enum optimize_goal goal;
  // Passes by name, or globs over names (tidy/*); none: all that are for the goal. One that names no step is an
  // error.
  const char *const *only, *const *skip;
  uint32_t n_only, n_skip;
  uint32_t rounds;        // OPTIMIZE_ROUNDS where nobody says more
  const char *fold_limit; // of optimize/fold-large, in bytes; NULL: its preset
};

// By its word: onnx, quantization, onnxruntime.
enum optimize_goal optimize_goal_of(const char *word);
// The i-th of all, in order, when it runs, and the goals that it is for; NULL past the last.
const char *optimize_steps_name(uint32_t i, enum optimize_when *when, uint32_t *goals);
// Appends them, without reading their values: only and skip are not checked. Inside a repeat they are steps of it.
int optimize_steps_list(struct pipeline *p, const struct optimize_asked *asked, struct err *err);
// Appends the step that raises the opset, before they are appended. ERR_USAGE.
int optimize_steps_raise(struct pipeline *p, uint32_t version, struct err *err);
// Appends them. ERR_USAGE.
int optimize_steps_add(struct pipeline *p, const struct optimize_asked *asked, struct err *err);

#endif
