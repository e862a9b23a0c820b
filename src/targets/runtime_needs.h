// The least version of ONNX Runtime that loads and runs a model, as far as what weir writes says it
// (targets.h): for reports and for people.
#ifndef WEIR_RUNTIME_NEEDS_H
#define WEIR_RUNTIME_NEEDS_H

#include "json.h"
#include "model.h"

// The member "needs": "onnxruntime" is null where every version that weir knows of does, or none: "why" then says
// what none runs on a CPU.
void runtime_needs_write(const struct model *m, struct json_out *j);
// "needs ONNX Runtime 1.23 or newer (8-bit MatMulNBits)", "ONNX Runtime does not run it on a CPU (bfloat16 arithmetic)":
// in *a; NULL: every version that weir knows of does.
const char *runtime_needs_words(const struct model *m, struct arena *a);

#endif
