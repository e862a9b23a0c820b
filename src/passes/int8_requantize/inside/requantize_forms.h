// What both directions share: which operator on codes stands for which float operator, how the inputs of it lie, and what
// QuantizeLinear and DequantizeLinear say of codes.
#ifndef WEIR_REQUANTIZE_FORMS_H
#define WEIR_REQUANTIZE_FORMS_H

#include "passes/kit/kit.h"

// Codes and their meaning: (code - zero) * scale.
struct form {
  uint32_t codes, scale; // values
  uint32_t zero;         // value; NO_ID: none, which is 0
  enum dtype type;       // of the codes
  enum dtype of;         // of the scale
  uint32_t n;            // scales: 1, or as many as the axis has
  int64_t axis;          // where n > 1; may be negative
};

// The inputs of an operator on codes, where x stands for codes, scale, zero; y for scale, zero.
enum requantize_layout {
  LAYOUT_UNARY,  // x y
  LAYOUT_BINARY, // a b y
  LAYOUT_CONV,   // x w y bias
  LAYOUT_GEMM,   // a b bias y; y may be missing: a float result
  LAYOUT_CONCAT, // y x…
  LAYOUT_WHERE,  // condition a b y
  LAYOUT_FLOAT,  // a b scales, then a b zeros, float bias: MatMulIntegerToFloat
  LAYOUT_MOVE,   // the operator itself, on codes that mean the same after it
  LAYOUT_NONE,
};
struct requantize_row {
  enum op plain, on_codes;
  enum requantize_layout layout;
};
// The row of a float operator, and of one on codes (not LAYOUT_MOVE); layout NONE without one.
struct requantize_row requantize_row_of(enum op plain);
struct requantize_row requantize_row_on_codes(enum op on_codes);

static inline bool requantize_is_quantize(enum op op) {
  return op == OP_QuantizeLinear || op == OP_ms_QuantizeLinear;
}
static inline bool requantize_is_dequantize(enum op op) {
  return op == OP_DequantizeLinear || op == OP_ms_DequantizeLinear;
}
// What a QuantizeLinear or DequantizeLinear says: NULL, or why not, a stable word: "parameters" (not constant, or without a
// known number of scales), "blocks", "code_types" (of the codes; not known).
const char *requantize_form_of(struct kit *k, uint32_t node, struct form *out);
// What the codes of a parameter triple say. Words as above.
const char *requantize_form(struct kit *k, uint32_t codes, uint32_t scale, uint32_t zero,
                            struct form *out);
// One scale and zero point each, and the same ones.
bool requantize_same(struct kit *k, const struct form *a, const struct form *b);
// The code of zero, where all zero points are the same.
bool requantize_zero(struct kit *k, const struct form *f, int64_t *out);
// Its zero points as a value: a new constant where it has none.
uint32_t requantize_zero_value(struct kit *k, const struct form *f);
// The numbers of a constant, in k->site, as far as they can be read (kit_long_elements).
bool requantize_numbers(struct kit *k, uint32_t value, const double **list, uint32_t *n);
// The scales of int32 codes with products of x and w: x.scale * w.scale * factor in float, the dims those of w's scales, as many as
// can be read. NO_ID: they are not known, or not finite and above 0.
uint32_t requantize_product(struct kit *k, uint32_t x_scale, uint32_t w_scale, double factor);
static inline bool requantize_is_8bit(enum dtype type) {
  return type == DTYPE_INT8 || type == DTYPE_UINT8;
}

#endif
