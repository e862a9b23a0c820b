// Room: conversions between all number types, as ONNX's Cast defines them (Cast-28 and the pages on
// float8, float6 and float4 of the ONNX documentation). Elements are *wide*: a type below 8 bits
// takes a byte an element, in its low bits. The bits above are clear when written and not looked at
// when read. Pointers need no alignment.
//
//   from      to          result
//   any       bool        x != 0, so NaN is true. A bool that is read is true if its byte is not 0
//   integer   integer     the low bits, read as two's complement
//   float     integer     rounded toward zero. OPEN: NaN, infinities, what is then out of range
//   any       float       rounded once, to nearest even; past the largest number, infinity.
//                         NaN keeps its sign, among float, double, float16 and bfloat16 also the
//                         top bits of its payload (kernels.h), and becomes quiet
//   any       float8      as above, but past the largest number [rounded]: `saturate`: the largest
//                         one (of infinities too); else infinity if the type has it, or NaN. NaN
//                         is 0x7f (e4m3fn), 0x7e (e5m2) with the sign, 0x80 (fnuz); -0 is 0 (fnuz)
//   any       float4, 6   as above, always saturated. OPEN: NaN; float6: -0 and what rounds to it
//   any       float8e8m0  a power of two, by `round` (past 2^127: `saturate` 2^127, else NaN); NaN
//                         is 0xff; 0 is 2^-127 if `saturate` and rounded up. OPEN: other zeros,
//                         negative numbers, infinities, below 2^-126, above the largest float
//
// A type to itself is a copy of bytes (bool: of 0 and 1; below 8 bits: of the low bits).
//
// OPEN: the standard leaves the result open, or its text and its reference implementation differ.
// Such an element becomes 0 and is counted: what asked for the conversion cannot then stand for the
// Cast node. Rounding is in one step by the standard ("rounded to the target mantissa width"); ONNX
// Runtime goes from double and from 64-bit integers to types below float by way of float, and may
// differ there in the last place.
#ifndef WEIR_KERNELS_CONVERT_H
#define WEIR_KERNELS_CONVERT_H

#include "base/dtype.h"

// The attribute round_mode; ties of NEAREST go up.
enum kernels_round { KERNELS_ROUND_UP, KERNELS_ROUND_DOWN, KERNELS_ROUND_NEAREST };

struct kernels_cast {
  uint8_t from, to; // enum dtype
  bool saturate;    // float8 targets
  uint8_t round;    // enum kernels_round; float8e8m0 as target
};

// Numbers: every dtype but string, complex64, complex128 and undefined.
bool kernels_convert_takes(enum dtype type);

// n elements of `in` to `out`, which do not overlap; the number of OPEN ones.
uint64_t kernels_convert(void *out, const void *in, size_t n, const struct kernels_cast *c);

#endif
