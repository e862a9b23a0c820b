// How much there is to quantize, from shapes and types alone: for those who ask before they run a
// pass.
//
// Each node is asked what the pass itself would decide with plain options. Weights count once,
// however many nodes use them, and as if nothing else did.
#include "nbits.h"

// Bytes of codes, scales and zero points of `columns` columns of k elements.
static uint64_t bytes_of(const struct matmulnbits_scheme *s, uint64_t k, uint64_t columns,
                         uint64_t width) {
  const uint64_t blocks = (k - 1) / s->block + 1;
  return columns * (blocks * (s->block * s->bits / 8 + width) + (blocks * s->bits + 7) / 8);
}

static uint64_t bytes_after(const struct model *m, const struct nbits_site *site) {
  const struct model_tensor *t = &m->tensors[site->weight.tensor];
  const int64_t *dims = model_dims(m, t);
  const uint64_t rows = (uint64_t)dims[t->rank - 2], columns = (uint64_t)dims[t->rank - 1];
  const uint64_t width = dtype_bits((enum dtype)t->dtype) / 8;
  int64_t turned = 0;
  uint64_t count;
  if (site->op == MATMULNBITS_GEMM) model_attr_int(m, site->node, "transB", 0, &turned);
  if (site->op == MATMULNBITS_GATHER || site->transposed != (turned != 0))
    return dims_product(dims, t->rank, &count)
               ? bytes_of(&site->scheme, columns, count / columns, width)
               : t->bytes;
  return bytes_of(&site->scheme, rows, columns, width);
}

void matmulnbits_survey(const struct model *m, const struct matmulnbits_scheme *scheme,
                        struct matmulnbits_survey *out) {
  struct matmulnbits_options options = {
      .scheme = *scheme, .op_types = MATMULNBITS_MATMUL | MATMULNBITS_GEMM | MATMULNBITS_GATHER};
  uint8_t *seen = NULL; // by tensor
  size_t cap = 0;
  seen = table_grow(NULL, &cap, (size_t)m->n_tensors + 1, sizeof *seen);
  memset(seen, 0, (size_t)m->n_tensors + 1);
  *out = (struct matmulnbits_survey){0};
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    struct nbits_site site = {.node = i};
    if (m->nodes[i].flags & NODE_DEAD) continue;
    site.op = (enum matmulnbits_op)nbits_looks_at(m, i, options.op_types);
    if (!site.op) continue;
    nbits_match(m, &options, &site);
    out->nodes += site.converts;
    if (!site.converts || seen[site.weight.tensor]) continue;
    seen[site.weight.tensor] = 1;
    out->weights++;
    out->bytes_before += m->tensors[site.weight.tensor].bytes;
    out->bytes_after += bytes_after(m, &site);
  }
  table_free(seen, cap, sizeof *seen);
}
