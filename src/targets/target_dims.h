// The dims that a model's inputs leave open, for targets that take fixed shapes only.
#ifndef WEIR_TARGET_DIMS_H
#define WEIR_TARGET_DIMS_H

#include "base/arena.h"
#include "model/model.h"

// Has an input of the model, which is no initializer, a dim without a number, or no known rank?
bool target_dims_open(const struct model *m);
// Their names, each once and in order: "batch, time"; of many the first few. "" where
// none has a name.
const char *target_dims_names(const struct model *m, struct arena *a);
// The first input with a dim that has neither number nor name, or NO_ID.
uint32_t target_dims_nameless(const struct model *m);

#endif
