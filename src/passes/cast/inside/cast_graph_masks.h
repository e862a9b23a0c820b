// Constants that bound or mask (cast_graph_masks.c).
#ifndef WEIR_CAST_GRAPH_MASKS_H
#define WEIR_CAST_GRAPH_MASKS_H

#include "kit.h"

enum cast_graph_bound { CAST_GRAPH_NUMBER, CAST_GRAPH_BOUND, CAST_GRAPH_MASK };
// What the readers of a constant take it for.
enum cast_graph_bound cast_graph_bound_of(struct kit *k, uint32_t value);

// The recipe in float16 of a constant that bounds or masks and has elements that float16 does not hold, or that overflow when two of them
// are added; `of`: the recipe of its elements, which the tensor row holds. NO_ID: it is a number, or holds none of these.
uint32_t cast_graph_bounded(struct kit *k, uint32_t value, uint32_t tensor, uint32_t of);

#endif
