// Names that no value has yet, for the tensors and values that a pass makes.
#ifndef WEIR_FRESH_H
#define WEIR_FRESH_H

#include "model.h"

// The numbers tried so far, by name id: many tensors may want one name. Starts zeroed.
struct fresh {
  uint32_t *numbers;
  uint32_t n;
  size_t cap;
};

void fresh_done(struct fresh *f);
// Does a value of any graph have that name? (Nodes may: they live in a space of their own.)
bool fresh_is_taken(const struct model *m, struct span name);
// `wanted`, or with _1, _2, … behind it where a value of any graph has that name. Valid as long as
// the arena and `wanted`.
struct span fresh_name(struct fresh *f, struct model *m, struct arena *a, const char *wanted);

#endif
