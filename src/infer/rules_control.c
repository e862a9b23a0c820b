// Rules of inference for operators with bodies, sequences and optionals.
//
//   If      both branches; what differs is not known, unless the condition is decided
//   Loop    the body with the types that its carried values begin with. What it gives back must be what it
//           was given: dims that are not become symbols of their own, and the body is inferred again.
//           Five rounds at most: as they are; twice without the dims that changed; with ranks alone; with
//           nothing. Bodies deep in one another begin with the last, or they would take 5^depth rounds.
//           Scan outputs have a rank only where the body runs at least once: without a trip ONNX Runtime gives
//           [0] and what dims it knows of the body's output by then, zeros for those that it does not know.
//   Scan    the same, over slices
//
// Symbols that a body makes mean another number in every iteration: outside nothing is known of them.
#include "infer/inside/infer_rules.h"

enum { DEEP = 4, ROUNDS = 5 };

// ---- If ----------------------------------------------------------------------------------------

static void copy_list(struct infer_site *s, uint32_t slot, uint32_t from) {
  const struct infer_number *list;
  uint32_t n;
  if (infer_value_list(s, from, &list, &n)) infer_out_list(s, slot, list, n);
}

static bool same_lists(struct infer_site *s, uint32_t a, uint32_t b) {
  const struct infer_number *x, *y;
  uint32_t n, m;
  if (!infer_value_list(s, a, &x, &n) || !infer_value_list(s, b, &y, &m) || n != m) return false;
  for (uint32_t i = 0; i < n; i++)
    if (x[i].num != y[i].num || x[i].den != y[i].den) return false;
  return true;
}

uint32_t infer_if(struct infer_site *s, uint32_t step) {
  const uint32_t then = infer_attr_graph(s, "then_branch");
  const uint32_t other = infer_attr_graph(s, "else_branch");
  int64_t taken;
  if (then == NO_ID || other == NO_ID) return NO_ID;
  if (step < 2) return step == 0 ? then : other;
  const bool decided = infer_int(s, 0, &taken);
  for (uint32_t i = 0; i < s->n_out; i++) {
    const uint32_t x = infer_graph_output(s, then, i), y = infer_graph_output(s, other, i);
    struct infer_type a, b, both;
    infer_value(s, x, &a);
    infer_value(s, y, &b);
    if (a.kind == INFER_TENSOR && b.kind == INFER_TENSOR && !decided && a.dtype != b.dtype &&
        a.dtype != DTYPE_UNDEFINED && b.dtype != DTYPE_UNDEFINED) {
      infer_invalid(s, "its branches return %s and %s", dtype_name(a.dtype), dtype_name(b.dtype));
      return NO_ID;
    }
    infer_join(s, &a, &b, &both);
    if (!decided) s->why = INFER_WHY_DATA;
    infer_out(s, i, decided ? taken ? &a : &b : &both);
    if (decided || same_lists(s, x, y)) copy_list(s, i, decided && !taken ? y : x);
  }
  return NO_ID;
}

// ---- carried values: Loop, Scan ------------------------------------------------------------------

// What a carried value is bound to after a round; false: the body gives what it was given. `first`: what
// it began with.
static bool widen(struct infer_site *s, const struct infer_type *first,
                  const struct infer_type *bound, const struct infer_type *given,
                  struct infer_type *out) {
  bool changes = false;
  *out = *bound;
  if (!bound->ranked) return false;
  if (!given->ranked || given->rank != bound->rank) {
    *out = (struct infer_type){.kind = bound->kind, .dtype = bound->dtype};
    return true;
  }
  dim_id *dims = infer_dim_room(s, bound->rank);
  for (uint32_t i = 0; i < bound->rank; i++) {
    const dim_id was = bound->dims[i], is = given->dims[i];
    const bool own = was == NO_ID || !first->ranked || first->rank != bound->rank ||
                     first->dims[i] == NO_ID || was != dims_find(s->d, first->dims[i]);
    dims[i] = was;
    if (own || (is != NO_ID && dims_equal(s->d, was, is) == DIMS_YES)) continue;
    changes = true;
    dims[i] = NO_ID;
  }
  out->dims = dims;
  return changes;
}

