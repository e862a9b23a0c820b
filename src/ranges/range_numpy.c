// The sum: a stretch of at most 128 numbers has eight running sums, put together in pairs, and what is left behind
// them; a longer one is cut in two, the first a multiple of 8 long. The stretches of one path down the cuts are on a stack.
//
// The logarithm: x = y * 2^k with y from sqrt(1/2) to sqrt(2), then a quotient of two polynomials of degree 5 in y - 1 (minimax), and
// k ln 2. Every step is a fused multiply-add of float32, as in NumPy's vector loops, which are the same for all widths.
#include "ranges/inside/range_numpy.h"

#include <math.h>

// A sum of floats that is made in double and rounded is the float sum: double has more than twice the digits.
static inline double add(double a, double b, bool single) {
  return single ? (double)(float)(a + b) : a + b;
}

static inline double sum_stretch(const double *x, uint32_t n, bool single) {
  double s = -0.0;
  uint32_t i = 0;
  if (n >= 8) {
    double r[8];
    for (; i < 8; i++)
      r[i] = x[i];
    for (; i < n - n % 8; i += 8)
      for (uint32_t k = 0; k < 8; k++)
        r[k] = add(r[k], x[i + k], single);
    s = add(add(add(r[0], r[1], single), add(r[2], r[3], single), single),
            add(add(r[4], r[5], single), add(r[6], r[7], single), single), single);
  }
  for (; i < n; i++)
    s = add(s, x[i], single);
  return s;
}

double range_numpy_sum(const double *x, uint32_t n, bool single) {
  enum { STRETCH = 128, DEPTH = 32 };
  // Stretches still to be summed, the next one last; `joins`: how many sums end with it.
  struct {
    uint32_t n, joins;
  } todo[DEPTH] = {{n, 0}};
  double sums[DEPTH];
  uint32_t n_todo = 1, n_sums = 0;
  while (n_todo > 0) {
    const uint32_t all = todo[--n_todo].n, joins = todo[n_todo].joins;
    if (all > STRETCH) {
      const uint32_t left = all / 2 - all / 2 % 8;
      todo[n_todo].n = all - left;
      todo[n_todo++].joins = joins + 1;
      todo[n_todo].n = left;
      todo[n_todo++].joins = 0;
      continue;
    }
    double s = single ? sum_stretch(x, all, true) : sum_stretch(x, all, false);
    x += all;
    for (uint32_t k = 0; k < joins; k++)
      s = add(sums[--n_sums], s, single);
    sums[n_sums++] = s;
  }
  return sums[0];
}

float range_numpy_log(float x) {
  static const float p[] = {2.589979117907922693523e-02f, 3.808837741388407920751e-01f,
                            1.480000633576506585156e+00f, 2.112677543073053063722e+00f,
                            9.999999999999998702752e-01f, 0.0f};
  static const float q[] = {5.875095403124574342950e-03f, 1.546476374983906719538e-01f,
                            9.864942958519418960339e-01f, 2.453006071784736363091e+00f,
                            2.612677543073109236779e+00f, 1.0f};
  const float ln2 = 0.693147180559945309417232121458176568f, half = 0.70710678118654752440f;
  int exponent;
  float y = frexpf(x, &exponent);
  if (y < half) {
    y += y;
    exponent--;
  }
  y -= 1.0f;
  float above = p[0], below = q[0];
  for (unsigned i = 1; i < sizeof p / sizeof p[0]; i++) {
    above = fmaf(above, y, p[i]);
    below = fmaf(below, y, q[i]);
  }
  return fmaf((float)exponent, ln2, above / below);
}
