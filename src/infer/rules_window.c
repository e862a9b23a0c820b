// Rules of inference for operators that slide a window: the output shapes of convolutions (Conv), pooling, and what
// undoes them.
//
// With e = (k - 1)*d + 1, the extent of the window, and pads b and e' along an axis of `in` elements:
//
//   as it is      (in + b + e' - e)//s + 1
//   ceil_mode     one more where the last window is cut, unless it would start in the pad behind
//   SAME_*        ceil(in/s)
//   transposed    s*(in - 1) + output_padding + e - b - e'
//
// A convolution whose window is larger than the input and its pads does not run, so that the first line holds in every
// run that ends. Pooling looks at what there is, and the runtime divides as C does: toward zero. Where the input may be
// that small, its line is Max(1, …), or with a trunc().
#include "infer/inside/infer_rules.h"

enum padding { PAD_AS_SAID, PAD_SAME, PAD_VALID };

struct window {
  uint32_t n; // spatial axes
  const int64_t *strides, *dilations, *pads, *kernel;
  enum padding padding;
  int64_t ceil;
};

// One number for each axis (or two); absent: `fallback`. False, with a reason: it cannot be used.
static bool numbers_of(struct infer_site *s, const char *name, uint32_t n, int64_t least,
                       int64_t fallback, const int64_t **out) {
  uint32_t count;
  if (!infer_attr_ints(s, name, out, &count)) return false;
  if (*out == NULL || count == 0) {
    int64_t *all = arena_alloc(s->a, n * sizeof *all + 1);
    for (uint32_t i = 0; i < n; i++)
      all[i] = fallback;
    *out = all;
    return true;
  }
  if (infer_invalid_if(s, count != n, "%s has %u number%s, not %u", name, count, plural(count), n))
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (infer_invalid_if(s, (*out)[i] < least, "%s has a %s", name, integer((*out)[i]).s))
      return false;
  return true;
}

static bool window_of(struct infer_site *s, uint32_t n, struct window *w) {
  struct span pad;
  uint32_t n_kernel;
  *w = (struct window){.n = n};
  if (!numbers_of(s, "strides", n, 1, 1, &w->strides) ||
      !numbers_of(s, "dilations", n, 1, 1, &w->dilations) ||
      !infer_attr_ints(s, "kernel_shape", &w->kernel, &n_kernel) ||
      !infer_attr_string(s, "auto_pad", "NOTSET", &pad) ||
      !infer_attr_int(s, "ceil_mode", 0, &w->ceil))
    return false;
  if (infer_invalid_if(s, w->kernel && n_kernel != n, "kernel_shape has %u number%s, not %u",
                       n_kernel, plural(n_kernel), n))
    return false;
  if (w->kernel && !numbers_of(s, "kernel_shape", n, 1, 1, &w->kernel)) return false;
  if (span_is(pad, "SAME_UPPER") || span_is(pad, "SAME_LOWER"))
    w->padding = PAD_SAME;
  else if (span_is(pad, "VALID"))
    w->padding = PAD_VALID;
  else if (!span_is(pad, "NOTSET") && pad.n > 0) {
    infer_invalid(s, "auto_pad is '%.*s'", (int)pad.n, (const char *)pad.at);
    return false;
  }
  if (w->padding == PAD_AS_SAID) return numbers_of(s, "pads", 2 * n, INT64_MIN, 0, &w->pads);
  int64_t *none = arena_zalloc(s->a, 2 * n * sizeof *none + 1);
  w->pads = none;
  return true;
}

// (k - 1)*d + 1 of axis i.
static dim_id extent_of(struct infer_site *s, const struct window *w, uint32_t i, dim_id kernel) {
  if (w->kernel) kernel = infer_size_of(s, w->kernel[i]);
  const dim_id less = dims_sub(s->d, kernel, infer_one(s));
  return dims_add(s->d, dims_mul(s->d, less, infer_size_of(s, w->dilations[i])), infer_one(s));
}

