// Inside quantization: how far second moments are believed that are sums over few rows.
//
// Of K columns and n rows, G = XᵀX knows at most n directions, and calls errors along all others harmless. What is found by
// it is to hold for other rows too, so it is found by
//
//   G + ridge I          ridge = 0.3 (K / n) (mean of G's diagonal)
//
// which goes to G as rows become many, and to a multiple of the identity, plain errors of weights, as they become few.
#ifndef WEIR_EVAL_MOMENTS_H
#define WEIR_EVAL_MOMENTS_H

#include "eval_parts.h"

// Element i of the diagonal of the second moments `gram` of k columns: not negative, and finite; else ERR_MODEL.
int eval_moments_at(struct eval_task *t, uint32_t gram, uint64_t k, uint64_t i, double *out,
                    struct err *err);
// The ridge of the second moments `gram` of k columns, sums over `seen` rows; 0 where seen is 0: not said.
int eval_moments_ridge(struct eval_task *t, uint32_t gram, uint64_t k, uint64_t seen, double *ridge,
                       struct err *err);
// Adds it to a tile on the diagonal, `side` rows of it.
void eval_moments_add(double *tile, size_t side, double ridge);

#endif
