// Operators as small numbers, and what holds of an operator whatever the node.
#ifndef WEIR_KIT_OPS_H
#define WEIR_KIT_OPS_H

#include "base/span.h"

// OP_Add, OP_MatMul, … of ONNX; OP_ms_MatMulNBits, … of com.microsoft; OP_ops_Silu, … of
// onnx_passes.ops. OP_NONE: an operator without a row, or of another domain.
enum op {
  OP_NONE,
#define KIT_OP(id, domain, name, min_in, max_in, flags) OP_##id,
#include "kit_ops.def"
#undef KIT_OP
  OPS, // how many, OP_NONE included
};

enum kit_op_flag {
  KIT_UNARY = 1,       // out[i] = f(in[i]): one operand, dims as they were
  KIT_BINARY = 2,      // two operands, broadcast
  KIT_ELEMENTWISE = 4, // out[i] = f(operands[i]), broadcast; unary, binary, or more operands
  KIT_COMMUTATIVE = 8, // operands may change places
  KIT_COMPARES = 16,   // Equal, Less, …: the result is bool
  KIT_REDUCES = 32,    // ReduceSum and its kin
  KIT_RANDOM = 64,     // two equal nodes give different values
  KIT_GRAPHS = 128,    // has graphs in its attributes
  KIT_JUMPS = 256,     // an output changes by more than rounding where an input changes by rounding
  KIT_UNROUNDED = 512, // outputs are whole numbers, truth values, or signed elements of inputs
};
enum { KIT_ANY = 255 }; // inputs: no bound

enum kit_domain { KIT_ONNX, KIT_MICROSOFT, KIT_PASSES, KIT_DOMAINS };

struct kit_op_row {
  const char *name;       // as in NodeProto.op_type
  uint8_t domain;         // enum kit_domain
  uint8_t min_in, max_in; // inputs over all versions; KIT_ANY
  uint16_t flags;         // enum kit_op_flag
};

// The row of an operator; that of OP_NONE has the name "" and no flags.
const struct kit_op_row *kit_op_row(enum op op);
// As in NodeProto.domain: "", "com.microsoft", …
const char *kit_domain_name(enum kit_domain domain);
// The operator of that name in that domain ("ai.onnx" is ""), or OP_NONE.
enum op kit_op_named(struct span domain, struct span name);

static inline bool kit_op_has(enum op op, unsigned flags) {
  return (kit_op_row(op)->flags & flags) == flags;
}

#endif
