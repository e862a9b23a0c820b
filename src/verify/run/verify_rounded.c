// An optimized session multiplies by codes where the model says floats:
//
//   x ─▶ MatMul ─▶ …        x ─▶ MatMulNBits (accuracy level 4) ─▶ …
//   w ─▶ DQ ──▲             w ───────▲
//
// It rounds each block of x to 8 bits there, which costs more than passes that lose nothing may: 44 to 47 dB are left. By version:
//
//   1.20 to 1.24   MatMul, codes of 4 bits in blocks of 16 rows and more
//   from 1.25 on   Gemm too; codes of at most 8 bits; one scale, or one for each column
//   up to 1.26     also where something else reads the DQ
//   from 1.32 on   also where x is dequantized, but from 8 bits: for those there are other operators
//
// (Each was found by loading such a model.)
#include "verify/run/verify_rounded.h"

#include "base/version_number.h"
#include "verify/run/verify_products.h"

enum { LEAST_BLOCK = 16, FIRST_OF_ALL = 25, LAST_SHARED = 26, FIRST_BESIDE_CODES = 32 };

static bool is_whole(const struct model *m, uint32_t node, const char *name, int64_t want,
                     int64_t fallback) {
  int64_t x;
  return model_attr_int(m, node, name, fallback, &x) && x == want;
}

// A MatMul, or a Gemm that is one with a sum.
static bool multiplies(const struct model *m, uint32_t node, uint32_t minor) {
  const struct model_attr *alpha;
  if (model_op_is(m, node, "MatMul")) return true;
  if (minor < FIRST_OF_ALL || !model_op_is(m, node, "Gemm")) return false;
  alpha = model_attr_named(m, node, "alpha");
  return is_whole(m, node, "transA", 0, 0) && is_whole(m, node, "transB", 0, 0) &&
         (!alpha || (alpha->type == ATTR_FLOAT && alpha->u.f == 1));
}

static bool is_short_code(enum dtype t) {
  return dtype_is_integer(t) && dtype_bits(t) <= 8;
}

// A matrix of codes whose scales such a product may have.
static bool has_codes(const struct model *m, uint32_t dequantize, uint32_t minor) {
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
  if (minor < FIRST_OF_ALL && (dtype_bits((enum dtype)w->dtype) != 4 || s->rank < 2)) return false;
  if (s->rank == 0) return true;
  return s->rank == 1 ? axis == 1 : axis == 0 && block >= LEAST_BLOCK;
}

// Not all uses are counted: a weight may have very many, each of which asks.
static bool is_shared(const struct model *m, uint32_t value) {
  uint32_t n = m->values[value].n_graph_outputs;
  for (uint32_t ref = m->values[value].first_use; ref != NO_ID && n < 2; ref = m->refs[ref].next)
    n++;
  return n > 1;
}

// The 32 of 1.32.0; of a later major version as many as there may be.
static uint32_t minor_of(const char *version) {
  const struct version_numbers v = version_numbers(version);
  return v.major > 1 ? UINT32_MAX : (uint32_t)min_u64(v.minor, UINT32_MAX);
}

// Does an optimized session of that version of ONNX Runtime round the first input of the node?
static bool rounds_at(const struct model *m, uint32_t node, const char *version) {
  const struct model_node *n = &m->nodes[node];
  const uint32_t minor = minor_of(version);
  if (n->flags & NODE_DEAD || n->n_in < 2 || !multiplies(m, node, minor)) return false;
  const uint32_t w = model_input(m, n, 1), x = verify_products_codes(m, model_input(m, n, 0));
  if (w == NO_ID || m->values[w].kind != VALUE_NODE_OUTPUT ||
      !model_op_is(m, m->values[w].def, "DequantizeLinear") ||
      !has_codes(m, m->values[w].def, minor))
    return false;
  if (minor > LAST_SHARED && is_shared(m, w)) return false;
  if (x == NO_ID) return true;
  const enum dtype type = verify_products_type(m, x);
  return type != DTYPE_UNDEFINED && !is_short_code(type) && minor >= FIRST_BESIDE_CODES;
}

uint64_t verify_rounded_nodes(const struct model *m, const char *version) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    n += rounds_at(m, i, version);
  return n;
}

bool verify_rounded_in(const struct model *source, const struct model *result, const struct site *s,
                       const char *version) {
  for (uint32_t i = 0; i < s->n_before; i++)
    if (rounds_at(source, s->before[i], version)) return true;
  for (uint32_t i = 0; i < s->n_after; i++)
    if (rounds_at(result, s->after[i], version)) return true;
  return false;
}
