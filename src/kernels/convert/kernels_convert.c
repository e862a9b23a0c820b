// Every type has a carrier, a C type that holds it exactly; a conversion is at most three steps, of
// which those that have nothing to do fall away:
//
//   source ──unpack──▶ carrier ──loop──▶ carrier ──pack──▶ target
//
//   bool uint2 uint4 uint8   U8      int2 int4 int8   I8     int16 uint16 … uint64   themselves
//   float, bfloat16, float16, float8, float6, float4   F32   double   F64
//
// Loops between carriers are plain C, one for each pair, which the compiler turns into vectors.
// float and its relatives of 16 bits go through the kernels of kernels.h, whose variants give the
// same bytes, so what this file makes does not depend on the machine. Targets below float get there
// from F32 or F64, whichever holds the source exactly: one rounding. 64-bit integers beyond 2^53
// have no exact double; they take the neighbour with an odd last bit, which is on the same side of
// every tie of fewer bits.
//
// Pieces of CHUNK elements pass through buffers on the stack.
#include "kernels/convert/kernels_convert.h"

#include "kernels/convert/inside/minifloat.h"
#include "kernels/float_bits.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

enum { CHUNK = 512 };

enum carrier { U8, I8, U16, I16, U32, I32, U64, I64, F32, F64, CARRIERS };

#define INTEGERS(X)                                                                                \
  X(U8, uint8_t)                                                                                   \
  X(I8, int8_t)                                                                                    \
  X(U16, uint16_t)                                                                                 \
  X(I16, int16_t)                                                                                  \
  X(U32, uint32_t)                                                                                 \
  X(I32, int32_t)                                                                                  \
  X(U64, uint64_t)                                                                                 \
  X(I64, int64_t)

// Elements in memory: anywhere, of any declared type.
#define IN_MEMORY(name, type) typedef type mem_##name __attribute__((aligned(1), may_alias));
INTEGERS(IN_MEMORY)
IN_MEMORY(F32, float)
IN_MEMORY(F64, double)
#undef IN_MEMORY

static enum carrier carrier_of(enum dtype t) {
  switch (t) {
  case DTYPE_INT2:
  case DTYPE_INT4:
  case DTYPE_INT8: return I8;
  case DTYPE_UINT16: return U16;
  case DTYPE_INT16: return I16;
  case DTYPE_UINT32: return U32;
  case DTYPE_INT32: return I32;
  case DTYPE_UINT64: return U64;
  case DTYPE_INT64: return I64;
  case DTYPE_DOUBLE: return F64;
  case DTYPE_BOOL:
  case DTYPE_UINT2:
  case DTYPE_UINT4:
  case DTYPE_UINT8: return U8;
  default: return F32;
  }
}

static size_t carrier_bytes(enum carrier c) {
  static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return bytes[c];
}

static size_t wide_bytes(enum dtype t) {
  const uint32_t bits = dtype_bits(t);
  return bits < 8 ? 1 : bits / 8;
}

bool kernels_convert_takes(enum dtype type) {
  return dtype_is_integer(type) || dtype_is_float(type);
}

// ---- unpack: to the carrier --------------------------------------------------------------------

// The carriers themselves lie as they are.
static bool is_carrier(enum dtype t) {
  return t != DTYPE_BOOL && dtype_bits(t) >= 8 && !minifloat_is(t) && t != DTYPE_FLOAT16 &&
         t != DTYPE_BFLOAT16;
}

static void unpack(void *out, const void *in, size_t n, enum dtype t) {
  const uint8_t *from = in;
  uint8_t *to = out;
  if (t == DTYPE_FLOAT16) {
    kernels_f16_to_f32(out, in, n);
  } else if (t == DTYPE_BFLOAT16) {
    kernels_bf16_to_f32(out, in, n);
  } else if (minifloat_is(t)) {
    minifloat_decode(out, in, n, t);
  } else if (t == DTYPE_BOOL) {
    for (size_t i = 0; i < n; i++)
      to[i] = from[i] != 0;
  } else {
    // The sign bit, if there is one, is carried up by exclusive or and subtraction.
    const unsigned bits = dtype_bits(t);
    const uint8_t mask = (uint8_t)((1u << bits) - 1);
    const uint8_t sign = (uint8_t)(t == DTYPE_INT4 || t == DTYPE_INT2 ? 1u << (bits - 1) : 0);
    for (size_t i = 0; i < n; i++)
      to[i] = (uint8_t)(((from[i] & mask) ^ sign) - sign);
  }
}

