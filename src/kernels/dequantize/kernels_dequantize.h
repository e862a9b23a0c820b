// Room: dequantization: y = (code - zero) * scale, as ONNX's DequantizeLinear defines it and ONNX
// Runtime computes it.
//
//   codes        arithmetic
//   integers     code - zero is exact (8 and 16 bits; int32 has no zero point), then a float,
//                times the scale in float, rounded to nearest even
//   float8 … 4   the code as a float, times the scale in float; there is no zero point
//
// The product is then rounded to the type of the result: for float16 and bfloat16 a second time,
// which shows with codes of 16 bits and more only. A result that is NaN is the positive quiet one
// (kernels_map.h).
//
// Elements are wide (kernels_convert.h): codes below 8 bits a byte each. Pointers need no
// alignment.
#ifndef WEIR_KERNELS_DEQUANTIZE_H
#define WEIR_KERNELS_DEQUANTIZE_H

#include "kernels/map/kernels_map.h"

struct kernels_dequantized {
  uint8_t codes; // enum dtype: uint8, int8, uint16, int16, int32, uint4, int4, uint2, int2, float8*
                 // (but e8m0), float6*, float4e2m1
  uint8_t scales; // float, float16, bfloat16, float8e8m0
  uint8_t out;    // float, float16, bfloat16
};

bool kernels_dequantize_takes(const struct kernels_dequantized *d);

// n elements. Scales and zero points (of the type of the codes) are one for all (stride 0) or one
// for each (stride 1). zeros.at NULL: none; int32 and floats have none.
void kernels_dequantize(const struct kernels_dequantized *d, void *out, const void *codes,
                        struct kernels_operand scales, struct kernels_operand zeros, size_t n);

#endif
