// The parts of the pass optimize/attention.
#ifndef WEIR_ATTENTION_H
#define WEIR_ATTENTION_H

#include "known.h"

// What is added to scores [.., rows, columns] before their Softmax, as the operator Attention wants it.
enum attention_mask_kind {
  ATTENTION_NO_MASK, // it adds nothing
  ATTENTION_CAUSAL,  // it lets row i see the columns up to i
  ATTENTION_AS_IS,
  ATTENTION_ALLOWED, // -infinity where a condition does not hold
  ATTENTION_DENIED,  // -infinity where it holds
  ATTENTION_LOWEST,  // the lowest number of its type where it masks
};
struct attention_mask {
  enum attention_mask_kind kind;
  uint32_t value; // the mask, or the condition
  uint32_t slot;  // LOWEST: the input of the mask's node that is the number
  bool narrow;    // it is broadcast along rows or columns
};
// The scores, of rank 3 or 4, and whether rows of NaN behind the Softmax become 0.
struct attention_scores {
  struct infer_type type;
  bool guarded;
};
// NULL, or why it cannot be a mask of Attention, a stable word.
const char *attention_mask_find(struct kit *k, uint32_t value, const struct attention_scores *s,
                                struct attention_mask *out);
// The value to be given to Attention, made before the node at hand: queries q, keys' side v [.., columns, n]. NO_ID: none.
uint32_t attention_mask_make(struct kit *k, const struct attention_mask *mask, uint32_t q,
                             uint32_t v);

// Attention nodes of four dims: repeated heads of keys and values are left to it; so are the Transposes and Reshapes
// that make heads of a last dim, and one of heads again. True if the node changed or went.
bool attention_kv_heads(struct kit *k, uint32_t node);
bool attention_packed(struct kit *k, uint32_t node);

#endif
