// Rules of inference for operators that put elements elsewhere: the dims of what comes out, and the elements of small values.
//
// A small value goes where its elements go: each rule says for every element of the result which element
// of which input it is (a source), and one function copies. An element that is not known stays so.
#include "infer/inside/infer_rules.h"

// The dims of output 0 as numbers, and how many elements that is.
static bool result_size(struct infer_site *s, const int64_t **dims, uint32_t *rank, uint32_t *n) {
  struct infer_type t;
  if (!infer_value(s, model_output(s->m, &s->m->nodes[s->node], 0), &t)) return false;
  *rank = t.rank;
  return infer_static(s, &t, dims) && infer_list_size(*dims, t.rank, n);
}

// The same elements under other dims.
static void same_list(struct infer_site *s) {
  const struct infer_number *list;
  uint32_t n;
  if (infer_list(s, 0, &list, &n)) infer_out_list(s, 0, list, n);
}

// A result whose element at coordinates c is that of input 0 at first + sum of step[d] * c[d].
static void strided_list(struct infer_site *s, int64_t first, const int64_t *step) {
  const struct infer_number *list;
  const int64_t *dims;
  uint32_t n, rank, of;
  if (!infer_list(s, 0, &list, &of) || !result_size(s, &dims, &rank, &n)) return;
  struct infer_number *out = infer_number_room(s, n);
  for (uint32_t i = 0; i < n; i++) {
    int64_t at = first;
    uint32_t rest = i;
    for (uint32_t d = rank; d-- > 0;) {
      at += step[d] * (rest % (uint32_t)dims[d]);
      rest /= (uint32_t)dims[d];
    }
    if (at >= 0 && at < of) out[i] = list[at];
  }
  infer_out_list(s, 0, out, n);
}

static void strides(const int64_t *dims, uint32_t rank, int64_t *step) {
  int64_t n = 1;
  for (uint32_t d = rank; d-- > 0;) {
    step[d] = n;
    if (__builtin_mul_overflow(n, dims[d], &n)) n = 0;
  }
}

// ---- constants and shapes ------------------------------------------------------------------------

// The model's own tensor; in a function's body the attribute may be the caller's.
void infer_constant(struct infer_site *s) {
  struct model_constant c;
  const uint32_t value = model_output(s->m, &s->m->nodes[s->node], 0);
  if (value == NO_ID) return;
  if (model_resolve_constant(s->m, value, &c)) {
    infer_of_tensor(s, 0, c.tensor);
    return;
  }
  const struct model_attr *a = infer_attr(s, "value");
  if (a && a->type == ATTR_TENSOR && a->ref_name == s->m->empty) {
    infer_of_tensor(s, 0, a->first);
    return;
  }
  int64_t x;
  if (infer_attr(s, "value_int") && infer_attr_int(s, "value_int", 0, &x)) {
    const struct infer_number one = infer_number_of(s, x);
    infer_out_dims(s, 0, DTYPE_INT64, NULL, 0);
    infer_out_list(s, 0, &one, 1);
    return;
  }
  const int64_t *list;
  uint32_t n;
  if (infer_attr(s, "value_ints") && infer_attr_ints(s, "value_ints", &list, &n)) {
    struct infer_number *out = infer_number_room(s, n);
    for (uint32_t i = 0; i < n; i++)
      out[i] = infer_number_of(s, list[i]);
    const dim_id dim = dims_number(s->d, n);
    infer_out_dims(s, 0, DTYPE_INT64, &dim, 1);
    infer_out_list(s, 0, out, n);
    return;
  }
  if (infer_attr(s, "value_float")) infer_out_dims(s, 0, DTYPE_FLOAT, NULL, 0);
  s->why = INFER_WHY_ATTRIBUTE;
}

