// Functions in double by nothing but IEEE additions, multiplications, divisions and shifts of bits:
// no library has a say, so every machine gives the same bytes.
//
// Each function takes its argument into a small interval, where a polynomial stands for it, and
// puts the result together again:
//
//   exp      x = k ln 2 + r, |r| <= ln 2 / 2       exp r, times 2^k in two steps: denormals come out
//   log      x = 2^k m, m in [sqrt 1/2, sqrt 2)    s = (m - 1) / (m + 1), log m = 2 artanh s
//   tanh     |x| < 5/8: odd polynomial             else 1 - 2 / (exp 2|x| + 1)
//   erf      |x| < 1: odd polynomial               [1, 6): ten pieces of 1/2 around their centres
//   sigmoid  e = exp -|x|                          1 / (1 + e), or e / (1 + e) where x < 0
//   pow      exp(y log |x|)                        squares, square roots and reciprocals exactly
//
// Polynomials of exp and log are their series; those of tanh and erf were fitted at Chebyshev's
// nodes with 300 bits. Errors that the polynomials add are below 2^-58 of the result. k ln 2 is
// taken in two parts, the first of 33 bits, so that its products with k are exact.
//
// There is no rounding mode but to nearest, and no flush of denormals: nobody in this program sets
// either. NaNs come out as the positive quiet one.
#include "kernels/map/inside/functions.h"

#include "kernels/float_bits.h"

#include <math.h>

static const double ln2_high = 0x1.62e42fefp-1, ln2_low = 0x1.473de6af278edp-34,
                    log2_e = 0x1.71547652b82fep+0;
static const double magic = 0x1.8p52; // x + magic: x rounded to an integer, in the low bits

static inline double quiet(double x) {
  return x == x ? x : f64_of_bits(UINT64_C(0x7ff8000000000000));
}

static inline double sign_of(double size, double x) {
  return f64_of_bits((f64_bits(size) & INT64_MAX) | (f64_bits(x) & ~(uint64_t)INT64_MAX));
}

// c[0] + c[1] x + … by Horner's rule.
static inline double polynomial(const double *c, int n, double x) {
  double y = c[n - 1];
  for (int i = n - 2; i >= 0; i--)
    y = y * x + c[i];
  return y;
}

// 2^k for -1022 <= k <= 1023.
static inline double power_of_2(int64_t k) {
  return f64_of_bits((uint64_t)(k + 1023) << 52);
}

static inline double exp_of(double x) {
  static const double c[] = {0x1p-1,
                             0x1.5555555555555p-3,
                             0x1.5555555555555p-5,
                             0x1.1111111111111p-7,
                             0x1.6c16c16c16c17p-10,
                             0x1.a01a01a01a01ap-13,
                             0x1.a01a01a01a01ap-16,
                             0x1.71de3a556c734p-19,
                             0x1.27e4fb7789f5cp-22,
                             0x1.ae64567f544e4p-26,
                             0x1.1eed8eff8d898p-29,
                             0x1.6124613a86d09p-33};
  // Beyond, it is 0 or infinite anyway. A NaN passes, and is there at the end whatever k is.
  x = x < -800 ? -800 : x > 800 ? 800 : x;
  const double shifted = x * log2_e + magic, n = shifted - magic;
  const int64_t k = x == x ? (int64_t)(f64_bits(shifted) - f64_bits(magic)) : 0;
  const double r = (x - n * ln2_high) - n * ln2_low;
  const double y = 1 + (r + r * r * polynomial(c, sizeof c / sizeof *c, r));
  return y * power_of_2(k / 2) * power_of_2(k - k / 2);
}

static inline double log_of(double x) {
  static const double c[] = {0x1.5555555555555p-1, 0x1.999999999999ap-2, 0x1.2492492492492p-2,
                             0x1.c71c71c71c71cp-3, 0x1.745d1745d1746p-3, 0x1.3b13b13b13b14p-3,
                             0x1.1111111111111p-3, 0x1.e1e1e1e1e1e1ep-4, 0x1.af286bca1af28p-4,
                             0x1.8618618618618p-4};
  if (!(x > 0 && x < INFINITY)) return x == 0 ? -INFINITY : x > 0 ? x : NAN;
  const bool tiny = x < 0x1p-1022;
  const uint64_t bits = f64_bits(tiny ? x * 0x1p54 : x);
  // Bits from sqrt 1/2 on: the exponent of what remains is that of m.
  const uint64_t from = bits - UINT64_C(0x3fe6a09e00000000);
  const double k = (double)((int64_t)from >> 52) - (tiny ? 54 : 0);
  const double m = f64_of_bits((from & UINT64_C(0xfffffffffffff)) + UINT64_C(0x3fe6a09e00000000));
  const double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  const double rest = s * (half + z * polynomial(c, sizeof c / sizeof *c, z));
  return k * ln2_high - ((half - (rest + k * ln2_low)) - f);
}

