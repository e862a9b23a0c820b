// Do the sizes of a case fit? What is wrong is counted: values of nodes that cannot take what they are given, in bodies
// too, dims that are 0, and what a runtime refuses though inference does not ask for it. A model may have some of it
// whatever its sizes are: then no case has less.
#include "verify/draw/inside/draw_parts.h"

// Does a recurrent layer begin with states of another batch? ONNX Runtime refuses them; inference does not ask.
static bool differs_in_batch(struct draw *d, struct infer *in, uint32_t node) {
  struct infer_type x, state;
  int64_t layout, batch, is;
  const struct model_node *n = &d->m->nodes[node];
  if (n->flags & NODE_DEAD || n->n_in < 6) return false;
  if (!model_op_is(d->m, node, "LSTM") && !model_op_is(d->m, node, "GRU") &&
      !model_op_is(d->m, node, "RNN"))
    return false;
  if (!model_attr_int(d->m, node, "layout", 0, &layout) ||
      !infer_type_of(in, model_input(d->m, n, 0), &x) || x.rank != 3 ||
      !dims_is_number(infer_dims(in), dims_find(infer_dims(in), x.dims[layout ? 0 : 1]), &batch))
    return false;
  for (uint32_t slot = 5; slot < 7; slot++)
    if (infer_type_of(in, model_input(d->m, n, slot), &state) && state.rank == 3 &&
        dims_is_number(infer_dims(in), dims_find(infer_dims(in), state.dims[layout ? 0 : 1]),
                       &is) &&
        is != batch)
      return true;
  return false;
}

// Numbers and dims that are known.
static bool static_number(struct infer *in, const struct infer_number *x, int64_t *n) {
  return x->num != NO_ID && x->den == 1 && dims_is_number(infer_dims(in), x->num, n);
}

static bool static_dim(struct infer *in, const struct infer_type *t, uint32_t axis, int64_t *n) {
  return axis < t->rank &&
         dims_is_number(infer_dims(in), dims_find(infer_dims(in), t->dims[axis]), n);
}

// Does a Gather look beyond its table? Positions that are counted up to the length do, where the table is short.
static bool looks_beyond(struct draw *d, struct infer *in, uint32_t node) {
  const struct model_node *n = &d->m->nodes[node];
  const struct infer_number *list;
  struct infer_type data;
  int64_t axis, rows, x;
  uint32_t many;
  if (n->flags & NODE_DEAD || !model_op_is(d->m, node, "Gather") ||
      !model_attr_int(d->m, node, "axis", 0, &axis) ||
      !infer_type_of(in, model_input(d->m, n, 0), &data) || !data.ranked)
    return false;
  if (axis < 0) axis += data.rank;
  if (axis < 0 || axis >= data.rank || !static_dim(in, &data, (uint32_t)axis, &rows) ||
      !infer_numbers(in, model_input(d->m, n, 1), &list, &many))
    return false;
  for (uint32_t i = 0; i < many; i++)
    if (static_number(in, &list[i], &x) && (x >= rows || x < -rows)) return true;
  return false;
}

// Does a Pad reflect more than there is on an axis? Without axes its numbers are the befores of all, then the afters.
static bool reflects_beyond(struct draw *d, struct infer *in, uint32_t node) {
  const struct model_node *n = &d->m->nodes[node];
  const struct infer_number *list;
  struct infer_type x;
  struct span mode;
  int64_t pad, dim;
  uint32_t many;
  if (n->flags & NODE_DEAD || !model_op_is(d->m, node, "Pad") ||
      !model_attr_string(d->m, node, "mode", "constant", &mode) || !span_is(mode, "reflect") ||
      !infer_type_of(in, model_input(d->m, n, 0), &x) || !x.ranked ||
      model_input(d->m, n, 3) != NO_ID ||
      !infer_numbers(in, model_input(d->m, n, 1), &list, &many) || many != 2 * x.rank)
    return false;
  for (uint32_t i = 0; i < many; i++)
    if (static_number(in, &list[i], &pad) && static_dim(in, &x, i % x.rank, &dim) && pad >= dim)
      return true;
  return false;
}

// Is a signal shorter than the frames that an STFT cuts it into?
static bool is_below_a_frame(struct draw *d, struct infer *in, uint32_t node) {
  const struct model_node *n = &d->m->nodes[node];
  const struct infer_number *list;
  struct infer_type x, window;
  int64_t samples, frame = 0;
  uint32_t many;
  if (n->flags & NODE_DEAD || !model_op_is(d->m, node, "STFT") ||
      !infer_type_of(in, model_input(d->m, n, 0), &x) || !x.ranked ||
      !static_dim(in, &x, 1, &samples))
    return false;
  if (model_input(d->m, n, 3) != NO_ID &&
      infer_numbers(in, model_input(d->m, n, 3), &list, &many) && many == 1 &&
      static_number(in, &list[0], &frame))
    return samples < frame;
  if (model_input(d->m, n, 2) != NO_ID && infer_type_of(in, model_input(d->m, n, 2), &window) &&
      window.ranked)
    static_dim(in, &window, 0, &frame);
  return samples < frame;
}

uint32_t draw_fit_wrong(struct draw *d, struct infer *in) {
  const struct model *m = d->m;
  uint32_t n = 0;
  for (uint32_t v = 0; v < m->n_values; v++) {
    struct infer_type t;
    int64_t dim;
    if (m->values[v].flags & VALUE_DEAD || m->values[v].kind != VALUE_NODE_OUTPUT) continue;
    n += infer_why(in, v) == INFER_WHY_INVALID;
    if (!infer_type_of(in, v, &t) || !t.ranked ||
        model_resolve_constant(m, v, &(struct model_constant){0}))
      continue;
    for (uint32_t k = 0; k < t.rank; k++)
      n += dims_is_number(infer_dims(in), dims_find(infer_dims(in), t.dims[k]), &dim) && dim == 0;
  }
  for (uint32_t node = 0; node < m->n_nodes; node++)
    n += differs_in_batch(d, in, node) || looks_beyond(d, in, node) ||
         reflects_beyond(d, in, node) || is_below_a_frame(d, in, node);
  return n;
}
