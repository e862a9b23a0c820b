// Keys: numbers that are equal for what is equal, to look twins up by.
//
// A key leaves out what says nothing of a node's work (its name, the names of its values, the order
// of its attributes) and what is too large to be at hand (elements of weights, bodies of graphs). So
// equal keys do not mean equal nodes: twins are compared afterwards.
#include "compare/inside/diff_parts.h"

enum { LIST_LOOKED_AT = 64 };

static uint64_t bytes_key(const void *at, size_t n) {
  return span_hash(span_of(at, n));
}

uint64_t diff_keys_tensor(const struct diff *d, uint32_t side, uint32_t tensor) {
  const struct model *m = d->m[side];
  const struct model_tensor *t = &m->tensors[tensor];
  struct span small;
  uint64_t h = diff_mix(t->dtype, t->rank);
  h = diff_mix(h, bytes_key(model_dims(m, t), t->rank * sizeof(int64_t)));
  if (model_small_value(m, tensor, &small) && small.n <= LIST_LOOKED_AT)
    h = diff_mix(h, bytes_key(small.at, small.n));
  return h;
}

static uint64_t list_key(const struct diff *d, uint32_t side, const struct model_attr *a) {
  const struct model *m = d->m[side];
  const uint32_t n = a->count < LIST_LOOKED_AT ? a->count : LIST_LOOKED_AT;
  uint64_t h = a->count;
  if (a->first == NO_ID) return h;
  switch ((enum attr_type)a->type) {
  case ATTR_INTS: return diff_mix(h, bytes_key(m->longs + a->first, n * sizeof *m->longs));
  case ATTR_FLOATS: return diff_mix(h, bytes_key(m->floats + a->first, n * sizeof *m->floats));
  case ATTR_STRINGS:
    for (uint32_t i = 0; i < n; i++)
      h = diff_mix(h, diff_name(d, side, m->strings[a->first + i]));
    return h;
  case ATTR_TENSOR:
  case ATTR_TENSORS: return diff_mix(h, diff_keys_tensor(d, side, a->first));
  default: return h;
  }
}

static uint64_t attr_key(const struct diff *d, uint32_t side, const struct model_attr *a) {
  const struct model *m = d->m[side];
  uint64_t h = diff_mix(diff_name(d, side, a->name), a->type);
  h = diff_mix(h, diff_name(d, side, a->ref_name));
  if (model_attr_is_constant(m, a))
    return a->first == NO_ID ? h : diff_mix(h, diff_keys_tensor(d, side, a->first));
  switch ((enum attr_type)a->type) {
  case ATTR_INT: return diff_mix(h, (uint64_t)a->u.i);
  case ATTR_FLOAT: return diff_mix(h, bytes_key(&a->u.f, sizeof a->u.f));
  case ATTR_STRING: return diff_mix(h, a->u.s == NO_ID ? 0 : diff_name(d, side, a->u.s));
  default: return diff_mix(h, list_key(d, side, a));
  }
}

uint64_t diff_keys_op(const struct diff *d, uint32_t side, uint32_t node) {
  const struct model_node *n = &d->m[side]->nodes[node];
  const uint64_t h = diff_mix(diff_name(d, side, n->op_type), diff_name(d, side, n->domain));
  return diff_mix(h, diff_name(d, side, n->overload));
}

uint64_t diff_keys_node(struct diff *d, uint32_t side, uint32_t node) {
  const struct model *m = d->m[side];
  const struct model_node *n = &m->nodes[node];
  uint64_t attrs = 0;
  for (uint32_t i = 0; i < n->n_attrs; i++)
    attrs += attr_key(d, side, &m->attrs[n->attrs + i]);
  d->steps += n->n_attrs + 1u;
  return diff_mix(diff_mix(diff_keys_op(d, side, node), attrs), (uint64_t)n->n_in << 32 | n->n_out);
}