void infer_shape(struct infer_site *s) {
  struct infer_type x;
  int64_t start, end;
  infer_in(s, 0, &x);
  const dim_id unknown = NO_ID;
  if (!x.ranked || !infer_attr_int(s, "start", 0, &start) ||
      !infer_attr_int(s, "end", INT64_MAX, &end)) {
    infer_out_dims(s, 0, DTYPE_INT64, &unknown, 1);
    return;
  }
  const int64_t rank = x.rank;
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end > rank ? rank : end < start ? start : end;
  const uint32_t n = (uint32_t)(end - start);
  struct infer_number *out = infer_number_room(s, n);
  for (uint32_t i = 0; i < n; i++)
    out[i].num = x.dims[start + i];
  const dim_id dim = dims_number(s->d, n);
  infer_out_dims(s, 0, DTYPE_INT64, &dim, 1);
  infer_out_list(s, 0, out, n);
}

void infer_size(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  infer_out_dims(s, 0, DTYPE_INT64, NULL, 0);
  if (!x.ranked) return;
  const struct infer_number n = {infer_product(s, x.dims, x.rank), 1};
  infer_out_list(s, 0, &n, 1);
}

// Dims that a list of them says; -1 only where `given` allows it. False: the rank is not known.
static bool dims_from(struct infer_site *s, uint32_t slot, dim_id **dims, uint32_t *rank) {
  const struct infer_number *list;
  struct infer_type t;
  int64_t n;
  if (infer_list(s, slot, &list, rank)) {
    *dims = infer_dim_room(s, *rank);
    for (uint32_t i = 0; i < *rank; i++)
      if (list[i].den == 1) (*dims)[i] = list[i].num;
    return *rank <= INFER_RANK_MAX;
  }
  if (!infer_in(s, slot, &t) || !t.ranked || t.rank != 1 || t.dims[0] == NO_ID) return false;
  if (!dims_is_number(s->d, t.dims[0], &n) || n < 0 || n > INFER_RANK_MAX) return false;
  *rank = (uint32_t)n;
  *dims = infer_dim_room(s, *rank);
  return true;
}

void infer_constant_of_shape(struct infer_site *s) {
  dim_id *dims;
  uint32_t rank, n;
  const int64_t *of;
  struct infer_number fill = infer_number_of(s, 0);
  enum dtype dtype = DTYPE_FLOAT;
  const struct model_attr *a = infer_attr(s, "value");
  if (a && a->type == ATTR_TENSOR && a->ref_name == s->m->empty && a->first != NO_ID) {
    dtype = (enum dtype)s->m->tensors[a->first].dtype;
    fill = infer_tensor_number(s, a->first);
  } else if (a) {
    dtype = DTYPE_UNDEFINED;
    fill = infer_no_number();
  }
  if (!infer_known(s, dims_from(s, 0, &dims, &rank), dtype)) return;
  for (uint32_t i = 0; i < rank; i++)
    if (infer_invalid_if(s, dims[i] != NO_ID && dims_most(s->d, dims[i]) < 0, "a dim is negative"))
      return;
  infer_out_dims(s, 0, dtype, dims, rank);
  if (!result_size(s, &of, &rank, &n)) return;
  struct infer_number *out = infer_number_room(s, n);
  for (uint32_t i = 0; i < n; i++)
    out[i] = fill;
  infer_out_list(s, 0, out, n);
}

