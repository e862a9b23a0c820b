// How much there is to quantize, from shapes and types alone: for those who ask before they run a
// pass.
//
// Each node is asked what the pass itself would decide with plain options, but for constants that say sizes, which are few and
// small. Weights count once,
// however many nodes use them, and as if nothing did but operators that could be chosen; codes once for
// products and once for tables.
#include "passes/kit/weights.h"
#include "passes/nbits/inside/nbits.h"

uint64_t matmulnbits_bytes(const struct matmulnbits_scheme *s, uint64_t k, uint64_t columns,
                           uint64_t width) {
  const uint64_t blocks = (k - 1) / s->block + 1;
  return columns * (blocks * (s->block * s->bits / 8 + width) + (blocks * s->bits + 7) / 8);
}

bool nbits_shape(const struct model *m, const struct nbits_site *site, uint64_t *k,
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
  if (!nbits_shape(m, site, &k, &columns)) return t->bytes;
  return matmulnbits_bytes(&site->scheme, k, columns, dtype_bits((enum dtype)t->dtype) / 8);
}

void matmulnbits_survey(const struct model *m, const struct matmulnbits_scheme *scheme,
                        uint32_t op_types, struct matmulnbits_survey *out) {
  enum { PRODUCT = 1, TABLE = 2, ELSEWHERE = 4, CHOSEN = PRODUCT | TABLE };
  struct matmulnbits_options options = {.scheme = *scheme, .op_types = MATMULNBITS_ALL_OPS};
  struct arena scratch = {0};
  uint8_t *seen = arena_zalloc(&scratch, m->n_tensors + (size_t)1); // by tensor
  bool *counted = arena_zalloc(&scratch, m->n_tensors + (size_t)1); // by tensor: what is stored
  *out = (struct matmulnbits_survey){0};
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    struct nbits_site site = {.node = i};
    if (m->nodes[i].flags & NODE_DEAD) continue;
    site.op = (enum matmulnbits_op)nbits_looks_at(m, i, options.op_types);
    if (!site.op) continue;
    nbits_match(m, &options, &site);
    if (!site.converts) continue;
    uint8_t *of_weight = &seen[site.weight.tensor];
    const uint8_t use = !(site.op & op_types)           ? ELSEWHERE
                        : site.op == MATMULNBITS_GATHER ? TABLE
                                                        : PRODUCT;
    out->nodes += use != ELSEWHERE;
    if (*of_weight & use) continue;
    if (use != ELSEWHERE && !(*of_weight & CHOSEN)) {
      out->weights++;
      const uint32_t stored = weights_stored_in(m, &site.weight);
      out->bytes_before += counted[stored] ? 0 : m->tensors[stored].bytes;
      counted[stored] = true;
    }
    if (use != ELSEWHERE) out->bytes_after += bytes_after(m, &site);
    *of_weight |= use;
  }
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (seen[i] & CHOSEN && seen[i] & ELSEWHERE) out->bytes_kept += m->tensors[i].bytes;
  arena_free(&scratch);
}

// MatMulNBits alone stores whole blocks, and what is pinned to another block size is not asked.
static bool may_be_half_empty(const struct matmulnbits_options *o, const struct nbits_site *s) {
  return s->converts && s->op != MATMULNBITS_GATHER && s->scheme.block == o->scheme.block;
}

void nbits_half_empty(const struct model *m, const struct matmulnbits_options *o,
                      const struct nbits_site *sites, uint32_t n, struct nbits_half_empty *out) {
  *out = (struct nbits_half_empty){0};
  if (o->qdq || o->budget > 0 || o->scheme.block <= NBITS_LEAST_BLOCK) return;
  struct arena scratch = {0};
  enum { COUNTED = 1, SUMMED = 2 };
  uint8_t *seen = arena_zalloc(&scratch, m->n_tensors + (size_t)1); // by tensor
  uint64_t now = 0, then = 0, k, columns;
  for (uint32_t i = 0; i < n; i++) {
    if (!may_be_half_empty(o, &sites[i]) || !nbits_shape(m, &sites[i], &k, &columns)) continue;
    if (2 * k > o->scheme.block) continue;
    if (out->block == 0) out->block = NBITS_LEAST_BLOCK;
    while (out->block < k)
      out->block *= 2;
    out->weights += !(seen[sites[i].weight.tensor] & COUNTED);
    seen[sites[i].weight.tensor] |= COUNTED;
  }
  for (uint32_t i = 0; out->weights > 0 && i < n; i++) {
    struct matmulnbits_scheme fitting = sites[i].scheme;
    fitting.block = out->block;
    if (!may_be_half_empty(o, &sites[i]) || !nbits_shape(m, &sites[i], &k, &columns) ||
        seen[sites[i].weight.tensor] & SUMMED)
      continue;
    seen[sites[i].weight.tensor] |= SUMMED;
    now += matmulnbits_bytes(&sites[i].scheme, k, columns, 4);
    then += matmulnbits_bytes(&fitting, k, columns, 4);
  }
  out->smaller = then < now;
  arena_free(&scratch);
}
