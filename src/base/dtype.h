// Element types: their ONNX numbers, names and sizes. Rows live in dtype.def.
#ifndef WEIR_DTYPE_H
#define WEIR_DTYPE_H

#include "base/span.h"

enum dtype {
  DTYPE_UNDEFINED = 0,
#define DTYPE(symbol, number, ...) DTYPE_##symbol = number,
#include "base/dtype.def"
};

// True for a number that dtype.def knows (DTYPE_UNDEFINED is not known).
bool dtype_known(int64_t number);
// "float", "int4", …; "undefined" for what is not known.
const char *dtype_name(enum dtype t);
// The dtype of that name, or DTYPE_UNDEFINED.
enum dtype dtype_by_name(struct span name);
// Bits of one element; 0 for string and undefined.
uint32_t dtype_bits(enum dtype t);
// The typed field of TensorProto that may hold it: 'F' 'I' 'L' 'D' 'U' 'S' (dtype.def).
char dtype_field(enum dtype t);
bool dtype_is_integer(enum dtype t); // bool, int*, uint*
bool dtype_is_signed(enum dtype t);  // int*
bool dtype_is_float(enum dtype t);   // float*, bfloat16, double
// What operators compute in: float, double, float16, bfloat16; and these or whole bytes of integers.
bool dtype_is_plain_float(enum dtype t);
bool dtype_is_plain_number(enum dtype t);
// The largest finite number of a plain float type.
double dtype_largest(enum dtype t);

// Bytes of `count` contiguous elements: ceil(count * bits / 8). False if it passes 2^63 - 1 or the
// type has no byte form (string, undefined).
bool dtype_bytes(enum dtype t, uint64_t count, uint64_t *bytes);

#endif
