// Initializers that go, also where they are listed as inputs of the graph.
#ifndef WEIR_UNLIST_H
#define WEIR_UNLIST_H

#include "passes/kit/kit.h"

struct unlist {
  TABLE(uint8_t, marked); // by value id: an input that goes in the end
  bool any;
};

// The initializer that the value is goes: nothing uses it, and if it is an input, it is one of the
// main graph.
void unlist_initializer(struct unlist *u, struct kit *k, uint32_t value);
// Now those that are inputs go. Frees *u.
void unlist_done(struct unlist *u, struct kit *k);

#endif