// Carried values: inputs `from` of the node and `inner` of the body, outputs `result` of the body. Batched: the
// node has them of a batch, whose axis is the first, and the body of one of it.
struct executed_plan {
  uint32_t body, n, from, inner, result;
  bool batched;
};

// A slice along an axis.
static void slice_of(struct infer_site *s, const struct infer_type *x, int64_t axis,
                     struct infer_type *out) {
  uint32_t at;
  *out = (struct infer_type){.dtype = x->dtype};
  if (!x->ranked || !infer_axis(s, axis, x->rank, &at)) return;
  dim_id *dims = infer_dim_room(s, x->rank);
  for (uint32_t d = 0, to = 0; d < x->rank; d++)
    if (d != at) dims[to++] = x->dims[d];
  out->ranked = true;
  out->rank = x->rank - 1;
  out->dims = dims;
}

// What carried value i begins with, as the body has it.
static void first_of(struct infer_site *s, const struct executed_plan *c, uint32_t i,
                     struct infer_type *out) {
  struct infer_type whole;
  infer_in(s, c->from + i, out);
  if (!c->batched) return;
  whole = *out;
  slice_of(s, &whole, 0, out);
}

static void bind_first(struct infer_site *s, const struct executed_plan *c) {
  const bool deep = infer_depth(s) > DEEP || infer_hurry(s);
  for (uint32_t i = 0; i < c->n; i++) {
    struct infer_type t;
    first_of(s, c, i, &t);
    if (deep) t = (struct infer_type){.kind = t.kind, .dtype = t.dtype};
    infer_bind(s, infer_graph_input(s, c->body, c->inner + i), &t);
  }
}

// True: bound anew, the body is to be inferred again. What one carried value gives may reach another only
// rounds later: from the third round on all are weakened, where one changes.
static bool bind_again(struct infer_site *s, const struct executed_plan *c, uint32_t round) {
  struct infer_type *next = arena_zalloc(s->a, c->n * sizeof *next + 1);
  bool again = false;
  for (uint32_t i = 0; i < c->n; i++) {
    struct infer_type first, bound, given;
    first_of(s, c, i, &first);
    infer_value(s, infer_graph_input(s, c->body, c->inner + i), &bound);
    infer_value(s, infer_graph_output(s, c->body, c->result + i), &given);
    if (widen(s, &first, &bound, &given, &next[i])) again = true;
  }
  for (uint32_t i = 0; again && i < c->n; i++) {
    if (round >= 3 && next[i].ranked) next[i].dims = infer_dim_room(s, next[i].rank);
    if (round >= 4) next[i].ranked = false;
    infer_bind(s, infer_graph_input(s, c->body, c->inner + i), &next[i]);
  }
  return again;
}

// The last values: what they began with, or what the body gave.
static void carried_last(struct infer_site *s, const struct executed_plan *c, uint32_t i,
                         struct infer_type *out) {
  struct infer_type first, given;
  first_of(s, c, i, &first);
  infer_value(s, infer_graph_output(s, c->body, c->result + i), &given);
  infer_leave(s, &given, s->state);
  infer_join(s, &first, &given, out);
  if (out->dtype == DTYPE_UNDEFINED) out->dtype = first.dtype ? first.dtype : given.dtype;
  s->why = INFER_WHY_DATA;
}

static void carried_out(struct infer_site *s, const struct executed_plan *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    struct infer_type last;
    carried_last(s, c, i, &last);
    infer_out(s, i, &last);
  }
}

// The type of a result that is one slice of `type` for each of `trips` iterations, along `axis`.
static void stacked(struct infer_site *s, const struct infer_type *type, dim_id trips, int64_t axis,
                    struct infer_type *out) {
  uint32_t at;
  *out = (struct infer_type){.dtype = type->dtype};
  if (!type->ranked || !infer_axis(s, axis, type->rank + 1, &at)) return;
  dim_id *dims = infer_dim_room(s, type->rank + 1);
  for (uint32_t i = 0; i <= type->rank; i++)
    dims[i] = i == at ? trips : type->dims[i - (i > at)];
  out->ranked = true;
  out->rank = type->rank + 1;
  out->dims = dims;
}

