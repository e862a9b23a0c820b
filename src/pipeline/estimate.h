// What quantization could take of a model that it was not asked to take, from shapes and types alone: for
// advice.
#ifndef WEIR_ESTIMATE_H
#define WEIR_ESTIMATE_H

#include "passes/nbits/matmulnbits.h"

// Pointwise Conv that would be MatMul behind conv2matmul with its plain options, and what their weights
// would then take in this scheme (block not 0). Weights count once, however many nodes use them.
void estimate_convs(const struct model *m, const struct matmulnbits_scheme *scheme,
                    struct matmulnbits_survey *out);

// "1 weight of Gemm (33.6 MB)", joined by "and", of those operators of `op_types` that have any; NULL
// where none has. *op_types: those that have; *bytes: of these weights.
const char *estimate_words(const struct model *m, uint32_t *op_types, struct arena *a,
                           uint64_t *bytes);
// By value: do nodes make it of constants alone, so that optimize/fold-large can make a constant of it? In *a.
const bool *estimate_foldable(const struct model *m, struct arena *a);
// Is a weight of the node such a value?
bool estimate_waits_for_fold(const struct model *m, const bool *foldable, uint32_t node);
// The value of --op-types for these operators, joined by `between`.
const char *estimate_op_types(uint32_t op_types, const char *between, struct arena *a);

#endif
