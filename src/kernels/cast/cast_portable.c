// Room: conversions between binary64, binary32, binary16 and bfloat16. The reference works on bits:
// no conversion instruction, rounding mode or flush-to-zero setting has a say in the result.
//
// A format is (exponent bits, mantissa bits). Narrowing rounds to nearest, ties to even (IEEE
// 754-2019, 4.3.1), gradually underflows, and gives infinity past the largest finite number. A NaN
// becomes quiet and keeps its sign and the top bits of its payload, in both directions: what the
// conversion instructions of x86-64 (F16C, AVX) and AArch64 do, so that they may stand in for these
// loops.
#include "kernels/kernels_table.h"

#include <string.h>

struct format {
  unsigned exponent, mantissa; // bits
};

static const struct format f64 = {11, 52}, f32 = {8, 23}, f16 = {5, 10}, bf16 = {8, 7};

static inline uint64_t ones(unsigned n) {
  return ((uint64_t)1 << n) - 1;
}

static inline int bias(struct format f) {
  return (int)ones(f.exponent - 1);
}

// x / 2^shift, rounded to nearest, ties to even; 0 < shift.
static inline uint64_t shift_round(uint64_t x, unsigned shift) {
  if (shift > 62) return 0; // all of our significands are below half of 2^63
  uint64_t half = (uint64_t)1 << (shift - 1), low = x & ones(shift), q = x >> shift;
  return q + (low > half || (low == half && (q & 1)));
}

static inline __attribute__((always_inline)) uint64_t narrow(uint64_t x, struct format from,
                                                             struct format to) {
  uint64_t sign = x >> (from.exponent + from.mantissa) << (to.exponent + to.mantissa);
  uint64_t fraction = x & ones(from.mantissa);
  int e = (int)(x >> from.mantissa & ones(from.exponent));
  unsigned drop = from.mantissa - to.mantissa;
  uint64_t infinity = ones(to.exponent) << to.mantissa;
  if (e == (int)ones(from.exponent)) {
    uint64_t quiet = (uint64_t)1 << (to.mantissa - 1);
    return sign | infinity | (fraction ? quiet | fraction >> drop : 0);
  }
  if (e) fraction |= (uint64_t)1 << from.mantissa;
  int target = (e ? e : 1) - bias(from) + bias(to); // exponent field if it stays normal
  if (target >= (int)ones(to.exponent)) return sign | infinity;
  // The leading one is added to the exponent field: a carry out of the rounded mantissa then moves
  // the exponent on by itself, up to infinity.
  if (target >= 1 && e)
    return sign | (((uint64_t)(target - 1) << to.mantissa) + shift_round(fraction, drop));
  unsigned more = target < 1 ? (unsigned)(1 - target) : 0;
  uint64_t tiny = drop + more ? shift_round(fraction, drop + more) : fraction;
  return sign | tiny;
}

static inline __attribute__((always_inline)) uint64_t widen(uint64_t x, struct format from,
                                                            struct format to) {
  uint64_t sign = x >> (from.exponent + from.mantissa) << (to.exponent + to.mantissa);
  uint64_t fraction = x & ones(from.mantissa);
  int e = (int)(x >> from.mantissa & ones(from.exponent));
  unsigned add = to.mantissa - from.mantissa;
  if (e == (int)ones(from.exponent)) {
    uint64_t quiet = (uint64_t)1 << (to.mantissa - 1);
    return sign | ones(to.exponent) << to.mantissa | (fraction ? quiet | fraction << add : 0);
  }
  if (e == 0) {
    if (fraction == 0) return sign;
    if (bias(from) == bias(to)) return sign | fraction << add; // as small there as here
    for (e = 1; !(fraction >> from.mantissa); e--)
      fraction <<= 1;
    fraction &= ones(from.mantissa);
  }
  return sign | (uint64_t)(e - bias(from) + bias(to)) << to.mantissa | fraction << add;
}

// Loads and stores go through memcpy: buffers need no alignment.
#define CAST(name, in_type, out_type, convert, from, to)                                           \
  void name(void *out, const void *in, size_t n) {                                                 \
    for (size_t i = 0; i < n; i++) {                                                               \
      in_type x;                                                                                   \
      memcpy(&x, (const uint8_t *)in + i * sizeof x, sizeof x);                                    \
      out_type y = (out_type)convert(x, from, to);                                                 \
      memcpy((uint8_t *)out + i * sizeof y, &y, sizeof y);                                         \
    }                                                                                              \
  }
CAST(cast_f32_f16_portable, uint32_t, uint16_t, narrow, f32, f16)
CAST(cast_f32_bf16_portable, uint32_t, uint16_t, narrow, f32, bf16)
CAST(cast_f16_f32_portable, uint16_t, uint32_t, widen, f16, f32)
CAST(cast_bf16_f32_portable, uint16_t, uint32_t, widen, bf16, f32)
CAST(cast_f64_f32_portable, uint64_t, uint32_t, narrow, f64, f32)
CAST(cast_f32_f64_portable, uint32_t, uint64_t, widen, f32, f64)
CAST(cast_f64_f16_portable, uint64_t, uint16_t, narrow, f64, f16)
CAST(cast_f64_bf16_portable, uint64_t, uint16_t, narrow, f64, bf16)
