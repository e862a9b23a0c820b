// The parts of the pass optimize/attention.
#ifndef WEIR_ATTENTION_H
#define WEIR_ATTENTION_H

#include "passes/optimize/inside/known.h"

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
  uint32_t value;     // the mask, or the condition
  uint32_t slot;      // LOWEST: the input of the mask's node that is the number
  bool rows, columns; // it is broadcast along these
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

// What becomes one node: MatMuls of four or three dims, Softmax between.
struct attention_found {
  uint32_t q, k, v;
  uint32_t perm[4]; // to be applied to k where `turns`
  bool turns;
  double scale;
  struct attention_scores scores;
  uint32_t mask_of; // the value that is added; NO_ID: none
  struct attention_mask mask;
};
// Is it a MatMul of a Softmax (the node *softmax) and values? *guarded: with Where(IsNaN(p), 0, p) between.
bool attention_weights(struct kit *k, uint32_t node, bool *guarded, uint32_t *softmax);
// The rest of such a node (f->scores.guarded is given, f->mask_of NO_ID): NULL, or why it is no attention, a stable word.
// `any_mask`: f->mask_of may be anything, and f->mask is not filled.
const char *attention_find(struct kit *k, uint32_t node, uint32_t softmax, bool any_mask,
                           struct attention_found *f);

// How [b, h, s, d] comes of [b, s, h*d].
struct attention_packing {
  uint32_t x;      // of three dims; NO_ID: `parted` [b, s, h, d] is to be reshaped
  uint32_t parted; // what the Transpose turns
  uint32_t rotary; // the RotaryEmbedding behind it; NO_ID: none
  int64_t heads, size;
};
bool attention_packing_find(struct kit *k, uint32_t value, struct attention_packing *p);
// Sets p->x: what a Reshape makes p->parted of, whose heads and size are given; NO_ID: it is none such.
void attention_unparted(struct kit *k, struct attention_packing *p);
// Is it Transpose<perm=[0,2,1,3]>?
bool attention_swaps_heads(struct kit *k, uint32_t node);
// Is what the Reshape makes [b, s, last], for queries q [b, h, s, d]?
bool attention_joins_heads(struct kit *k, uint32_t reshape, const struct infer_type *q,
                           int64_t last);
// Does the target of the Reshape mean the same for [b, s, h*d] as for [b, s, h, d]?
bool attention_keeps_meaning(struct kit *k, uint32_t reshape);

#endif