// over/by + 1 as C divides: less than a step below 0 it is 1.
static dim_id pooled(struct infer_site *s, dim_id over, int64_t by) {
  const dim_id one = infer_one(s), step = infer_size_of(s, by);
  const int64_t least = over == NO_ID ? 0 : dims_least(s->d, over);
  if (least <= -by) return dims_add(s->d, dims_trunc_div(s->d, over, step), one);
  const dim_id fits = dims_add(s->d, dims_floor_div(s->d, over, step), one);
  return least >= 0 ? fits : dims_max(s->d, fits, one);
}

// How often the window fits along axis i. A dim that is known to be too small makes the node invalid.
static dim_id windows(struct infer_site *s, const struct window *w, uint32_t i, dim_id in,
                      dim_id kernel, bool pool) {
  const dim_id one = infer_one(s), by = infer_size_of(s, w->strides[i]);
  const dim_id e = extent_of(s, w, i, kernel);
  int64_t room, out, extent;
  if (w->padding == PAD_SAME) {
    // Pooling pads for a window without dilation, and what it makes is another number then; not of a window of one element.
    if (pool && w->dilations[i] != 1 && !(w->kernel && w->kernel[i] == 1)) {
      s->why = INFER_WHY_ATTRIBUTE;
      return NO_ID;
    }
    return dims_ceil_div(s->d, in, by);
  }
  const dim_id begin = infer_size_of(s, w->pads[i]), end = infer_size_of(s, w->pads[i + w->n]);
  const dim_id padded = dims_add(s->d, in, begin);
  const dim_id over = dims_sub(s->d, dims_add(s->d, padded, end), e);
  const bool known = over != NO_ID && dims_is_number(s->d, over, &room);
  if (known && room < 0 && !pool) {
    infer_invalid(s, "its window is larger than the input and its pads along spatial axis %u", i);
    return NO_ID;
  }
  if (w->ceil != 1) {
    const dim_id plain =
        pool ? pooled(s, over, w->strides[i]) : dims_add(s->d, dims_floor_div(s->d, over, by), one);
    return known && dims_most(s->d, plain) < 0 ? NO_ID : plain;
  }
  if (e == NO_ID || !dims_is_number(s->d, e, &extent) || w->pads[i + w->n] > extent) return NO_ID;
  const dim_id up = dims_add(s->d, dims_ceil_div(s->d, over, by), one);
  const dim_id inside = dims_min(s->d, up, dims_ceil_div(s->d, padded, by));
  if (inside != NO_ID && dims_is_number(s->d, inside, &out) && out < 0) return NO_ID;
  return inside;
}

static uint32_t spatial_at(bool last) {
  return last ? 1 : 2;
}

// ---- convolutions ------------------------------------------------------------------------------------

struct conv {
  struct infer_type x, w;
  uint32_t rank;
  bool last; // channels behind
};

// The rank that both have; false: it is not known, or they differ.
static bool conv_of(struct infer_site *s, uint32_t x, uint32_t w, bool last, struct conv *c) {
  *c = (struct conv){.last = last};
  infer_in(s, x, &c->x);
  infer_in(s, w, &c->w);
  if (!c->x.ranked && !c->w.ranked) return false;
  c->rank = c->w.ranked ? c->w.rank : c->x.rank;
  if (infer_invalid_if(s, c->x.ranked && c->w.ranked && c->x.rank != c->w.rank,
                       "the input has %u dim%s, the weights %u", c->x.rank, plural(c->x.rank),
                       c->w.rank))
    return false;
  if (c->rank >= 2) return true;
  infer_invalid(s, "the input has %u dim%s", c->rank, plural(c->rank));
  return false;
}

