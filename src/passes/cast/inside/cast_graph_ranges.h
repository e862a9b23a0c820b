// Values and nodes that float16 does not hold (cast_graph_ranges.c).
#ifndef WEIR_CAST_GRAPH_RANGES_H
#define WEIR_CAST_GRAPH_RANGES_H

#include "passes/kit/kit.h"

struct cast_graph_masks;
struct ranges;
struct cast_graph_ranges;
// What is known of the model's values, as they are now; in env->scratch. Numbers that were seen, times `headroom`, are to fit.
struct cast_graph_ranges *cast_graph_ranges_of(struct kit *k, const struct ranges *ranges,
                                               const struct cast_graph_masks *masks,
                                               double headroom);
// Does the value not fit? False of one that is not known.
bool cast_graph_is_unfit(struct cast_graph_ranges *g, uint32_t value);
// Why the node stays in float32, and by which value: "float16_range", "float16_sum"; NULL: it need not.
const char *cast_graph_range_keeps(struct cast_graph_ranges *g, uint32_t node, uint32_t *value);
// Values of float32 that nodes or callers give and of which nothing is known.
uint32_t cast_graph_unknown(const struct cast_graph_ranges *g);
// May ranges that were used leave out numbers that were seen?
bool cast_graph_ranges_cut(const struct cast_graph_ranges *g);

#endif