// The number of the iteration, and the condition: a scalar, or what the body declares (the runtime makes it
// of one dim then).
static void bind_one(struct infer_site *s, uint32_t value, enum dtype dtype) {
  struct infer_type t;
  infer_bind(s, value, &(struct infer_type){.dtype = dtype});
  if (!infer_value(s, value, &t) || !t.ranked)
    infer_bind(s, value, &(struct infer_type){.dtype = dtype, .ranked = true});
}

bool infer_runs_once(struct infer_site *s) {
  const struct infer_number *trips;
  uint32_t n;
  int64_t goes_on;
  if (s->n_in < 2) return false;
  if (infer_has(s, 1) && (!infer_int(s, 1, &goes_on) || goes_on == 0)) return false;
  if (!infer_has(s, 0)) return true;
  return infer_list(s, 0, &trips, &n) && n == 1 && trips[0].num != NO_ID &&
         dims_least(s->d, trips[0].num) >= 1;
}

uint32_t infer_loop(struct infer_site *s, uint32_t step) {
  const uint32_t body = infer_attr_graph(s, "body");
  if (body == NO_ID || s->n_in < 2) return NO_ID;
  const struct executed_plan c = {body, s->n_in - 2, 2, 2, 1, false};
  if (step == 0) {
    s->state = dims_next(s->d);
    bind_one(s, infer_graph_input(s, body, 0), DTYPE_INT64);
    bind_one(s, infer_graph_input(s, body, 1), DTYPE_BOOL);
    bind_first(s, &c);
    return body;
  }
  if (step < ROUNDS && bind_again(s, &c, step)) return body;
  carried_out(s, &c);
  for (uint32_t i = c.n; i < s->n_out; i++) {
    struct infer_type slice, all;
    infer_value(s, infer_graph_output(s, body, i + 1), &slice);
    infer_leave(s, &slice, s->state);
    s->why = INFER_WHY_DATA;
    if (!infer_runs_once(s)) slice.ranked = false;
    stacked(s, &slice, NO_ID, 0, &all);
    infer_out(s, i, &all);
  }
  return NO_ID;
}

static int64_t axis_at(const int64_t *axes, uint32_t n, uint32_t i) {
  return i < n ? axes[i] : 0;
}

static void bind_slices(struct infer_site *s, uint32_t body, uint32_t states, const int64_t *axes,
                        uint32_t n_axes) {
  for (uint32_t i = states; i < s->n_in; i++) {
    struct infer_type x, slice;
    infer_in(s, i, &x);
    slice_of(s, &x, axis_at(axes, n_axes, i - states), &slice);
    infer_bind(s, infer_graph_input(s, body, i), &slice);
  }
}

// The length that all scanned inputs have along their axes.
static dim_id scanned(struct infer_site *s, uint32_t states, const int64_t *axes, uint32_t n_axes) {
  dim_id length = NO_ID;
  for (uint32_t i = states; i < s->n_in; i++) {
    struct infer_type x;
    uint32_t at;
    infer_in(s, i, &x);
    if (x.ranked && infer_axis(s, axis_at(axes, n_axes, i - states), x.rank, &at))
      length = infer_same_dim(s, length, x.dims[at]);
  }
  return length;
}

