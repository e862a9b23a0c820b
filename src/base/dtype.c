// The element types of ONNX, and the one place where a number of elements becomes a number of
// bytes.
//
// Rows are in dtype.def, in the order of their numbers. A type that the table does not know has the
// name "undefined" and no bits: whoever reads a number from a file asks dtype_known first.
//
// Types of less than a byte are packed contiguously, the first element in the lowest bits (float6
// too: four elements in three bytes). A product that would pass 2^63 - 1 is refused here and
// nowhere else.
#include "base/dtype.h"

#include <float.h>

struct dtype_row {
  const char *name;
  uint8_t bits;
  char field, kind;
};

static const struct dtype_row rows[] = {
#define DTYPE(symbol, number, name, bits, field, kind) [number] = {name, bits, field, kind},
#include "base/dtype.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

bool dtype_known(int64_t number) {
  return number > 0 && number < ROWS && rows[number].name;
}

const char *dtype_name(enum dtype t) {
  return dtype_known(t) ? rows[t].name : "undefined";
}

enum dtype dtype_by_name(struct span name) {
  for (int i = 1; i < ROWS; i++)
    if (span_is(name, rows[i].name)) return (enum dtype)i;
  return DTYPE_UNDEFINED;
}

uint32_t dtype_bits(enum dtype t) {
  return dtype_known(t) ? rows[t].bits : 0;
}

char dtype_field(enum dtype t) {
  return dtype_known(t) ? rows[t].field : '\0';
}

bool dtype_is_integer(enum dtype t) {
  return dtype_known(t) && rows[t].kind == 'i';
}

bool dtype_is_signed(enum dtype t) {
  switch (t) {
  case DTYPE_INT2:
  case DTYPE_INT4:
  case DTYPE_INT8:
  case DTYPE_INT16:
  case DTYPE_INT32:
  case DTYPE_INT64: return true;
  default: return false;
  }
}

bool dtype_is_float(enum dtype t) {
  return dtype_known(t) && rows[t].kind == 'f';
}

bool dtype_is_plain_float(enum dtype t) {
  return dtype_is_float(t) && rows[t].bits >= 16;
}

bool dtype_is_plain_number(enum dtype t) {
  return dtype_is_plain_float(t) || (dtype_is_integer(t) && rows[t].bits >= 8);
}

double dtype_largest(enum dtype t) {
  return t == DTYPE_FLOAT16    ? 65504
         : t == DTYPE_BFLOAT16 ? 0x1.fep127
         : t == DTYPE_FLOAT    ? FLT_MAX
                               : DBL_MAX;
}

bool dtype_bytes(enum dtype t, uint64_t count, uint64_t *bytes) {
  uint64_t bits = dtype_bits(t), total;
  if (bits == 0) return false;
  if (bits >= 8) return !mul_overflows(count, bits / 8, bytes) && *bytes <= INT64_MAX;
  if (mul_overflows(count, bits, &total) || total > INT64_MAX - 7) return false;
  *bytes = (total + 7) / 8;
  return true;
}
