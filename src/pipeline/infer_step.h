// The step "infer" as commands that are no pass themselves ask for it.
#ifndef WEIR_INFER_STEP_H
#define WEIR_INFER_STEP_H

#include "pipeline/pipeline.h"

// Shapes and dims that inputs get, as the pass's options set_shape and set_dim take them.
struct infer_step_sets {
  const char *const *shapes, *const *dims;
  uint32_t n_shapes, n_dims;
};
// Appends it, with those (NULL: none) and further keys, such as "int_max=7,strict=true", or "". ERR_USAGE.
int infer_step_add(struct pipeline *p, const struct infer_step_sets *sets, const char *keys,
                   struct err *err);

#endif
