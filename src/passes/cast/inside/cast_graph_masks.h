// Constants that bound or mask (cast_graph_masks.c).
#ifndef WEIR_CAST_GRAPH_MASKS_H
#define WEIR_CAST_GRAPH_MASKS_H

#include "passes/kit/kit.h"

struct cast_graph_masks;
struct model_calls;
// What constants of float32 are for, as the model is now; of use as long as rows of values and tensors mean what they did.
struct cast_graph_masks *cast_graph_masks_of(struct kit *k, const struct model_calls *calls);
void cast_graph_masks_free(struct cast_graph_masks *g);

// On which sides of 0 numbers of the value mean nothing but "far": they come of what bounds or masks.
enum { CAST_GRAPH_BELOW = 1, CAST_GRAPH_ABOVE = 2 };
unsigned cast_graph_far(const struct cast_graph_masks *g, uint32_t value);

// The recipe in float16 of a constant that bounds or masks and has elements that float16 does not hold, or that overflow when two of them
// are added; `of`: the recipe of its elements, which the tensor row holds; `value`: the constant, or the output of a ConstantOfShape. NO_ID: it
// is a number, or holds none of these. *mask: its numbers became others than the type would have (the group of its edit says "mask").
uint32_t cast_graph_bounded(const struct cast_graph_masks *g, uint32_t value, uint32_t tensor,
                            uint32_t of, bool *mask);

#endif
