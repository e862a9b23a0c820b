// What a node computes with, or what a value is, as a recipe over constants: through Cast, DequantizeLinear and the like, and
// inside of operators that hold codes themselves.
//
// To teach `weir diff` a form of weights: an operator between a constant and its user is a word in is_link and a case in
// link_on; one that holds codes itself is a function, as `nbits` is, and its slot in dequant_expr_codes_slot.
// test_diff.py compares with NumPy.
#ifndef WEIR_DEQUANT_EXPR_H
#define WEIR_DEQUANT_EXPR_H

#include "edit/edit.h"

// A model whose tensors are read. Recipes that come go to *r; `edits` are of this model and these recipes, and none is made:
// they give tensors their recipes.
struct dequant_model {
  const struct model *m;
  struct recipes *r;
  struct edits *edits;
};

enum { DEQUANT_EXPR_ROOTS = 4 };
struct dequant_expr {
  uint32_t recipe;
  uint32_t roots[DEQUANT_EXPR_ROOTS]; // NO_ID behind the last
  const char *form;                   // NULL: a plain tensor
  bool transposed;                    // stands for the transpose of the operand
  // Of codes: how many bits one has (0: there are none, or it is not known how they lie), and which elements share a
  // scale: blocks of `block` along `axis`; block 0: all at one place of `axis`; axis RECIPE_PER_TENSOR: all.
  uint32_t bits, axis;
  uint64_t block;
  uint32_t scales; // of codes: the scale of each element, in the dims of `recipe`; NO_ID: not known
  enum dtype stored; // of a chain: what is at its end
  bool computed;     // and there is more behind it than what moves and casts elements
};
// Of a node's operand.
bool dequant_expr_slot(struct dequant_model *x, uint32_t node, uint32_t slot, struct arena *arena,
                       struct dequant_expr *out);
// Of a value, as it is.
bool dequant_expr_value(struct dequant_model *x, uint32_t value, struct arena *arena,
                        struct dequant_expr *out);
// The slot of an operator's own codes (MatMulNBits, GatherBlockQuantized), or NO_ID.
uint32_t dequant_expr_codes_slot(const struct model *m, uint32_t node);
// Is it a node that such a chain goes through?
bool dequant_expr_is_link(const struct model *m, uint32_t node);

#endif
