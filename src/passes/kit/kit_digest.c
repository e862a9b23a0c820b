// The digest of what a graph computes, to see that passes go round in a circle:
//
//   value = H(operator, attributes, digests of its operands; of two that may change places in any order)
//   graph = H(values of its nodes in any order, values of its outputs)
//
// Names of what is made in between do not count, nor does where nodes stand and how attributes are spelled.
#include "kit_inside.h"

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

static uint64_t text_hash(const struct model *m, uint32_t name) {
  return span_hash(model_name(m, name));
}

// Constants by their recipe, so that the same number made twice is the same.
static uint64_t source_hash(struct kit *k, uint32_t value) {
  const struct model *m = k->m;
  struct model_constant c;
  if (model_resolve_constant(m, value, &c)) {
    const struct model_tensor *t = &m->tensors[c.tensor];
    return t->recipe != NO_ID ? mix(1, t->recipe) : mix(2, c.tensor);
  }
  return mix(3, text_hash(m, m->values[value].name));
}

static uint64_t node_hash(struct kit *k, const uint64_t *hashes, uint32_t node) {
  uint32_t tensor;
  const struct model_node *n = &k->m->nodes[node];
  const uint32_t n_in = kit_n_in(k, node);
  uint64_t h = mix(mix(4, text_hash(k->m, n->op_type)), kit_attrs_hash(k, node)), sum = 0;
  const bool turns = n_in == 2 && kit_op_has(kit_op(k, node), KIT_COMMUTATIVE);
  for (uint32_t i = 0; i < n_in; i++) {
    const uint32_t v = kit_in(k, node, i);
    const uint64_t x = v == NO_ID                                  ? 5
                       : hashes[v] && !kit_constant(k, v, &tensor) ? hashes[v]
                                                                   : source_hash(k, v);
    if (turns)
      sum += mix(6, x);
    else
      h = mix(h, x);
  }
  return mix(h, sum);
}

uint64_t kit_digest(struct kit *k, uint32_t graph) {
  const struct model *m = k->m;
  const struct model_graph *g = &m->graphs[graph];
  struct kit_inside *in = k->in;
  if (in->n_hashes < m->n_values) TABLE_ADD(in, hashes, m->n_values - in->n_hashes);
  memset(in->hashes, 0, in->n_hashes * sizeof *in->hashes);
  // All nodes count, in any order: what feeds the graphs inside reaches no output here.
  uint64_t all = 0;
  for (uint32_t n = g->first_node; n != NO_ID; n = m->nodes[n].next) {
    const uint64_t h = node_hash(k, in->hashes, n);
    all += mix(8, h);
    for (uint32_t o = 0; o < m->nodes[n].n_out; o++) {
      const uint32_t v = model_output(m, &m->nodes[n], o);
      if (v != NO_ID) in->hashes[v] = mix(h, o) | 1;
    }
  }
  uint64_t h = mix(7, all);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const uint32_t v = m->graph_io[g->outputs + i];
    h = mix(h, in->hashes[v] ? in->hashes[v] : source_hash(k, v));
  }
  return h;
}
