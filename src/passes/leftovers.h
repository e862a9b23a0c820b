// What a rewrite leaves behind.
#ifndef WEIR_LEFTOVERS_H
#define WEIR_LEFTOVERS_H

#include "edit.h"

// Is the value neither an input of a node nor an output of its graph? (Without counting: a weight
// may have a million uses.)
bool leftovers_unused(const struct model *m, uint32_t value);
// Removes what made a value that nothing uses any more: an initializer (with the graph input of its
// name), a Constant, or Identity and Transpose nodes and, behind them, what only they used. NO_ID
// and values in use are left alone.
void leftovers_drop(struct edits *e, uint32_t value);

#endif
