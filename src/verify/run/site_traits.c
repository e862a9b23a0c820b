// What verification asks of a site before it trusts what a run of it says (site_traits.h).
//
// Nothing here knows of a run: the answers are of the rows of a model, or of the elements of arrays, and depend on no order.
#include "verify/run/site_traits.h"

#include <string.h>

uint32_t site_traits_bits(const struct model *m, const uint32_t *nodes, uint32_t n,
                          const struct model_constant *constants, uint32_t n_constants) {
  uint32_t least = 64;
  for (uint32_t i = 0; i < n; i++) {
    const struct span op = model_name(m, m->nodes[nodes[i]].op_type);
    int64_t bits;
    if (!span_is(op, "MatMulNBits") && !span_is(op, "GatherBlockQuantized") && !span_is(op, "QMoE"))
      continue;
    if (model_attr_int(m, nodes[i], "bits", 4, &bits) && bits > 0 && bits < least)
      least = (uint32_t)bits;
  }
  for (uint32_t i = 0; i < n_constants; i++) {
    const struct model_tensor *t = &m->tensors[constants[i].tensor];
    const uint32_t bits = dtype_bits(t->dtype);
    // Shapes, axes and scalars are not weights.
    if (bits == 0 || t->dtype == DTYPE_INT64 || t->dtype == DTYPE_INT32 || t->dtype == DTYPE_BOOL ||
        t->bytes < 16)
      continue;
    if (bits < least) least = bits;
  }
  return least;
}

static int is_flat(const struct array *x, bool *flat, struct err *err) {
  enum { LOOKED = 1 << 16 };
  const uint32_t width = dtype_bits(x->dtype) / 8;
  const size_t n = x->bytes < LOOKED ? (size_t)x->bytes : LOOKED;
  *flat = false;
  if (x->kind != ARRAY_TENSOR || x->count < 8 ||
      !(dtype_is_plain_float(x->dtype) || x->dtype == DTYPE_BOOL))
    return 0;
  struct arena scratch = {0};
  uint8_t *at = arena_alloc(&scratch, LOOKED);
  const int rc = array_read(x, 0, at, n, err);
  *flat = rc == 0;
  for (size_t i = width; i + width <= n && *flat; i += width)
    *flat = memcmp(at, at + i, width) == 0;
  arena_free(&scratch);
  return rc;
}

int site_traits_flat(const struct arrays *x, uint32_t first, bool *flat, struct err *err) {
  *flat = false;
  for (uint32_t i = first; i < x->n && !*flat; i++)
    if (is_flat(&x->list[i], flat, err)) return -1;
  return 0;
}

bool site_traits_made(const struct model *m, const uint32_t *nodes, uint32_t n, uint32_t value) {
  if (value == NO_ID || m->values[value].kind != VALUE_NODE_OUTPUT) return false;
  for (uint32_t i = 0; i < n; i++)
    if (nodes[i] == m->values[value].def) return true;
  return false;
}

bool site_traits_bounded(const struct model *m, uint32_t node) {
  static const char *const words[] = {
      "Clip",  "Min",       "Max",       "HardSigmoid",     "HardSwish",
      "Relu6", "FusedConv", "FusedGemm", "ThresholdedRelu", "Shrink"};
  const struct span op = model_name(m, m->nodes[node].op_type);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (span_is(op, words[i])) return true;
  return false;
}

bool site_traits_uneven(const struct model *m, const uint32_t *nodes, uint32_t n) {
  static const char *const words[] = {
      "Acos", "Acosh", "Asin", "Asinh", "Atan",    "Atanh", "Celu",     "Cos",  "Cosh",
      "Elu",  "Erf",   "Exp",  "Gelu",  "Log",     "Mish",  "Pow",      "Selu", "Sin",
      "Sinh", "Tan",   "Tanh", "Silu",  "Sigmoid", "Swish", "Softplus", "Log2"};
  for (uint32_t i = 0; i < n; i++) {
    const struct span op = model_name(m, m->nodes[nodes[i]].op_type);
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
      if (span_is(op, words[k])) return true;
  }
  return false;
}
