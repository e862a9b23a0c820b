// Numbers for a value that is quantized by parameters which were found beforehand: what is drawn lies where its codes do.
//
//   drawn in [-3.1, 2.7], QuantizeLinear of codes for [-0.2, 1.3]     every number times 0.2 / 3.1
//                         QuantizeLinear of codes for [-1400, 100]    every number times 100 / 2.7
//                         DequantizeLinear makes it                   the same by its codes
//
// Numbers that are far beyond would all become the first or last code, and sites would be judged by what clipping does; numbers
// that are smaller than a step would all become zero. The model sees neither where calibration saw its data.
#include "verify_codes.h"

#include <math.h>

// The only element of a constant.
static bool scalar(const struct model *m, uint32_t value, enum dtype *dtype, int64_t *bits) {
  struct model_constant c;
  struct span raw;
  if (value == NO_ID || !model_resolve_constant(m, value, &c) ||
      !model_small_value(m, c.tensor, &raw))
    return false;
  *dtype = (enum dtype)m->tensors[c.tensor].dtype;
  const size_t n = dtype_bits(*dtype) / 8;
  if (n == 0 || n > 4 || raw.n != n) return false;
  uint32_t x = 0;
  memcpy(&x, raw.at, n);
  const uint32_t sign = (uint32_t)1 << (8 * n - 1);
  const bool is_signed = *dtype == DTYPE_INT8 || *dtype == DTYPE_INT16;
  *bits = is_signed && x & sign ? (int64_t)x - 2 * (int64_t)sign : (int64_t)x;
  return true;
}

// What codes of the node's scale and zero point stand for, if each is one constant: its inputs 1 and 2. (Those of 32 bits are sums, which
// clip nothing.)
static bool codes_stand_for(const struct model *m, const struct model_node *n, double *low,
                            double *high) {
  enum dtype type, codes;
  int64_t bits, zero;
  float scale;
  if (!scalar(m, model_input(m, n, 1), &type, &bits) || type != DTYPE_FLOAT ||
      !scalar(m, model_input(m, n, 2), &codes, &zero) || !dtype_is_integer(codes) ||
      dtype_bits(codes) > 16)
    return false;
  const uint32_t word = (uint32_t)bits;
  memcpy(&scale, &word, sizeof scale);
  const int64_t count = (int64_t)1 << dtype_bits(codes);
  const bool is_signed = codes == DTYPE_INT8 || codes == DTYPE_INT16;
  const int64_t least = is_signed ? -count / 2 : 0;
  *low = (double)(least - zero) * scale;
  *high = (double)(least + count - 1 - zero) * scale;
  return true;
}

// Of any domain: com.microsoft has both operators too.
static bool is_op(const struct model *m, uint32_t node, const char *name) {
  return node != NO_ID && span_is(model_name(m, m->nodes[node].op_type), name);
}

// What codes of the QuantizeLinear that reads the value, or of the DequantizeLinear that makes it, stand for.
static bool codes_for(const struct model *m, uint32_t value, double *low, double *high) {
  for (uint32_t u = m->values[value].first_use; u != NO_ID; u = m->refs[u].next) {
    const uint32_t node = m->refs[u].node;
    if (is_op(m, node, "QuantizeLinear") && model_input(m, &m->nodes[node], 0) == value &&
        codes_stand_for(m, &m->nodes[node], low, high))
      return true;
  }
  const uint32_t maker = m->values[value].kind == VALUE_NODE_OUTPUT ? m->values[value].def : NO_ID;
  return is_op(m, maker, "DequantizeLinear") && codes_stand_for(m, &m->nodes[maker], low, high);
}

void verify_codes_fit(const struct model *m, uint32_t value, struct arena *a, struct array *x) {
  double low, high, factor = INFINITY;
  if (x->dtype != DTYPE_FLOAT || !x->at || x->bytes != x->count * sizeof(float) ||
      !codes_for(m, value, &low, &high))
    return;
  float *out = arena_copy(a, x->at, x->bytes);
  for (uint64_t i = 0; i < x->count; i++) {
    if (out[i] > 0 && high > 0) factor = fmin(factor, high / (double)out[i]);
    if (out[i] < 0 && low < 0) factor = fmin(factor, low / (double)out[i]);
  }
  if (isinf(factor)) factor = 1;
  for (uint64_t i = 0; i < x->count; i++)
    out[i] = (float)fmin(fmax((double)out[i] * factor, low), high);
  x->at = (const uint8_t *)out;
}
