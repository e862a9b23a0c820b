// Inside the room of custom operators.
#ifndef WEIR_CUSTOM_OPS_INSIDE_H
#define WEIR_CUSTOM_OPS_INSIDE_H

#include "kit.h"

#define CUSTOM_OPS_DOMAIN "onnx_passes.ops"

// By function, NULL behind the last: custom_ops_text.c says how to read them.
extern const char *const custom_ops_texts[];

extern const struct pass custom_ops_inject, custom_ops_inline, custom_ops_inline_quant,
    custom_ops_fold_quant, custom_ops_import;

// The rounding modes of QONNX. The operator Quant has the first four; what it calls ROUND_TO_ZERO is QONNX's DOWN.
enum custom_ops_rounding {
  CUSTOM_OPS_ROUND,
  CUSTOM_OPS_CEIL,
  CUSTOM_OPS_FLOOR,
  CUSTOM_OPS_TO_ZERO,
  CUSTOM_OPS_UP,
  CUSTOM_OPS_HALF_UP,
  CUSTOM_OPS_HALF_DOWN,
  CUSTOM_OPS_ROUNDINGS, // how many; and what is none of them
};
// By QONNX's words, in upper case.
enum custom_ops_rounding custom_ops_rounding_of(struct span word);
// Nodes that round x, and the value. `scalar`: makes a number of x's type.
uint32_t custom_ops_round(struct kit *k, enum custom_ops_rounding how, uint32_t x,
                          enum dtype dtype);

#endif
