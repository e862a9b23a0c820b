// What nodes do besides giving their outputs, as far as it is known.
#ifndef WEIR_EFFECTS_H
#define WEIR_EFFECTS_H

#include "passes/kit/kit.h"

enum {
  EFFECTS_UNKNOWN = 1, // may do something that no output shows: print, count, send
  EFFECTS_RANDOM = 2,  // two equal nodes may give different values
};

struct effects {
  TABLE(uint8_t, of); // by node id: what holds of it, its graphs and the function it calls
};

// Starts zeroed. Of all nodes that the model has now; linear in them.
void effects_find(struct effects *x, struct kit *k);
void effects_done(struct effects *x);
static inline bool effects_has(const struct effects *x, uint32_t node, unsigned what) {
  return (x->of[node] & what) != 0;
}

#endif
