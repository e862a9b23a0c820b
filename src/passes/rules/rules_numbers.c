// Elements of constants as numbers, and back: what folding computes with.
//
// Floats are computed in double and rounded once. For + − × ÷ and the root that gives what the
// type's own arithmetic gives: a double has more than twice the bits of the others. Integers are
// computed in 64 bits, wrapped to their width; uint64 travels by its bits.
#include "passes/rules/inside/rules_inside.h"

#include <float.h>

static double half_value(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  double x = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                            : ldexp(fraction, -24);
  return h >> 15 ? -x : x;
}

// The nearest number of a format with so many bits of exponent and fraction, ties to even;
// subnormals and infinity as they come.
static uint16_t narrow(double x, int exponent_bits, int fraction_bits) {
  const uint16_t sign = signbit(x) ? 0x8000 : 0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint16_t infinity = (uint16_t)(((1 << exponent_bits) - 1) << fraction_bits);
  if (isnan(x)) return (uint16_t)(sign | infinity | 1 << (fraction_bits - 1));
  if (isinf(x)) return (uint16_t)(sign | infinity);
  int exponent;
  if (frexp(x, &exponent) == 0) return sign;
  const int least = 1 - bias, scale = (exponent - 1 < least ? least : exponent - 1) - fraction_bits;
  const double units =
      nearbyint(ldexp(fabs(x), -scale)); // below 2^(fraction_bits + 1), or just that
  // The bits of subnormals and normals follow one another, and a carry goes where it should.
  const double bits = ldexp((double)(scale + fraction_bits - least), fraction_bits) + units;
  return (uint16_t)(sign | (bits >= infinity ? infinity : (uint16_t)bits));
}

double rules_number_least_normal(enum dtype t) {
  return t == DTYPE_FLOAT16 ? 0x1p-14 : t == DTYPE_DOUBLE ? DBL_MIN : (double)FLT_MIN;
}

double rules_number_get(enum dtype t, const uint8_t *raw, uint64_t i) {
  uint16_t h;
  float f;
  double d;
  switch (t) {
  case DTYPE_FLOAT: memcpy(&f, raw + 4 * i, 4); return (double)f;
  case DTYPE_DOUBLE: memcpy(&d, raw + 8 * i, 8); return d;
  case DTYPE_FLOAT16: memcpy(&h, raw + 2 * i, 2); return half_value(h);
  case DTYPE_BFLOAT16: {
    memcpy(&h, raw + 2 * i, 2);
    const uint32_t bits = (uint32_t)h << 16;
    memcpy(&f, &bits, 4);
    return (double)f;
  }
  case DTYPE_UINT64: return (double)(uint64_t)rules_number_get_int(t, raw, i);
  default: return (double)rules_number_get_int(t, raw, i);
  }
}

int64_t rules_number_get_int(enum dtype t, const uint8_t *raw, uint64_t i) {
  const uint32_t bytes = dtype_bits(t) / 8;
  uint64_t bits = 0;
  memcpy(&bits, raw + bytes * i, bytes);
  const bool is_signed =
      t == DTYPE_INT8 || t == DTYPE_INT16 || t == DTYPE_INT32 || t == DTYPE_INT64;
  if (!is_signed || bytes == 8) return (int64_t)bits;
  const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
  return (int64_t)((bits ^ sign) - sign);
}

void rules_number_put(enum dtype t, uint8_t *raw, uint64_t i, double x) {
  uint16_t h;
  float f = (float)x;
  switch (t) {
  case DTYPE_FLOAT: memcpy(raw + 4 * i, &f, 4); break;
  case DTYPE_DOUBLE: memcpy(raw + 8 * i, &x, 8); break;
  case DTYPE_FLOAT16: h = narrow(x, 5, 10), memcpy(raw + 2 * i, &h, 2); break;
  case DTYPE_BFLOAT16: h = narrow(x, 8, 7), memcpy(raw + 2 * i, &h, 2); break;
  default: break; // integers: rules_number_put_int
  }
}

void rules_number_put_int(enum dtype t, uint8_t *raw, uint64_t i, int64_t x) {
  const uint32_t bytes = dtype_bits(t) / 8;
  if (t == DTYPE_BOOL) x = x != 0;
  memcpy(raw + bytes * i, &x, bytes);
}
