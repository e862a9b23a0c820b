// Layer by layer: the values that both models have under one name, as further outputs of both, a chunk at a time. Shows
// where an error comes from and how it grows.
#ifndef WEIR_VERIFY_LAYERS_H
#define WEIR_VERIFY_LAYERS_H

#include "verify.h"

struct verify_layers {
  struct verify *v;
  const struct model *source, *result;
  const char *paths[2];
  struct infer *infer; // of the source
  const struct arrays *inputs;
};

// Adds to v->found.layers, in the order of the source's graph. A chunk that one of the models does not run with is left
// out, with a notice.
int verify_layers_run(const struct verify_layers *l, struct err *err);

#endif
