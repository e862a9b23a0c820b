// Sums of products of 8 bits that this processor cuts off at 16 bits (saturation), which the comparison of a site must
// not blame on a pass. The files of src/verify/cut have another sense of the word: they cut a site out of a model.
#ifndef WEIR_SITE_CUTS_H
#define WEIR_SITE_CUTS_H

#include "sites.h"

// Is this an x86 processor without VNNI?
bool site_cuts_here(void);

// Does the site multiply by weights of int8, on an x86 processor without VNNI? There ONNX Runtime adds pairs of products of uint8 and
// int8 in 16 bits, which are cut off beyond 32,767.
bool site_cuts_products(const struct model *result, const struct site *s);

#endif