// Max(0, ceil((limit - start) / delta)) numbers.
void infer_range(struct infer_site *s) {
  struct infer_type t;
  const dim_id *start, *limit, *delta;
  uint32_t n[3];
  int64_t step;
  infer_in(s, 0, &t);
  const dim_id unknown = NO_ID;
  const bool known = infer_whole(s, 0, &start, &n[0]) && infer_whole(s, 1, &limit, &n[1]) &&
                     infer_whole(s, 2, &delta, &n[2]) && n[0] == 1 && n[1] == 1 && n[2] == 1 &&
                     dims_is_number(s->d, delta[0], &step) && step != INT64_MIN;
  if (infer_invalid_if(s, known && step == 0, "its step is 0")) return;
  if (!known) {
    s->why = INFER_WHY_DATA;
    infer_out_dims(s, 0, t.dtype, &unknown, 1);
    return;
  }
  const dim_id distance =
      step > 0 ? dims_sub(s->d, limit[0], start[0]) : dims_sub(s->d, start[0], limit[0]);
  const dim_id by = dims_number(s->d, step > 0 ? step : -step);
  const dim_id length = dims_max(s->d, dims_number(s->d, 0), dims_ceil_div(s->d, distance, by));
  infer_out_dims(s, 0, t.dtype, &length, 1);
  int64_t count;
  if (!dims_is_number(s->d, length, &count) || count > INFER_LIST) return;
  struct infer_number *out = infer_number_room(s, (uint32_t)count);
  for (int64_t i = 0; i < count; i++)
    out[i].num = dims_add(s->d, start[0], dims_mul(s->d, delta[0], dims_number(s->d, i)));
  infer_out_list(s, 0, out, (uint32_t)count);
}

// ---- the same elements, other dims -----------------------------------------------------------------

void infer_reshape(struct infer_site *s) {
  struct infer_type x;
  dim_id *dims;
  uint32_t rank, open = NO_ID;
  int64_t allowzero;
  infer_in(s, 0, &x);
  if (s->version < 5) {
    const int64_t *list;
    if (!infer_attr_ints(s, "shape", &list, &rank) || rank > INFER_RANK_MAX) return;
    dims = infer_dim_room(s, rank);
    for (uint32_t i = 0; i < rank; i++)
      dims[i] = dims_number(s->d, list[i]);
  } else if (!dims_from(s, 1, &dims, &rank)) {
    infer_out_dtype(s, 0, x.dtype);
    return;
  }
  if (!infer_attr_int(s, "allowzero", 0, &allowzero)) return;
  dim_id *out = infer_dim_room(s, rank);
  bool unclear = false;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t n;
    if (dims[i] == NO_ID) {
      unclear = true;
      continue;
    }
    const bool number = dims_is_number(s->d, dims[i], &n);
    if (infer_invalid_if(s, number && n == -1 && open != NO_ID, "two of its dims are -1")) return;
    if (number && n == -1)
      open = i;
    else if (number && n < -1) {
      infer_invalid(s, "a dim is %s", integer(n).s);
      return;
    } else if (number && n == 0 && !allowzero) {
      if (infer_invalid_if(s, x.ranked && i >= x.rank, "dim %u is that of the input, which has %u",
                           i, x.rank))
        return;
      out[i] = x.ranked ? x.dims[i] : NO_ID;
      unclear = unclear || out[i] == NO_ID;
    } else if (!number && dims_least(s->d, dims[i]) < (allowzero ? 0 : 1)) {
      unclear = true; // it may be 0 or -1
    } else {
      out[i] = dims[i];
    }
  }
  if (open != NO_ID && !unclear && x.ranked) out[open] = infer_open_dim(s, &x, out, rank, open);
  if (s->why == INFER_WHY_INVALID) return;
  if (open == NO_ID && !unclear && x.ranked && !infer_same_size(s, &x, out, rank)) return;
  infer_out_dims(s, 0, x.dtype, out, rank);
  same_list(s);
}

// The dim that is left: the product of all that come in over the product of the others.
dim_id infer_open_dim(struct infer_site *s, const struct infer_type *x, const dim_id *dims,
                      uint32_t rank, uint32_t open) {
  dim_id over = infer_one(s);
  bool gone[INFER_RANK_MAX] = {false};
  // What is on both sides is left out first: products stay short.
  for (uint32_t i = 0; i < rank; i++) {
    if (i == open) continue;
    bool found = false;
    for (uint32_t k = 0; k < x->rank && !found; k++)
      if (!gone[k] && x->dims[k] == dims[i] && dims_least(s->d, dims[i]) >= 1)
        found = gone[k] = true;
    if (!found) over = over == NO_ID ? NO_ID : dims_mul(s->d, over, dims[i]);
  }
  dim_id all = infer_one(s);
  for (uint32_t k = 0; k < x->rank && all != NO_ID; k++)
    if (!gone[k]) all = x->dims[k] == NO_ID ? NO_ID : dims_mul(s->d, all, x->dims[k]);
  if (all == NO_ID || over == NO_ID) return NO_ID;
  int64_t a, b;
  if (dims_is_number(s->d, over, &b) && b == 0) return NO_ID;
  if (dims_is_number(s->d, all, &a) && dims_is_number(s->d, over, &b) && b != 0 && a % b != 0) {
    infer_invalid(s, "%s elements are not divisible by %s", integer(a).s, integer(b).s);
    return NO_ID;
  }
  return dims_exact_div(s->d, all, over);
}

