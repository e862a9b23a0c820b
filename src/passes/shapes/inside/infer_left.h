// Values of which nothing is to be declared, though much is known: what runtimes make of them would change.
#ifndef WEIR_INFER_LEFT_H
#define WEIR_INFER_LEFT_H

#include "infer.h"

struct infer_left {
  TABLE(uint8_t, is);       // by value id
  TABLE(uint8_t, visited);  // by node id
  TABLE(uint32_t, waiting); // values
};

// Starts zeroed. Linear in nodes and their operands.
void infer_left_find(struct infer_left *l, const struct model *m, struct infer *in);
bool infer_left_has(const struct infer_left *l, uint32_t value);
void infer_left_free(struct infer_left *l);

#endif
