// A walk over the nodes that an output of a model is made of: for what draws numbers (verify_random.c) and for what makes whole numbers
// of floats (verify_whole.c).
#ifndef WEIR_VERIFY_WALK_H
#define WEIR_VERIFY_WALK_H

#include "verify/models/verify_random.h"

// Nodes that are still to be looked at, each once.
struct verify_walk {
  const struct verify_random *r;
  bool *seen; // by node
  TABLE(uint32_t, list);
  struct arena arena;
};
void verify_walk_begin(struct verify_walk *w, const struct verify_random *r);
void verify_walk_end(struct verify_walk *w);
// What makes a value: its node, or the one in whose body the value is an input.
void verify_walk_see(struct verify_walk *w, uint32_t value);
// What the node reads, and the nodes of its bodies.
void verify_walk_see_before(struct verify_walk *w, uint32_t node);
// Has no element before the node a part in what it makes? Its dims may still be up to elements, unless they follow from the inputs'.
bool verify_walk_ends(const struct verify_random *r, uint32_t node);
// The value that is output `place` of the main graph; NO_ID.
uint32_t verify_walk_output(const struct verify_random *r, uint32_t place);
// Does the dim follow from those of the inputs?
bool verify_walk_knows(const struct verify_random *r, dim_id d);

#endif
