// Rules of inference for operators that sample a grid: Resize, Upsample, GridSample, AffineGrid.
//
// A dim becomes floor(d * scale), computed in float32. That is an expression where no float rounds: for
// scales p/2^k with a small p. What part of the input is looked at (roi) does not change it.
#include "infer/inside/infer_rules.h"

#include <math.h>

enum { SCALE_MOST = 1 << 10 };

static bool scale_of_number(struct infer_site *s, struct infer_number x, float *out) {
  int64_t n;
  if (x.num == NO_ID || !dims_is_number(s->d, x.num, &n)) return false;
  *out = (float)n / (float)x.den;
  return true;
}

// The scales of an input: NAN where one is not known. False: not even how many there are.
static bool scales_of(struct infer_site *s, uint32_t slot, const float **out, uint32_t *n) {
  const struct infer_number *list;
  struct model_constant c;
  struct span raw;
  struct infer_type t;
  int64_t count;
  const uint32_t value = model_input(s->m, &s->m->nodes[s->node], slot);
  if (value != NO_ID && model_resolve_constant(s->m, value, &c) &&
      s->m->tensors[c.tensor].dtype == DTYPE_FLOAT && model_small_value(s->m, c.tensor, &raw)) {
    *n = (uint32_t)(raw.n / sizeof(float));
    float *all = arena_alloc(s->a, raw.n + 1);
    if (raw.n) memcpy(all, raw.at, *n * sizeof *all);
    *out = all;
    return true;
  }
  const bool listed = infer_list(s, slot, &list, n);
  if (!listed) {
    if (!infer_in(s, slot, &t) || !t.ranked || t.rank != 1 ||
        !dims_is_number(s->d, t.dims[0], &count) || count < 0 || count > INFER_RANK_MAX)
      return false;
    *n = (uint32_t)count;
  }
  float *all = arena_alloc(s->a, *n * sizeof *all + 1);
  for (uint32_t i = 0; i < *n; i++)
    if (!listed || !scale_of_number(s, list[i], &all[i])) all[i] = NAN;
  *out = all;
  return true;
}

static dim_id scaled(struct infer_site *s, dim_id d, float scale) {
  int64_t n;
  if (d == NO_ID || !(scale > 0)) return NO_ID;
  if (dims_is_number(s->d, d, &n)) {
    const float product = (float)n * scale;
    return product < 0x1p62f ? infer_size_of(s, (int64_t)floorf(product)) : NO_ID;
  }
  int64_t den = 1;
  while (den < SCALE_MOST && scale != truncf(scale)) {
    scale *= 2;
    den *= 2;
  }
  if (scale != truncf(scale) || scale > (float)SCALE_MOST) return NO_ID;
  return dims_floor_div(s->d, dims_mul(s->d, d, infer_size_of(s, (int64_t)scale)),
                        infer_size_of(s, den));
}

static bool positive(struct infer_site *s, const float *scales, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (infer_invalid_if(s, scales[i] <= 0, "a scale is %g", (double)scales[i])) return false;
  return true;
}

static bool as_many(struct infer_site *s, const char *what, uint32_t n, uint32_t wanted) {
  if (n != wanted)
    infer_invalid(s, "there %s %u %s%s for %u %s", n == 1 ? "is" : "are", n, what, plural(n),
                  wanted, wanted == 1 ? "axis" : "axes");
  return n == wanted;
}

// ---- Resize ------------------------------------------------------------------------------------------

struct resize {
  struct infer_type x;
  uint32_t axes[INFER_RANK_MAX];
  uint32_t n; // axes that are resized
};