static inline double tanh_of(double x) {
  static const double c[] = {-0x1.5555555555555p-2,  0x1.1111111111111p-3,   -0x1.ba1ba1ba1b98ap-5,
                             0x1.664f4882bc70dp-6,   -0x1.226e355d31dd1p-7,  0x1.d6d3d07d156fbp-9,
                             -0x1.7da359ef26cddp-10, 0x1.355768c1ead1bp-11,  -0x1.f56ae5d64093fp-13,
                             0x1.95d7364126bb7p-14,  -0x1.4553a8aaa7f49p-15, 0x1.f0cd6169ca2ap-17,
                             -0x1.3e7e94210795fp-18, 0x1.e6f50d7a48216p-21};
  const double size = fabs(x), z = x * x;
  if (size < 0.625) return sign_of(size + size * (z * polynomial(c, sizeof c / sizeof *c, z)), x);
  return sign_of(1 - 2 / (exp_of(2 * size) + 1), x);
}

static inline double erf_of(double x) {
  static const double c[] = {0x1.06eba8214db69p-3,   -0x1.812746b0379e7p-2,  0x1.ce2f21a042bdep-4,
                             -0x1.b82ce312889bap-6,  0x1.565bcd0e6502dp-8,   -0x1.c02db3feeb579p-11,
                             0x1.f9a326c233146p-14,  -0x1.f4d2561aeafd4p-17, 0x1.b9e6509b9867dp-20,
                             -0x1.5f6d925a0bc7ap-23, 0x1.fc4356498c2d9p-27,  -0x1.4e607b41a6416p-30,
                             0x1.7f072188e194dp-34,  -0x1.29b9f1b3df556p-38};
  static const double pieces[][14] = {
      {0x1.d8865d98abep-1, 0x1.e4652fadcb6b2p-3, -0x1.2ebf3dcc9f20cp-2, 0x1.571d01c5c576p-3,
       -0x1.93a9a7bc0b1e3p-8, -0x1.8281ce0b5d725p-5, 0x1.5d0003bca14e9p-6, 0x1.db43ca6554e5ap-9,
       -0x1.75673665077ebp-8, 0x1.cc21a7ad7d28ap-11, 0x1.a00e53b92bb61p-11, -0x1.539192b8c3af5p-12,
       -0x1.bf9b444167ad4p-15, 0x1.c8ae910f36d87p-15},
      {0x1.f92d077f8d56dp-1, 0x1.b055303221016p-5, -0x1.7a4a8a2bdcd23p-4, 0x1.7148c3d57c26ep-4,
       -0x1.8a0da5432404dp-5, 0x1.b22257dda5c39p-8, 0x1.25b378f60f46ap-7, -0x1.8d10fba945f4bp-8,
       0x1.7ec151a1076fbp-11, 0x1.d4cf632c29957p-11, -0x1.d02a7143f3b62p-12, -0x1.717f97218bc12p-18,
       0x1.1bc3fac33ba5cp-14, -0x1.1d7248362f9a5p-16},
      {0x1.ff404760319b4p-1, 0x1.d4143a9dfe964p-8, -0x1.074b60f8df6p-6, 0x1.63ef61e8244dp-6,
       -0x1.38a983275d90ap-6, 0x1.5d3b17bbcb923p-7, -0x1.7cae0dc8354c7p-9, -0x1.5f8313369b94p-11,
       0x1.060311ded2fadp-10, -0x1.8352faf51808cp-12, -0x1.82e4f2dfc26d5p-17, 0x1.11430333dd2cep-14,
       -0x1.702bdc9e51f47p-16, -0x1.971515026dcb1p-20},
      {0x1.fff2cfb0453d9p-1, 0x1.3360ccd23db3ap-11, -0x1.a6a519a1141fcp-10, 0x1.69cf466ccdf6ap-9,
       -0x1.ab0c273b1e09dp-9, 0x1.69359606645b3p-9, -0x1.b2755bb8a9513p-10, 0x1.52b6263fbd742p-11,
       -0x1.7558373217ba9p-14, -0x1.2abb3d9b15bcp-14, 0x1.cd7d4fcafc3fp-15, -0x1.09d0591ac5944p-16,
       -0x1.5468e85e2ac53p-20, 0x1.68a9225d22a6dp-19},
      {0x1.ffff6f9f67e55p-1, 0x1.e9b5e8d00ce8p-16, -0x1.8de3cd290a73dp-14, 0x1.9aa489e3ca63dp-13,
       -0x1.2c7d5ef055e79p-12, 0x1.490a4d2345c9dp-12, -0x1.145464e9779c6p-12, 0x1.647f71f2bfb67p-13,
       -0x1.56747a3658eefp-14, 0x1.b2c35b1c8c428p-16, -0x1.3892597fae0ep-19, -0x1.809bd02211cc8p-19,
       0x1.ff2f44a582fbfp-20, -0x1.1e7cc89ce34dfp-21},
      {0x1.fffffc2f171e3p-1, 0x1.d9371e2ff7bf9p-21, -0x1.bba3ac4d09ef3p-19, 0x1.0b6a7b0f1cc93p-17,
       -0x1.d06f585c2a096p-17, 0x1.3436bc9f0bfd4p-16, -0x1.4357b6283bdc8p-16, 0x1.110de4e13c93dp-16,
       -0x1.756673518e649p-17, 0x1.99f593d6ebea4p-18, -0x1.5d84b7ace6496p-19, 0x1.a06761d95439fp-21,
       -0x1.5af853fcc44f9p-24, -0x1.037beec04147dp-24},
      {0x1.fffffff01a8b6p-1, 0x1.155a09065d4b8p-26, -0x1.26afa9969cfe5p-24, 0x1.95ea6fdffe3e1p-23,
       -0x1.96ba73704b1cdp-22, 0x1.3b468018fcb3p-21, -0x1.8868e007d1663p-21, 0x1.916e9278424b6p-21,
       -0x1.566f53e2e3d29p-21, 0x1.eab4cd71f6037p-22, -0x1.274995d04577p-22, 0x1.27de23e0bfae1p-23,
       -0x1.e5c991e5e2c8bp-25, 0x1.2496c69a00a91p-26},
      {0x1.ffffffffd759dp-1, 0x1.8a61745ec8f2p-33, -0x1.d453ba2b3161ap-31, 0x1.6a8aeba4080a2p-29,
       -0x1.9b017b676396bp-28, 0x1.6b43c96e96861p-27, -0x1.042f1a55895f4p-26, 0x1.35dc7dedbca55p-26,
       -0x1.3837c2aa9a457p-26, 0x1.0d4de0d7704f3p-26, -0x1.9023c176e7847p-27, 0x1.01b972fdd330ap-27,
       -0x1.2b16d7ad70ecp-28, 0x1.19bad55fa1f3bp-29},
      {0x1.ffffffffffc05p-1, 0x1.5422ef5d93bf3p-40, -0x1.be6dda0811a22p-38, 0x1.7f8a0f3a22a32p-36,
       -0x1.e4cb4f4016672p-35, 0x1.e044b4eb32629p-34, -0x1.83e9e3bb0bf59p-33, 0x1.065940b2186f7p-32,
       -0x1.2ece90764a656p-32, 0x1.2e3ca696517a6p-32, -0x1.06a8f54ec88c1p-32, 0x1.935d883f87f62p-33,
       -0x1.254b061ef2857p-33, 0x1.5a5a77795b393p-34},
      {0x1.ffffffffffffcp-1, 0x1.63daf8b4f56dfp-48, -0x1.ff8ac4cc9348p-46, 0x1.e2d06d55f8efbp-44,
       -0x1.505da0a5a71fap-42, 0x1.70b70451091d2p-41, -0x1.4aec562c51252p-40, 0x1.f3c4f7d4b2dfbp-40,
       -0x1.43d985e0ceaf4p-39, 0x1.6d26b2b537a5ep-39, -0x1.681576291af3dp-39, 0x1.3dc604ba24573p-39,
       -0x1.145fb31cc77cap-39, 0x1.7ec7f88c56bb2p-40},
  };
  const double size = fabs(x);
  if (size < 1) return x + x * polynomial(c, sizeof c / sizeof *c, x * x);
  if (!(size < 6)) return x == x ? sign_of(1, x) : x;
  const int piece = (int)((size - 1) * 2);
  return sign_of(polynomial(pieces[piece], 14, size - (1.25 + 0.5 * piece)), x);
}

