// Products of int8 that the runs of a verification did not show as an optimized session computes them.
#ifndef WEIR_VERIFY_PRODUCTS_H
#define WEIR_VERIFY_PRODUCTS_H

#include "verify/cut/sites.h"
#include "verify/run/verify.h"

// Sets found.products_unseen where this processor cuts off sums of int8 products (x86 without VNNI), the runs were not optimized, and an
// optimized session multiplies codes of *m that are large enough. s: of the files of *m, whose weights are read up to the first such code;
// NULL: there are no files, and `recipes` of the weights say whether codes are of 7 bits (NULL: any may be large). -1: they cannot be read.
int verify_products_see(struct verify *v, const struct model *m, struct sources *s,
                        const struct recipes *recipes, struct err *err);

// The codes that the value stands for, before nodes that move them; NO_ID: it is not dequantized.
uint32_t verify_products_codes(const struct model *m, uint32_t value);
// Their type; UNDEFINED: it is not known.
enum dtype verify_products_type(const struct model *m, uint32_t codes);

// Does the site multiply by weights of int8, on an x86 processor without VNNI? There ONNX Runtime adds pairs of products of uint8 and
// int8 in 16 bits, which are cut off beyond 32,767.
bool verify_products_cut_at(const struct model *result, const struct site *s);

#endif
