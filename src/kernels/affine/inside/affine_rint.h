// Rounding to the nearest integer, half to even, as the portable codes have it. It is an addition: a float of
// magnitude 2^23 to 2^24 has steps of 1, so x + 2^23 is x rounded to an integer (by the rounding that additions
// have), and taking 2^23 away again is exact. Larger floats are integers already. Of a double it is 2^52.
#ifndef WEIR_AFFINE_RINT_H
#define WEIR_AFFINE_RINT_H

static inline float affine_rint_f32(float x) {
  const float magic = 8388608.0f;
  if (!(x < magic && x > -magic)) return x;
  return x < 0 ? (x - magic) + magic : (x + magic) - magic;
}

static inline double affine_rint_f64(double x) {
  const double magic = 4503599627370496.0;
  if (!(x < magic && x > -magic)) return x;
  return x < 0 ? (x - magic) + magic : (x + magic) - magic;
}

#endif
