// A few nodes of a model as a model of their own: its plan.
//
//   plan_parts_begin(p, graph);                          nodes of this graph, or of those around it
//   plan_parts_input(p, x, DTYPE_FLOAT, dims, 3);        declared with these numbers
//   plan_parts_constant(p, w, &constant);                an initializer
//   plan_parts_node(p, conv);                            as emission of the model writes it
//   plan_parts_output(p, y, NULL, DTYPE_FLOAT, dims, 3);
//   plan_parts_end(p, "part.onnx", &plan, &err);
//
// Graphs inside the nodes come with them, and functions that they call, by whatever way. What was
// external becomes inline. A part costs its own size, after memory of the model's size once.
#ifndef WEIR_PLAN_PARTS_H
#define WEIR_PLAN_PARTS_H

#include "plan/plan.h"

// Constants that are larger together go to a data file, "<name>.data".
#define PLAN_PARTS_INLINE_BYTES ((uint64_t)16 << 20)

struct plan_parts;
// The model does not change as long as it lives; `r` gets rows for what the source has as it is.
struct plan_parts *plan_parts_new(const struct model *m, struct recipes *r);
void plan_parts_free(struct plan_parts *p);

void plan_parts_begin(struct plan_parts *p, uint32_t graph);
// A value that is given twice counts once.
void plan_parts_input(struct plan_parts *p, uint32_t value, enum dtype dtype, const int64_t *dims,
                      uint32_t rank);
// `constant` as the initializer called as `value`, which nodes read.
void plan_parts_constant(struct plan_parts *p, uint32_t value,
                         const struct model_constant *constant);
// In topological order. No Constant node that is a constant of the part.
void plan_parts_node(struct plan_parts *p, uint32_t node);
// `name` NULL: the value's own. By another name than its own it goes through an Identity: what
// is an input, a constant or an output already must have one. dtype UNDEFINED: as the model
// declares it, or not declared at all. dims NULL: of no known rank; -1: not known.
void plan_parts_output(struct plan_parts *p, uint32_t value, const char *name, enum dtype dtype,
                       const int64_t *dims, uint32_t rank);
// The plan is valid until the next begin: segments of the data file, if there is one, and of `name`.
// It has no tensors, sources and texts. ERR_FAIL: it cannot be cut, *err says why in one sentence.
int plan_parts_end(struct plan_parts *p, const char *name, const struct plan **plan,
                   struct err *err);

#endif
