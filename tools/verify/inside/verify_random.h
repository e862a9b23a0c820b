// Which outputs of a model depend on numbers that the runtime draws while it runs.
#ifndef WEIR_VERIFY_RANDOM_H
#define WEIR_VERIFY_RANDOM_H

#include "arena.h"
#include "model.h"

struct verify_random {
  const struct model *m;
  bool *draws;     // by node: it does, or the function that it calls
  bool any;        // one of them does
  uint32_t *inner; // by node: 1 + the last node that stands in a body of it
  uint32_t *next;  // by node: 1 + another that stands in a body of the same node
};

// In *a; the model stays. Operators for random numbers without a seed draw them, and a Dropout that trains.
void verify_random_find(struct verify_random *r, const struct model *m, struct arena *a);

// A node of whose numbers output `place` of the main graph is made; NO_ID: there is none. Linear in the nodes.
uint32_t verify_random_behind(const struct verify_random *r, uint32_t place);

#endif
