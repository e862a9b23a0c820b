// Small integer values through chains of operators: what exporters write to compute a shape.
//
//   x [N,3,224,H] ─ Shape ─ Gather(2) ─ Unsqueeze ─┐
//                                    [8] ──────────┴─ Concat ─ Div(2) ─ Cast ─▶ [112, 4]
//
// A value is dims (rank at most 4), at most KIT_CHAIN_MOST elements, and for each of them whether it
// is known: of Shape(x) above [1] and [2] are, and a Gather of those is known although N is not.
// Arithmetic is exact: what passes its type, or divides by zero, is not known.
//
// Values are found from their operands' with a stack of our own, at most DEPTH deep and STEPS nodes
// a question; beyond, nothing is known. What was found stays found: a value means what it means
// whatever edits do. What was not found is looked for again once the model or the types have
// changed.
#include "passes/kit/inside/kit_inside.h"

enum { RANK = 4, DEPTH = 64, STEPS = 512, OPERANDS = 64 };

struct kit_chain {
  enum { CHAIN_NEW, CHAIN_KNOWN, CHAIN_UNKNOWN } state;
  uint64_t stamp; // UNKNOWN: of the model and the types at that time
  enum dtype dtype;
  uint32_t rank, n;
  int64_t dims[RANK];
  int64_t *x; // in the kit's arena
  bool *known;
};

struct eval {
  struct kit *k;
  uint32_t node;
  enum op op;
  struct kit_chain in[OPERANDS]; // copies of rows, which move; absent: state NEW
  uint32_t n_in;
  struct kit_chain *out;
};

// ---- making values -----------------------------------------------------------------------------

static bool make(struct eval *v, enum dtype dtype, const int64_t *dims, uint32_t rank) {
  uint64_t n;
  struct kit_chain *c = v->out;
  if (rank > RANK || !dims_product(dims, rank, &n) || n > KIT_CHAIN_MOST) return false;
  c->dtype = dtype;
  c->rank = rank;
  c->n = (uint32_t)n;
  for (uint32_t i = 0; i < rank; i++)
    c->dims[i] = dims[i];
  c->x = arena_zalloc(&v->k->in->arena, (c->n + (size_t)1) * sizeof *c->x);
  c->known = arena_zalloc(&v->k->in->arena, c->n + (size_t)1);
  return true;
}

static bool fits(enum dtype dtype, int64_t x) {
  switch (dtype) {
  case DTYPE_INT64: return true;
  case DTYPE_INT32: return x >= INT32_MIN && x <= INT32_MAX;
  case DTYPE_INT16: return x >= INT16_MIN && x <= INT16_MAX;
  case DTYPE_INT8: return x >= INT8_MIN && x <= INT8_MAX;
  case DTYPE_UINT8: return x >= 0 && x <= UINT8_MAX;
  case DTYPE_UINT16: return x >= 0 && x <= UINT16_MAX;
  case DTYPE_UINT32: return x >= 0 && x <= UINT32_MAX;
  case DTYPE_UINT64: return x >= 0;
  case DTYPE_BOOL: return x == 0 || x == 1;
  default: return false;
  }
}

static void put(struct eval *v, uint32_t i, bool known, int64_t x) {
  v->out->known[i] = known && fits(v->out->dtype, x);
  v->out->x[i] = v->out->known[i] ? x : 0;
}

static bool all_known(const struct kit_chain *c) {
  for (uint32_t i = 0; i < c->n; i++)
    if (!c->known[i]) return false;
  return true;
}

static bool axis_of(int64_t axis, uint32_t rank, uint32_t *out) {
  if (axis < 0) axis += rank;
  *out = (uint32_t)axis;
  return axis >= 0 && axis < rank;
}

// Where the elements of a result lie among those of an operand: first + step · coordinates.
struct view {
  int64_t first, step[RANK];
};
static void copy_view(struct eval *v, const struct kit_chain *in, const struct view *view) {
  for (uint32_t i = 0; i < v->out->n; i++) {
    int64_t at = view->first;
    uint32_t rest = i;
    for (uint32_t d = v->out->rank; d-- > 0;) {
      at += view->step[d] * (rest % (uint32_t)v->out->dims[d]);
      rest /= (uint32_t)v->out->dims[d];
    }
    put(v, i, in->known[at], in->x[at]);
  }
}

