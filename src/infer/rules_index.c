// Rules of inference for operators that take apart, repeat, pick by index, or make something of a given size.
#include "infer/inside/infer_rules.h"

static dim_id *copy_dims(struct infer_site *s, const struct infer_type *x) {
  dim_id *dims = infer_dim_room(s, x->rank);
  for (uint32_t i = 0; i < x->rank; i++)
    dims[i] = x->dims[i];
  return dims;
}

// ---- Split ---------------------------------------------------------------------------------------

// Lengths that the node gives; NULL: none. False: it gives some, and they are not known.
static bool split_lengths(struct infer_site *s, const dim_id **lengths, uint32_t *n) {
  const int64_t *list;
  *lengths = NULL;
  if (s->version >= 13) return !infer_has(s, 1) || infer_whole(s, 1, lengths, n);
  if (s->version < 2 && infer_has(s, 1)) return infer_whole(s, 1, lengths, n);
  if (!infer_attr_ints(s, "split", &list, n)) return false;
  if (!list) return true;
  dim_id *out = infer_dim_room(s, *n);
  for (uint32_t i = 0; i < *n; i++)
    out[i] = dims_number(s->d, list[i]);
  *lengths = out;
  return true;
}

// Equal parts; since opset 18 the last one is what is left.
static dim_id equal_part(struct infer_site *s, dim_id all, uint32_t i) {
  const dim_id n = dims_number(s->d, s->n_out);
  if (s->version < 18) return dims_exact_div(s->d, all, n);
  const dim_id part = dims_ceil_div(s->d, all, n);
  if (i + 1 < s->n_out) return part;
  return dims_sub(s->d, all, dims_mul(s->d, part, dims_number(s->d, s->n_out - 1)));
}

// The part of a list of rank 1.
static void split_list(struct infer_site *s, uint32_t slot, dim_id from, dim_id length) {
  const struct infer_number *list;
  uint32_t n;
  int64_t at, size;
  if (from == NO_ID || length == NO_ID || !infer_list(s, 0, &list, &n)) return;
  if (!dims_is_number(s->d, from, &at) || !dims_is_number(s->d, length, &size)) return;
  if (at >= 0 && size >= 0 && size <= n && at <= n - size)
    infer_out_list(s, slot, list + at, (uint32_t)size);
}

void infer_split(struct infer_site *s) {
  struct infer_type x;
  const dim_id *lengths;
  int64_t axis;
  uint32_t at, n = 0;
  infer_in(s, 0, &x);
  if (!x.ranked || !infer_attr_int(s, "axis", 0, &axis)) return;
  if (!infer_axis(s, axis, x.rank, &at)) return;
  const bool known = split_lengths(s, &lengths, &n);
  if (infer_invalid_if(s, known && lengths && n != s->n_out, "%u length%s for %u output%s", n,
                       plural(n), s->n_out, plural(s->n_out)))
    return;
  dim_id from = dims_number(s->d, 0);
  for (uint32_t i = 0; i < s->n_out; i++) {
    dim_id *dims = copy_dims(s, &x);
    dims[at] = !known ? NO_ID : lengths ? lengths[i] : equal_part(s, x.dims[at], i);
    infer_out_dims(s, i, x.dtype, dims, x.rank);
    if (x.rank == 1) split_list(s, i, from, dims[at]);
    from = dims_add(s->d, from, dims[at]);
  }
  if (!known || !lengths || from == NO_ID) return;
  if (dims_equal(s->d, from, x.dims[at]) == DIMS_NO)
    infer_invalid(s, "its lengths do not add up to the dim that is split");
}

// ---- Tile, Pad -----------------------------------------------------------------------------------

void infer_tile(struct infer_site *s) {
  struct infer_type x, t;
  const dim_id *repeats;
  const int64_t *of, *to;
  uint32_t n, count;
  infer_in(s, 0, &x);
  if (!x.ranked || s->version < 6) return;
  dim_id *dims = infer_dim_room(s, x.rank);
  if (infer_whole(s, 1, &repeats, &n)) {
    if (infer_invalid_if(s, n != x.rank, "%u repeat%s for %u dim%s", n, plural(n), x.rank,
                         plural(x.rank)))
      return;
    for (uint32_t i = 0; i < x.rank; i++)
      dims[i] = dims_mul(s->d, x.dims[i], repeats[i]);
  }
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
  const struct infer_number *list;
  if (!infer_list(s, 0, &list, &n) || !infer_static(s, &x, &of)) return;
  t = (struct infer_type){.ranked = true, .rank = x.rank, .dims = dims};
  if (!infer_static(s, &t, &to) || !infer_list_size(to, x.rank, &count)) return;
  struct infer_number *out = infer_number_room(s, count);
  for (uint32_t i = 0; i < count; i++) {
    int64_t at = 0, step = 1;
    uint32_t rest = i;
    for (uint32_t d = x.rank; d-- > 0;) {
      at += rest % (uint32_t)to[d] % of[d] * step;
      step *= of[d];
      rest /= (uint32_t)to[d];
    }
    out[i] = list[at];
  }
  infer_out_list(s, 0, out, count);
}

