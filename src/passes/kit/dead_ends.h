// What a rewrite leaves behind.
#ifndef WEIR_DEAD_ENDS_H
#define WEIR_DEAD_ENDS_H

#include "edit/edit.h"

// Removes what made a value that nothing uses any more: an initializer (below IR version 4 with the
// graph input of its name), a Constant, or nodes that weights come through (weights.h) and, before
// them, what only they used. NO_ID, values in use, and initializers that callers or training may mean are left alone.
void dead_ends_drop(struct edits *e, uint32_t value);
// The same of every initializer that nothing uses, of graphs and bodies.
void dead_ends_drop_all(struct edits *e);

#endif
