// Rules of inference for operators that reduce axes: what is left of the dims, and sums, products, extremes of small values.
#include "infer/inside/infer_rules.h"

// A reduction of the lists of elements.
static dim_id folded(struct infer_site *s, dim_id a, dim_id b) {
  if (a == NO_ID || b == NO_ID) return NO_ID;
  if (strcmp(s->op->name, "ReduceSum") == 0) return dims_add(s->d, a, b);
  if (strcmp(s->op->name, "ReduceProd") == 0) return dims_mul(s->d, a, b);
  if (strcmp(s->op->name, "ReduceMax") == 0) return dims_max(s->d, a, b);
  if (strcmp(s->op->name, "ReduceMin") == 0) return dims_min(s->d, a, b);
  return NO_ID;
}

// Does the type hold it? Floats are exact below 2^24; expressions are sizes, which fit.
static bool holds(struct infer_site *s, dim_id d, enum dtype dtype) {
  int64_t n;
  if (d == NO_ID || dtype == DTYPE_INT64 || !dims_is_number(s->d, d, &n)) return d != NO_ID;
  if (dtype == DTYPE_INT32) return n >= INT32_MIN && n <= INT32_MAX;
  return n > -(1 << 24) && n < 1 << 24;
}

static void reduced_list(struct infer_site *s, const struct infer_type *x, const bool *gone) {
  const struct infer_number *list;
  const int64_t *dims;
  uint32_t n, count = 1;
  int64_t step[INFER_RANK_MAX];
  if (x->dtype != DTYPE_INT64 && x->dtype != DTYPE_INT32 && x->dtype != DTYPE_FLOAT) return;
  if (!infer_list(s, 0, &list, &n) || n == 0 || !infer_static(s, x, &dims)) return;
  for (uint32_t d = x->rank; d-- > 0;) {
    step[d] = gone[d] ? 0 : count;
    if (!gone[d]) count *= (uint32_t)dims[d];
  }
  struct infer_number *out = arena_alloc(s->a, count * sizeof *out + 1);
  bool *begun = arena_zalloc(s->a, count + 1);
  for (uint32_t i = 0; i < n; i++) {
    int64_t at = 0;
    uint32_t rest = i;
    for (uint32_t d = x->rank; d-- > 0;) {
      at += step[d] * (rest % (uint32_t)dims[d]);
      rest /= (uint32_t)dims[d];
    }
    const dim_id whole = list[i].den == 1 ? list[i].num : NO_ID;
    // Of a single element there is nothing to reduce, but its sign or root may be what is asked for.
    const dim_id first = n == count ? folded(s, whole, whole) == NO_ID ? NO_ID : whole : whole;
    out[at] = (struct infer_number){begun[at] ? folded(s, out[at].num, whole) : first, 1};
    begun[at] = true;
  }
  bool any = false;
  for (uint32_t i = 0; i < count; i++) {
    if (!holds(s, out[i].num, x->dtype)) out[i] = infer_no_number();
    any = any || out[i].num != NO_ID;
  }
  if (any) infer_out_list(s, 0, out, count);
}

static void reduced(struct infer_site *s, const struct infer_type *x, const bool *gone, bool keep,
                    enum dtype dtype) {
  dim_id *dims = infer_dim_room(s, x->rank);
  uint32_t rank = 0;
  for (uint32_t i = 0; i < x->rank; i++)
    if (!gone[i] || keep) dims[rank++] = gone[i] ? infer_one(s) : x->dims[i];
  infer_out_dims(s, 0, dtype, dims, rank);
}

// How many axes an input names whose elements are not known; false: that is not known either.
static bool axes_count(struct infer_site *s, int64_t *n) {
  struct infer_type t;
  return infer_in(s, 1, &t) && t.ranked && t.rank == 1 && dims_is_number(s->d, t.dims[0], n);
}

// With axes that are not known: the rank, if axes stay as 1 or a single one goes.
static void some_axes(struct infer_site *s, const struct infer_type *x, bool keep,
                      enum dtype dtype) {
  int64_t n;
  s->why = INFER_WHY_DATA;
  if (keep)
    infer_out_dims(s, 0, dtype, infer_dim_room(s, x->rank), x->rank);
  else if (axes_count(s, &n) && n == 1 && x->rank >= 1)
    infer_out_dims(s, 0, dtype, infer_dim_room(s, x->rank - 1), x->rank - 1);
  else
    infer_out_dtype(s, 0, dtype);
}

void infer_reduce(struct infer_site *s) {
  struct infer_type x;
  const int64_t *axes;
  uint32_t n;
  int64_t keep, noop, count;
  bool given, gone[INFER_RANK_MAX] = {false};
  infer_in(s, 0, &x);
  const enum dtype dtype = infer_dtype_by_signature(s, 0);
  if (!infer_attr_int(s, "keepdims", 1, &keep) ||
      !infer_attr_int(s, "noop_with_empty_axes", 0, &noop))
    return;
  const bool as_input = s->signature && s->signature->n_inputs == 2;
  bool known = infer_axes(s, as_input && infer_has(s, 1) ? 1 : NO_ID, &given, &axes, &n);
  if (!known && as_input && axes_count(s, &count) && count == 0) {
    known = true;
    n = 0;
  }
  if (!x.ranked) {
    if (keep != 1 && known && n == 0 && noop != 1)
      infer_out_dims(s, 0, dtype, NULL, 0);
    else
      infer_out_dtype(s, 0, dtype);
    return;
  }
  if (!known) {
    some_axes(s, &x, keep == 1, dtype);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at;
    if (!infer_axis(s, axes[i], x.rank, &at)) return;
    if (infer_invalid_if(s, gone[at], "axis %u is listed twice", at)) return;
    gone[at] = true;
  }
  for (uint32_t i = 0; i < x.rank && n == 0 && noop != 1; i++)
    gone[i] = true;
  reduced(s, &x, gone, keep == 1, dtype);
  reduced_list(s, &x, gone);
}

// ArgMax, ArgMin: one axis.
void infer_reduce_arg(struct infer_site *s) {
  struct infer_type x;
  int64_t axis, keep;
  uint32_t at;
  bool gone[INFER_RANK_MAX] = {false};
  infer_in(s, 0, &x);
  if (!infer_known(s,
                   x.ranked && infer_attr_int(s, "axis", 0, &axis) &&
                       infer_attr_int(s, "keepdims", 1, &keep),
                   DTYPE_INT64))
    return;
  if (!infer_axis(s, axis, x.rank, &at)) return;
  gone[at] = true;
  reduced(s, &x, gone, keep == 1, DTYPE_INT64);
}

// ---- losses --------------------------------------------------------------------------------------------

// One for each label, or one for all; then what else comes out has the dims of the scores.
void infer_loss(struct infer_site *s) {
  struct infer_type scores, labels;
  struct span reduction;
  infer_in(s, 0, &scores);
  infer_in(s, 1, &labels);
  infer_out(s, 1, &scores);
  if (!infer_attr_string(s, "reduction", "mean", &reduction)) return;
  if (!span_is(reduction, "none"))
    infer_out_dims(s, 0, scores.dtype, NULL, 0);
  else {
    labels.dtype = scores.dtype;
    infer_out(s, 0, &labels);
  }
}
