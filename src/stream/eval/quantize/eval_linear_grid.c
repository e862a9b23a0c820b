// Scale and zero point of FORMAT_LINEAR: what the tools of ONNX Runtime make of a range [lo, hi], which is
// extended to 0, for codes from qmin to qmax, in double:
//
//   symmetric     lo, hi = -m, m; m = max(-lo, hi)
//   scale         s = (hi - lo) / (qmax - qmin), stored in the operand's type
//   zero point    symmetric: rint((qmin + qmax) / 2); else rint(qmin - lo / s), with s before it is
//                 stored; in blocks as it is stored, and clamped
//
//   codes         asymmetric     symmetric      reduced        reduced, symmetric
//   int8          -128 .. 127    -127 .. 127    -64 .. 64      -64 .. 64
//   uint8         0 .. 255       0 .. 255       0 .. 127       0 .. 127
//   int16         full           -32767 .. 32767   -16384 .. 16384   the same
//   uint16        full           full           0 .. 32767     the same
//   (u)int4       full           full           -4 .. 3, 0 .. 7   the same
//
// A range that is next to nothing has no scale. Those tools then take 1, and 0 as the zero point: below the
// smallest normal number of the type, which in float16 makes zeros of a weight within 0.0078 (GUARD_NORMAL), or, of
// float16 in later versions, where the scale is rounded to 0 (GUARD_NUMBER). Else subnormal scales are used, rounded up, so that no code lies outside of its range: the least
// one at least. A range of nothing has 1, with the zero point that all other channels have.
#include "stream/eval/quantize/inside/eval_linear.h"

#include <float.h>
#include <math.h>

double eval_linear_round(enum dtype type, double x) {
  uint16_t half;
  float y = (float)x;
  if (type == DTYPE_FLOAT) return y;
  if (type == DTYPE_FLOAT16) {
    kernels_f64_to_f16(&half, &x, 1);
    kernels_f16_to_f32(&y, &half, 1);
    return y;
  }
  kernels_f64_to_bf16(&half, &x, 1);
  kernels_bf16_to_f32(&y, &half, 1);
  return y;
}

static double smallest_normal(enum dtype type) {
  return type == DTYPE_FLOAT16 ? 0x1p-14 : 0x1p-126;
}

static double least_of(enum dtype type) {
  return type == DTYPE_FLOAT16 ? 0x1p-24 : type == DTYPE_BFLOAT16 ? 0x1p-133 : 0x1p-149;
}

void eval_linear_range_of(enum dtype type, double *lo, double *hi) {
  const double all = ldexp(1, (int)dtype_bits(type));
  *lo = dtype_is_signed(type) ? -all / 2 : 0;
  *hi = *lo + all - 1;
}

static void quantized_range(const struct recipe_quantization *q, double *lo, double *hi) {
  eval_linear_range_of(q->type, lo, hi);
  const bool wide = q->bits > 4 && *lo < 0; // int8, int16: as far to both sides
  if (q->reduced) {
    *lo /= 2;
    *hi = wide ? -*lo : (*hi - 1) / 2;
  } else if (wide && q->symmetric) {
    *lo = -*hi;
  }
}

// The scale as it is stored; 0: there is none.
static double store(const struct recipe_quantization *q, enum dtype type, double s) {
  const bool nearest = q->guard == GUARD_NUMBER && type == DTYPE_FLOAT16;
  if (nearest) return eval_linear_round(type, s);
  const double tested = q->block ? eval_linear_round(type, s) : s;
  if (q->guard ? tested < smallest_normal(type) : s == 0) return 0;
  return s < smallest_normal(type) ? ceil(s / least_of(type)) * least_of(type)
                                   : eval_linear_round(type, s);
}

bool eval_linear_grid_of(const struct recipe_quantization *q, enum dtype type, double lo, double hi,
                         struct eval_linear_grid *g) {
  double qmin, qmax;
  quantized_range(q, &qmin, &qmax);
  lo = lo < 0 ? lo : 0;
  hi = hi > 0 ? hi : 0;
  if (q->symmetric) {
    hi = -lo > hi ? -lo : hi;
    lo = -hi;
  }
  const double range = q->block ? eval_linear_round(type, hi - lo) : hi - lo;
  const double s = range / (qmax - qmin), middle = rint((qmin + qmax) / 2) + 0.0;
  g->scale = store(q, type, s);
  g->zero = q->symmetric && (q->block || !q->guard) ? middle : 0;
  if (g->scale == 0) {
    g->scale = 1;
    return true;
  }
  g->zero = q->symmetric ? middle : rint(qmin - lo / (q->block ? g->scale : s)) + 0.0;
  g->zero = fmin(fmax(g->zero, qmin), qmax);
  return isfinite(g->scale);
}

size_t eval_linear_put(const struct recipe_quantization *q, enum dtype type, enum recipe_part part,
                       const struct eval_linear_grid *g, uint8_t *out) {
  const int32_t zero = (int32_t)g->zero;
  const size_t width = part == PART_SCALES ? dtype_bits(type) / 8 : q->bits > 8 ? 2 : 1;
  const float scale = (float)g->scale;
  uint16_t half;
  if (part == PART_ZEROS) {
    memcpy(out, &zero, width); // the low end
    if (q->bits < 8) *out &= 0x0f;
    return width;
  }
  if (type == DTYPE_FLOAT16) kernels_f32_to_f16(&half, &scale, 1);
  if (type == DTYPE_BFLOAT16) kernels_f32_to_bf16(&half, &scale, 1);
  memcpy(out, type == DTYPE_FLOAT ? (const void *)&scale : &half, width);
  return width;
}