bool infer_same_size(struct infer_site *s, const struct infer_type *x, const dim_id *dims,
                     uint32_t rank) {
  const dim_id a = infer_product(s, x->dims, x->rank), b = infer_product(s, dims, rank);
  int64_t m, n;
  if (a == NO_ID || b == NO_ID || !dims_is_number(s->d, a, &m) || !dims_is_number(s->d, b, &n))
    return true;
  if (m == n) return true;
  infer_invalid(s, "%s elements cannot become %s", integer(m).s, integer(n).s);
  return false;
}

void infer_flatten(struct infer_site *s) {
  struct infer_type x;
  int64_t axis;
  infer_in(s, 0, &x);
  dim_id dims[2] = {NO_ID, NO_ID};
  if (x.ranked && infer_attr_int(s, "axis", 1, &axis)) {
    if (axis < 0) axis += x.rank;
    if (infer_invalid_if(s, axis < 0 || axis > x.rank, "axis %s of %u dim%s", integer(axis).s,
                         x.rank, plural(x.rank)))
      return;
    dims[0] = infer_product(s, x.dims, (uint32_t)axis);
    dims[1] = infer_product(s, x.dims + axis, x.rank - (uint32_t)axis);
  }
  infer_out_dims(s, 0, x.dtype, dims, 2);
  same_list(s);
}

// Which axes of a rank the list names; false: one is none, or comes twice.
static bool named(struct infer_site *s, const int64_t *axes, uint32_t n, uint32_t rank, bool *is) {
  for (uint32_t i = 0; i < rank; i++)
    is[i] = false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at;
    if (!infer_axis(s, axes[i], rank, &at)) return false;
    if (infer_invalid_if(s, is[at], "axis %u is listed twice", at)) return false;
    is[at] = true;
  }
  return true;
}

void infer_squeeze(struct infer_site *s) {
  struct infer_type x;
  const int64_t *axes;
  uint32_t n;
  bool given, gone[INFER_RANK_MAX];
  infer_in(s, 0, &x);
  const bool known = infer_axes(s, s->version < 13 ? NO_ID : 1, &given, &axes, &n);
  if (!infer_known(s, x.ranked && known, x.dtype)) return;
  if (n == 0) given = false;
  if (!named(s, axes, n, x.rank, gone)) return;
  dim_id *dims = infer_dim_room(s, x.rank);
  uint32_t rank = 0;
  for (uint32_t i = 0; i < x.rank; i++) {
    int64_t size;
    const bool number = x.dims[i] != NO_ID && dims_is_number(s->d, x.dims[i], &size);
    if (!given && !number) { // it may be 1 or not
      infer_out_dtype(s, 0, x.dtype);
      s->why = INFER_WHY_DATA;
      return;
    }
    if (given && gone[i] && number && size != 1) {
      infer_invalid(s, "dim %u is %s, not 1", i, integer(size).s);
      return;
    }
    if (given ? !gone[i] : size != 1) dims[rank++] = x.dims[i];
  }
  infer_out_dims(s, 0, x.dtype, dims, rank);
  same_list(s);
}

