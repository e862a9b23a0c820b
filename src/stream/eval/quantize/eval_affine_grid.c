// From the range of a weight to its scale and offset, as NumPy computes them in onnx_shrink_ray:
//
//   range = hi - lo          inverse = 1 / range
//   SHRINK   zero = rint(-lo * inverse * 255) - 128                       scale = range / 255
//   LEVELS   offset = rint(-lo * inverse * (levels - 1)) - levels / 2     scale = range / (levels - 1)
//
// each operation rounded to the weight's type. (Operations of double, rounded once more, give what
// operations of float and half give: a double has more than twice their bits and two.)
//
// Where a number on the way does not fit the type (the inverse of a small range, the offset of a
// weight far from 0, in float16 above all), that tool writes infinities and NaN; here the next
// wider arithmetic is taken. Codes are then found with the scale as it is stored, rounded up to the
// weight's type, so that 255 of them reach over the range. A weight with one value only gets the
// scale 0 and that value as its offset, which is exact.
//
// Where a weight reaches to the end of its type (a mask of -65504 in float16), the outermost codes
// may stand for more than that, which would be infinite: those are not used.
//
// AFFINE is ONNX's DynamicQuantizeLinear: the range holds 0, and the zero point is a code.
#include "stream/eval/quantize/inside/eval_affine.h"

#include <assert.h>
#include <math.h>

static double round_to(enum eval_affine_rule rule, double x) {
  uint16_t half;
  float y = (float)x;
  if (rule == EVAL_AFFINE_F64) return x;
  if (rule == EVAL_AFFINE_F32) return y;
  kernels_f64_to_f16(&half, &x, 1);
  kernels_f16_to_f32(&y, &half, 1);
  return y;
}

static double round_to_type(enum dtype type, double x) {
  uint16_t half;
  float y;
  if (type == DTYPE_FLOAT16) return round_to(EVAL_AFFINE_F16, x);
  if (type != DTYPE_BFLOAT16) return type == DTYPE_DOUBLE ? x : (float)x;
  kernels_f64_to_bf16(&half, &x, 1);
  kernels_bf16_to_f32(&y, &half, 1);
  return y;
}

// Can all numbers on the way be had in this arithmetic? Then *g has them.
static bool try_rule(enum eval_affine_rule rule, const struct recipe_quantization *q, double lo,
                     double hi, struct eval_affine_grid *g) {
  const bool levels = q->format == FORMAT_LEVELS;
  const double steps = levels ? q->levels - 1.0 : 255, half = levels ? q->levels / 2.0 : 128;
  struct kernels_affine *k = &g->k;
  g->rule = rule;
  k->steps = round_to(rule, steps);
  const double range = round_to(rule, hi - lo);
  k->inverse = round_to(rule, 1 / range);
  const double first = round_to(rule, round_to(rule, -lo * k->inverse) * k->steps);
  const double last = round_to(rule, round_to(rule, hi * k->inverse) * k->steps);
  k->offset = rint(first) - half;
  k->zero = round_to(rule, k->offset);
  if (!levels) k->offset = k->zero;
  k->scale = round_to(rule, range / k->steps);
  k->lo = round_to(rule, -half);
  k->hi = round_to(rule, half - 1);
  g->scale = k->scale;
  g->zero = round_to(rule, -k->offset * k->scale);
  return range > 0 && isfinite(range) && isfinite(k->inverse) && isfinite(first) &&
         isfinite(last) && isfinite(k->zero) && isfinite(g->zero);
}

static enum eval_affine_rule rule_of(enum dtype type) {
  switch (type) {
  case DTYPE_FLOAT16: return EVAL_AFFINE_F16;
  case DTYPE_DOUBLE: return EVAL_AFFINE_F64;
  default: return EVAL_AFFINE_F32;
  }
}