static void convolution(struct infer_site *s, uint32_t x, uint32_t w, bool last) {
  struct conv c;
  struct window win;
  int64_t group;
  if (!conv_of(s, x, w, last, &c)) return;
  const uint32_t n = c.rank - 2, at = spatial_at(last), channel = last ? c.rank - 1 : 1;
  if (!window_of(s, n, &win) || !infer_attr_int(s, "group", 1, &group)) return;
  infer_same_dim(s, infer_dim(&c.x, (int32_t)channel),
                 dims_mul(s->d, infer_dim(&c.w, 1), infer_size_of(s, group)));
  dim_id *dims = infer_dim_room(s, c.rank);
  dims[0] = infer_dim(&c.x, 0);
  dims[channel] = infer_dim(&c.w, 0);
  for (uint32_t i = 0; i < n; i++) {
    if (win.kernel)
      infer_same_dim(s, infer_size_of(s, win.kernel[i]), infer_dim(&c.w, (int32_t)i + 2));
    dims[at + i] = windows(s, &win, i, infer_dim(&c.x, (int32_t)(at + i)),
                           infer_dim(&c.w, (int32_t)i + 2), false);
  }
  if (s->why != INFER_WHY_INVALID) infer_out_dims(s, 0, DTYPE_UNDEFINED, dims, c.rank);
}

void infer_conv(struct infer_site *s) {
  convolution(s, 0, 1, false);
}

void infer_conv_channels_last(struct infer_site *s) {
  convolution(s, 0, 1, true);
}

void infer_conv_quantized(struct infer_site *s) {
  int64_t last;
  if (infer_attr_int(s, "channels_last", 0, &last)) convolution(s, 0, 3, last != 0);
}

// What axis i of a transposed convolution becomes.
static dim_id transposed(struct infer_site *s, const struct window *w, uint32_t i, dim_id in,
                         dim_id kernel, int64_t more) {
  int64_t extent;
  const dim_id by = infer_size_of(s, w->strides[i]), e = extent_of(s, w, i, kernel);
  if (w->padding == PAD_SAME) {
    // Pads are at least 0: of a window that is smaller than its step nothing is cut.
    if (e == NO_ID || !dims_is_number(s->d, e, &extent) || extent < 1) return NO_ID;
    if (more >= w->strides[i] - extent) return dims_mul(s->d, in, by);
  }
  dim_id out = dims_mul(s->d, dims_sub(s->d, in, infer_one(s)), by);
  out = dims_add(s->d, dims_add(s->d, out, infer_size_of(s, more)), e);
  return dims_sub(s->d, dims_sub(s->d, out, infer_size_of(s, w->pads[i])),
                  infer_size_of(s, w->pads[i + w->n]));
}

static void conv_transpose(struct infer_site *s, const int64_t *pads, uint32_t n_pads,
                           bool pads_known) {
  struct conv c;
  struct window win;
  const int64_t *more, *sizes;
  uint32_t n_sizes;
  int64_t group, size;
  if (!conv_of(s, 0, 1, false, &c)) return;
  const uint32_t n = c.rank - 2;
  if (!window_of(s, n, &win) || !infer_attr_int(s, "group", 1, &group) ||
      !numbers_of(s, "output_padding", n, INT64_MIN, 0, &more) ||
      !infer_attr_ints(s, "output_shape", &sizes, &n_sizes))
    return;
  if (infer_invalid_if(s, pads && n_pads != 2 * n, "it has %u pad%s, not %u", n_pads,
                       plural(n_pads), 2 * n))
    return;
  if (pads) win.pads = pads;
  if (infer_invalid_if(s, sizes && n_sizes != 0 && n_sizes != n && n_sizes != c.rank,
                       "output_shape has %u number%s, not %u", n_sizes, plural(n_sizes), n))
    return;
  infer_same_dim(s, infer_dim(&c.x, 1), infer_dim(&c.w, 0));
  dim_id *dims = infer_dim_room(s, c.rank);
  dims[0] = infer_dim(&c.x, 0);
  dims[1] = dims_mul(s->d, infer_dim(&c.w, 1), infer_size_of(s, group));
  for (uint32_t i = 0; i < n; i++) {
    if (win.kernel)
      infer_same_dim(s, infer_size_of(s, win.kernel[i]), infer_dim(&c.w, (int32_t)i + 2));
    dims[2 + i] = n_sizes       ? infer_size_of(s, sizes[n_sizes - n + i])
                  : !pads_known ? NO_ID
                                : transposed(s, &win, i, infer_dim(&c.x, (int32_t)i + 2),
                                             infer_dim(&c.w, (int32_t)i + 2), more[i]);
    if (dims[2 + i] != NO_ID && dims_is_number(s->d, dims[2 + i], &size) && size < 0)
      infer_invalid(s, "its pads are larger than its output along spatial axis %u", i);
  }
  if (s->why != INFER_WHY_INVALID) infer_out_dims(s, 0, DTYPE_UNDEFINED, dims, c.rank);
}

