// Which function of the model a node calls, and which inputs of functions a call leaves out.
#ifndef WEIR_MODEL_CALLS_H
#define WEIR_MODEL_CALLS_H

#include "model/model.h"

// Functions by (domain, name, overload); "" and "ai.onnx" are one domain.
struct model_calls {
  const struct model *m;
  TABLE(uint32_t, slots); // internal
};

// Of the functions that live now, of equal ones the first. Starts zeroed; valid until functions come
// or go.
void model_calls_init(struct model_calls *c, const struct model *m);
void model_calls_done(struct model_calls *c);
// The id of the function, or NO_ID. Constant time.
uint32_t model_calls_named(const struct model_calls *c, uint32_t domain, uint32_t name,
                           uint32_t overload);
uint32_t model_calls_callee(const struct model_calls *c, uint32_t node);
// Sets `called` of each function that a live node calls, by id.
void model_calls_called(const struct model_calls *c, bool *called);

// Marks inputs of functions that at least one call leaves out, also through calls in other functions:
// VALUE_LEFT_OUT. Linear in nodes, inputs and uses.
void model_calls_mark(struct model *m);

#endif
