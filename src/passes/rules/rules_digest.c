// The digest of what a graph computes. A digest that comes again shows that rules undo one another:
//
//   value = H(operator, attributes, digests of its operands; two operands that may change places count in either order)
//   graph = H(values of its nodes in any order, values of its outputs)
//
// Names of inner values do not change it; neither do the order of nodes and the spelling of attributes.
#include "passes/rules/inside/rules_inside.h"

static uint64_t text_hash(const struct model *m, uint32_t name) {
  return span_hash(model_name(m, name));
}

// Constants count by their recipe, so that the same number made twice is the same.
static uint64_t source_hash(struct rules_run *run, uint32_t value) {
  const struct model *m = run->k.m;
  struct model_constant c;
  if (model_resolve_constant(m, value, &c)) {
    const struct model_tensor *t = &m->tensors[c.tensor];
    return t->recipe != NO_ID ? span_hash_mix(1, t->recipe) : span_hash_mix(2, c.tensor);
  }
  return span_hash_mix(3, text_hash(m, m->values[value].name));
}

static uint64_t node_hash(struct rules_run *run, const uint64_t *hashes, uint32_t node) {
  struct kit *k = &run->k;
  const struct model_node *n = &k->m->nodes[node];
  const uint32_t n_in = kit_n_in(k, node);
  uint64_t h = span_hash_mix(span_hash_mix(4, text_hash(k->m, n->op_type)),
                             kit_attrs_hash(k, node)),
           sum = 0;
  const bool turns = n_in == 2 && kit_op_has(kit_op(k, node), KIT_COMMUTATIVE);
  for (uint32_t i = 0; i < n_in; i++) {
    const uint32_t v = kit_in(k, node, i);
    const uint64_t x = v == NO_ID                          ? 5
                       : hashes[v] && !rules_const(run, v) ? hashes[v]
                                                           : source_hash(run, v);
    if (turns)
      sum += span_hash_mix(6, x);
    else
      h = span_hash_mix(h, x);
  }
  return span_hash_mix(h, sum);
}

// Zeroes what the nodes of the graph make again; zeroing all values would walk over the whole model for each body.
static void forget_hashes(struct rules_run *run) {
  const struct model *m = run->k.m;
  for (uint32_t n = m->graphs[run->graph].first_node; n != NO_ID; n = m->nodes[n].next)
    for (uint32_t o = 0; o < m->nodes[n].n_out; o++) {
      const uint32_t v = model_output(m, &m->nodes[n], o);
      if (v != NO_ID) run->hashes[v] = 0;
    }
}

uint64_t rules_digest(struct rules_run *run) {
  const struct model *m = run->k.m;
  const struct model_graph *g = &m->graphs[run->graph];
  if (run->n_hashes < m->n_values) TABLE_ADD(run, hashes, m->n_values - run->n_hashes);
  // All nodes count, in any order: a node that feeds only the graphs inside another node reaches no output here.
  uint64_t all = 0;
  for (uint32_t n = g->first_node; n != NO_ID; n = m->nodes[n].next) {
    const uint64_t h = node_hash(run, run->hashes, n);
    all += span_hash_mix(8, h);
    for (uint32_t o = 0; o < m->nodes[n].n_out; o++) {
      const uint32_t v = model_output(m, &m->nodes[n], o);
      if (v != NO_ID) run->hashes[v] = span_hash_mix(h, o) | 1;
    }
  }
  uint64_t h = span_hash_mix(7, all);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const uint32_t v = m->graph_io[g->outputs + i];
    h = span_hash_mix(h, run->hashes[v] ? run->hashes[v] : source_hash(run, v));
  }
  forget_hashes(run);
  return h;
}
