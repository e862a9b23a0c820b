// How much there is to quantize, from shapes and types alone: for those who ask before they run a
// pass.
//
// Each node is asked what the pass itself would decide with plain options. Weights count once,
// however many nodes use them, and as if nothing else did.
#include "nbits.h"

uint64_t matmulnbits_bytes(const struct matmulnbits_scheme *s, uint64_t k, uint64_t columns,
                           uint64_t width) {
  const uint64_t blocks = (k - 1) / s->block + 1;
  return columns * (blocks * (s->block * s->bits / 8 + width) + (blocks * s->bits + 7) / 8);
}

// As a matrix of k rows, along which blocks run. False where its dims have no product.
static bool shape_of(const struct model *m, const struct nbits_site *site, uint64_t *k,
                     uint64_t *columns) {
  const struct model_tensor *t = &m->tensors[site->weight.tensor];
  const int64_t *dims = model_dims(m, t);
  int64_t turned = 0;
  uint64_t count;
  *k = (uint64_t)dims[t->rank - 2];
  *columns = (uint64_t)dims[t->rank - 1];
  if (site->op == MATMULNBITS_GEMM) model_attr_int(m, site->node, "transB", 0, &turned);
  if (site->op != MATMULNBITS_GATHER && site->transposed == (turned != 0)) return true;
  if (!dims_product(dims, t->rank, &count)) return false;
  *k = *columns;
  *columns = count / *k;
  return true;
}

static uint64_t bytes_after(const struct model *m, const struct nbits_site *site) {
  const struct model_tensor *t = &m->tensors[site->weight.tensor];
  uint64_t k, columns;
  if (!shape_of(m, site, &k, &columns)) return t->bytes;
  return matmulnbits_bytes(&site->scheme, k, columns, dtype_bits((enum dtype)t->dtype) / 8);
}

void matmulnbits_survey(const struct model *m, const struct matmulnbits_scheme *scheme,
                        uint32_t op_types, struct matmulnbits_survey *out) {
  struct matmulnbits_options options = {.scheme = *scheme, .op_types = op_types};
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

// Half the block is worth a word if the codes of all weights together take fewer bytes with it.
uint32_t nbits_narrow(const struct model *m, const struct nbits_site *sites, uint32_t n,
                      uint32_t *better) {
  uint64_t most = 0, now = 0, then = 0;
  uint32_t narrow = 0, block = 0;
  *better = 0;
  uint8_t *seen = NULL; // by tensor
  size_t cap = 0;
  seen = table_grow(NULL, &cap, (size_t)m->n_tensors + 1, sizeof *seen);
  for (uint32_t turn = 0; turn < 2; turn++) { // first how many, then with the better block
    memset(seen, 0, (size_t)m->n_tensors + 1);
    for (uint32_t i = 0; i < n; i++) {
      uint64_t k, columns;
      struct matmulnbits_scheme half = sites[i].scheme;
      if (!sites[i].converts || sites[i].pinned || sites[i].weight.tensor == NO_ID ||
          seen[sites[i].weight.tensor]++ || !shape_of(m, &sites[i], &k, &columns))
        continue;
      block = half.block;
      half.block = *better;
      narrow += turn == 0 && k < block;
      if (turn == 0 && k < block && k > most) most = k;
      if (turn == 0) continue;
      now += matmulnbits_bytes(&sites[i].scheme, k, columns, 4);
      then += matmulnbits_bytes(&half, k, columns, 4);
    }
    if (turn == 0)
      for (*better = block; *better / 2 >= most && *better > 16;)
        *better /= 2;
  }
  table_free(seen, cap, sizeof *seen);
  return then < now ? narrow : 0;
}