static bool resize_axes(struct infer_site *s, struct resize *r) {
  const int64_t *axes;
  uint32_t n;
  bool seen[INFER_RANK_MAX] = {false};
  if (!infer_attr_ints(s, "axes", &axes, &n)) return false;
  r->n = axes && n ? n : r->x.rank;
  if (infer_invalid_if(s, r->n > r->x.rank, "it resizes %u axes of %u", r->n, r->x.rank))
    return false;
  for (uint32_t i = 0; i < r->n; i++) {
    r->axes[i] = i;
    if (axes && n && !infer_axis(s, axes[i], r->x.rank, &r->axes[i])) return false;
    if (infer_invalid_if(s, seen[r->axes[i]], "axis %u is listed twice", r->axes[i])) return false;
    seen[r->axes[i]] = true;
  }
  return true;
}

// One scale for all axes, so that none is larger, or smaller, than its size; as floats compute it.
static void keep_ratio(struct infer_site *s, const struct resize *r, const dim_id *sizes,
                       bool larger, dim_id *dims) {
  float scale = larger ? 0 : INFINITY;
  for (uint32_t i = 0; i < r->n; i++) {
    int64_t in, out;
    const dim_id d = r->x.dims[r->axes[i]];
    const bool known = d != NO_ID && dims_is_number(s->d, d, &in) && in > 0 && sizes &&
                       dims_is_number(s->d, sizes[i], &out);
    dims[r->axes[i]] = NO_ID;
    if (!known) scale = NAN;
    if (isnan(scale)) continue;
    const float one = (float)out / (float)in;
    scale = larger ? fmaxf(scale, one) : fminf(scale, one);
  }
  for (uint32_t i = 0; i < r->n && !isnan(scale); i++) {
    int64_t in;
    dims_is_number(s->d, r->x.dims[r->axes[i]], &in);
    const float out = roundf(scale * (float)in);
    if (out >= 0 && out < 0x1p62f) dims[r->axes[i]] = infer_size_of(s, (int64_t)out);
  }
}

static void by_sizes(struct infer_site *s, const struct resize *r, uint32_t slot, dim_id *dims) {
  const dim_id *sizes = NULL;
  struct span policy;
  uint32_t n;
  if (infer_whole(s, slot, &sizes, &n)) {
    if (!as_many(s, "size", n, r->n)) return;
  } else {
    sizes = NULL;
    s->why = INFER_WHY_DATA;
  }
  if (!infer_attr_string(s, "keep_aspect_ratio_policy", "stretch", &policy)) return;
  if (!span_is(policy, "stretch")) {
    keep_ratio(s, r, sizes, span_is(policy, "not_smaller"), dims);
    return;
  }
  for (uint32_t i = 0; i < r->n; i++)
    dims[r->axes[i]] = sizes ? sizes[i] : NO_ID;
}

static void by_scales(struct infer_site *s, const struct resize *r, uint32_t slot, dim_id *dims) {
  const float *scales;
  uint32_t n;
  const bool known = scales_of(s, slot, &scales, &n);
  if (known && (!as_many(s, "scale", n, r->n) || !positive(s, scales, n))) return;
  s->why = s->why == INFER_WHY_INPUT ? INFER_WHY_DATA : s->why;
  for (uint32_t i = 0; i < r->n; i++)
    dims[r->axes[i]] = known ? scaled(s, r->x.dims[r->axes[i]], scales[i]) : NO_ID;
}

// An empty list is one that is left out.
static bool given(struct infer_site *s, uint32_t slot) {
  struct infer_type t;
  int64_t n;
  if (!infer_has(s, slot)) return false;
  return !(infer_in(s, slot, &t) && t.ranked && t.rank == 1 &&
           dims_is_number(s->d, t.dims[0], &n) && n == 0);
}

void infer_resize(struct infer_site *s) {
  struct resize r = {.n = 0};
  if (!infer_in(s, 0, &r.x)) return;
  if (!infer_known(s, r.x.ranked, r.x.dtype)) return;
  dim_id *dims = infer_dim_room(s, r.x.rank);
  if (!resize_axes(s, &r)) return;
  for (uint32_t i = 0; i < r.x.rank; i++)
    dims[i] = r.x.dims[i];
  if (s->version >= 11 && given(s, 3))
    by_sizes(s, &r, 3, dims);
  else
    by_scales(s, &r, s->version < 11 ? 1 : 2, dims);
  if (s->why == INFER_WHY_INVALID) return;
  infer_out_dims(s, 0, r.x.dtype, dims, r.x.rank);
}

