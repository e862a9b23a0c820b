// What Quant and its kin say, and the nodes that do it.
#ifndef WEIR_QUANT_RANGE_H
#define WEIR_QUANT_RANGE_H

#include "passes/custom_ops/inside/custom_ops_inside.h"

// The rounding modes of QONNX. The operator Quant has the first four; what it calls ROUND_TO_ZERO is QONNX's DOWN.
enum quant_rounding {
  QUANT_ROUND,
  QUANT_CEIL,
  QUANT_FLOOR,
  QUANT_TO_ZERO,
  QUANT_UP,
  QUANT_HALF_UP,
  QUANT_HALF_DOWN,
  QUANT_ROUNDINGS, // how many; and what is none of them
};
// By QONNX's words, in upper case.
enum quant_rounding quant_rounding_of(struct span word);
// The value that is x, of that type, rounded: nodes.
uint32_t quant_round(struct kit *k, enum quant_rounding how, uint32_t x, enum dtype dtype);

// The attributes of a quantizer.
struct quant_said {
  bool is_signed, narrow;
  enum quant_rounding rounding;
};
// Of a Quant that says all of them; modes that the operator does not have are ROUND, as its function has it. NULL, or a
// stable word: why it is left.
const char *quant_said_of(struct kit *k, uint32_t node, struct quant_said *out);

// What the operator Quant calls the mode; NULL: it does not have it.
const char *quant_word(enum quant_rounding how);

// Why a quantizer of four operands is left; NULL: `dtype` is what it computes in.
const char *quant_left(struct kit *k, uint32_t node, enum dtype *dtype);
// Nodes in place of the quantizer, which is the site.
void quant_write(struct kit *k, uint32_t node, const struct quant_said *said, enum dtype dtype);

// The dtype that a quantizer computes in: that of the first of the node's n operands whose type is known. UNDEFINED: no
// float, or of none it is.
enum dtype quant_dtype(struct kit *k, uint32_t node, uint32_t n);

// Least and most code of so many bits, as the type computes them. False: it is no whole number of bits, or the
// type cannot hold what is computed.
bool quant_range(const struct quant_said *said, enum dtype dtype, double bits, double *least,
                 double *most);

// The value between what so many bits can hold: nodes. `bits`: a value of the type, or of any, or a constant.
uint32_t quant_clipped(struct kit *k, const struct quant_said *said, enum dtype dtype,
                       uint32_t bits, uint32_t x);

// `bits` in the dtype: itself, or a Cast.
uint32_t quant_bits(struct kit *k, enum dtype dtype, uint32_t bits);

#endif