static inline double sigmoid_of(double x) {
  const double e = exp_of(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}

// Odd integers are below 2^53; all larger doubles are even ones.
static inline bool is_integer(double y) {
  return fabs(y) >= 0x1p52 || (y + sign_of(0x1p52, y)) - sign_of(0x1p52, y) == y;
}

static inline bool is_odd(double y) {
  return fabs(y) < 0x1p53 && is_integer(y) && !is_integer(y / 2);
}

// The cases are those of C17, F.10.4.4.
static inline double pow_of(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return NAN;
  if (y == 2) return x * x;
  if (y == -1) return 1 / x;
  if (y == 0.5 && x > 0) return sqrt(x);
  const double size = fabs(x);
  if (size == 1 && y - y != 0) return 1;
  if (x < 0 && x > -INFINITY && !is_integer(y)) return NAN;
  // Zero and infinity: their logarithms are infinite, and so is the product.
  const double power = exp_of(y * log_of(size));
  return is_odd(y) ? sign_of(power, x) : power;
}

typedef double mem_double __attribute__((aligned(1), may_alias));

#define FUNCTION(name)                                                                             \
  size_t functions_##name(void *out, const void *in, const void *ignored, size_t n) {              \
    (void)ignored;                                                                                 \
    mem_double *o = out;                                                                           \
    const mem_double *x = in;                                                                      \
    for (size_t i = 0; i < n; i++)                                                                 \
      o[i] = quiet(name##_of(x[i]));                                                               \
    return 0;                                                                                      \
  }
FUNCTION(exp)
FUNCTION(log)
FUNCTION(erf)
FUNCTION(tanh)
FUNCTION(sigmoid)

size_t functions_pow(void *out, const void *in, const void *exponents, size_t n) {
  mem_double *o = out;
  const mem_double *x = in, *y = exponents;
  for (size_t i = 0; i < n; i++)
    o[i] = quiet(pow_of(x[i], y[i]));
  return 0;
}
