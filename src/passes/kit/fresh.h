// Names that no value has yet, for the tensors and values that a pass makes.
#ifndef WEIR_FRESH_H
#define WEIR_FRESH_H

#include "numbers.h"

// Starts zeroed.
struct fresh {
  struct numbers numbers; // tried so far: many tensors may want one name
};

void fresh_done(struct fresh *f);
// `wanted`, or with _1, _2, … behind it where a value of any graph has that name. (Nodes may: they
// live in a space of their own.) Valid as long as the arena and `wanted`.
struct span fresh_name(struct fresh *f, struct model *m, struct arena *a, const char *wanted);

#endif