// ---- loops between carriers --------------------------------------------------------------------

typedef void loop(void *restrict out, const void *restrict in, size_t n);

#define LOOP(from, to)                                                                             \
  static void from##_##to(void *restrict out, const void *restrict in, size_t n) {                 \
    mem_##to *o = out;                                                                             \
    const mem_##from *x = in;                                                                      \
    for (size_t i = 0; i < n; i++)                                                                 \
      o[i] = (mem_##to)x[i];                                                                       \
  }

// From one integer carrier to all, and to the floats. Signed and unsigned targets are the same
// bytes.
#define LOOPS(from, ignored)                                                                       \
  LOOP(from, U8)                                                                                   \
  LOOP(from, U16)                                                                                  \
  LOOP(from, U32)                                                                                  \
  LOOP(from, U64)                                                                                  \
  LOOP(from, F32)                                                                                  \
  LOOP(from, F64)
INTEGERS(LOOPS)

static loop *const loops[CARRIERS][CARRIERS] = {
#define ROW(from, ignored)                                                                         \
  [from] = {from##_U8,  from##_U8,  from##_U16, from##_U16, from##_U32,                            \
            from##_U32, from##_U64, from##_U64, from##_F32, from##_F64},
    INTEGERS(ROW)
#undef ROW
};

// x != 0 as a byte.
#define TRUTH(from, ignored)                                                                       \
  static void from##_truth(void *restrict out, const void *restrict in, size_t n) {                \
    uint8_t *o = out;                                                                              \
    const mem_##from *x = in;                                                                      \
    for (size_t i = 0; i < n; i++)                                                                 \
      o[i] = x[i] != 0;                                                                            \
  }
INTEGERS(TRUTH)
TRUTH(F32, float)
TRUTH(F64, double)
static loop *const truths[CARRIERS] = {U8_truth,  I8_truth,  U16_truth, I16_truth, U32_truth,
                                       I32_truth, U64_truth, I64_truth, F32_truth, F64_truth};

// Numbers strictly between two doubles, toward zero; the others are counted and become 0.
typedef size_t bounded(void *restrict out, const void *restrict in, size_t n, double above,
                       double below);
#define BOUNDED(from, to, type)                                                                    \
  static size_t from##_in_##to(void *restrict out, const void *restrict in, size_t n,              \
                               double above, double below) {                                       \
    mem_##to *o = out;                                                                             \
    const mem_##from *x = in;                                                                      \
    size_t open = 0;                                                                               \
    for (size_t i = 0; i < n; i++) {                                                               \
      const double v = (double)x[i];                                                               \
      const bool inside = v > above && v < below;                                                  \
      o[i] = (type)(inside ? v : 0);                                                               \
      open += !inside;                                                                             \
    }                                                                                              \
    return open;                                                                                   \
  }
#define BOTH_BOUNDED(to, type) BOUNDED(F32, to, type) BOUNDED(F64, to, type)
INTEGERS(BOTH_BOUNDED)
static bounded *const from_floats[2][CARRIERS] = {
#define ONE(to, ignored) [to] = F32_in_##to,
    {INTEGERS(ONE)},
#undef ONE
#define ONE(to, ignored) [to] = F64_in_##to,
    {INTEGERS(ONE)},
#undef ONE
};

static size_t floats_to_integers(void *out, const void *in, size_t n, enum carrier from,
                                 enum dtype to) {
  const unsigned bits = dtype_bits(to);
  const double power = (double)(UINT64_C(1) << (bits - 1));
  // -2^63 - 1 is no double: the next one below -2^63 has nothing between the two.
  const double above = !dtype_is_signed(to) ? -1 : bits == 64 ? -0x1.0000000000001p63 : -power - 1;
  const double below = dtype_is_signed(to) ? power : 2 * power;
  return from_floats[from == F64][carrier_of(to)](out, in, n, above, below);
}

// ---- doubles on the way to small floats --------------------------------------------------------

static double with_last_bit(double x) {
  return f64_of_bits(f64_bits(x) | 1);
}