void infer_unsqueeze(struct infer_site *s) {
  struct infer_type x;
  const int64_t *axes;
  uint32_t n, from = 0;
  bool given, made[INFER_RANK_MAX];
  infer_in(s, 0, &x);
  if (!infer_known(s,
                   infer_axes(s, s->version < 13 ? NO_ID : 1, &given, &axes, &n) && x.ranked &&
                       x.rank + (uint64_t)n <= INFER_RANK_MAX,
                   x.dtype))
    return;
  const uint32_t rank = x.rank + n;
  if (!named(s, axes, n, rank, made)) return;
  dim_id *dims = infer_dim_room(s, rank);
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = made[i] ? infer_one(s) : x.dims[from++];
  infer_out_dims(s, 0, x.dtype, dims, rank);
  same_list(s);
}

// ---- other places ----------------------------------------------------------------------------------

void infer_transpose(struct infer_site *s) {
  struct infer_type x;
  const int64_t *perm, *dims_of;
  uint32_t n;
  bool seen[INFER_RANK_MAX];
  if (!infer_in(s, 0, &x)) return;
  if (!infer_known(
          s, infer_attr_ints(s, "perm", &perm, &n) && (x.ranked || (perm && n <= INFER_RANK_MAX)),
          x.dtype))
    return;
  if (infer_invalid_if(s, perm && x.ranked && n != x.rank, "perm has %u %s, the input %u", n,
                       n == 1 ? "axis" : "axes", x.rank))
    return;
  if (perm && !named(s, perm, n, n, seen)) return;
  if (!x.ranked) { // as many axes as there are named
    infer_out_dims(s, 0, x.dtype, infer_dim_room(s, n), n);
    return;
  }
  dim_id *dims = infer_dim_room(s, x.rank);
  for (uint32_t i = 0; i < x.rank; i++)
    dims[i] = x.dims[perm ? (perm[i] < 0 ? perm[i] + x.rank : perm[i]) : x.rank - 1 - i];
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
  if (!infer_static(s, &x, &dims_of)) return;
  int64_t of[INFER_RANK_MAX], step[INFER_RANK_MAX];
  strides(dims_of, x.rank, of);
  for (uint32_t i = 0; i < x.rank; i++)
    step[i] = of[perm ? (perm[i] < 0 ? perm[i] + x.rank : perm[i]) : x.rank - 1 - i];
  strided_list(s, 0, step);
}

void infer_expand(struct infer_site *s) {
  struct infer_type types[2] = {{.dtype = DTYPE_UNDEFINED}};
  dim_id *to;
  const dim_id *dims;
  const int64_t *of;
  uint32_t rank, n;
  infer_in(s, 0, &types[0]);
  if (!infer_known(s, dims_from(s, 1, &to, &rank) && types[0].ranked, types[0].dtype)) return;
  types[1] = (struct infer_type){.ranked = true, .rank = rank, .dims = to};
  if (!infer_broadcast(s, types, 2, &dims, &rank)) return;
  infer_out_dims(s, 0, types[0].dtype, dims, rank);
  const struct infer_number *list;
  struct infer_spread p;
  uint32_t count;
  if (!infer_list(s, 0, &list, &count) || !result_size(s, &of, &rank, &n)) return;
  if (!infer_spread(s, &types[0], of, rank, &p)) return;
  struct infer_number *out = infer_number_room(s, n);
  for (uint32_t i = 0; i < n; i++)
    out[i] = list[infer_spread_at(&p, i)];
  infer_out_list(s, 0, out, n);
}

