// An optimized session multiplies by codes where the model says floats:
//
//   x ─▶ MatMul ─▶ …        x ─▶ MatMulNBits (accuracy level 4) ─▶ …
//   w ─▶ DQ ──▲             w ───────▲
//
// It rounds each block of x to 8 bits there, which costs more than passes that lose nothing may: 44 to 47 dB are left. It does so where
// codes of at most 8 bits have one scale, one for each column, or blocks of 16 rows and more, and nothing else reads the DQ. Versions up
// to 1.31 leave a MatMul whose x is dequantized as it is; 1.32 leaves only x of 8 bits, for which it has other operators.
// (Found by loading each form in 1.31.1 and 1.32.0.)
#include "verify_rounded.h"

#include "verify_products.h"

#include <stdlib.h>

enum { LEAST_BLOCK = 16, FIRST_BESIDE_CODES = 32 };

static bool is_whole(const struct model *m, uint32_t node, const char *name, int64_t want,
                     int64_t fallback) {
  int64_t x;
  return model_attr_int(m, node, name, fallback, &x) && x == want;
}

// A MatMul, or a Gemm that is one with a sum.
static bool multiplies(const struct model *m, uint32_t node) {
  const struct model_attr *alpha;
  if (model_op_is(m, node, "MatMul")) return true;
  if (!model_op_is(m, node, "Gemm")) return false;
  alpha = model_attr_named(m, node, "alpha");
  return is_whole(m, node, "transA", 0, 0) && is_whole(m, node, "transB", 0, 0) &&
         (!alpha || (alpha->type == ATTR_FLOAT && alpha->u.f == 1));
}

static bool is_short_code(enum dtype t) {
  return dtype_is_integer(t) && dtype_bits(t) <= 8;
}

// A matrix of codes whose scales such a product may have.
static bool has_codes(const struct model *m, uint32_t dequantize) {
  const struct model_node *n = &m->nodes[dequantize];
  struct model_constant codes, scales;
  int64_t axis, block;
  if (n->n_in < 2 || !model_resolve_constant(m, model_input(m, n, 0), &codes) ||
      !model_resolve_constant(m, model_input(m, n, 1), &scales))
    return false;
  const struct model_tensor *w = &m->tensors[codes.tensor], *s = &m->tensors[scales.tensor];
  if (!is_short_code((enum dtype)w->dtype) || w->rank != 2 ||
      !model_attr_int(m, dequantize, "axis", 1, &axis) ||
      !model_attr_int(m, dequantize, "block_size", 0, &block))
    return false;
  if (axis < 0) axis += w->rank;
  if (s->rank == 0) return true;
  return s->rank == 1 ? axis == 1 : axis == 0 && block >= LEAST_BLOCK;
}

// Has that version the fusion beside x of more than 8 bits?
static bool is_beside_codes(const char *version) {
  char *end;
  const unsigned long major = strtoul(version, &end, 10),
                      minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
  return major > 1 || (major == 1 && minor >= FIRST_BESIDE_CODES);
}

bool verify_rounded_at(const struct model *m, uint32_t node, const char *version) {
  const struct model_node *n = &m->nodes[node];
  if (n->flags & NODE_DEAD || n->n_in < 2 || !multiplies(m, node)) return false;
  const uint32_t w = model_input(m, n, 1), x = verify_products_codes(m, model_input(m, n, 0));
  if (w == NO_ID || m->values[w].kind != VALUE_NODE_OUTPUT || model_use_count(m, w) > 1 ||
      !model_op_is(m, m->values[w].def, "DequantizeLinear") || !has_codes(m, m->values[w].def))
    return false;
  if (x == NO_ID) return true;
  const enum dtype type = verify_products_type(m, x);
  return type != DTYPE_UNDEFINED && !is_short_code(type) && is_beside_codes(version);
}

uint64_t verify_rounded_nodes(const struct model *m, const char *version) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    n += verify_rounded_at(m, i, version);
  return n;
}

bool verify_rounded_in(const struct model *source, const struct model *result, const struct site *s,
                       const char *version) {
  for (uint32_t i = 0; i < s->n_before; i++)
    if (verify_rounded_at(source, s->before[i], version)) return true;
  for (uint32_t i = 0; i < s->n_after; i++)
    if (verify_rounded_at(result, s->after[i], version)) return true;
  return false;
}