static void strides_of(const struct kit_chain *c, int64_t strides[RANK]) {
  int64_t n = 1;
  for (uint32_t d = c->rank; d-- > 0;) {
    strides[d] = n;
    n *= c->dims[d];
  }
}

// ---- operators ---------------------------------------------------------------------------------

static bool shape(struct eval *v) {
  struct kit *k = v->k;
  struct model_type type;
  int64_t start, end;
  if (!kit_type(k, kit_in(k, v->node, 0), &type) || !type.ranked) return false;
  if (v->op == OP_Size) {
    if (!make(v, DTYPE_INT64, NULL, 0)) return false;
    int64_t n = 1;
    bool known = true;
    for (uint32_t i = 0; i < type.rank; i++) {
      const int64_t d = model_type_dim(k->m, &type, i).value;
      known = known && d >= 0 && !__builtin_mul_overflow(n, d, &n);
    }
    put(v, 0, known, n);
    return true;
  }
  const int64_t rank = type.rank;
  if (!kit_attr_int(k, v->node, "start", 0, &start) || !kit_attr_int(k, v->node, "end", rank, &end))
    return false;
  start = start < 0 ? start + rank : start;
  end = end < 0 ? end + rank : end;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < start ? start : end > rank ? rank : end;
  const int64_t n = end - start;
  if (!make(v, DTYPE_INT64, &n, 1)) return false;
  for (uint32_t i = 0; i < v->out->n; i++) {
    const int64_t d = model_type_dim(k->m, &type, (uint32_t)start + i).value;
    put(v, i, d >= 0, d);
  }
  return true;
}

static bool gather(struct eval *v) {
  const struct kit_chain *data = &v->in[0], *index = &v->in[1];
  int64_t axis, dims[2 * RANK], inner = 1, outer = 1;
  uint32_t at, rank = 0;
  if (!kit_attr_int(v->k, v->node, "axis", 0, &axis) || !axis_of(axis, data->rank, &at))
    return false;
  for (uint32_t d = 0; d < at; d++)
    outer *= dims[rank++] = data->dims[d];
  for (uint32_t d = 0; d < index->rank; d++)
    dims[rank++] = index->dims[d];
  for (uint32_t d = at + 1; d < data->rank; d++)
    inner *= dims[rank++] = data->dims[d];
  if (!make(v, data->dtype, dims, rank)) return false;
  uint32_t i = 0;
  for (int64_t o = 0; o < outer; o++)
    for (uint32_t j = 0; j < index->n; j++)
      for (int64_t n = 0; n < inner; n++, i++) {
        const int64_t x = index->x[j] < 0 ? index->x[j] + data->dims[at] : index->x[j];
        if (!index->known[j] || x < 0 || x >= data->dims[at]) continue;
        const int64_t from = (o * data->dims[at] + x) * inner + n;
        put(v, i, data->known[from], data->x[from]);
      }
  return true;
}

static bool concat(struct eval *v) {
  int64_t axis, dims[RANK] = {0}, outer = 1;
  uint32_t at;
  if (v->n_in == 0 || !kit_attr_int(v->k, v->node, "axis", 1, &axis)) return false;
  if (!axis_of(axis, v->in[0].rank, &at)) return false;
  for (uint32_t d = 0; d < v->in[0].rank; d++)
    dims[d] = d == at ? 0 : v->in[0].dims[d];
  for (uint32_t i = 0; i < v->n_in; i++) {
    if (v->in[i].rank != v->in[0].rank || v->in[i].dtype != v->in[0].dtype) return false;
    for (uint32_t d = 0; d < v->in[i].rank; d++)
      if (d != at && v->in[i].dims[d] != dims[d]) return false;
    dims[at] += v->in[i].dims[at];
  }
  for (uint32_t d = 0; d < at; d++)
    outer *= dims[d];
  if (!make(v, v->in[0].dtype, dims, v->in[0].rank)) return false;
  uint32_t to = 0;
  for (int64_t o = 0; o < outer; o++)
    for (uint32_t i = 0; i < v->n_in; i++) {
      const uint32_t run = (uint32_t)(v->in[i].n / outer);
      for (uint32_t n = 0; n < run; n++, to++)
        put(v, to, v->in[i].known[o * run + n], v->in[i].x[o * run + n]);
    }
  return true;
}

