//                     sign exponent mantissa  bias  largest      NaN              infinity
//   float8e4m3fn        1     4        3        7   0x7e 448     0x7f, 0xff       none
//   float8e4m3fnuz      1     4        3        8   0x7f 240     0x80 (no -0)     none
//   float8e5m2          1     5        2       15   0x7b 57344   0x7d-7f, 0xfd-ff 0x7c, 0xfc
//   float8e5m2fnuz      1     5        2       16   0x7f 57344   0x80 (no -0)     none
//   float6e2m3          1     2        3        1   0x1f 7.5     none             none
//   float6e3m2          1     3        2        3   0x1f 28      none             none
//   float4e2m1          1     2        1        1   0x07 6       none             none
//   float8e8m0          0     8        0      127   0xfe 2^127   0xff             none
//
// All but the last are one thing with different numbers. A code without its sign, read as an
// integer, grows with the number: so rounding may carry into the exponent by itself, and what has
// become larger than the largest code is out of range. float8e8m0 is powers of two alone.
//
// Encoding starts from a double, which holds every source exactly (of integers beyond 2^53, an odd
// neighbour: kernels_convert.c), and rounds once.
#include "kernels/convert/inside/minifloat.h"

#include "kernels/float_bits.h"

#include <assert.h>

struct format {
  uint8_t exponent, mantissa, bias;
  uint8_t largest;    // code of the largest finite number
  uint8_t nan;        // code of the positive NaN; 0: there is none
  uint8_t infinity;   // code of positive infinity; 0: there is none
  bool unsigned_zero; // -0 is NaN, the only one
  bool saturates;     // whatever was asked: no code stands for anything else
  bool negative_zero; // may be made: the standard and its reference agree on it
};

static const struct format formats[] = {
    [DTYPE_FLOAT8E4M3FN] = {4, 3, 7, 0x7e, 0x7f, 0, false, false, true},
    [DTYPE_FLOAT8E4M3FNUZ] = {4, 3, 8, 0x7f, 0x80, 0, true, false, false},
    [DTYPE_FLOAT8E5M2] = {5, 2, 15, 0x7b, 0x7e, 0x7c, false, false, true},
    [DTYPE_FLOAT8E5M2FNUZ] = {5, 2, 16, 0x7f, 0x80, 0, true, false, false},
    [DTYPE_FLOAT4E2M1] = {2, 1, 1, 0x07, 0, 0, false, true, true},
    [DTYPE_FLOAT6E2M3] = {2, 3, 1, 0x1f, 0, 0, false, true, false},
    [DTYPE_FLOAT6E3M2] = {3, 2, 3, 0x1f, 0, 0, false, true, false},
};
enum { FORMATS = sizeof formats / sizeof *formats };

bool minifloat_is(enum dtype type) {
  return type == DTYPE_FLOAT8E8M0 || ((size_t)type < FORMATS && formats[type].exponent);
}

// ---- to float ----------------------------------------------------------------------------------

// A number is its significand, an integer, times the value of its last place. No branches: the
// compiler makes vectors of the loop below.
static inline uint32_t decode(uint32_t code, const struct format *f) {
  const unsigned sign_bit = f->exponent + f->mantissa;
  const uint32_t size = code & ((1u << sign_bit) - 1), sign = (code >> sign_bit & 1) << 31;
  const uint32_t e = size >> f->mantissa, m = size & ((1u << f->mantissa) - 1);
  const uint32_t normal = e != 0, place = 128u - f->bias - f->mantissa + e - normal;
  const uint32_t number =
      f32_bits((float)(int32_t)(m | normal << f->mantissa) * f32_of_bits(place << 23));
  const uint32_t beyond = size == f->infinity ? 0x7f800000 : 0x7fc00000;
  const uint32_t result = sign | (size > f->largest ? beyond : number);
  return f->unsigned_zero && result == 0x80000000 ? 0xffc00000 : result;
}

static void decode_e8m0(float *out, const uint8_t *in, size_t n) {
  for (size_t i = 0; i < n; i++)
    out[i] = f32_of_bits(in[i] == 0xff ? 0x7fc00000 : in[i] ? (uint32_t)in[i] << 23 : 0x00400000);
}

