// Constants that bound or mask (cast_graph_masks.c).
#ifndef WEIR_CAST_GRAPH_MASKS_H
#define WEIR_CAST_GRAPH_MASKS_H

#include "kit.h"

enum cast_graph_bound { CAST_GRAPH_NUMBER, CAST_GRAPH_BOUND, CAST_GRAPH_MASK };
enum { CAST_GRAPH_REACHED = 64 }; // at most: beyond, it is a number
// What the readers of a constant take it for, and the values that have it in them, as far as it means nothing there, into `list` of that
// length.
enum cast_graph_bound cast_graph_reached(struct kit *k, uint32_t value, uint32_t *list,
                                         uint32_t *n);

// The recipe in float16 of a constant that bounds or masks and has elements that float16 does not hold, or that overflow when two of them
// are added; `of`: the recipe of its elements, which the tensor row holds. NO_ID: it is a number, or holds none of these. *mask: its numbers
// became others than the type would have (the group of its edit says "mask", which verification asks for).
uint32_t cast_graph_bounded(struct kit *k, uint32_t value, uint32_t tensor, uint32_t of,
                            bool *mask);

#endif