static bool with_dims(struct eval *v, const int64_t *dims, uint32_t rank) {
  if (!make(v, v->in[0].dtype, dims, rank) || v->out->n != v->in[0].n) return false;
  for (uint32_t i = 0; i < v->out->n; i++)
    put(v, i, v->in[0].known[i], v->in[0].x[i]);
  return true;
}

// Attribute, or second operand; none: n = 0.
static bool axes_of(struct eval *v, const int64_t **axes, uint32_t *n) {
  if (kit_attr_ints(v->k, v->node, "axes", axes, n)) return true;
  *n = 0;
  if (v->n_in < 2 || v->in[1].state == CHAIN_NEW) return true;
  *axes = v->in[1].x;
  *n = v->in[1].n;
  return all_known(&v->in[1]);
}

static bool squeeze(struct eval *v) {
  const int64_t *axes;
  int64_t dims[RANK];
  uint32_t n, rank = 0;
  bool gone[RANK] = {false};
  if (!axes_of(v, &axes, &n)) return false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at;
    if (!axis_of(axes[i], v->in[0].rank, &at) || v->in[0].dims[at] != 1) return false;
    gone[at] = true;
  }
  for (uint32_t d = 0; d < v->in[0].rank; d++)
    if (!(n ? gone[d] : v->in[0].dims[d] == 1)) dims[rank++] = v->in[0].dims[d];
  return with_dims(v, dims, rank);
}

static bool unsqueeze(struct eval *v) {
  const int64_t *axes;
  int64_t dims[RANK];
  uint32_t n, from = 0;
  bool made[RANK] = {false};
  if (!axes_of(v, &axes, &n) || v->in[0].rank + (uint64_t)n > RANK) return false;
  const uint32_t rank = v->in[0].rank + n;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at;
    if (!axis_of(axes[i], rank, &at) || made[at]) return false;
    made[at] = true;
  }
  for (uint32_t d = 0; d < rank; d++)
    dims[d] = made[d] ? 1 : v->in[0].dims[from++];
  return with_dims(v, dims, rank);
}

static bool reshape(struct eval *v) {
  const struct kit_chain *to = &v->in[1];
  int64_t dims[RANK], zero, known = 1;
  uint32_t open = NO_ID;
  if (!kit_attr_int(v->k, v->node, "allowzero", 0, &zero) || !all_known(to) || to->n > RANK)
    return false;
  for (uint32_t d = 0; d < to->n; d++) {
    dims[d] = to->x[d];
    if (dims[d] == 0 && !zero) {
      if (d >= v->in[0].rank) return false;
      dims[d] = v->in[0].dims[d];
    }
    if (dims[d] < -1 || (dims[d] == -1 && open != NO_ID)) return false;
    if (dims[d] == -1)
      open = d;
    else if (__builtin_mul_overflow(known, dims[d], &known))
      return false;
  }
  if (open != NO_ID) {
    if (known <= 0 || v->in[0].n % known) return false;
    dims[open] = v->in[0].n / known;
  }
  return with_dims(v, dims, to->n);
}

static bool transpose(struct eval *v) {
  const int64_t *perm;
  int64_t dims[RANK], strides[RANK];
  struct view view = {0};
  uint32_t n = v->in[0].rank;
  struct kit_attr a;
  const enum kit_state state = kit_attr(v->k, v->node, "perm", &a);
  if (state == KIT_UNKNOWN || (state == KIT_GIVEN && (a.type != ATTR_INTS || a.n != n)))
    return false;
  perm = state == KIT_GIVEN ? a.ints : NULL;
  strides_of(&v->in[0], strides);
  for (uint32_t d = 0; d < n; d++) {
    const int64_t from = perm ? perm[d] : n - 1 - d;
    if (from < 0 || from >= n) return false;
    dims[d] = v->in[0].dims[from];
    view.step[d] = strides[from];
  }
  if (!make(v, v->in[0].dtype, dims, n)) return false;
  if (v->out->n != v->in[0].n) return false; // no permutation
  copy_view(v, &v->in[0], &view);
  return true;
}

