// A MatMul m and the Add of its bias, in the forms that Neural Compressor has for them. Who finds them where there are Q and DQ writes them
// by this: `static` from its own, `requantize` from those of the model.
//
//   DQ(a), DQ(w) ─▶ MatMul ─▶ Add(b)
//   MatMulIntegerToFloat(a, w, scales, zero points) ─▶ Add(b)                          int8_linear_to_float
//   MatMulInteger(a, w, zero points) ─▶ Add(b_quantized) ─▶ Cast ─▶ Mul(m_bias_scale)  int8_linear_to_int32
#ifndef WEIR_INT8_LINEAR_H
#define WEIR_INT8_LINEAR_H

#include "passes/int8/int8.h"

struct int8_linear {
  uint32_t node, add, bias; // MatMul and Add; what is added: a value
};

// The Add in the same graph that alone takes the node's result, and what it adds to that (*other); NO_ID: there is none.
uint32_t int8_linear_add(struct kit *k, uint32_t node, uint32_t *other);
// Is the value a vector for so many columns, [columns] or [1, columns]?
bool int8_linear_fits(struct kit *k, uint32_t bias, int64_t columns);

// Who writes has a kit_site of the MatMul. Values that the nodes read: codes, scales, zero points of both inputs.
// What only those used that go, goes with them.
void int8_linear_to_float(struct kit *k, const struct int8_linear *l, const struct int8_parts *a,
                          const struct int8_parts *w);
// `bias`: codes of int32, and the scale of the products, values. qlinear: the nodes are called <m>_quant_….
void int8_linear_to_int32(struct kit *k, const struct int8_linear *l, const struct int8_parts *a,
                          const struct int8_parts *w, const struct int8_parts *bias, bool qlinear);
// The name that the new nodes and tensors begin with, in k->site: the MatMul's, or that of what it gives.
struct span int8_linear_stem(struct kit *k, uint32_t node);
// The Q that takes what was added up gets the recipe's name, with the stem of the MatMul.
void int8_linear_name_quantize(struct kit *k, uint32_t sum, struct span stem);

#endif