void infer_conv_transpose(struct infer_site *s) {
  conv_transpose(s, NULL, 0, true);
}

// Pads are an input.
void infer_conv_transpose_padded(struct infer_site *s) {
  const int64_t *pads = NULL;
  uint32_t n = 0;
  const bool known = !infer_has(s, 2) || infer_ints(s, 2, &pads, &n);
  if (!known) s->why = INFER_WHY_DATA;
  conv_transpose(s, pads, n, known);
}

// ---- pooling -------------------------------------------------------------------------------------------

static void pool(struct infer_site *s, bool last) {
  struct infer_type x;
  struct window w;
  if (!infer_in(s, 0, &x) || !x.ranked) {
    uint32_t n;
    const int64_t *kernel;
    // The window says how many dims there are.
    if (infer_attr_ints(s, "kernel_shape", &kernel, &n) && kernel && n + 2 <= INFER_RANK_MAX)
      for (uint32_t i = 0; i < s->n_out; i++)
        infer_out_dims(s, i, i ? DTYPE_INT64 : x.dtype, infer_dim_room(s, n + 2), n + 2);
    return;
  }
  if (infer_invalid_if(s, x.rank < 2, "the input has %u dim%s", x.rank, plural(x.rank))) return;
  const uint32_t n = x.rank - 2, at = spatial_at(last);
  if (!window_of(s, n, &w)) return;
  if (!w.kernel) {
    s->why = INFER_WHY_ATTRIBUTE;
    return;
  }
  dim_id *dims = infer_dim_room(s, x.rank);
  dims[0] = x.dims[0];
  dims[last ? x.rank - 1 : 1] = x.dims[last ? x.rank - 1 : 1];
  for (uint32_t i = 0; i < n; i++)
    dims[at + i] = windows(s, &w, i, x.dims[at + i], NO_ID, true);
  if (s->why == INFER_WHY_INVALID) return;
  for (uint32_t i = 0; i < s->n_out && i < 2; i++)
    infer_out_dims(s, i, i ? DTYPE_INT64 : x.dtype, dims, x.rank);
}

void infer_pool(struct infer_site *s) {
  pool(s, false);
}

void infer_pool_channels_last(struct infer_site *s) {
  pool(s, true);
}

void infer_pool_quantized(struct infer_site *s) {
  int64_t last;
  if (infer_attr_int(s, "channels_last", 0, &last)) pool(s, last != 0);
}

