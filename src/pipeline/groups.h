// Groups: names that stand for a run of other passes (groups.def).
#ifndef WEIR_GROUPS_H
#define WEIR_GROUPS_H

#include "base/span.h"

struct group {
  const char *key, *class; // its names; key "": it has none
  const char *rounds,
      *once; // words of a pipeline (passes_word): in rounds until nothing changes; behind them
};

// The i-th; NULL past the last.
const struct group *groups_at(uint32_t i);
// By its key, or its class, alone or behind a path ("streamline.Streamline"); NULL: there is none.
const struct group *groups_find(struct span name);

#endif