// Of opset 8: input 0 says how long each sequence of the batch is, states are [batch, …], and what is scanned and comes
// out of it [batch, length, …], padded to the longest.
static uint32_t scan_batch(struct infer_site *s, uint32_t body, uint32_t n_scan, uint32_t step) {
  const uint32_t states = 1 + (s->n_in - 1 - n_scan);
  const struct executed_plan c = {.body = body, .n = states - 1, .from = 1, .batched = true};
  dim_id batch = NO_ID, length = NO_ID;
  if (step == 0) {
    s->state = dims_next(s->d);
    bind_first(s, &c);
  }
  for (uint32_t i = 1; i < s->n_in; i++) {
    struct infer_type x, one, slice;
    infer_in(s, i, &x);
    if (x.ranked && x.rank < 1 + (i >= states)) {
      infer_invalid(s, "input %u has %u dim%s", i, x.rank, plural(x.rank));
      return NO_ID;
    }
    if (x.ranked) batch = infer_same_dim(s, batch, x.dims[0]);
    if (i < states) continue;
    if (x.ranked) length = infer_same_dim(s, length, x.dims[1]);
    slice_of(s, &x, 0, &one);
    slice_of(s, &one, 0, &slice);
    if (step == 0) infer_bind(s, infer_graph_input(s, body, i - 1), &slice);
  }
  if (s->why == INFER_WHY_INVALID) return NO_ID;
  if (step == 0 || (step < ROUNDS && bind_again(s, &c, step))) return body;
  for (uint32_t i = 0; i < s->n_out; i++) {
    struct infer_type one, all;
    if (i < c.n) {
      carried_last(s, &c, i, &one);
    } else {
      struct infer_type slice;
      infer_value(s, infer_graph_output(s, body, i), &slice);
      infer_leave(s, &slice, s->state);
      stacked(s, &slice, length, 0, &one);
    }
    stacked(s, &one, batch, 0, &all);
    infer_out(s, i, &all);
  }
  return NO_ID;
}

uint32_t infer_scan(struct infer_site *s, uint32_t step) {
  const uint32_t body = infer_attr_graph(s, "body");
  const int64_t *axes, *out_axes;
  uint32_t n_axes, n_out_axes;
  int64_t n_scan;
  if (body == NO_ID) return NO_ID;
  if (!infer_attr_int(s, "num_scan_inputs", 0, &n_scan) || n_scan < 1 || n_scan > s->n_in)
    return NO_ID;
  if (s->version < 9)
    return (uint64_t)n_scan < s->n_in ? scan_batch(s, body, (uint32_t)n_scan, step) : NO_ID;
  if (!infer_attr_ints(s, "scan_input_axes", &axes, &n_axes) ||
      !infer_attr_ints(s, "scan_output_axes", &out_axes, &n_out_axes))
    return NO_ID;
  const struct executed_plan c = {body, s->n_in - (uint32_t)n_scan, 0, 0, 0, false};
  if (step == 0) {
    s->state = dims_next(s->d);
    bind_first(s, &c);
    bind_slices(s, body, c.n, axes, n_axes);
    return body;
  }
  if (step < ROUNDS && bind_again(s, &c, step)) return body;
  carried_out(s, &c);
  const dim_id length = scanned(s, c.n, axes, n_axes);
  for (uint32_t i = c.n; i < s->n_out; i++) {
    struct infer_type slice, all;
    infer_value(s, infer_graph_output(s, body, i), &slice);
    infer_leave(s, &slice, s->state);
    stacked(s, &slice, length, axis_at(out_axes, n_out_axes, i - c.n), &all);
    infer_out(s, i, &all);
  }
  return NO_ID;
}

// ---- sequences and optionals -----------------------------------------------------------------------

static void out_kind(struct infer_site *s, uint32_t slot, struct infer_type t,
                     enum infer_kind kind) {
  t.kind = kind;
  infer_out(s, slot, &t);
}

void infer_sequence_empty(struct infer_site *s) {
  int64_t dtype;
  if (!infer_attr_int(s, "dtype", DTYPE_FLOAT, &dtype) || !dtype_known(dtype)) return;
  s->why = INFER_WHY_DATA;
  out_kind(s, 0, (struct infer_type){.dtype = (enum dtype)dtype}, INFER_SEQUENCE);
}

void infer_sequence_construct(struct infer_site *s) {
  struct infer_type all = {.dtype = DTYPE_UNDEFINED}, t;
  for (uint32_t i = 0; i < s->n_in; i++) {
    infer_in(s, i, &t);
    if (i == 0)
      all = t;
    else
      infer_join(s, &all, &t, &all);
  }
  out_kind(s, 0, all, INFER_SEQUENCE);
}

void infer_sequence_insert(struct infer_site *s) {
  struct infer_type list, x, both;
  infer_in(s, 0, &list);
  infer_in(s, 1, &x);
  x.kind = list.kind = INFER_SEQUENCE;
  infer_join(s, &list, &x, &both);
  infer_out(s, 0, &both);
}

