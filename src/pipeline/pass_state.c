// Passes that undo one another make new nodes and new names in each round, and come to the same graph. So
// names are left out: a value is what made it,
//
//   hash(y) = mix(operator, attributes, hash(operands), which output)
//
// an input of a graph is its position, and a constant is its elements: the recipe of what an edit made, since
// equal recipes are one, the bytes of what is small, and else the tensor. Operands of one graph come before
// their users; one that does not (a graph that is not sorted) counts by its name. All nodes are summed, in
// any order, so that nothing hides behind outputs. Graphs inside others are summed as graphs: that two of them
// changed places is not seen, and needs not be, since no decision rests on a state that came only once again.
#include "pipeline/pass_state.h"

static uint64_t mix_bytes(uint64_t h, const void *at, size_t n) {
  return span_hash_mix(h, n ? span_hash(span_of(at, n)) : 0);
}

static uint64_t tensor_hash(const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  struct span small;
  if (t->recipe != NO_ID) return span_hash_mix(1, t->recipe);
  if (!model_small_value(m, tensor, &small)) return span_hash_mix(2, tensor);
  return mix_bytes(mix_bytes(t->dtype, model_dims(m, t), t->rank * sizeof(int64_t)), small.at,
                   small.n);
}

static uint64_t list_hash(const struct model *m, const struct model_attr *a) {
  const size_t n = a->count;
  if (a->first == NO_ID) return span_hash_mix(a->src.off, n);
  switch (a->type) {
  case ATTR_FLOATS: return mix_bytes(n, m->floats + a->first, n * sizeof *m->floats);
  case ATTR_INTS: return mix_bytes(n, m->longs + a->first, n * sizeof *m->longs);
  default: return mix_bytes(n, m->strings + a->first, n * sizeof *m->strings);
  }
}

static uint64_t attr_hash(const struct model *m, const struct model_attr *a) {
  const uint64_t h =
      span_hash_mix(span_hash_mix(3, a->name), (uint64_t)a->type << 32 | a->ref_name);
  // value_ints and its kin of a Constant: what they name is a tensor, and no place in a list.
  if (model_attr_is_constant(m, a))
    return span_hash_mix(h, a->first != NO_ID ? tensor_hash(m, a->first) : a->src.off);
  switch (a->type) {
  case ATTR_FLOAT: return mix_bytes(h, &a->u.f, sizeof a->u.f);
  case ATTR_INT: return span_hash_mix(h, (uint64_t)a->u.i);
  case ATTR_STRING: return span_hash_mix(h, a->u.s != NO_ID ? a->u.s : a->src.off);
  case ATTR_TENSOR: return span_hash_mix(h, a->count ? tensor_hash(m, a->first) : 0);
  case ATTR_FLOATS:
  case ATTR_INTS:
  case ATTR_STRINGS: return span_hash_mix(h, a->count ? list_hash(m, a) : 0);
  default: return span_hash_mix(h, a->count);
  }
}

static uint64_t operand_hash(const struct model *m, const uint64_t *made, uint32_t value) {
  struct model_constant c;
  if (value == NO_ID) return 4;
  if (model_resolve_constant(m, value, &c)) return span_hash_mix(5, tensor_hash(m, c.tensor));
  return made[value] ? made[value] : span_hash_mix(6, m->values[value].name);
}

static uint64_t node_hash(const struct model *m, const uint64_t *made, const struct model_node *n) {
  uint64_t attrs = 0,
           h = span_hash_mix(span_hash_mix(7, n->op_type), (uint64_t)n->domain << 32 | n->overload);
  for (uint32_t i = 0; i < n->n_attrs; i++)
    if (!(m->attrs[n->attrs + i].flags & ATTR_DEAD)) attrs += attr_hash(m, &m->attrs[n->attrs + i]);
  h = span_hash_mix(h, attrs);
  for (uint32_t i = 0; i < n->n_in; i++)
    h = span_hash_mix(h, operand_hash(m, made, m->refs[n->refs + i].value));
  return span_hash_mix(h, n->n_out);
}

static uint64_t graph_hash(const struct model *m, uint64_t *made, const struct model_graph *g) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++)
    made[m->graph_io[g->inputs + i]] = span_hash_mix(span_hash_mix(8, g->depth), i);
  for (uint32_t n = g->first_node; n != NO_ID; n = m->nodes[n].next) {
    const struct model_node *node = &m->nodes[n];
    const uint64_t h = node_hash(m, made, node);
    all += span_hash_mix(9, h);
    for (uint32_t o = 0; o < node->n_out; o++) {
      const uint32_t v = model_output(m, node, o);
      if (v != NO_ID) made[v] = span_hash_mix(h, o) | 1;
    }
  }
  for (uint32_t i = 0; i < g->n_outputs; i++)
    all = span_hash_mix(all, operand_hash(m, made, m->graph_io[g->outputs + i]));
  return all;
}

uint64_t pass_state(const struct model *m) {
  struct arena lists = {0};
  uint64_t *made = arena_zalloc(&lists, (m->n_values + (size_t)1) * sizeof *made), all = 0;
  for (uint32_t g = 0; g < m->n_graphs; g++)
    if (!(m->graphs[g].flags & GRAPH_DEAD))
      all += span_hash_mix(10, graph_hash(m, made, &m->graphs[g]));
  arena_free(&lists);
  return all;
}
