// Codes of ONNX's QuantizeLinear, portable: what kernels.h says, spelled out.
#include "kernels/affine/inside/affine_rint.h"
#include "kernels/kernels_table.h"

#include <string.h>

// NaN: the least code.
static int32_t code_of(float x, float scale, float zero, const struct kernels_linear *m) {
  const float y = affine_rint_f32(x / scale) + zero;
  return (int32_t)(!(y > m->lo) ? m->lo : y > m->hi ? m->hi : y);
}

bool linear_codes_portable(void *out, const float *in, size_t n, const struct kernels_linear *m) {
  uint8_t *to = out;
  bool finite = true;
  for (size_t i = 0; i < n; i++, to += m->width) {
    const size_t s = m->each ? i : 0;
    const int32_t code = code_of(in[i], m->scales[s], m->zeros ? m->zeros[s] : 0, m);
    memcpy(to, &code, m->width); // the low end
    finite &= in[i] - in[i] == 0;
  }
  return finite;
}

size_t linear_ranges_portable(const float *in, size_t n, float *lo, float *hi) {
  size_t bad = 0;
  for (size_t i = 0; i < n; i++) {
    const float x = in[i];
    const bool good = x - x == 0; // no NaN, no infinity
    lo[i] = good && x < lo[i] ? x : lo[i];
    hi[i] = good && x > hi[i] ? x : hi[i];
    bad += !good;
  }
  return bad;
}

bool kernels_linear_int32(void *out, const float *in, size_t n, const struct kernels_linear *m) {
  uint8_t *to = out;
  bool finite = true;
  for (size_t i = 0; i < n; i++) {
    const double y = affine_rint_f64((double)in[i] / (double)m->scales[m->each ? i : 0]);
    int32_t code = INT32_MIN;
    if (y > -2147483648.0) code = y > 2147483647.0 ? INT32_MAX : (int32_t)y;
    memcpy(to + i * sizeof code, &code, sizeof code);
    finite &= in[i] - in[i] == 0;
  }
  return finite;
}

bool kernels_linear_quotients(float *out, const float *in, size_t n,
                              const struct kernels_linear *m) {
  bool finite = true;
  for (size_t i = 0; i < n; i++) {
    out[i] = in[i] / m->scales[m->each ? i : 0];
    finite &= in[i] - in[i] == 0;
  }
  return finite;
}
