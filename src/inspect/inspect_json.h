// The facts of a model as members of an open object.
#ifndef WEIR_INSPECT_JSON_H
#define WEIR_INSPECT_JSON_H

#include "inspect/inspect.h"
#include "json/json.h"

// What is listed besides: all tensors; graphs with their nodes; what inference finds out of values, and the elements of small ones.
struct inspect_lists {
  bool tensors, tree, shapes, elements;
};
void inspect_json(struct inspect *in, const struct inspect_lists *lists, struct json_out *j);

#endif
