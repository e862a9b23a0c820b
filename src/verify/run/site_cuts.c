#include "site_cuts.h"

#if defined __x86_64__
#include <cpuid.h>

static bool has_vnni(void) {
  enum { AVX512_VNNI = 1 << 11, AVX_VNNI = 1 << 4 };
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && c & AVX512_VNNI) return true;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & AVX_VNNI;
}
#else
static bool has_vnni(void) {
  return true; // or no need of it
}
#endif

// A constant matrix of int8, or one of more dims, that is no table and is not dequantized first.
static bool multiplies_int8(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  struct model_constant c;
  if (model_op_is(m, node, "Gather") || span_is(model_name(m, n->op_type), "DequantizeLinear"))
    return false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const uint32_t value = model_input(m, n, i);
    if (value != NO_ID && model_resolve_constant(m, value, &c) &&
        m->tensors[c.tensor].dtype == DTYPE_INT8 && m->tensors[c.tensor].rank >= 2)
      return true;
  }
  return false;
}

bool site_cuts_here(void) {
  return !has_vnni();
}

bool site_cuts_products(const struct model *result, const struct site *s) {
  for (uint32_t i = 0; i < s->n_after && !has_vnni(); i++)
    if (multiplies_int8(result, s->after[i])) return true;
  return false;
}
