// What questions about a model remember of what they found: no part of it, but what saves walking the
// same way again. A question does not change the model, so this lies beside it (model.memory).
//
//   shortcuts   by value: behind the Identity nodes that a question walked through (model_constant.c)
//   listing     where a value was found last in a list of outputs: who asks about one after the other, in
//               about the order of the list, walks it once (model_values.c)
//   opset_slots (first row of a list of imports, domain) -> row, of long lists (model_opsets.c)
//
// Edits say what they change (model_identity_changes, model_opsets_moved); a table that is not begun
// costs them a look at a number.
#ifndef WEIR_MODEL_MEMORY_H
#define WEIR_MODEL_MEMORY_H

#include "model.h"

struct model_shortcut {
  uint32_t to, age; // holds while `age` is the memory's
};

struct model_memory {
  TABLE(struct model_shortcut, shortcuts);
  uint32_t age;                 // counts up when shortcuts are void; from 1
  TABLE(uint32_t, opset_slots); // row + 1; open addressing, at most half full
  uint32_t n_opset_entries;
  bool opsets_known;
  uint32_t listing;
  // For tests: nodes walked through, rows of imports and places of outputs looked at.
  uint64_t identity_steps, opset_steps, listing_steps;
};

#endif