void infer_sequence_erase(struct infer_site *s) {
  struct infer_type list;
  infer_in(s, 0, &list);
  infer_out(s, 0, &list);
}

// What a sequence or an optional holds; something else is given as it is.
void infer_element(struct infer_site *s) {
  struct infer_type list;
  if (!infer_in(s, 0, &list)) return;
  if (list.kind == INFER_SEQUENCE) s->why = INFER_WHY_DATA;
  if (list.kind != INFER_OTHER) out_kind(s, 0, list, INFER_TENSOR);
}

void infer_sequence_length(struct infer_site *s) {
  infer_out_dims(s, 0, DTYPE_INT64, NULL, 0);
}

void infer_split_to_sequence(struct infer_site *s) {
  struct infer_type x, part;
  int64_t axis, keepdims, size;
  uint32_t at;
  infer_in(s, 0, &x);
  part = (struct infer_type){.dtype = x.dtype};
  s->why = INFER_WHY_DATA;
  if (x.ranked && infer_attr_int(s, "axis", 0, &axis) &&
      infer_attr_int(s, "keepdims", 1, &keepdims) && infer_axis(s, axis, x.rank, &at)) {
    const bool whole = infer_has(s, 1);
    dim_id *dims = infer_dim_room(s, x.rank), whole_dim = NO_ID, length;
    int64_t n;
    // Pieces of one length where it divides the dim.
    if (!whole)
      whole_dim = infer_one(s);
    else if (infer_int(s, 1, &size) && size > 0 && x.dims[at] != NO_ID &&
             (length = dims_mod(s->d, x.dims[at], dims_number(s->d, size))) != NO_ID &&
             dims_is_number(s->d, length, &n) && n == 0)
      whole_dim = dims_number(s->d, size);
    uint32_t rank = 0;
    for (uint32_t d = 0; d < x.rank; d++)
      if (d != at || whole || keepdims) dims[rank++] = d == at ? whole_dim : x.dims[d];
    part = (struct infer_type){.dtype = x.dtype, .ranked = true, .rank = rank, .dims = dims};
  }
  out_kind(s, 0, part, INFER_SEQUENCE);
}

void infer_concat_from_sequence(struct infer_site *s) {
  struct infer_type list;
  int64_t axis, stack;
  uint32_t at;
  infer_in(s, 0, &list);
  infer_out_dtype(s, 0, list.dtype);
  s->why = INFER_WHY_DATA;
  if (!list.ranked || !infer_attr_int(s, "axis", 0, &axis) ||
      !infer_attr_int(s, "new_axis", 0, &stack))
    return;
  const uint32_t rank = list.rank + (stack != 0);
  if (!infer_axis(s, axis, rank, &at)) return;
  dim_id *dims = infer_dim_room(s, rank);
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i == at ? NO_ID : list.dims[i - (stack && i > at)];
  infer_out_dims(s, 0, list.dtype, dims, rank);
}

uint32_t infer_sequence_map(struct infer_site *s, uint32_t step) {
  const uint32_t body = infer_attr_graph(s, "body");
  if (body == NO_ID) return NO_ID;
  if (step == 0) {
    s->state = dims_next(s->d);
    for (uint32_t i = 0; i < s->n_in; i++) {
      struct infer_type t;
      infer_in(s, i, &t);
      t.kind = INFER_TENSOR;
      infer_bind(s, infer_graph_input(s, body, i), &t);
    }
    return body;
  }
  for (uint32_t i = 0; i < s->n_out; i++) {
    struct infer_type t;
    infer_value(s, infer_graph_output(s, body, i), &t);
    infer_leave(s, &t, s->state);
    out_kind(s, i, t, INFER_SEQUENCE);
  }
  return NO_ID;
}

void infer_optional(struct infer_site *s) {
  struct infer_type x;
  if (infer_in(s, 0, &x)) out_kind(s, 0, x, INFER_OPTIONAL);
}

void infer_optional_has_element(struct infer_site *s) {
  infer_out_dims(s, 0, DTYPE_BOOL, NULL, 0);
}
