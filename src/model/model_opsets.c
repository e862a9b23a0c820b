// Versions of operator sets: a list of imports is the model's, or a function's own.
//
//   opsets       │ "" 17 │ ai.onnx.ml 3 │ … the model's … │ "" 17 │ … a function's … │
//
// Lists are short, and are walked. One of thousands of imports would be walked for every node, so
// those of long lists are found by (first row, domain) in a hash table, made when the first of them
// is asked about. Rows of a list that has moved stay in it: no list begins there any more.
#include "model/inside/model_memory.h"

enum { FEW = 16 };

// ---- long lists --------------------------------------------------------------------------------

// The slot that has the domain in the list, or the free one where it would be.
static uint32_t *slot_of(const struct model *m, uint32_t first, uint32_t n, uint32_t domain) {
  const struct model_memory *k = m->memory;
  const uint32_t key[2] = {first, domain};
  for (uint64_t at = span_hash(span_of(key, sizeof key));; at++) {
    uint32_t *slot = &k->opset_slots[at & (k->n_opset_slots - 1)];
    if (*slot == 0) return slot;
    const uint32_t row = *slot - 1;
    if (row >= first && row - first < n && m->opsets[row].domain == domain) return slot;
  }
}

// The first row of a domain counts.
static void enter_list(const struct model *m, uint32_t first, uint32_t n) {
  if (n <= FEW) return;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t *slot = slot_of(m, first, n, m->opsets[first + i].domain);
    m->memory->opset_steps++;
    if (*slot) continue;
    *slot = first + i + 1;
    m->memory->n_opset_entries++;
  }
}

static void enter_lists(const struct model *m) {
  struct model_memory *k = m->memory;
  uint32_t size = 64;
  while (size / 4 < m->n_opsets + 1)
    size *= 2;
  TABLE_FREE(k, opset_slots);
  TABLE_ADD(k, opset_slots, size);
  k->n_opset_entries = 0;
  k->opsets_known = true;
  enter_list(m, 0, m->n_model_opsets);
  for (uint32_t i = 0; i < m->n_functions; i++)
    enter_list(m, m->functions[i].opsets, m->functions[i].n_opsets);
}

void model_opsets_moved(struct model *m, uint32_t first, uint32_t n) {
  struct model_memory *k = m->memory;
  if (n > k->n_opset_slots / 2 - k->n_opset_entries) k->opsets_known = false;
  if (k->opsets_known) enter_list(m, first, n);
}

void model_opsets_shifted(struct model *m) {
  m->memory->opsets_known = false;
}

// ---- the question ------------------------------------------------------------------------------

static int64_t version_in_long(const struct model *m, uint32_t first, uint32_t n,
                               struct span domain) {
  if (!m->memory->opsets_known) enter_lists(m);
  const uint32_t name = model_find_name(m, domain);
  if (name == NO_ID) return 0;
  m->memory->opset_steps++;
  const uint32_t row = *slot_of(m, first, n, name);
  return row ? m->opsets[row - 1].version : 0;
}

int64_t model_opset_version(const struct model *m, uint32_t graph, struct span domain) {
  if (model_domain_is_onnx(domain)) domain.n = 0;
  graph = model_root_graph(m, graph);
  uint32_t first = 0, n = m->n_model_opsets;
  if (m->graphs[graph].kind == GRAPH_FUNCTION) {
    const struct model_function *f = &m->functions[m->graphs[graph].owner];
    first = f->opsets;
    n = f->n_opsets;
  }
  if (n > FEW) return version_in_long(m, first, n, domain);
  for (uint32_t i = 0; i < n; i++)
    if (span_eq(model_name(m, m->opsets[first + i].domain), domain))
      return m->opsets[first + i].version;
  return 0;
}