void infer_upsample(struct infer_site *s) {
  struct infer_type x;
  const float *scales;
  float height, width, old[4] = {1, 1, 1, 1};
  uint32_t n;
  bool known = true;
  if (!infer_in(s, 0, &x)) return;
  if (!infer_known(s, x.ranked, x.dtype)) return;
  if (s->version >= 9)
    known = scales_of(s, 1, &scales, &n);
  else if (s->version >= 7)
    known = infer_attr_floats(s, "scales", &scales, &n) && scales;
  else {
    if (!infer_attr_float(s, "height_scale", 0, &height) ||
        !infer_attr_float(s, "width_scale", 0, &width))
      return;
    old[2] = height;
    old[3] = width;
    scales = old;
    n = 4;
  }
  if (known && (!as_many(s, "scale", n, x.rank) || !positive(s, scales, n))) return;
  dim_id *dims = infer_dim_room(s, x.rank);
  for (uint32_t i = 0; i < x.rank; i++)
    if (known) dims[i] = scaled(s, x.dims[i], scales[i]);
  s->why = INFER_WHY_DATA;
  infer_out_dims(s, 0, x.dtype, dims, x.rank);
}

// ---- grids --------------------------------------------------------------------------------------------

// [N, C, what the grid has but its last dim]
void infer_grid_sample(struct infer_site *s) {
  struct infer_type x, grid;
  infer_in(s, 0, &x);
  infer_in(s, 1, &grid);
  if (!x.ranked && !grid.ranked) return;
  const uint32_t rank = x.ranked ? x.rank : grid.rank;
  if (infer_invalid_if(s, rank < 3 || (grid.ranked && grid.rank != rank),
                       "the input has %u dim%s, the grid %u", rank, plural(rank),
                       grid.ranked ? grid.rank : rank))
    return;
  dim_id *dims = infer_dim_room(s, rank);
  dims[0] = infer_same_dim(s, infer_dim(&x, 0), infer_dim(&grid, 0));
  dims[1] = infer_dim(&x, 1);
  for (uint32_t i = 2; i < rank; i++)
    dims[i] = infer_dim(&grid, (int32_t)i - 1);
  if (s->why != INFER_WHY_INVALID) infer_out_dims(s, 0, DTYPE_UNDEFINED, dims, rank);
}

// [N, sizes…, how many sizes]
void infer_affine_grid(struct infer_site *s) {
  struct infer_type theta, size;
  const struct infer_number *list = NULL;
  uint32_t n = 0;
  int64_t count;
  infer_in(s, 0, &theta);
  infer_in(s, 1, &size);
  if (!infer_list(s, 1, &list, &n)) {
    list = NULL;
    if (!size.ranked || size.rank != 1 || !dims_is_number(s->d, size.dims[0], &count)) return;
    n = (uint32_t)(count < 0 || count > INFER_RANK_MAX ? 0 : count);
    s->why = INFER_WHY_DATA;
  }
  if (infer_invalid_if(s, n != 4 && n != 5, "there %s %u size%s, not 4 or 5", n == 1 ? "is" : "are",
                       n, plural(n)))
    return;
  dim_id dims[5] = {NO_ID, NO_ID, NO_ID, NO_ID, NO_ID};
  dims[0] = infer_dim(&theta, 0);
  for (uint32_t i = 0; list && i < n; i++)
    if (i > 1 && list[i].den == 1) dims[i - 1] = list[i].num;
  if (list && list[0].den == 1) dims[0] = infer_same_dim(s, dims[0], list[0].num);
  if (s->why == INFER_WHY_INVALID) return;
  dims[n - 1] = infer_size_of(s, n - 2);
  infer_out_dims(s, 0, theta.dtype, dims, n);
}