// Starts, ends and axes are operands from opset 10 and attributes before; steps are operands.
static bool slice_list(struct eval *v, uint32_t slot, const char *attr, const int64_t **list,
                       uint32_t *n) {
  if (kit_attr_ints(v->k, v->node, attr, list, n)) return true;
  *n = 0;
  if (slot >= v->n_in || v->in[slot].state == CHAIN_NEW) return true;
  *list = v->in[slot].x;
  *n = v->in[slot].n;
  return all_known(&v->in[slot]);
}

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
  return x < least ? least : x > most ? most : x;
}

static bool slice(struct eval *v) {
  const struct kit_chain *in = &v->in[0];
  const int64_t *starts, *ends, *axes, *steps;
  uint32_t n, n_ends, n_axes, n_steps;
  int64_t dims[RANK], strides[RANK];
  struct view view = {0};
  if (!slice_list(v, 1, "starts", &starts, &n) || !slice_list(v, 2, "ends", &ends, &n_ends) ||
      !slice_list(v, 3, "axes", &axes, &n_axes) || !slice_list(v, 4, "steps", &steps, &n_steps))
    return false;
  if (n == 0 || n_ends != n || (n_axes && n_axes != n) || (n_steps && n_steps != n)) return false;
  strides_of(in, strides);
  for (uint32_t d = 0; d < in->rank; d++) {
    dims[d] = in->dims[d];
    view.step[d] = strides[d];
  }
  bool done[RANK] = {false};
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at;
    const int64_t step = n_steps ? steps[i] : 1;
    if (!axis_of(n_axes ? axes[i] : i, in->rank, &at) || done[at]) return false;
    if (step == 0 || step == INT64_MIN) return false;
    done[at] = true;
    const int64_t size = in->dims[at];
    const int64_t from = starts[i] < 0 ? starts[i] + size : starts[i];
    const int64_t to = ends[i] < 0 ? ends[i] + size : ends[i];
    const int64_t first = step > 0 ? clamp(from, 0, size) : clamp(from, 0, size - 1);
    const int64_t last = step > 0 ? clamp(to, 0, size) : clamp(to, -1, size - 1);
    const int64_t distance = step > 0 ? last - first : first - last;
    const int64_t by = step > 0 ? step : -step;
    dims[at] = distance > 0 && size > 0 ? (distance - 1) / by + 1 : 0;
    view.first += dims[at] ? first * strides[at] : 0;
    // Steps past the end are never taken: the size bounds them.
    view.step[at] = dims[at] > 1 ? step * strides[at] : 0;
  }
  if (!make(v, in->dtype, dims, in->rank)) return false;
  copy_view(v, in, &view);
  return true;
}

// Div of integers cuts towards zero.
static bool apply(enum op op, int64_t a, int64_t b, int64_t *out) {
  switch (op) {
  case OP_Add: return !__builtin_add_overflow(a, b, out);
  case OP_Sub: return !__builtin_sub_overflow(a, b, out);
  case OP_Mul: return !__builtin_mul_overflow(a, b, out);
  case OP_Div:
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *out = a / b;
    return true;
  case OP_Min: *out = a < b ? a : b; return true;
  case OP_Max: *out = a > b ? a : b; return true;
  case OP_Equal: *out = a == b; return true;
  case OP_Less: *out = a < b; return true;
  case OP_LessOrEqual: *out = a <= b; return true;
  case OP_Greater: *out = a > b; return true;
  case OP_GreaterOrEqual: *out = a >= b; return true;
  case OP_And: *out = a && b; return true;
  case OP_Or: *out = a || b; return true;
  default: return false;
  }
}

static bool broadcast_dims(const struct eval *v, int64_t dims[RANK], uint32_t *rank) {
  *rank = 0;
  for (uint32_t i = 0; i < v->n_in; i++)
    *rank = v->in[i].rank > *rank ? v->in[i].rank : *rank;
  for (uint32_t d = 0; d < *rank; d++)
    dims[d] = 1;
  for (uint32_t i = 0; i < v->n_in; i++)
    for (uint32_t d = 0; d < v->in[i].rank; d++) {
      int64_t *to = &dims[*rank - v->in[i].rank + d];
      if (v->in[i].dims[d] == 1) continue;
      if (*to != 1 && *to != v->in[i].dims[d]) return false;
      *to = v->in[i].dims[d];
    }
  return true;
}

