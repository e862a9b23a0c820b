// Room: the parts that families of int8 with quantized activations share (passes/int8_*): parameters of activations
// from their ranges, codes and parameters of weights, biases in int32, and the tensors that hold them.
//
// Two layers. Recipes (int8_found, int8_ranged, int8_given, int8_bias) say how codes, scales and zero points come about and
// touch no graph; `int8_tensor` puts one into the graph under a free name.
//
// Formulas are those of onnxruntime.quantization (compute_scale_zp, quantize_bias_static_impl), but for what `guard` says.
#ifndef WEIR_INT8_H
#define WEIR_INT8_H

#include "passes/kit/kit.h"
#include "passes/questions/compat.h"

// ---- activations -------------------------------------------------------------------------------

// What was seen of a value: exact in `type`, which is float32, float16 or bfloat16 (or double, of caches that say so).
struct int8_range {
  enum dtype type;
  double least, most;
  bool has_deviation;
  double mean, deviation; // of its elements, for float8
};

// That of a tool.
static inline enum recipe_guard int8_guard(enum compat c) {
  return c == COMPAT_NONE ? GUARD_NONE : c == COMPAT_ORT_1_32 ? GUARD_NUMBER : GUARD_NORMAL;
}

struct int8_how {
  enum dtype type; // of the codes: (u)int4, (u)int8, (u)int16, float8e4m3fn
  bool symmetric;  // the range becomes ±max|.|
  bool reduced;    // one bit is left free
  bool restricted; // uint8, not symmetric: the zero point is 0, or 128 if the range goes below 0
  enum recipe_guard guard; // of small scales
  bool has_floor;          // the range is at least
  double real_floor;       // so wide (MinimumRealRange)
};

struct int8_params {
  double scale; // exact in the range's type
  int64_t zero;
};

// The scale and zero point of a range, which is widened to hold 0. False for float8 without a deviation.
bool int8_scale_zero(const struct int8_range *range, const struct int8_how *how,
                     struct int8_params *out);
// The least and the largest code of a type: all that it can hold, or what the scale is made for.
void int8_full_codes(enum dtype type, int64_t *least, int64_t *most);
void int8_codes_of(const struct int8_how *how, int64_t *least, int64_t *most);
// x rounded to a float type, half to even.
double int8_rounded(enum dtype type, double x);

// The ranges of all values of k->graph into `out`, by value id, each with type UNDEFINED before: those of RANGES by name, and
// of values that hold the same elements (before or after Transpose, Reshape and their kin), or some of them and zeros (after
// Slice and Pad), which a pass before may have made. Types are the values' own where the file does not say them. Where not
// `inherit`, those by name alone.
struct ranges; // ranges.h
void int8_ranges(struct kit *k, const struct ranges *ranges, bool inherit, struct int8_range *out);

// Channels of a value.
struct int8_channels {
  uint32_t value;
  int64_t axis; // from the front, or from the end below 0
};
// From a value to that whose elements, moved, it is (before Transpose, Reshape and their kin), and to the axis of the channels
// there. False: it is made otherwise.
bool int8_moved_from(struct kit *k, struct int8_channels *p);
bool int8_same_axis(struct kit *k, const struct int8_channels *p, int32_t axis);

// ---- recipes -----------------------------------------------------------------------------------

// Ids of recipes, or of values that hold them.
struct int8_parts {
  uint32_t codes, scales, zeros;
};

struct int8_weight_as {
  enum dtype type;
  bool symmetric, reduced;
  enum recipe_guard guard;
  uint32_t axis;  // of a scale a channel; RECIPE_PER_TENSOR: one
  uint64_t block; // 0: none; else so many elements along the axis have a scale
};

// Lists of numbers as tensors of rank 1, or 0 where `n` is NO_ID: one number. Floats are rounded to the type.
uint32_t int8_floats(struct recipes *r, enum dtype type, const double *list, uint32_t n);
uint32_t int8_codes(struct recipes *r, enum dtype type, const int64_t *list, uint32_t n);

// Parameters found in the elements, and codes by them. NO_ID in all where that cannot be.
struct int8_parts int8_found(struct recipes *r, uint32_t of, const struct int8_weight_as *as);
// The same with a range that is at least so wide (MinimumRealRange): per tensor or channel, integers, no blocks.
struct int8_parts int8_ranged(struct recipes *r, uint32_t of, const struct int8_weight_as *as,
                              double real_floor);
// As many elements of 0.
uint32_t int8_zeros_like(struct recipes *r, uint32_t of);
// Codes by parameters that are given.
struct int8_parts int8_given(struct recipes *r, uint32_t of, const struct int8_weight_as *as,
                             uint32_t scales, uint32_t zeros);
// A bias in int32: scales x_scale · w_scales · beta ([1], or [C]), zero points 0 ([], or [C] where C > 1), codes of the bias's dims.
// `least`: what these are no smaller than, in the bias's type: one number, or C; NO_ID: none. NO_ID in all where the scales do not
// go with it.
struct int8_parts int8_bias(struct recipes *r, uint32_t bias, uint32_t x_scale, uint32_t w_scales,
                            double beta, uint32_t least);

// ---- tensors -----------------------------------------------------------------------------------

// A free name <stem><suffix> among values, or among the graph's nodes; it is stored in k->site.
struct span int8_value_name(struct kit *k, struct span stem, const char *suffix);
struct span int8_node_name(struct kit *k, struct span stem, const char *suffix);
// A new initializer <stem><suffix> of k->graph. With `weight`, a tensor id: it stands for that one in reports; else NO_ID.
uint32_t int8_tensor(struct kit *k, struct span stem, const char *suffix, uint32_t recipe,
                     uint32_t weight);

#endif