// The least value of the type, or nearly so, that is no less than x > 0.
static double round_up_to_type(enum dtype type, double x) {
  double y = round_to_type(type, x);
  const double part = type == DTYPE_FLOAT16 ? 0x1p-10 : type == DTYPE_BFLOAT16 ? 0x1p-7 : 0x1p-23;
  const double least = type == DTYPE_FLOAT16    ? 0x1p-24
                       : type == DTYPE_BFLOAT16 ? 0x1p-133
                                                : 0x1p-149;
  return y < x ? round_to_type(type, x + fmax(x * part, least)) : y;
}

// SHRINK in wider arithmetic than the weight's type: steps of the scale that is stored.
static void settle_wide(enum dtype type, double lo, double hi, struct eval_affine_grid *g) {
  if (type == DTYPE_DOUBLE) return;
  g->scale = round_up_to_type(type, (hi - lo) / 255);
  g->k.inverse = round_to(g->rule, 1 / g->scale);
  g->k.steps = 1;
  g->k.zero = rint(-lo / g->scale) - 128;
  g->zero = -g->k.zero * g->scale;
}

static bool linear_grid(const struct recipe_quantization *q, double lo, double hi,
                        struct eval_affine_grid *g) {
  const double most = q->symmetric ? 127 : 255, least = q->symmetric ? -127 : 0;
  lo = lo < 0 ? lo : 0;
  hi = hi > 0 ? hi : 0;
  const double largest = -lo > hi ? -lo : hi;
  g->rule = EVAL_AFFINE_F32;
  g->scale = q->symmetric ? largest / 127 : (hi - lo) / 255;
  g->k = (struct kernels_affine){.lo = least, .hi = most};
  return true;
}

// The stored scale is what the codes are found with.
static void settle_linear(const struct recipe_quantization *q, enum dtype type, double lo,
                          struct eval_affine_grid *g) {
  g->scale = round_to_type(type, g->scale);
  if (g->scale == 0) g->scale = 1; // nothing but zeros, or next to them
  const double zero = lo < 0 && !q->symmetric ? rint(-lo / g->scale) : 0;
  g->zero = zero > g->k.hi ? g->k.hi : zero;
  g->k.zero = g->zero;
  g->k.scale = g->scale;
}

// What a code of SHRINK or AFFINE becomes in the model.
static double value_of(const struct recipe_quantization *q, enum dtype type,
                       const struct eval_affine_grid *g, double code) {
  if (q->format == FORMAT_AFFINE) return round_to_type(type, (code - g->zero) * g->scale);
  return round_to_type(type, round_to_type(type, code * g->scale) + g->zero);
}

static void leave_out_infinite(const struct recipe_quantization *q, enum dtype type,
                               struct eval_affine_grid *g) {
  if (q->format == FORMAT_LEVELS) return;
  while (g->k.lo < g->k.hi && !isfinite(value_of(q, type, g, g->k.lo)))
    g->k.lo++;
  while (g->k.lo < g->k.hi && !isfinite(value_of(q, type, g, g->k.hi)))
    g->k.hi--;
}

bool eval_affine_grid_of(const struct recipe_quantization *q, enum dtype type, double lo, double hi,
                         struct eval_affine_grid *g) {
  *g = (struct eval_affine_grid){0};
  if (lo > hi) lo = hi = 0;
  if (q->format == FORMAT_AFFINE) {
    linear_grid(q, lo, hi, g);
    settle_linear(q, type, lo, g);
    leave_out_infinite(q, type, g);
    return isfinite(g->scale);
  }
  enum eval_affine_rule rule = rule_of(type);
  bool found = false;
  while (lo < hi && !(found = try_rule(rule, q, lo, hi, g)) && rule < EVAL_AFFINE_F64)
    rule++;
  if (found && q->format == FORMAT_SHRINK && (rule != rule_of(type) || type == DTYPE_BFLOAT16))
    settle_wide(type, lo, hi, g);
  if (found) {
    g->scale = round_to_type(type, g->scale);
    g->zero = round_to_type(type, g->zero);
    leave_out_infinite(q, type, g);
    return isfinite(g->zero);
  }
  // One value, or values less apart than a double can divide by.
  *g = (struct eval_affine_grid){.rule = EVAL_AFFINE_CONSTANT, .zero = lo};
  return isfinite(hi - lo);
}