// The element of `c` that broadcasting puts at element i of the result.
static uint32_t source_of(const struct eval *v, const struct kit_chain *c, uint32_t i) {
  int64_t strides[RANK];
  uint32_t at = 0;
  strides_of(c, strides);
  for (uint32_t d = v->out->rank; d-- > 0;) {
    const uint32_t size = (uint32_t)v->out->dims[d], here = i % size;
    i /= size;
    const uint32_t skipped = v->out->rank - c->rank;
    if (d >= skipped && c->dims[d - skipped] != 1) at += here * (uint32_t)strides[d - skipped];
  }
  return at;
}

static bool elementwise(struct eval *v) {
  int64_t dims[RANK];
  uint32_t rank;
  const bool compares = kit_op_has(v->op, KIT_COMPARES);
  if (v->n_in == 0 || (v->n_in != 2 && v->op != OP_Min && v->op != OP_Max)) return false;
  for (uint32_t i = 0; i < v->n_in; i++)
    if (v->in[i].dtype != v->in[0].dtype) return false;
  if (!broadcast_dims(v, dims, &rank)) return false;
  if (!make(v, compares ? DTYPE_BOOL : v->in[0].dtype, dims, rank)) return false;
  for (uint32_t i = 0; i < v->out->n; i++) {
    const uint32_t first = source_of(v, &v->in[0], i);
    bool known = v->in[0].known[first];
    int64_t x = v->in[0].x[first];
    for (uint32_t s = 1; s < v->n_in; s++) {
      const uint32_t at = source_of(v, &v->in[s], i);
      known = known && v->in[s].known[at] && apply(v->op, x, v->in[s].x[at], &x);
    }
    put(v, i, known, x);
  }
  return true;
}

static bool where(struct eval *v) {
  int64_t dims[RANK];
  uint32_t rank;
  if (v->n_in != 3 || v->in[1].dtype != v->in[2].dtype || !broadcast_dims(v, dims, &rank))
    return false;
  if (!make(v, v->in[1].dtype, dims, rank)) return false;
  for (uint32_t i = 0; i < v->out->n; i++) {
    const uint32_t c = source_of(v, &v->in[0], i);
    const struct kit_chain *from = &v->in[v->in[0].x[c] ? 1 : 2];
    const uint32_t at = source_of(v, from, i);
    put(v, i, v->in[0].known[c] && from->known[at], from->x[at]);
  }
  return true;
}

static bool unary(struct eval *v) {
  enum dtype dtype = v->in[0].dtype;
  int64_t to;
  if (v->op == OP_Cast) {
    if (!kit_attr_int(v->k, v->node, "to", 0, &to) || !dtype_known(to)) return false;
    dtype = (enum dtype)to;
    if (!dtype_is_integer(dtype)) return false;
  }
  if (!make(v, dtype, v->in[0].dims, v->in[0].rank)) return false;
  for (uint32_t i = 0; i < v->out->n; i++) {
    int64_t x = v->in[0].x[i];
    bool known = v->in[0].known[i];
    if (v->op == OP_Neg || (v->op == OP_Abs && x < 0)) known = known && apply(OP_Sub, 0, x, &x);
    if (v->op == OP_Not || dtype == DTYPE_BOOL) x = v->op == OP_Not ? !x : x != 0;
    put(v, i, known, x);
  }
  return true;
}

static bool range(struct eval *v) {
  if (v->n_in != 3) return false;
  for (uint32_t i = 0; i < 3; i++)
    if (v->in[i].n != 1 || !v->in[i].known[0] || v->in[i].dtype != v->in[0].dtype) return false;
  const int64_t start = v->in[0].x[0], limit = v->in[1].x[0], step = v->in[2].x[0];
  int64_t distance, n = 0;
  if (step == 0 || step == INT64_MIN || __builtin_sub_overflow(limit, start, &distance))
    return false;
  if (distance == INT64_MIN) return false;
  const int64_t by = step > 0 ? step : -step;
  distance = step > 0 ? distance : -distance;
  if (distance > 0) n = (distance - 1) / by + 1;
  if (!make(v, v->in[0].dtype, &n, 1)) return false;
  for (uint32_t i = 0; i < v->out->n; i++)
    put(v, i, true, start + (int64_t)i * step);
  return true;
}