static void global(struct infer_site *s, bool last) {
  struct infer_type x;
  if (!infer_in(s, 0, &x)) return;
  if (!infer_known(s, x.ranked, x.dtype)) return;
  if (infer_invalid_if(s, x.rank < 2, "the input has %u dim%s", x.rank, plural(x.rank))) return;
  dim_id *dims = infer_dim_room(s, x.rank);
  for (uint32_t i = 0; i < x.rank; i++)
    dims[i] = i == 0 || i == (last ? x.rank - 1 : 1) ? x.dims[i] : infer_one(s);
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

void infer_pool_global(struct infer_site *s) {
  global(s, false);
}

void infer_pool_global_quantized(struct infer_site *s) {
  int64_t last;
  if (infer_attr_int(s, "channels_last", 0, &last)) global(s, last != 0);
}

void infer_max_unpool(struct infer_site *s) {
  struct infer_type x;
  struct window w;
  const dim_id *sizes;
  uint32_t n_sizes;
  if (!infer_in(s, 0, &x)) return;
  if (!infer_known(s, x.ranked && x.rank >= 2, x.dtype)) return;
  dim_id *dims = infer_dim_room(s, x.rank);
  if (infer_has(s, 2)) {
    if (infer_whole(s, 2, &sizes, &n_sizes)) {
      if (infer_invalid_if(s, n_sizes != x.rank, "output_shape has %u number%s, not %u", n_sizes,
                           plural(n_sizes), x.rank))
        return;
      memcpy(dims, sizes, x.rank * sizeof *dims);
    } else
      s->why = INFER_WHY_DATA;
    infer_out_dims(s, 0, x.dtype, dims, x.rank);
    return;
  }
  if (!window_of(s, x.rank - 2, &w)) return;
  dims[0] = x.dims[0];
  dims[1] = x.dims[1];
  for (uint32_t i = 0; w.kernel && i < w.n; i++)
    dims[2 + i] = transposed(s, &w, i, x.dims[2 + i], NO_ID, 0);
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

// ---- regions ---------------------------------------------------------------------------------------------

// [regions, channels, sizes…]
static void regions(struct infer_site *s, uint32_t n, const dim_id *sizes) {
  struct infer_type x, rois, batch;
  infer_in(s, 0, &x);
  infer_in(s, 1, &rois);
  dim_id dims[4] = {NO_ID, NO_ID, NO_ID, NO_ID};
  if (rois.ranked && rois.rank == 2) dims[0] = rois.dims[0];
  if (infer_in(s, 2, &batch) && batch.ranked && batch.rank == 1)
    dims[0] = infer_same_dim(s, dims[0], batch.dims[0]);
  if (x.ranked && x.rank == 4) dims[1] = x.dims[1];
  for (uint32_t i = 0; i < n && i < 2; i++)
    dims[2 + i] = sizes[i];
  if (s->why != INFER_WHY_INVALID) infer_out_dims(s, 0, DTYPE_UNDEFINED, dims, 4);
}

void infer_max_roi_pool(struct infer_site *s) {
  const int64_t *list;
  uint32_t n;
  if (!infer_attr_ints(s, "pooled_shape", &list, &n)) return;
  if (infer_invalid_if(s, n != 2, "pooled_shape has %u number%s, not 2", n, plural(n))) return;
  regions(s, 2, (const dim_id[2]){infer_size_of(s, list[0]), infer_size_of(s, list[1])});
}

void infer_roi_align(struct infer_site *s) {
  int64_t height, width;
  if (!infer_attr_int(s, "output_height", 1, &height) ||
      !infer_attr_int(s, "output_width", 1, &width))
    return;
  regions(s, 2, (const dim_id[2]){infer_size_of(s, height), infer_size_of(s, width)});
}

// [crops, channels, sizes of an input]: of com.microsoft.
void infer_crop_and_resize(struct infer_site *s) {
  const dim_id *sizes;
  uint32_t n = 0;
  if (!infer_whole(s, 3, &sizes, &n)) s->why = INFER_WHY_DATA;
  regions(s, n, sizes);
}

// ---- columns -----------------------------------------------------------------------------------------------

// [N, C*k…, L] to [N, C, image…]
void infer_col2im(struct infer_site *s) {
  struct infer_type x, shape;
  const dim_id *image, *block;
  uint32_t n, n_block;
  int64_t rank;
  infer_in(s, 0, &x);
  const bool known = infer_whole(s, 1, &image, &n);
  if (!known) {
    if (!infer_in(s, 1, &shape) || !shape.ranked || shape.rank != 1 ||
        !dims_is_number(s->d, shape.dims[0], &rank) || rank < 0 || rank + 2 > INFER_RANK_MAX)
      return;
    n = (uint32_t)rank;
    s->why = INFER_WHY_DATA;
  }
  if (n + 2 > INFER_RANK_MAX) return;
  dim_id *dims = infer_dim_room(s, n + 2);
  if (x.ranked && x.rank == 3) {
    dims[0] = x.dims[0];
    if (infer_whole(s, 2, &block, &n_block))
      dims[1] = dims_exact_div(s->d, x.dims[1], infer_product(s, block, n_block));
  }
  for (uint32_t i = 0; known && i < n; i++)
    dims[2 + i] = image[i];
  infer_out_dims(s, 0, x.dtype, dims, n + 2);
}

// What CausalConvWithState of com.microsoft says beside ai.onnx's, which has none of it.
struct causal {
  int64_t last, ndim, dilation, window, length, state_last, channels, capacity;
};

static bool causal_of(struct infer_site *s, struct causal *c) {
  return infer_attr_int(s, "channels_last", 0, &c->last) &&
         infer_attr_int(s, "ndim", 1, &c->ndim) && infer_attr_int(s, "dilation", 1, &c->dilation) &&
         infer_attr_int(s, "state_window", 0, &c->window) &&
         infer_attr_int(s, "state_length", 0, &c->length) &&
         infer_attr_int(s, "state_channels_last", -1, &c->state_last) &&
         infer_attr_int(s, "input_channels", 0, &c->channels) &&
         infer_attr_int(s, "state_update_capacity", 0, &c->capacity);
}

// The columns that the next call begins with: the input's dims, but so many along the axis of time; a window of them
// has a dim of its own before the others.
static void causal_state(struct infer_site *s, const struct causal *c, const struct infer_type *y,
                         dim_id columns) {
  if (!y->ranked || y->rank < 3 || y->rank >= INFER_RANK_MAX) return;
  const bool moved = c->state_last >= 0 && (c->state_last != 0) != (c->last != 0);
  const uint32_t ahead = c->window > 0;
  if (c->last ? moved && y->rank != 3 : (int64_t)y->rank - 2 != c->ndim) return;
  dim_id *dims = infer_dim_room(s, y->rank + ahead);
  if (ahead) dims[0] = infer_size_of(s, c->window);
  memcpy(dims + ahead, y->dims, y->rank * sizeof *dims);
  dims[ahead + (c->last ? 1 : y->rank - 1)] = columns;
  if (moved) { // of three dims
    dims[ahead + 1] = c->last ? y->dims[2] : columns;
    dims[ahead + 2] = c->last ? columns : y->dims[1];
  }
  infer_out_dims(s, 1, y->dtype, dims, y->rank + ahead);
}

// A result as wide as the input, and what the next call begins with.
void infer_causal_conv(struct infer_site *s) {
  struct infer_type x, w, past;
  struct causal c;
  infer_in(s, 0, &x);
  infer_in(s, 1, &w);
  if (!causal_of(s, &c)) return;
  if (c.channels > 0 && x.ranked && x.rank > 0) {
    dim_id *dims = infer_dim_room(s, x.rank);
    memcpy(dims, x.dims, x.rank * sizeof *dims);
    dims[x.rank - 1] = infer_size_of(s, c.channels);
    x.dims = dims;
  }
  infer_out(s, 0, &x);
  dim_id columns = infer_size_of(s, c.length);
  if (c.length <= 0)
    columns =
        dims_mul(s->d, infer_size_of(s, c.dilation),
                 w.ranked && w.rank >= 3 ? dims_sub(s->d, infer_dim(&w, -1), infer_one(s)) : NO_ID);
  if (infer_in(s, 3, &past) && past.ranked)
    infer_out(s, 1, &past);
  else
    causal_state(s, &c, &x, columns);
  infer_out_dims(
      s, 2, x.dtype,
      (const dim_id[3]){infer_dim(&x, 0), infer_size_of(s, c.capacity), infer_dim(&x, -1)}, 3);
}
