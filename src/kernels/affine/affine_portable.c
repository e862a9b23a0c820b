// Room: affine quantization per tensor or channel, and the codes of QuantizeLinear. Portable: kernels.h, spelled out.
//
// Halves are computed in float and rounded after every operation. That is what a half operation
// gives: a float has two bits more than twice those of a half, so rounding twice does no harm.
#include "kernels/affine/inside/affine_rint.h"
#include "kernels/kernels.h"
#include "kernels/kernels_table.h"

enum { CHUNK = 256 };

static float step_f32(float x, const struct kernels_affine *a) {
  const float y = affine_rint_f32(x * (float)a->inverse * (float)a->steps) + (float)a->zero;
  return y < (float)a->lo ? (float)a->lo : y > (float)a->hi ? (float)a->hi : y;
}

static double step_f64(double x, const struct kernels_affine *a) {
  const double y = affine_rint_f64(x * a->inverse * a->steps) + a->zero;
  return y < a->lo ? a->lo : y > a->hi ? a->hi : y;
}

// Steps of up to CHUNK halves.
static void steps_f16(float *out, const float *in, size_t n, const struct kernels_affine *a) {
  uint16_t half[CHUNK];
  for (size_t i = 0; i < n; i++)
    out[i] = in[i] * (float)a->inverse;
  kernels_f32_to_f16(half, out, n);
  kernels_f16_to_f32(out, half, n);
  for (size_t i = 0; i < n; i++)
    out[i] *= (float)a->steps;
  kernels_f32_to_f16(half, out, n);
  kernels_f16_to_f32(out, half, n);
  for (size_t i = 0; i < n; i++)
    out[i] = affine_rint_f32(out[i]) + (float)a->zero;
  kernels_f32_to_f16(half, out, n);
  kernels_f16_to_f32(out, half, n);
  for (size_t i = 0; i < n; i++)
    out[i] = out[i] < (float)a->lo ? (float)a->lo : out[i] > (float)a->hi ? (float)a->hi : out[i];
}

static double level(double step, const struct kernels_affine *a) {
  return ((double)(int32_t)step - a->offset) * a->scale;
}

// ---- codes -------------------------------------------------------------------------------------

void affine_codes_f32_portable(int8_t *out, const float *in, size_t n,
                               const struct kernels_affine *a) {
  for (size_t i = 0; i < n; i++)
    out[i] = (int8_t)step_f32(in[i], a);
}

void kernels_affine_codes_f64(int8_t *out, const double *in, size_t n,
                              const struct kernels_affine *a) {
  for (size_t i = 0; i < n; i++)
    out[i] = (int8_t)step_f64(in[i], a);
}

void kernels_affine_divide(uint8_t *out, const float *in, size_t n, float scale, float zero,
                           float lo, float hi) {
  for (size_t i = 0; i < n; i++) {
    const float y = affine_rint_f32(in[i] / scale) + zero;
    out[i] = (uint8_t)(int32_t)(y < lo ? lo : y > hi ? hi : y);
  }
}

// ---- levels ------------------------------------------------------------------------------------

void kernels_affine_levels_f32(double *out, const float *in, size_t n,
                               const struct kernels_affine *a) {
  for (size_t i = 0; i < n; i++)
    out[i] = level(step_f32(in[i], a), a);
}

void kernels_affine_levels_f64(double *out, const double *in, size_t n,
                               const struct kernels_affine *a) {
  for (size_t i = 0; i < n; i++)
    out[i] = level(step_f64(in[i], a), a);
}

// ---- codes or levels of halves -----------------------------------------------------------------

// Those of the two that are not NULL.
static void halves(int8_t *codes, double *levels, const float *in, size_t n,
                   const struct kernels_affine *a) {
  float step[CHUNK];
  for (size_t from = 0; from < n; from += CHUNK) {
    const size_t m = n - from < CHUNK ? n - from : CHUNK;
    steps_f16(step, in + from, m, a);
    for (size_t i = 0; codes && i < m; i++)
      codes[from + i] = (int8_t)step[i];
    for (size_t i = 0; levels && i < m; i++)
      levels[from + i] = level(step[i], a);
  }
}

void kernels_affine_codes_f16(int8_t *out, const float *in, size_t n,
                              const struct kernels_affine *a) {
  halves(out, NULL, in, n, a);
}

void kernels_affine_levels_f16(double *out, const float *in, size_t n,
                               const struct kernels_affine *a) {
  halves(NULL, out, in, n, a);
}

// ---- ranges ------------------------------------------------------------------------------------

// NaN and infinities are counted. -0 becomes 0: which of them was met first does not show.
#define RANGE(name, real)                                                                          \
  size_t name(const real *in, size_t n, real *lo, real *hi) {                                      \
    real least = *lo, most = *hi;                                                                  \
    size_t bad = 0;                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      const real x = in[i];                                                                        \
      if (x - x != 0) {                                                                            \
        bad++;                                                                                     \
        continue;                                                                                  \
      }                                                                                            \
      if (x < least) least = x;                                                                    \
      if (x > most) most = x;                                                                      \
    }                                                                                              \
    *lo = least + 0;                                                                               \
    *hi = most + 0;                                                                                \
    return bad;                                                                                    \
  }
RANGE(affine_range_f32_portable, float)
RANGE(kernels_affine_range_f64, double)
