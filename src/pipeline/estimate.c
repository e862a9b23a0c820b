// Nodes are asked as the passes themselves ask them, with plain options; nothing is edited.
#include "pipeline/estimate.h"

#include "passes/conv2matmul/conv2matmul.h"
#include "passes/kit/weights.h"
#include "schema/schema.h"

static const char *const op_names[] = {"MatMul", "Gemm", "Gather"};
enum { OPS = sizeof op_names / sizeof *op_names };

void estimate_convs(const struct model *m, const struct matmulnbits_scheme *scheme,
                    struct matmulnbits_survey *out) {
  static const struct conv2matmul_options plain = {.form = CONV2MATMUL_AUTO};
  enum { SEEN = 1, COUNTED = 2 }; // the weight; the bytes that are stored
  uint8_t *seen = NULL;           // by tensor
  size_t cap = 0;
  seen = table_grow(NULL, &cap, (size_t)m->n_tensors + 1, sizeof *seen);
  memset(seen, 0, (size_t)m->n_tensors + 1);
  *out = (struct matmulnbits_survey){0};
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    struct conv2matmul_match match;
    if ((m->nodes[i].flags & NODE_DEAD) || !conv2matmul_looks_at(m, i, &plain)) continue;
    conv2matmul_match(m, i, &plain, &match);
    if (!match.converts) continue;
    const struct model_tensor *t = &m->tensors[match.weight.tensor];
    const bool real =
        t->dtype == DTYPE_FLOAT || t->dtype == DTYPE_FLOAT16 || t->dtype == DTYPE_BFLOAT16;
    out->nodes++;
    if (!real || seen[match.weight.tensor] & SEEN || match.channels_in <= 0) continue;
    const uint32_t stored = weights_stored_in(m, &match.weight);
    seen[match.weight.tensor] |= SEEN;
    out->weights++;
    out->bytes_before += seen[stored] & COUNTED ? 0 : m->tensors[stored].bytes;
    seen[stored] |= COUNTED;
    out->bytes_after +=
        matmulnbits_bytes(scheme, (uint64_t)match.channels_in, (uint64_t)match.channels_out,
                          dtype_bits((enum dtype)t->dtype) / 8);
  }
  table_free(seen, cap, sizeof *seen);
}

const char *estimate_words(const struct model *m, uint32_t *op_types, struct arena *a,
                           uint64_t *bytes) {
  static const struct matmulnbits_scheme any = {.bits = 4, .block = 64};
  const char *words = NULL;
  *bytes = 0;
  for (uint32_t k = 0; k < OPS; k++) {
    struct matmulnbits_survey found;
    if (!(*op_types & 1u << k)) continue;
    matmulnbits_survey(m, &any, 1u << k, &found);
    if (found.weights == 0) *op_types &= ~(1u << k);
    if (found.weights == 0) continue;
    *bytes += found.bytes_before;
    words = arena_printf(a, "%s%s%s weight%s of %s (%s)", words ? words : "", words ? " and " : "",
                         decimal(found.weights).s, plural(found.weights), op_names[k],
                         quote_bytes(found.bytes_before).s);
  }
  return words;
}

const char *estimate_op_types(uint32_t op_types, const char *between, struct arena *a) {
  const char *words = "";
  for (uint32_t k = 0; k < OPS; k++)
    if (op_types & 1u << k)
      words = arena_printf(a, "%s%s%s", words, *words ? between : "", op_names[k]);
  return words;
}

// ---- what folding would make a weight -----------------------------------------------------------

// Of the passes that look for weights: which inputs may be one.
static const struct slots {
  const char *op_type;
  uint8_t first, last;
} slots[] = {{"MatMul", 0, 1}, {"Gemm", 0, 1}, {"Gather", 0, 0}, {"LSTM", 1, 2},
             {"GRU", 1, 2},    {"RNN", 1, 2},  {"Conv", 1, 1},   {"ConvTranspose", 1, 1}};

// Random numbers, graphs, operators of other domains and quantized weights are not folded.
static bool folds(struct schema_names *names, uint32_t node) {
  const struct model *m = names->m;
  const struct schema_operator *op = schema_of_node(names, node);
  if (!op || *op->domain || op->flags & SCHEMA_RANDOM) return false;
  return strcmp(op->name, "DequantizeLinear") != 0 && !model_has_bodies(m, node);
}

static bool reads_constants(const struct model *m, const bool *foldable,
                            const struct model_node *n) {
  struct model_constant c;
  bool any = false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const uint32_t value = model_input(m, n, i);
    if (value == NO_ID) continue;
    if (!foldable[value] && !model_resolve_constant(m, value, &c)) return false;
    any = true;
  }
  return any;
}

// A node before the maker of its inputs is not found.
const bool *estimate_foldable(const struct model *m, struct arena *a) {
  bool *foldable = arena_zalloc(a, m->n_values + (size_t)1);
  struct schema_names names;
  schema_names_init(&names, m);
  for (uint32_t g = 0; g < m->n_graphs; g++)
    for (uint32_t i = m->graphs[g].first_node; i != NO_ID; i = m->nodes[i].next) {
      const struct model_node *n = &m->nodes[i];
      if (!reads_constants(m, foldable, n) || !folds(&names, i)) continue;
      for (uint32_t k = 0; k < n->n_out; k++)
        if (model_output(m, n, k) != NO_ID) foldable[model_output(m, n, k)] = true;
    }
  schema_names_done(&names);
  return foldable;
}

bool estimate_waits_for_fold(const struct model *m, const bool *foldable, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  struct model_constant c;
  for (uint32_t k = 0; k < sizeof slots / sizeof *slots; k++) {
    if (!model_op_is(m, node, slots[k].op_type)) continue;
    for (uint32_t i = slots[k].first; i <= slots[k].last && i < n->n_in; i++) {
      const uint32_t value = model_input(m, n, i);
      if (value != NO_ID && foldable[value] && !model_resolve_constant(m, value, &c)) return true;
    }
  }
  return false;
}
