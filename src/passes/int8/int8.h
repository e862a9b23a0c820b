// What the families of int8 with quantized activations share (passes/int8_*): parameters of activations from their
// ranges, codes and parameters of weights, biases in int32, and the tensors that hold them.
//
// Two layers. Recipes (int8_found, int8_ranged, int8_given, int8_bias) say how codes, scales and zero points come about and
// touch no graph; `int8_tensor` puts one into the graph under a free name. A caller that wants the usual
// thing calls int8_weight, which gives a constant's three tensors, made once for each weight and form:
//
//   struct int8 q;
//   int8_init(&q, &k, ranges);
//   struct int8_parts w;
//   if (int8_weight(&q, value, &as, &w)) … w.codes, w.scales, w.zeros: initializers of the weight's graph
//   int8_done(&q);
//
// Formulas are those of onnxruntime.quantization (compute_scale_zp, quantize_bias_static_impl), but for what `guarded` says.
#ifndef WEIR_INT8_H
#define WEIR_INT8_H

#include "kit.h"

// ---- activations -------------------------------------------------------------------------------

// What was seen of a value: exact in `type`, which is float32, float16 or bfloat16 (or double, of caches that say so).
struct int8_range {
  enum dtype type;
  double least, most;
  bool has_deviation;
  double deviation; // of its elements, for float8
};

struct int8_how {
  enum dtype type; // of the codes: (u)int4, (u)int8, (u)int16, float8e4m3fn
  bool symmetric;  // the range becomes ±max|.|
  bool reduced;    // one bit is left free
  bool restricted; // uint8, not symmetric: the zero point is 0, or 128 if the range goes below 0
  bool
      guarded; // below the type's smallest normal number a scale is 1 and its zero point 0, as onnxruntime makes
               // it; else such a scale is rounded up, and 1 only where the range is nothing but 0
  bool has_floor;    // the range is at least
  double real_floor; // so wide (MinimumRealRange)
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
bool int8_is_code_type(enum dtype type);
// x rounded to a float type, half to even.
double int8_rounded(enum dtype type, double x);

// ---- recipes -----------------------------------------------------------------------------------

// Ids of recipes, or of values that hold them.
struct int8_parts {
  uint32_t codes, scales, zeros;
};

struct int8_weight_as {
  enum dtype type;
  bool symmetric, reduced, guarded;
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
// Codes by parameters that are given.
struct int8_parts int8_given(struct recipes *r, uint32_t of, const struct int8_weight_as *as,
                             uint32_t scales, uint32_t zeros);
// A bias in int32: scales x_scale · w_scales · beta ([1], or [C]), zero points 0 ([], or [C] where C > 1), codes of the bias's dims.
// NO_ID in all where the scales do not go with it.
struct int8_parts int8_bias(struct recipes *r, uint32_t bias, uint32_t x_scale, uint32_t w_scales,
                            double beta);

// ---- tensors -----------------------------------------------------------------------------------

struct int8_made; // int8.c
struct ranges;    // ranges.h
struct int8 {
  struct kit *k;
  const struct ranges *ranges; // NULL: none
  TABLE(struct int8_made, made);
};
void int8_init(struct int8 *q, struct kit *k, const struct ranges *ranges);
void int8_done(struct int8 *q);

// The range of a value: of RANGES by its name, or that of the value that it is a view of (behind Transpose, Reshape, Slice and their
// kin, and Pad with zeros, which a pass before may have made). `type` is the value's own where the file does not say it.
bool int8_range_of(struct int8 *q, uint32_t value, struct int8_range *out);

// A free name <stem><suffix> among values, or among the graph's nodes; it lies in k->site.
struct span int8_value_name(struct kit *k, struct span stem, const char *suffix);
struct span int8_node_name(struct kit *k, struct span stem, const char *suffix);
// A new initializer <stem><suffix> of k->graph. With `weight`, a tensor id: it stands for that one in reports; else NO_ID.
uint32_t int8_tensor(struct kit *k, struct span stem, const char *suffix, uint32_t recipe,
                     uint32_t weight);
// Codes, scales and zero points of a constant as tensors <name>_quantized, <name>_scale and <name>_zero_point, the same for all who
// ask for one form. False: it is no constant of floats, or has no such form.
bool int8_weight(struct int8 *q, uint32_t value, const struct int8_weight_as *as,
                 struct int8_parts *out);

#endif
