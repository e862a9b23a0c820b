// The stretch of a histogram that loses least when few bins stand for it.
#ifndef WEIR_RANGE_ENTROPY_H
#define WEIR_RANGE_ENTROPY_H

#include "base/dtype.h"

// Edges `first` and `last` of a histogram of n bins, of which `quantized` (at most n) are to stand for the rest. type: what
// edges are computed in, which divergences are rounded to.
void range_entropy_find(const uint64_t *counts, uint32_t n, uint32_t quantized, enum dtype type,
                        uint32_t *first, uint32_t *last);

#endif
