// Room: weights in int8, and activations that the model quantizes while it runs.
//
// What the pass `dynamic` does, for other passes: ONNX Shrink Ray's method integer_activations.
#ifndef WEIR_INT8_DYNAMIC_H
#define WEIR_INT8_DYNAMIC_H

#include "passes/pass.h"
#include "passes/questions/compat.h"
#include "passes/questions/name_pattern.h"

struct int8_dynamic_asked {
  // As onnxruntime's quantize_dynamic with EnableSubgraph; else as `weir dynamic` alone.
  enum compat compat;
  bool is_unsigned; // uint8 weights
  bool per_channel; // with compat; else there is a scale a column in any case
  const struct name_patterns *exclude;
};

// Quantizes weights, and activations at run time. With compat, Casts that say no type get float32, and no value in
// between keeps a declared type. ERR_FAIL where the opset cannot be raised to what the new nodes want.
int int8_dynamic_activations(struct pass_env *env, const struct int8_dynamic_asked *asked,
                             struct err *err);

#endif
