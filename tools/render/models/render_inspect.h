// Facts of a model (inspect.h), for people. For programs: inspect_json.h.
#ifndef WEIR_RENDER_INSPECT_H
#define WEIR_RENDER_INSPECT_H

#include "inspect/inspect.h"

void render_inspect(struct inspect *in);         // the overview
void render_inspect_tensors(struct inspect *in); // tab-separated lines, a heading first
void render_inspect_tree(const struct model *m); // graphs and nodes
// What inference finds out of values: tab-separated lines, and totals as a notice. `elements`: those of small values too.
void render_inspect_shapes(const struct model *m, bool elements);

// "float[1,80,time]"; "unknown" or "not a tensor" where the file does not say more.
struct quoted render_inspect_type(const struct model *m, uint32_t value);

#endif
