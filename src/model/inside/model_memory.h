// What questions about a model remember of what they found: no part of it, but what saves walking the
// same way again. A question does not change the model, so this lies beside it (model.memory).
//
//   shortcuts   by value: behind the Identity nodes that a question walked through (model_constant.c)
//   seen        by value: the tensor row of a weight that nodes make (model_constant.c)
//   listed      by value: the first place where it is listed as an output; listings, by place in graph_io: the
//               places of one value are a ring, in the order in which they came (model_values.c)
//   opset_slots (first row of a list of imports, domain) -> row, of long lists (model_opsets.c)
//
// Edits say what they change (model_identity_changes, model_opsets_moved, model_listing_changes); a table that is not begun
// costs them a look at a number.
#ifndef WEIR_MODEL_MEMORY_H
#define WEIR_MODEL_MEMORY_H

#include "model/model.h"

struct model_shortcut {
  uint32_t to, age; // holds while `age` is the memory's
};

struct model_listing {
  uint32_t next, prev; // places
};

struct model_memory {
  TABLE(struct model_shortcut, shortcuts);
  TABLE(uint32_t, seen);        // tensor + 1
  uint32_t age;                 // counts up when shortcuts are void; from 1
  TABLE(uint32_t, opset_slots); // row + 1; open addressing, at most half full
  uint32_t n_opset_entries;
  bool opsets_known;
  TABLE(uint32_t, listed); // place + 1
  TABLE(struct model_listing, listings);
  bool listings_known;
  // For tests: nodes walked through, rows of imports and places of outputs looked at.
  uint64_t identity_steps, opset_steps, listing_steps;
};

#endif
