// The least version of ONNX Runtime that loads and runs a model, as far as what weir writes says it
// (targets.h): for reports and for people.
#ifndef WEIR_RUNTIME_NEEDS_H
#define WEIR_RUNTIME_NEEDS_H

#include "json/json.h"
#include "model/model.h"

// People are told what needs the version, programs all that needs more than the oldest one.
struct runtime_needs {
  // "needs ONNX Runtime 1.23 or newer (8-bit MatMulNBits)", "ONNX Runtime does not run it on a CPU (bfloat16 arithmetic)";
  // NULL: every version that weir knows of does.
  const char *words;
  const char *oldest; // "1.23"; NULL: every version that weir knows of does, or none
  const char **why;   // of `oldest`, or why none runs it on a CPU
  uint32_t n_why;
};

// Of the model as it is now. Texts are literals, or in *a.
struct runtime_needs runtime_needs_of(const struct model *m, struct arena *a);
// The member "needs".
void runtime_needs_write(const struct runtime_needs *n, struct json_out *j);

#endif