static bool constant_of_shape(struct eval *v) {
  struct kit_attr a;
  struct kit_number x = {.dtype = DTYPE_FLOAT};
  struct span raw;
  const enum kit_state state = kit_attr(v->k, v->node, "value", &a);
  if (state != KIT_GIVEN || a.type != ATTR_TENSOR || !all_known(&v->in[0])) return false;
  const enum dtype dtype = (enum dtype)v->k->m->tensors[a.tensor].dtype;
  if (!dtype_is_integer(dtype) || !kit_tensor_elements(v->k, a.tensor, &raw) || raw.n == 0)
    return false;
  if (!kit_number_at(dtype, raw.at, 0, &x) || !x.exact) return false;
  if (!make(v, dtype, v->in[0].x, v->in[0].n)) return false;
  for (uint32_t i = 0; i < v->out->n; i++)
    put(v, i, true, x.i);
  return true;
}

static bool expand(struct eval *v) {
  int64_t dims[RANK];
  uint32_t rank;
  if (!all_known(&v->in[1]) || v->in[1].n > RANK) return false;
  // As if the second operand had those dims; of its elements nothing is asked.
  struct kit_chain to = {.state = CHAIN_KNOWN, .rank = v->in[1].n};
  for (uint32_t d = 0; d < to.rank; d++) {
    if (v->in[1].x[d] < 0) return false;
    to.dims[d] = v->in[1].x[d];
  }
  v->in[1] = to;
  if (!broadcast_dims(v, dims, &rank) || !make(v, v->in[0].dtype, dims, rank)) return false;
  for (uint32_t i = 0; i < v->out->n; i++) {
    const uint32_t at = source_of(v, &v->in[0], i);
    put(v, i, v->in[0].known[at], v->in[0].x[at]);
  }
  return true;
}

// Operators, how many operands they need at least, and what they do.
static const struct rule {
  enum op op;
  uint32_t least;
  bool (*eval)(struct eval *v);
} rules[] = {
    {OP_Shape, 0, shape},         {OP_Size, 0, shape},
    {OP_Gather, 2, gather},       {OP_Concat, 1, concat},
    {OP_Squeeze, 1, squeeze},     {OP_Unsqueeze, 1, unsqueeze},
    {OP_Reshape, 2, reshape},     {OP_Transpose, 1, transpose},
    {OP_Slice, 1, slice},         {OP_Add, 2, elementwise},
    {OP_Sub, 2, elementwise},     {OP_Mul, 2, elementwise},
    {OP_Div, 2, elementwise},     {OP_Min, 1, elementwise},
    {OP_Max, 1, elementwise},     {OP_Equal, 2, elementwise},
    {OP_Less, 2, elementwise},    {OP_LessOrEqual, 2, elementwise},
    {OP_Greater, 2, elementwise}, {OP_GreaterOrEqual, 2, elementwise},
    {OP_And, 2, elementwise},     {OP_Or, 2, elementwise},
    {OP_Where, 3, where},         {OP_Neg, 1, unary},
    {OP_Abs, 1, unary},           {OP_Not, 1, unary},
    {OP_Cast, 1, unary},          {OP_Identity, 1, unary},
    {OP_Range, 3, range},         {OP_ConstantOfShape, 1, constant_of_shape},
    {OP_Expand, 2, expand},
};

static const struct rule *rule_of(enum op op) {
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if (rules[i].op == op) return &rules[i];
  return NULL;
}

// ---- the walk ----------------------------------------------------------------------------------

static uint64_t stamp_of(const struct kit *k) {
  return k->e->n + k->types->n_rows + (uint64_t)k->types->n_dims;
}

// The row of a value, made where it is new. Rows move then.
static struct kit_chain *row_of(struct kit *k, uint32_t value) {
  uint32_t *at = kit_map_at(&k->in->chain_of, value);
  if (*at == 0) {
    const uint32_t row = TABLE_ADD(k->in, chains, 1);
    *at = row + 1;
  }
  return &k->in->chains[*at - 1];
}