void infer_concat(struct infer_site *s) {
  struct infer_type first = {.dtype = DTYPE_UNDEFINED}, x;
  int64_t axis;
  uint32_t at = 0, total = 0;
  bool lists = true;
  dim_id *dims = NULL;
  if (!infer_attr_int(s, "axis", 1, &axis)) return;
  for (uint32_t i = 0; i < s->n_in; i++) {
    infer_in(s, i, &x);
    if (first.dtype == DTYPE_UNDEFINED) first.dtype = x.dtype;
    if (!x.ranked) {
      // One that is known tells the rank, and nothing of the axis.
      lists = false;
      if (dims) dims[at] = NO_ID;
      first.kind = INFER_OTHER;
      continue;
    }
    if (!dims) {
      if (!infer_axis(s, axis, x.rank, &at)) return;
      first.rank = x.rank;
      dims = infer_dim_room(s, x.rank);
      for (uint32_t d = 0; d < x.rank; d++)
        dims[d] = x.dims[d];
      if (first.kind == INFER_OTHER) dims[at] = NO_ID;
      continue;
    }
    if (infer_invalid_if(s, x.rank != first.rank, "its inputs have %u and %u dims", first.rank,
                         x.rank))
      return;
    for (uint32_t d = 0; d < x.rank; d++) {
      if (d != at)
        dims[d] = infer_same_dim(s, dims[d], x.dims[d]);
      else
        dims[d] =
            dims[d] == NO_ID || x.dims[d] == NO_ID ? NO_ID : dims_add(s->d, dims[d], x.dims[d]);
    }
    if (s->why == INFER_WHY_INVALID) return;
  }
  if (!infer_known(s, dims != NULL, first.dtype)) return;
  infer_out_dims(s, 0, first.dtype, dims, first.rank);
  const int64_t *of;
  uint32_t rank, n;
  if (!lists || !result_size(s, &of, &rank, &n)) return;
  struct infer_number *out = infer_number_room(s, n);
  if (n == 0) {
    infer_out_list(s, 0, out, 0);
    return;
  }
  int64_t outer = 1, inner = 1;
  for (uint32_t d = 0; d < at; d++)
    outer *= of[d];
  for (uint32_t d = at + 1; d < rank; d++)
    inner *= of[d];
  for (uint32_t i = 0; i < s->n_in; i++) {
    const struct infer_number *list;
    const int64_t *in_dims;
    uint32_t count;
    infer_in(s, i, &x);
    if (!infer_static(s, &x, &in_dims)) return;
    int64_t run;
    if (__builtin_mul_overflow(in_dims[at], inner, &run) || run > INFER_LIST) return;
    if (infer_list(s, i, &list, &count))
      for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < run; k++)
          // A declared result may have other dims.
          if (o * run + k < count && o * of[at] * inner + total + k < n)
            out[o * of[at] * inner + total + k] = list[o * run + k];
    total += (uint32_t)run;
  }
  infer_out_list(s, 0, out, n);
}

// False, and the node is invalid, where a number among the indices is none of the dim's.
static bool indices_in(struct infer_site *s, dim_id dim, const struct infer_number *which,
                       uint32_t n) {
  int64_t size, j;
  if (dim == NO_ID || !dims_is_number(s->d, dim, &size)) return true;
  for (uint32_t i = 0; i < n; i++)
    if (which[i].num != NO_ID && which[i].den == 1 && dims_is_number(s->d, which[i].num, &j) &&
        (j < -size || j >= size)) {
      infer_invalid(s, "index %s of a dim of %s", integer(j).s, integer(size).s);
      return false;
    }
  return true;
}