// Bits past the 53 of a double are put together in its last one.
static double odd_double(uint64_t size) {
  if (size >> 53 == 0) return (double)size;
  const int more = 11 - __builtin_clzll(size);
  const uint64_t low = size & ((UINT64_C(1) << more) - 1);
  const double high = (double)(size - low);
  return low ? with_last_bit(high) : high;
}

static void doubles_of_long(double *out, const void *in, size_t n, bool negatives) {
  const mem_U64 *x = in;
  for (size_t i = 0; i < n; i++) {
    const bool negative = negatives && x[i] >> 63;
    const double size = odd_double(negative ? 0 - x[i] : x[i]);
    out[i] = negative ? -size : size;
  }
}

static void doubles_of_carrier(double *out, const void *in, size_t n, enum carrier from) {
  if (from == F64)
    memcpy(out, in, n * sizeof *out);
  else if (from == F32)
    kernels_f32_to_f64(out, in, n);
  else if (from == U64 || from == I64)
    doubles_of_long(out, in, n, from == I64);
  else
    loops[from][F64](out, in, n);
}

// ---- one conversion ----------------------------------------------------------------------------

// From a carrier to the target.
static size_t pack(void *out, const void *in, size_t n, enum carrier from,
                   const struct kernels_cast *c) {
  const enum dtype to = (enum dtype)c->to;
  if (to == DTYPE_BOOL) {
    truths[from](out, in, n);
    return 0;
  }
  if (dtype_is_integer(to)) {
    size_t open = 0;
    if (from == F32 || from == F64)
      open = floats_to_integers(out, in, n, from, to);
    else
      loops[from][carrier_of(to)](out, in, n);
    const uint8_t mask = (uint8_t)((1u << (dtype_bits(to) % 8)) - 1);
    for (size_t i = 0; mask && i < n; i++)
      ((uint8_t *)out)[i] &= mask;
    return open;
  }
  if (from == F32 && to == DTYPE_FLOAT) {
    memcpy(out, in, n * sizeof(float));
    return 0;
  }
  if (from == F32 && to == DTYPE_FLOAT16) {
    kernels_f32_to_f16(out, in, n);
    return 0;
  }
  if (from == F32 && to == DTYPE_BFLOAT16) {
    kernels_f32_to_bf16(out, in, n);
    return 0;
  }
  if (from < F32 && (to == DTYPE_FLOAT || to == DTYPE_DOUBLE)) {
    loops[from][carrier_of(to)](out, in, n);
    return 0;
  }
  double doubles[CHUNK];
  double *wide = to == DTYPE_DOUBLE ? out : doubles;
  doubles_of_carrier(wide, in, n, from);
  if (to == DTYPE_FLOAT) kernels_f64_to_f32(out, wide, n);
  if (to == DTYPE_FLOAT16) kernels_f64_to_f16(out, wide, n);
  if (to == DTYPE_BFLOAT16) kernels_f64_to_bf16(out, wide, n);
  return minifloat_is(to) ? minifloat_encode(out, wide, n, c) : 0;
}

static void copy(uint8_t *out, const uint8_t *in, size_t n, enum dtype t) {
  const unsigned bits = dtype_bits(t);
  if (bits >= 8) {
    if (n) memcpy(out, in, n * (bits / 8));
    return;
  }
  for (size_t i = 0; i < n; i++)
    out[i] = in[i] & (uint8_t)((1u << bits) - 1);
}

uint64_t kernels_convert(void *out, const void *in, size_t n, const struct kernels_cast *c) {
  const enum dtype from = (enum dtype)c->from, to = (enum dtype)c->to;
  assert(kernels_convert_takes(from) && kernels_convert_takes(to));
  if (from == to && to != DTYPE_BOOL) {
    copy(out, in, n, to);
    return 0;
  }
  union {
    float f[CHUNK];
    uint8_t b[CHUNK];
  } unpacked;
  const enum carrier carrier = carrier_of(from);
  assert(is_carrier(from) || carrier_bytes(carrier) * CHUNK <= sizeof unpacked);
  const uint8_t *at = in;
  uint8_t *put = out;
  uint64_t open = 0;
  for (; n > 0;) {
    const size_t m = n < CHUNK ? n : CHUNK;
    if (!is_carrier(from)) unpack(&unpacked, at, m, from);
    open += pack(put, is_carrier(from) ? (const void *)at : &unpacked, m, carrier, c);
    at += m * wide_bytes(from);
    put += m * wide_bytes(to);
    n -= m;
  }
  return open;
}