void minifloat_decode(float *out, const uint8_t *in, size_t n, enum dtype type) {
  assert(minifloat_is(type));
  if (type == DTYPE_FLOAT8E8M0) {
    decode_e8m0(out, in, n);
    return;
  }
  const struct format f = formats[type];
  for (size_t i = 0; i < n; i++)
    out[i] = f32_of_bits(decode(in[i], &f));
}

// ---- from double -------------------------------------------------------------------------------

enum { MANTISSA = 52, BIAS = 1023 }; // of a double

// x / 2^shift, rounded to nearest, ties to even; 0 < shift.
static uint64_t shift_round(uint64_t x, int shift) {
  if (shift > MANTISSA + 2) return 0;
  const uint64_t half = UINT64_C(1) << (shift - 1), low = x & (2 * half - 1), q = x >> shift;
  return q + (low > half || (low == half && (q & 1)));
}

// The code of |x|, finite, as if exponents had no end (codes past all that there are come out as
// the next one past the largest).
static unsigned nearest(uint64_t bits, const struct format *f) {
  const int e = (int)(bits >> MANTISSA & 0x7ff);
  const uint64_t fraction = bits & ((UINT64_C(1) << MANTISSA) - 1);
  if (e == 0) return 0; // denormal doubles are far below
  const int target = e - BIAS + f->bias, drop = MANTISSA - f->mantissa;
  const uint64_t significand = fraction | UINT64_C(1) << MANTISSA;
  if (target >= 1 << f->exponent) return f->largest + 1u;
  if (target < 1) return (unsigned)shift_round(significand, drop + 1 - target);
  const unsigned code =
      ((unsigned)(target - 1) << f->mantissa) + (unsigned)shift_round(significand, drop);
  return code;
}

static uint8_t encode(double x, const struct format *f, bool saturate, size_t *open) {
  const uint64_t bits = f64_bits(x);
  const bool negative = bits >> 63;
  const uint8_t sign = (uint8_t)(negative << (f->exponent + f->mantissa));
  if (x != x) {
    *open += !f->nan;
    return f->unsigned_zero ? f->nan : f->nan ? (uint8_t)(sign | f->nan) : 0;
  }
  const bool infinite = (bits & INT64_MAX) == UINT64_C(0x7ff) << MANTISSA;
  const unsigned code = infinite ? f->largest + 1u : nearest(bits, f);
  if (code == 0) {
    if (!negative || f->unsigned_zero) return 0;
    *open += !f->negative_zero;
    return f->negative_zero ? sign : 0;
  }
  if (code <= f->largest) return (uint8_t)(sign | code);
  if (saturate || f->saturates) return (uint8_t)(sign | f->largest);
  if (f->infinity) return (uint8_t)(sign | f->infinity);
  return f->unsigned_zero ? f->nan : (uint8_t)(sign | f->nan);
}

// Powers of two. Open: what is negative, infinite or above the largest float, below the smallest
// normal one, and zeros, save the one case in which the standard and its reference agree.
static uint8_t encode_e8m0(double x, const struct kernels_cast *c, size_t *open) {
  if (x != x) return 0xff;
  const uint64_t bits = f64_bits(x);
  if (bits == 0 && c->saturate && c->round == KERNELS_ROUND_UP) return 0;
  if (!(x >= 0x1p-126 && x <= 0x1.fffffep127)) {
    (*open)++;
    return 0;
  }
  const uint64_t fraction = bits & ((UINT64_C(1) << MANTISSA) - 1);
  unsigned code = (unsigned)(bits >> MANTISSA) - BIAS + 127;
  if (c->round == KERNELS_ROUND_UP)
    code += fraction != 0;
  else if (c->round == KERNELS_ROUND_NEAREST)
    code += (unsigned)(fraction >> (MANTISSA - 1)); // ties go up
  return (uint8_t)(code == 0xff && c->saturate ? 0xfe : code);
}

size_t minifloat_encode(uint8_t *out, const double *in, size_t n, const struct kernels_cast *c) {
  assert(minifloat_is((enum dtype)c->to));
  size_t open = 0;
  if (c->to == DTYPE_FLOAT8E8M0)
    for (size_t i = 0; i < n; i++)
      out[i] = encode_e8m0(in[i], c, &open);
  else
    for (size_t i = 0; i < n; i++)
      out[i] = encode(in[i], &formats[c->to], c->saturate, &open);
  return open;
}
