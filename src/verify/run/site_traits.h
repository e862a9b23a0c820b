// What a site is like: questions about its nodes, its constants and what came out of it.
#ifndef WEIR_SITE_TRAITS_H
#define WEIR_SITE_TRAITS_H

#include "model/model.h"
#include "verify/arrays/array.h"

// The narrowest elements of a side that stand for weights: of MatMulNBits and its kin by the attribute. 64: there are none.
uint32_t site_traits_bits(const struct model *m, const uint32_t *nodes, uint32_t n,
                          const struct model_constant *constants, uint32_t n_constants);
// Does one of the nodes make the value?
bool site_traits_made(const struct model *m, const uint32_t *nodes, uint32_t n, uint32_t value);
// Does it compute something else of large numbers than of small ones, with bounds that are its own?
bool site_traits_bounded(const struct model *m, uint32_t node);
// Does it compute a function that the runtime takes eight elements at a time and the rest one by one, each rounded in its own
// way? Then last bits depend on the place of an element.
bool site_traits_uneven(const struct model *m, const uint32_t *nodes, uint32_t n);
// *flat: one of the arrays from `first` on has floats or bools that are all the same, as a mask that lets everything through,
// or what is behind one that lets nothing: what is given such proves nothing. -1: elements cannot be read.
int site_traits_flat(const struct arrays *x, uint32_t first, bool *flat, struct err *err);

#endif
