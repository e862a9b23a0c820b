// Room: elementwise arithmetic, as ONNX's operators define it, with the same bytes on every machine.
//
// Operands come as pieces of n elements, broadcasting resolved: of each operand there are n
// elements one behind the other (stride 1), or one that stands for all (stride 0). Elements are of
// dtypes of 8 bits and more; a bool is a byte, true if it is not 0, and made as 0 or 1. Pointers
// need no alignment. The result may take the place of an operand of stride 1 and the same width;
// else it lies apart from all of them.
//
//   operation          types                       what is made
//   ADD SUB MUL        integers, floats            integers wrap
//   DIV                integers, floats            integers: toward zero; OPEN: by 0, least by -1
//   MIN MAX            integers, floats            NaN if either is; -0 is below +0
//   POW                float, float16, bfloat16    the cases of C17, F.10.4.4
//   AND OR XOR         integers, bool              by bit; of bools, of their truths
//   EQUAL              integers, floats, bool      bool
//   LESS LESS_EQUAL GREATER GREATER_EQUAL   integers, floats    bool
//   NEG                signed integers, floats     integers wrap; floats: the other sign
//   ABS                integers, floats            integers wrap
//   SIGN               integers, floats            -1, 0 (of -0 too), 1
//   RELU               signed integers, floats     x > 0 ? x : +0
//   NOT                integers, bool              by bit; of bools, of their truths
//   SQRT RECIPROCAL    floats                      IEEE 754
//   FLOOR CEIL ROUND   floats                      ROUND: ties to even; the sign of x stays, of 0 too
//   EXP LOG ERF TANH SIGMOID   floats              see below
//   WHERE              every type; the first of three operands is bool     the bytes of an element
//
// integers: int8 … int64, uint8 … uint64. floats: float, double, float16, bfloat16.
//
// Floats: every operation is the IEEE one of the type, rounded to nearest even. float16 and
// bfloat16 are computed in float and rounded once more, which for + - * / sqrt is the same.
// EXP … POW are computed in double, by our own code (functions.h), and rounded once: within 0.5001
// units of the last place; of double within 1 (EXP, LOG), 1.5 (ERF, TANH) or 2.5 (SIGMOID).
//
// A result that is NaN is the positive quiet NaN without payload (0x7fc00000, 0x7ff8000000000000,
// 0x7e00, 0x7fc0), of NEG and ABS too, whatever NaN came in: machines differ in what they hand on.
// WHERE alone copies NaNs as they are.
//
// What ONNX Runtime makes otherwise: EXP … POW are other approximations there, and of MIN, MAX and
// RELU of zeros it makes the one or the other, by their place in the tensor.
#ifndef WEIR_KERNELS_MAP_H
#define WEIR_KERNELS_MAP_H

#include "base/dtype.h"

enum kernels_map {
  KERNELS_ADD,
  KERNELS_SUB,
  KERNELS_MUL,
  KERNELS_DIV,
  KERNELS_MIN,
  KERNELS_MAX,
  KERNELS_POW,
  KERNELS_AND,
  KERNELS_OR,
  KERNELS_XOR,
  KERNELS_EQUAL,
  KERNELS_LESS,
  KERNELS_LESS_EQUAL,
  KERNELS_GREATER,
  KERNELS_GREATER_EQUAL,
  KERNELS_NEG,
  KERNELS_ABS,
  KERNELS_SIGN,
  KERNELS_RELU,
  KERNELS_NOT,
  KERNELS_SQRT,
  KERNELS_RECIPROCAL,
  KERNELS_FLOOR,
  KERNELS_CEIL,
  KERNELS_ROUND,
  KERNELS_EXP,
  KERNELS_LOG,
  KERNELS_ERF,
  KERNELS_TANH,
  KERNELS_SIGMOID,
  KERNELS_WHERE,
  KERNELS_MAPS
};

struct kernels_operand {
  const void *at;
  size_t stride; // 0 or 1
};

// How many operands an operation has: 1, 2 or 3.
unsigned kernels_map_operands(enum kernels_map op);
// The type of the result of an operation on elements of `type` (of WHERE: on the second and third
// operand), or DTYPE_UNDEFINED if there is none.
enum dtype kernels_map_result(enum kernels_map op, enum dtype type);
// n results; the number of OPEN ones, which are 0. There is a result for `type`.
uint64_t kernels_map(enum kernels_map op, enum dtype type, void *out,
                     const struct kernels_operand *operands, size_t n);

#endif