void infer_gather(struct infer_site *s) {
  struct infer_type x, index;
  int64_t axis;
  uint32_t at;
  infer_in(s, 0, &x);
  infer_in(s, 1, &index);
  if (!infer_known(s, x.ranked && index.ranked && infer_attr_int(s, "axis", 0, &axis), x.dtype))
    return;
  if (!infer_axis(s, axis, x.rank, &at)) return;
  const uint32_t rank = x.rank - 1 + index.rank;
  if (!infer_known(s, rank <= INFER_RANK_MAX, x.dtype)) return;
  dim_id *dims = infer_dim_room(s, rank);
  uint32_t to = 0;
  for (uint32_t d = 0; d < at; d++)
    dims[to++] = x.dims[d];
  for (uint32_t d = 0; d < index.rank; d++)
    dims[to++] = index.dims[d];
  for (uint32_t d = at + 1; d < x.rank; d++)
    dims[to++] = x.dims[d];
  infer_out_dims(s, 0, x.dtype, dims, rank);
  const struct infer_number *list, *which;
  const int64_t *of, *in_dims;
  uint32_t n, count, n_which;
  if (!infer_list(s, 1, &which, &n_which) || !indices_in(s, x.dims[at], which, n_which)) return;
  if (!infer_list(s, 0, &list, &count)) return;
  if (!infer_static(s, &x, &in_dims) || !result_size(s, &of, &to, &n)) return;
  struct infer_number *out = infer_number_room(s, n);
  int64_t inner = 1;
  for (uint32_t d = at + 1; n > 0 && d < x.rank; d++)
    inner *= in_dims[d];
  if (n > 0 && (inner == 0 || n_which == 0)) return; // then a result with elements is only declared
  for (uint32_t i = 0; i < n; i++) {
    const int64_t block = i / (inner * n_which), k = i / inner % n_which, rest = i % inner;
    int64_t j;
    if (which[k].num == NO_ID || which[k].den != 1 || !dims_is_number(s->d, which[k].num, &j))
      continue;
    if (j < 0) j += in_dims[at];
    if (j < 0 || j >= in_dims[at]) {
      infer_invalid(s, "index %s of a dim of %s", integer(j).s, integer(in_dims[at]).s);
      return;
    }
    const int64_t from = (block * in_dims[at] + j) * inner + rest;
    if (from < count) out[i] = list[from];
  }
  infer_out_list(s, 0, out, n);
}

// ---- Slice -------------------------------------------------------------------------------------------

// Starts, ends, axes and steps: attributes before opset 10, then inputs; as expressions, NO_ID where not known.
// False: how many is not known. n = 0: left out.
static bool slice_list(struct infer_site *s, uint32_t slot, const char *attr, const dim_id **list,
                       uint32_t *n) {
  *n = 0;
  *list = NULL;
  if (s->version < 10) {
    const int64_t *ints;
    if (slot == 4) return true;
    if (!infer_attr_ints(s, attr, &ints, n)) return false;
    dim_id *out = infer_dim_room(s, *n);
    for (uint32_t i = 0; i < *n; i++)
      out[i] = dims_number(s->d, ints[i]);
    *list = out;
    return true;
  }
  dim_id *out;
  if (!infer_has(s, slot)) return true;
  if (!dims_from(s, slot, &out, n)) return false;
  *list = out;
  return true;
}

// A bound of a slice with a positive step, brought into [0, size].
static dim_id bound(struct infer_site *s, dim_id at, dim_id size, int64_t to_end) {
  int64_t n, all;
  const dim_id zero = dims_number(s->d, 0);
  if (at == NO_ID || size == NO_ID) return NO_ID;
  if (dims_is_number(s->d, at, &n)) {
    const bool open = !dims_is_number(s->d, size, &all); // no dim of a run is that large
    if (n == 0) return zero;
    if (n >= to_end || (n >= INT32_MAX && (open || n >= all))) return size;
    if (n <= -(int64_t)INT32_MAX && (open || n <= -all)) return zero;
  }
  if (dims_most(s->d, at) < 0)
    at = dims_add(s->d, at, size);
  else if (dims_least(s->d, at) < 0)
    return NO_ID; // from which end it counts is not known
  return dims_max(s->d, zero, dims_min(s->d, at, size));
}

// The same with a negative step: a start in [0, size - 1], an end in [-1, size - 1]. The greatest numbers as
// ends: the runtime goes to the beginning then, NumPy nowhere.
static dim_id bound_back(struct infer_site *s, dim_id at, dim_id size, bool end) {
  int64_t n, all;
  const dim_id least = dims_number(s->d, end ? -1 : 0);
  if (at == NO_ID || size == NO_ID || dims_least(s->d, size) < 1) return NO_ID;
  const dim_id last = dims_sub(s->d, size, dims_number(s->d, 1));
  if (dims_is_number(s->d, at, &n)) {
    const bool open = !dims_is_number(s->d, size, &all);
    if (end && (n == INT32_MAX || n == INT64_MAX)) return NO_ID;
    if (n >= INT32_MAX && (open || n >= all)) return last;
    if (n <= -(int64_t)INT32_MAX && (open || n <= -all)) return least;
  }
  if (dims_most(s->d, at) < 0)
    at = dims_add(s->d, at, size);
  else if (dims_least(s->d, at) < 0)
    return NO_ID;
  return dims_max(s->d, least, dims_min(s->d, at, last));
}

