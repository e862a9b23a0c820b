// Whether a model is again what it was: a digest of what its graphs compute.
#ifndef WEIR_PASS_STATE_H
#define WEIR_PASS_STATE_H

#include "model/model.h"

// Of live nodes, their operators, attributes and operands, and of graph outputs; constants by their recipe. What
// things are called, where unordered nodes stand, and what types are declared does not show. Linear in the rows.
uint64_t pass_state(const struct model *m);

#endif
