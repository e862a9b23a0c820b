// What is in the model as edited. A row's own flag is not enough: the defaults of a removed function's
// attributes keep theirs, and so does a graph that an edit made and no attribute took.
#ifndef WEIR_MODEL_LIVE_H
#define WEIR_MODEL_LIVE_H

#include "model/model.h"

// The function that a function's default (an attribute of no node) belongs to, by its place in the
// file; NO_ID: none.
uint32_t model_live_function(const struct model *m, const struct model_attr *attr);
// Per graph: does it hang in the model? In *a, valid until the next edit. The others take it.
const bool *model_live_graphs(const struct model *m, struct arena *a);
bool model_live_node(const struct model *m, const bool *graphs, uint32_t node);
bool model_live_tensor(const struct model *m, const bool *graphs, uint32_t tensor);

#endif
