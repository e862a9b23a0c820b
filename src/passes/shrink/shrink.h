// Room: smaller weights that are turned back into floats where they are used: the methods of ONNX
// Shrink Ray.
//
//   integer_weights   w ─▶ use     becomes   int8 codes ─▶ Cast ─▶ Mul(scale) ─▶ Add(offset) ─▶ use
//                                  or        codes ─▶ DequantizeLinear(scale, zero point) ─▶ use
//   float_weights     w ─▶ use     becomes   w of few distinct values ─▶ use
//   f16_to_f32        all that is float16 becomes float32
//   integer_activations   weights of products become int8, activations are quantized at run time (int8_dynamic.h)
//
// Names, formulas and the limit of 16384 elements are those of onnx_shrink_ray 0.0.11; where it
// crashes, loses or breaks something this does not (docs/shrink.md lists the differences).
// Needs: nothing. Promises: inputs and outputs as they were (f16_to_f32: their types change).
#ifndef WEIR_SHRINK_H
#define WEIR_SHRINK_H

#include "passes/pass.h"
#include "passes/questions/compat.h"
#include "passes/questions/name_pattern.h"

enum shrink_method {
  SHRINK_INTEGER_WEIGHTS,
  SHRINK_FLOAT_WEIGHTS,
  SHRINK_F16_TO_F32,
  SHRINK_INTEGER_ACTIVATIONS,
};
enum shrink_form { SHRINK_CAST_MUL_ADD, SHRINK_DEQUANTIZE };

enum { SHRINK_MIN_ELEMENTS = 16384, SHRINK_MIN_LEVELS = 2, SHRINK_MAX_LEVELS = 65504 };

struct shrink_options {
  uint32_t target; // its place in the table of targets: for who runs the pass
  enum shrink_method method;
  uint32_t levels; // float_weights: SHRINK_MIN_LEVELS … SHRINK_MAX_LEVELS
  enum shrink_form form;
  // A scale for every channel of tensors of rank > 1 (integer_weights). Which axis is the channels'
  // follows from the elements: found out through env->ask, or given: axes[tensor id],
  // RECIPE_PER_TENSOR for one scale. Tensors at and behind n_axes get one scale.
  bool per_channel;
  const uint32_t *axes; // NULL: to be found out
  uint32_t n_axes;
  // Of integer_weights and float_weights: what is smaller, or has such a name, stays.
  uint64_t min_elements; // 0: SHRINK_MIN_ELEMENTS
  struct name_patterns exclude;
  // integer_activations: types of weights, and whether the result is that of the existing tool.
  uint32_t weight_type; // uint8|int8
  enum compat compat;
};

// ERR_USAGE for options that do not go together: per_channel or dequantize with another method,
// levels out of range.
int shrink_options_check(const struct shrink_options *options, struct err *err);

// Every weight is reported to env->site with a reason word. ERR_USAGE for options that do not go
// together or with the model: per_channel with another method, or without axes and a way to find
// them out, dequantize below opset 10, levels out of range. ERR_FAIL if f16_to_f32 meets a sparse
// float16 tensor. Nothing was edited then.
int pass_shrink(struct pass_env *env, const struct shrink_options *options, struct err *err);

#endif