static dim_id slice_length(struct infer_site *s, dim_id from, dim_id to, int64_t step) {
  if (from == NO_ID || to == NO_ID) return NO_ID;
  const dim_id distance = step > 0 ? dims_sub(s->d, to, from) : dims_sub(s->d, from, to);
  const dim_id count = dims_ceil_div(s->d, distance, dims_number(s->d, step > 0 ? step : -step));
  return dims_max(s->d, dims_number(s->d, 0), count);
}

void infer_slice(struct infer_site *s) {
  struct infer_type x;
  const dim_id *starts, *ends, *axes, *steps;
  uint32_t n, n_ends, n_axes, n_steps;
  infer_in(s, 0, &x);
  if (!infer_known(s, x.ranked, x.dtype)) return;
  dim_id *dims = infer_dim_room(s, x.rank);
  const bool known =
      slice_list(s, 1, "starts", &starts, &n) && slice_list(s, 2, "ends", &ends, &n_ends) &&
      slice_list(s, 3, "axes", &axes, &n_axes) && slice_list(s, 4, "steps", &steps, &n_steps);
  if (!known) {
    infer_out_dims(s, 0, x.dtype, dims, x.rank);
    return;
  }
  if (infer_invalid_if(s, n_ends != n || (n_axes && n_axes != n) || (n_steps && n_steps != n),
                       "its lists have %u, %u, %u and %u elements", n, n_ends, n_axes, n_steps))
    return;
  int64_t first = 0, at_axis[INFER_RANK_MAX], of[INFER_RANK_MAX], by[INFER_RANK_MAX];
  const int64_t *sizes = NULL;
  const bool fixed = infer_static(s, &x, &sizes);
  if (fixed) strides(sizes, x.rank, of);
  bool done[INFER_RANK_MAX] = {false}, lists = fixed;
  for (uint32_t d = 0; d < x.rank; d++) {
    dims[d] = x.dims[d];
    by[d] = fixed ? of[d] : 0;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at;
    int64_t step = 1, begin;
    at_axis[0] = i;
    if (n_axes && (axes[i] == NO_ID || !dims_is_number(s->d, axes[i], &at_axis[0]))) {
      // Which one is cut is not known.
      infer_out_dims(s, 0, x.dtype, infer_dim_room(s, x.rank), x.rank);
      return;
    }
    if (!infer_axis(s, at_axis[0], x.rank, &at)) return;
    if (infer_invalid_if(s, done[at], "axis %u is listed twice", at)) return;
    done[at] = true;
    if (n_steps && (steps[i] == NO_ID || !dims_is_number(s->d, steps[i], &step))) {
      dims[at] = NO_ID;
      lists = false;
      continue;
    }
    if (infer_invalid_if(s, step == 0 || step == INT64_MIN, "a step is %s", integer(step).s))
      return;
    const int64_t to_end = s->in ? infer_to_end(s) : INT64_MAX;
    const dim_id from = step > 0 ? bound(s, starts[i], x.dims[at], INT64_MAX)
                                 : bound_back(s, starts[i], x.dims[at], false);
    const dim_id to =
        step > 0 ? bound(s, ends[i], x.dims[at], to_end) : bound_back(s, ends[i], x.dims[at], true);
    dims[at] = slice_length(s, from, to, step);
    if (from == NO_ID || !dims_is_number(s->d, from, &begin))
      lists = false;
    else if (fixed) {
      first += begin * of[at];
      if (__builtin_mul_overflow(of[at], step, &by[at])) lists = false;
    }
  }
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
  if (lists) strided_list(s, first, by);
}