void infer_pad(struct infer_site *s) {
  struct infer_type x;
  const dim_id *pads = NULL;
  const int64_t *list, *axes = NULL;
  uint32_t n, n_axes = 0;
  infer_in(s, 0, &x);
  if (!x.ranked) return;
  const bool attribute = s->signature && s->signature->n_inputs == 1;
  if (attribute) {
    if (!infer_attr_ints(s, s->version < 2 ? "paddings" : "pads", &list, &n)) return;
    dim_id *out = infer_dim_room(s, n);
    for (uint32_t i = 0; i < n; i++)
      out[i] = dims_number(s->d, list[i]);
    pads = out;
  } else if (!infer_whole(s, 1, &pads, &n)) {
    infer_out_dims(s, 0, x.dtype, infer_dim_room(s, x.rank), x.rank);
    return;
  }
  const bool some = infer_has(s, 3);
  if (some && !infer_ints(s, 3, &axes, &n_axes)) {
    infer_out_dims(s, 0, x.dtype, infer_dim_room(s, x.rank), x.rank);
    return;
  }
  const uint32_t padded = some ? n_axes : x.rank;
  if (infer_invalid_if(s, n != 2 * (uint64_t)padded, "%u pad%s for %u %s", n, plural(n), padded,
                       padded == 1 ? "axis" : "axes"))
    return;
  dim_id *dims = copy_dims(s, &x);
  for (uint32_t i = 0; i < padded; i++) {
    uint32_t at;
    if (!infer_axis(s, some ? axes[i] : i, x.rank, &at)) return;
    dims[at] = dims_add(s->d, dims[at], dims_add(s->d, pads[i], pads[i + padded]));
    if (infer_invalid_if(s, dims[at] != NO_ID && dims_most(s->d, dims[at]) < 0,
                         "dim %u becomes negative", at))
      return;
  }
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

void infer_center_crop_pad(struct infer_site *s) {
  struct infer_type x;
  const dim_id *sizes;
  const int64_t *axes;
  uint32_t n, n_axes;
  infer_in(s, 0, &x);
  if (!x.ranked || !infer_attr_ints(s, "axes", &axes, &n_axes)) return;
  dim_id *dims = copy_dims(s, &x);
  const bool known = infer_whole(s, 1, &sizes, &n) && n == (axes ? n_axes : x.rank);
  for (uint32_t i = 0; i < (axes ? n_axes : x.rank); i++) {
    uint32_t at;
    if (!infer_axis(s, axes ? axes[i] : i, x.rank, &at)) return;
    dims[at] = known ? sizes[i] : NO_ID;
  }
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

// Blocks of b by b of what lies in space become channels, or the other way round.
static void blocks(struct infer_site *s, bool to_depth) {
  struct infer_type x;
  int64_t size;
  infer_in(s, 0, &x);
  if (!infer_attr_int(s, "blocksize", 1, &size) || !x.ranked || x.rank != 4) return;
  if (infer_invalid_if(s, size < 1 || size > INT32_MAX, "its block size is %s", integer(size).s))
    return;
  const dim_id b = dims_number(s->d, size), bb = dims_number(s->d, size * size);
  const dim_id dims[4] = {
      x.dims[0], to_depth ? dims_mul(s->d, x.dims[1], bb) : dims_exact_div(s->d, x.dims[1], bb),
      to_depth ? dims_exact_div(s->d, x.dims[2], b) : dims_mul(s->d, x.dims[2], b),
      to_depth ? dims_exact_div(s->d, x.dims[3], b) : dims_mul(s->d, x.dims[3], b)};
  infer_out_dims(s, 0, x.dtype, dims, 4);
}

void infer_space_to_depth(struct infer_site *s) {
  blocks(s, true);
}

void infer_depth_to_space(struct infer_site *s) {
  blocks(s, false);
}

// com.microsoft: a 1 is put in at the axis that a scalar says.
void infer_expand_dims(struct infer_site *s) {
  struct infer_type x;
  int64_t axis;
  uint32_t at;
  infer_in(s, 0, &x);
  if (!x.ranked || x.rank >= INFER_RANK_MAX || !infer_int(s, 1, &axis)) return;
  if (!infer_axis(s, axis, x.rank + 1, &at)) return;
  dim_id *dims = infer_dim_room(s, x.rank + 1);
  for (uint32_t i = 0; i <= x.rank; i++)
    dims[i] = i == at ? infer_one(s) : x.dims[i - (i > at)];
  infer_out_dims(s, 0, x.dtype, dims, x.rank + 1);
}

// com.microsoft: scale, zero point, and then three inputs for each part.
void infer_qlinear_concat(struct infer_site *s) {
  struct infer_type x;
  dim_id *dims = NULL;
  int64_t axis;
  uint32_t at = 0, rank = 0;
  if (!infer_attr_int(s, "axis", 1, &axis)) return;
  for (uint32_t i = 2; i < s->n_in; i += 3) {
    infer_in(s, i, &x);
    if (!x.ranked) return;
    if (!dims) {
      if (!infer_axis(s, axis, x.rank, &at)) return;
      rank = x.rank;
      dims = copy_dims(s, &x);
      continue;
    }
    if (infer_invalid_if(s, x.rank != rank, "its inputs have %u and %u dims", rank, x.rank)) return;
    for (uint32_t d = 0; d < rank; d++)
      dims[d] =
          d == at ? dims_add(s->d, dims[d], x.dims[d]) : infer_same_dim(s, dims[d], x.dims[d]);
    if (s->why == INFER_WHY_INVALID) return;
  }
  if (dims) infer_out_dims(s, 0, x.dtype, dims, rank);
}

// ---- by index --------------------------------------------------------------------------------------

void infer_gather_elements(struct infer_site *s) {
  struct infer_type x, index;
  infer_in(s, 0, &x);
  if (infer_in(s, 1, &index) && index.ranked) infer_out_dims(s, 0, x.dtype, index.dims, index.rank);
}

void infer_gather_nd(struct infer_site *s) {
  struct infer_type x, index;
  int64_t batch, depth;
  infer_in(s, 0, &x);
  infer_in(s, 1, &index);
  if (!x.ranked || !index.ranked || !infer_attr_int(s, "batch_dims", 0, &batch)) return;
  if (index.rank == 0 || index.dims[index.rank - 1] == NO_ID) return;
  if (!dims_is_number(s->d, index.dims[index.rank - 1], &depth)) return;
  if (infer_invalid_if(s, batch < 0 || depth < 0 || batch >= index.rank || batch + depth > x.rank,
                       "indices of %s into %u dim%s", integer(depth).s, x.rank, plural(x.rank)))
    return;
  const uint32_t rest = x.rank - (uint32_t)(batch + depth), rank = index.rank - 1 + rest;
  if (rank > INFER_RANK_MAX) return;
  dim_id *dims = infer_dim_room(s, rank);
  for (uint32_t i = 0; i + 1 < index.rank; i++)
    dims[i] = i < batch ? infer_same_dim(s, index.dims[i], x.dims[i]) : index.dims[i];
  for (uint32_t i = 0; i < rest; i++)
    dims[index.rank - 1 + i] = x.dims[batch + depth + i];
  infer_out_dims(s, 0, x.dtype, dims, rank);
}

// Rows of a weight in blocks; codes of 2 and 4 bits lie several in a byte along the last axis.
void infer_gather_block_quantized(struct infer_site *s) {
  struct infer_type x, index, scale;
  int64_t axis, bits;
  uint32_t at;
  infer_in(s, 0, &x);
  infer_in(s, 1, &index);
  infer_in(s, 2, &scale);
  if (!infer_known(s,
                   x.ranked && index.ranked && infer_attr_int(s, "gather_axis", 0, &axis) &&
                       infer_attr_int(s, "bits", 4, &bits),
                   scale.dtype))
    return;
  const uint32_t rank = x.rank - 1 + index.rank;
  if (!infer_axis(s, axis, x.rank, &at) || rank > INFER_RANK_MAX) return;
  dim_id *dims = infer_dim_room(s, rank);
  uint32_t to = 0;
  for (uint32_t d = 0; d < x.rank; d++) {
    dim_id dim = x.dims[d];
    if (d + 1 == x.rank && x.dtype == DTYPE_UINT8 && (bits == 2 || bits == 4))
      dim = dims_mul(s->d, dim, dims_number(s->d, 8 / bits));
    for (uint32_t k = 0; d == at && k < index.rank; k++)
      dims[to++] = index.dims[k];
    if (d != at) dims[to++] = dim;
  }
  infer_out_dims(s, 0, scale.dtype, dims, rank);
}

void infer_one_hot(struct infer_site *s) {
  struct infer_type index, values;
  const dim_id *depth;
  int64_t axis;
  uint32_t at, n;
  infer_in(s, 0, &index);
  infer_in(s, 2, &values);
  if (!infer_known(
          s, index.ranked && index.rank < INFER_RANK_MAX && infer_attr_int(s, "axis", -1, &axis),
          values.dtype))
    return;
  if (!infer_axis(s, axis, index.rank + 1, &at)) return;
  const bool known = infer_whole(s, 1, &depth, &n) && n == 1;
  dim_id *dims = infer_dim_room(s, index.rank + 1);
  for (uint32_t i = 0; i <= index.rank; i++)
    dims[i] = i != at ? index.dims[i - (i > at)] : known ? depth[0] : NO_ID;
  infer_out_dims(s, 0, values.dtype, dims, index.rank + 1);
}

void infer_top_k(struct infer_site *s) {
  struct infer_type x;
  const dim_id *count;
  int64_t axis, k;
  uint32_t at, n;
  infer_in(s, 0, &x);
  if (!x.ranked || !infer_attr_int(s, "axis", -1, &axis)) return;
  if (!infer_axis(s, axis, x.rank, &at)) return;
  dim_id *dims = copy_dims(s, &x);
  dims[at] = NO_ID;
  if (s->version < 10) {
    if (infer_attr_int(s, "k", -1, &k) && k >= 0) dims[at] = dims_number(s->d, k);
  } else if (infer_whole(s, 1, &count, &n) && n == 1) {
    dims[at] = count[0];
  }
  int64_t all;
  if (dims[at] != NO_ID && dims_is_number(s->d, dims[at], &k) && x.dims[at] != NO_ID &&
      dims_is_number(s->d, x.dims[at], &all) && k > all) {
    infer_invalid(s, "the first %s of %s", integer(k).s, integer(all).s);
    return;
  }
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
  infer_out_dims(s, 1, DTYPE_INT64, dims, x.rank);
}

// Are the first `most` elements decided, and how many of them are not 0?
static bool count_true(struct infer_site *s, uint32_t slot, int64_t most, uint32_t *count) {
  const struct infer_number *list;
  uint32_t n;
  *count = 0;
  if (!infer_list(s, slot, &list, &n)) return false;
  for (uint32_t i = 0; i < n && i < most; i++) {
    const enum dims_answer zero = infer_is(s, list[i], 0);
    if (zero == DIMS_MAYBE) return false;
    *count += zero == DIMS_NO;
  }
  return true;
}

void infer_nonzero(struct infer_site *s) {
  struct infer_type x;
  const struct infer_number *list;
  const int64_t *of;
  uint32_t n, count;
  infer_in(s, 0, &x);
  dim_id dims[2] = {NO_ID, NO_ID};
  if (x.ranked) dims[0] = dims_number(s->d, x.rank ? x.rank : 1);
  const bool decided = count_true(s, 0, INT64_MAX, &count);
  if (decided) dims[1] = dims_number(s->d, count);
  s->why = INFER_WHY_DATA;
  infer_out_dims(s, 0, DTYPE_INT64, dims, 2);
  if (!decided || !infer_static(s, &x, &of) || !infer_list(s, 0, &list, &n)) return;
  if ((uint64_t)count * (x.rank ? x.rank : 1) > INFER_LIST) return;
  struct infer_number *out = infer_number_room(s, count * (x.rank ? x.rank : 1));
  for (uint32_t i = 0, at = 0; i < n; i++) {
    if (infer_is(s, list[i], 0) == DIMS_YES) continue;
    uint32_t rest = i;
    if (x.rank == 0) out[at] = infer_number_of(s, 0);
    for (uint32_t d = x.rank; d-- > 0;) {
      out[d * count + at] = infer_number_of(s, rest % (uint32_t)of[d]);
      rest /= (uint32_t)of[d];
    }
    at++;
  }
  infer_out_list(s, 0, out, count * (x.rank ? x.rank : 1));
}

// How many of so many slices or elements are picked. A longer condition than that is not allowed, but runtimes take its beginning.
static dim_id picked_of(struct infer_site *s, dim_id all) {
  int64_t most = INT64_MAX;
  uint32_t count;
  if (all == NO_ID || !dims_is_number(s->d, all, &most)) most = INT64_MAX;
  return count_true(s, 1, most, &count) ? dims_number(s->d, count) : NO_ID;
}

void infer_compress(struct infer_site *s) {
  struct infer_type x;
  int64_t axis;
  uint32_t at;
  infer_in(s, 0, &x);
  s->why = INFER_WHY_DATA;
  if (!infer_attr(s, "axis")) {
    const dim_id picked = picked_of(s, x.ranked ? infer_product(s, x.dims, x.rank) : NO_ID);
    infer_out_dims(s, 0, x.dtype, &picked, 1);
    return;
  }
  if (!x.ranked || !infer_attr_int(s, "axis", 0, &axis)) return;
  if (!infer_axis(s, axis, x.rank, &at)) return;
  dim_id *dims = copy_dims(s, &x);
  dims[at] = picked_of(s, x.dims[at]);
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

// As many indices and counts as there are values.
void infer_unique(struct infer_site *s) {
  struct infer_type x;
  int64_t axis;
  uint32_t at;
  infer_in(s, 0, &x);
  const dim_id many = dims_fresh(s->d, 0);
  const bool along = infer_attr(s, "axis") != NULL;
  dim_id all = x.ranked ? infer_product(s, x.dims, x.rank) : NO_ID;
  s->why = INFER_WHY_DATA;
  if (!along) {
    infer_out_dims(s, 0, x.dtype, &many, 1);
  } else if (x.ranked && infer_attr_int(s, "axis", 0, &axis) && infer_axis(s, axis, x.rank, &at)) {
    dim_id *dims = copy_dims(s, &x);
    all = x.dims[at];
    dims[at] = many;
    infer_out_dims(s, 0, x.dtype, dims, x.rank);
  } else {
    all = NO_ID;
  }
  infer_out_dims(s, 1, DTYPE_INT64, &many, 1);
  infer_out_dims(s, 2, DTYPE_INT64, &all, 1);
  infer_out_dims(s, 3, DTYPE_INT64, &many, 1);
}

void infer_non_max_suppression(struct infer_site *s) {
  const dim_id dims[2] = {NO_ID, dims_number(s->d, 3)};
  s->why = INFER_WHY_DATA;
  infer_out_dims(s, 0, DTYPE_INT64, dims, 2);
}

// ---- made ------------------------------------------------------------------------------------------

static enum dtype dtype_attr(struct infer_site *s, enum dtype otherwise) {
  int64_t dtype;
  if (!infer_attr(s, "dtype")) return otherwise;
  if (!infer_attr_int(s, "dtype", otherwise, &dtype) || !dtype_known(dtype)) return DTYPE_UNDEFINED;
  return (enum dtype)dtype;
}

void infer_random(struct infer_site *s) {
  const int64_t *shape;
  uint32_t n;
  const enum dtype dtype = dtype_attr(s, DTYPE_FLOAT);
  if (!infer_attr(s, "shape") || !infer_attr_ints(s, "shape", &shape, &n) || n > INFER_RANK_MAX)
    return;
  dim_id *dims = infer_dim_room(s, n);
  for (uint32_t i = 0; i < n; i++)
    dims[i] = dims_number(s->d, shape[i]);
  infer_out_dims(s, 0, dtype, dims, n);
}

// Also EyeLike, Bernoulli: dims of the input, type by the attribute.
void infer_random_like(struct infer_site *s) {
  struct infer_type x;
  infer_in(s, 0, &x);
  x.dtype = dtype_attr(s, x.dtype);
  infer_out(s, 0, &x);
}

void infer_multinomial(struct infer_site *s) {
  struct infer_type x;
  int64_t size;
  infer_in(s, 0, &x);
  dim_id dims[2] = {NO_ID, NO_ID};
  if (x.ranked && x.rank == 2) dims[0] = x.dims[0];
  if (infer_attr_int(s, "sample_size", 1, &size) && size >= 0) dims[1] = dims_number(s->d, size);
  infer_out_dims(s, 0, dtype_attr(s, DTYPE_INT32), dims, 2);
}