static bool is_settled(const struct kit *k, const struct kit_chain *c) {
  return c->state == CHAIN_KNOWN || (c->state == CHAIN_UNKNOWN && c->stamp == stamp_of(k));
}

static void settle(struct kit *k, uint32_t value, const struct kit_chain *found) {
  struct kit_chain *c = row_of(k, value);
  if (found) *c = *found;
  c->state = found ? CHAIN_KNOWN : CHAIN_UNKNOWN;
  c->stamp = stamp_of(k);
}

static uint32_t give_up(struct kit *k, uint32_t value) {
  settle(k, value, NULL);
  return NO_ID;
}

static bool constant(struct kit *k, uint32_t tensor, struct kit_chain *out) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  struct eval v = {.k = k, .out = out};
  struct span raw;
  struct kit_number x;
  const enum dtype dtype = (enum dtype)t->dtype;
  if (!dtype_is_integer(dtype) || !make(&v, dtype, model_dims(k->m, t), t->rank)) return false;
  if (!kit_tensor_elements(k, tensor, &raw)) return false;
  for (uint32_t i = 0; i < out->n; i++) {
    const bool known = kit_number_at(dtype, raw.at, i, &x) && x.exact;
    put(&v, i, known, x.i);
  }
  return true;
}

// Looks at the value on top of the stack: settles it, or gives the operand to be settled first.
static uint32_t step(struct kit *k, uint32_t value) {
  struct kit_chain found = {.state = CHAIN_KNOWN};
  struct eval v = {.k = k, .out = &found};
  uint32_t tensor;
  if (kit_constant(k, value, &tensor)) {
    settle(k, value, constant(k, tensor, &found) ? &found : NULL);
    return NO_ID;
  }
  v.node = kit_maker(k, value);
  v.op = kit_op(k, v.node);
  const struct rule *rule = rule_of(v.op);
  if (!rule || kit_out(k, v.node, 0) != value) return give_up(k, value);
  v.n_in = rule->eval == shape ? 0 : kit_n_in(k, v.node);
  if (v.n_in < rule->least || v.n_in > OPERANDS) return give_up(k, value);
  for (uint32_t i = 0; i < v.n_in; i++) {
    const uint32_t operand = kit_in(k, v.node, i);
    if (operand == NO_ID) {
      if (i >= rule->least) continue;
      return give_up(k, value);
    }
    const struct kit_chain *c = row_of(k, operand);
    if (!is_settled(k, c)) return operand;
    if (c->state == CHAIN_UNKNOWN) return give_up(k, value);
    v.in[i] = *c;
  }
  k->in->chain_steps++;
  settle(k, value, rule->eval(&v) ? &found : NULL);
  return NO_ID;
}

static const struct kit_chain *chain_of(struct kit *k, uint32_t value) {
  uint32_t stack[DEPTH], depth = 1;
  uint64_t steps = 0;
  const struct kit_chain *c = row_of(k, value);
  if (is_settled(k, c)) return c;
  stack[0] = value;
  while (depth > 0 && steps++ < STEPS) {
    const uint32_t top = stack[depth - 1];
    const uint32_t first = step(k, top);
    if (first == NO_ID) {
      depth--;
    } else {
      if (depth == DEPTH) break;
      stack[depth++] = first;
    }
  }
  for (uint32_t i = 0; i < depth; i++) // too deep or too long: nothing is known of these
    settle(k, stack[i], NULL);
  return row_of(k, value);
}

bool kit_chain_ints(struct kit *k, uint32_t value, enum dtype *dtype, const int64_t **list,
                    uint32_t *n) {
  *list = NULL;
  *n = 0;
  if (value == NO_ID || !rule_of(kit_maker_op(k, value))) return false;
  const struct kit_chain *c = chain_of(k, value);
  if (c->state != CHAIN_KNOWN || !all_known(c)) return false;
  int64_t *copy = arena_copy(&k->site, c->x, c->n * sizeof *copy);
  *dtype = c->dtype;
  *list = copy;
  *n = c->n;
  return true;
}

void kit_chains_done(struct kit *k) {
  kit_map_done(&k->in->chain_of);
  table_free(k->in->chains, k->in->chains_cap, sizeof *k->in->chains);
}
