// Single numbers of every type, out of their bits and into them.
//
// Doubles hold every float up to 64 bits exactly, and are rounded once on the way back: to nearest,
// ties to even, past the largest to infinity. The narrow floats differ only in how many bits they
// spend:
//
//             exponent  mantissa
//   float16       5        10
//   bfloat16      8         7
//   float32       8        23
#include "passes/kit/inside/kit_inside.h"

#include <math.h>

struct shape {
  int exponent, mantissa;
};

static bool narrow(enum dtype dtype, struct shape *s) {
  switch (dtype) {
  case DTYPE_FLOAT16: *s = (struct shape){5, 10}; return true;
  case DTYPE_BFLOAT16: *s = (struct shape){8, 7}; return true;
  case DTYPE_FLOAT: *s = (struct shape){8, 23}; return true;
  default: return false;
  }
}

static double widen(uint32_t bits, struct shape s) {
  const int bias = (1 << (s.exponent - 1)) - 1, all = (1 << s.exponent) - 1;
  const int e = (int)(bits >> s.mantissa) & all;
  const uint32_t fraction = bits & ((1u << s.mantissa) - 1);
  const double sign = bits >> (s.exponent + s.mantissa) & 1 ? -1 : 1;
  if (e == all) return copysign(fraction ? (double)NAN : (double)INFINITY, sign);
  const double x = e ? fraction + ldexp(1, s.mantissa) : fraction;
  return sign * ldexp(x, (e ? e : 1) - bias - s.mantissa);
}

static uint32_t narrowed(double x, struct shape s) {
  const int bias = (1 << (s.exponent - 1)) - 1;
  const uint32_t sign = signbit(x) ? 1u << (s.exponent + s.mantissa) : 0;
  const uint32_t infinity = ((1u << s.exponent) - 1) << s.mantissa;
  if (isnan(x)) return infinity | 1u << (s.mantissa - 1);
  int e;
  frexp(x, &e); // |x| in [2^(e-1), 2^e)
  if (isinf(x) || e - 1 > bias) return sign | infinity;
  const int least = 1 - bias, at = x == 0 || e - 1 < least ? least : e - 1;
  // In units of the last place; a carry out of the mantissa carries into the exponent.
  const double units = nearbyint(ldexp(fabs(x), s.mantissa - at));
  const uint32_t n = (uint32_t)units;
  const uint32_t bits = ((uint32_t)(at - least) << s.mantissa) + n;
  return sign | (bits < infinity ? bits : infinity);
}

static bool is_integer(enum dtype dtype, uint32_t *bits, bool *is_signed) {
  *bits = dtype_bits(dtype);
  *is_signed = dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 ||
               dtype == DTYPE_INT64 || dtype == DTYPE_INT4 || dtype == DTYPE_INT2;
  return dtype_is_integer(dtype);
}

static uint64_t bits_at(const uint8_t *raw, uint64_t i, uint32_t bits) {
  uint64_t x = 0;
  if (bits < 8) return (uint32_t)raw[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
  memcpy(&x, raw + i * (bits / 8), bits / 8);
  return x;
}

static void set_whole(struct kit_number *out) {
  out->exact = fabs(out->d) < 0x1p63 && nearbyint(out->d) == out->d;
  if (out->exact) out->i = (int64_t)out->d;
}

bool kit_number_at(enum dtype dtype, const uint8_t *raw, uint64_t i, struct kit_number *out) {
  struct shape s;
  uint32_t bits;
  bool is_signed;
  *out = (struct kit_number){.dtype = dtype};
  if (dtype == DTYPE_DOUBLE) {
    memcpy(&out->d, raw + i * 8, 8);
    set_whole(out);
    return true;
  }
  if (narrow(dtype, &s)) {
    out->d = widen((uint32_t)bits_at(raw, i, 1 + (uint32_t)(s.exponent + s.mantissa)), s);
    set_whole(out);
    return true;
  }
  if (!is_integer(dtype, &bits, &is_signed)) return false;
  uint64_t x = bits_at(raw, i, bits);
  if (dtype == DTYPE_BOOL) x = x != 0;
  if (is_signed && bits < 64 && x >> (bits - 1)) x |= UINT64_MAX << bits;
  out->i = (int64_t)x;
  out->exact = is_signed || x <= INT64_MAX;
  out->d = is_signed ? (double)(int64_t)x : (double)x;
  return true;
}

size_t kit_number_put(enum dtype dtype, double x, uint8_t out[8]) {
  struct shape s;
  uint32_t bits;
  bool is_signed;
  memset(out, 0, 8);
  if (dtype == DTYPE_DOUBLE) {
    memcpy(out, &x, 8);
    return 8;
  }
  if (narrow(dtype, &s)) {
    const uint32_t n = narrowed(x, s);
    const size_t bytes = (size_t)(1 + s.exponent + s.mantissa) / 8;
    memcpy(out, &n, bytes);
    return bytes;
  }
  if (!is_integer(dtype, &bits, &is_signed)) return 0;
  if (dtype == DTYPE_BOOL) {
    out[0] = x != 0;
    return 1;
  }
  const double most = ldexp(1, (int)bits - is_signed); // one past the largest
  const double whole = isnan(x) ? 0 : nearbyint(x);
  uint64_t n;
  if (whole >= most)
    n = is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
  else if (is_signed)
    n = whole < -most ? UINT64_C(1) << (bits - 1) : (uint64_t)(int64_t)whole;
  else
    n = whole < 0 ? 0 : (uint64_t)whole;
  if (bits < 64) n &= UINT64_MAX >> (64 - bits);
  memcpy(out, &n, 8);
  return bits < 8 ? 1 : bits / 8;
}
