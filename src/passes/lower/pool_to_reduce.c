// lower-pooling/MaxPoolToReduceMax and lower-pooling/AveragePoolToReduceSum: pooling as a reduction of what its window
// sees. And lower-pooling/ExplicitGlobalAveragePool, which gives the window of the whole input its size: no rule, since
// AveragePool means other things before opset 19, but not of this window.
//
//   x [N,C,I…] ─ MaxPool ─▶ y [N,C,O…]
//
//   x ─ Pad(-inf) ─ Transpose ─ Im2Col [N,O…,K…·C] ─ Reshape [N,O…,K…,C] ─ ReduceMax ─ Transpose ─▶ y
//   x ─ Pad(0) ─ … ─ Reshape ─ ReduceSum ─ Div(count) ─ Transpose ─▶ y
//
// (K… is one axis after the Reshape.) `count` is how many elements each place of the window has, those of pads only with
// count_include_pad: a product of one factor for each axis, and as the window runs evenly but at the borders, each is
// a few runs of equal numbers. A place that has none stays with the pooling, since runtimes disagree on it.
#include "passes/lower/inside/lower.h"
#include "passes/lower/inside/lower_window.h"

#include <math.h>

enum { REDUCE_AXES_OPSET = 18, MOST_RUNS = 1024 };

// [N,O…,K…,C] of what Im2Col gathered.
static uint32_t put_windows(struct lower *l, const struct lower_window *w, uint32_t x,
                            double element) {
  struct kit *k = &l->k;
  // 0: as it is.
  int64_t dims[LOWER_WINDOW_AXES + 3] = {w->batch.value > 0 ? w->batch.value : 0};
  memcpy(dims + 1, w->out, w->rank * sizeof *dims);
  dims[w->rank + 1] = lower_window_product(w->kernel, w->rank);
  dims[w->rank + 2] = w->channels;
  kit_import(k, k->graph, kit_domain_name(KIT_PASSES), 1);
  const uint32_t last = lower_window_last(l, w, x, element);
  const uint32_t columns = lower_window_columns(k, w, last, lower_window_index(l, w, w->channels));
  return kit_make(k, OP_Reshape, KIT_IN(columns, lower_window_ints(l, "shape", dims, w->rank + 3)));
}

static const char *match(struct lower *l, uint32_t node, struct lower_window *w) {
  struct kit *k = &l->k;
  if (kit_n_in(k, node) != 1) return "signature";
  const char *why = lower_window_of(k, node, w);
  if (why) return why;
  if (!lower_window_pads_fit(w, l->options->index_limit)) return "pads_limit";
  return lower_window_index_fits(w, w->channels, l->options->index_limit) ? NULL : "index_limit";
}

// ---- the largest -------------------------------------------------------------------------------------

static const char *visit_max(struct lower *l, uint32_t node) {
  struct kit *k = &l->k;
  struct lower_window w;
  const char *why = match(l, node, &w);
  if (why) return why;
  if (!dtype_is_plain_number(w.dtype)) return "dtype";
  if (!lower_window_is_filled(&w)) return "window_of_pads";
  kit_begin(k, node, "max_pool");
  const uint32_t windows = put_windows(l, &w, kit_in(k, node, 0), (double)-INFINITY);
  const int64_t axis = w.rank + 1;
  const uint32_t y =
      kit_opset(k, k->graph) >= REDUCE_AXES_OPSET
          ? kit_make(k, OP_ReduceMax, KIT_IN(windows, lower_window_ints(l, "axis", &axis, 1)),
                     KIT_INT("keepdims", 0))
          : kit_make(k, OP_ReduceMax, KIT_IN(windows), KIT_INTS("axes", &axis, 1),
                     KIT_INT("keepdims", 0));
  lower_window_back(k, &w, node, y);
  return NULL;
}

static int run_max(struct pass_env *env, void *with, struct err *err) {
  return lower_window_walk(env, with, OP_MaxPool, visit_max, err);
}

const struct pass lower_max_pool = {
    .name = "lower-pooling/MaxPoolToReduceMax",
    .summary = "replace MaxPool by Im2Col and ReduceMax",
    .about =
        "Replaces MaxPool, with its strides, dilations, pads and ceil_mode, by the largest "
        "element of each window: Pad, Transpose, the custom operator Im2Col with an index of all "
        "windows, Reshape, ReduceMax and Transpose. The index is computed while it is written.",
    .needs = "known channels and spatial dims (the batch may be of any size), unused indices, "
             "opset 13",
    .promises = "the same results for finite inputs",
    .exactness = EXACTNESS_ROUNDING,
    LOWER_OPTIONS,
    .run = run_max,
};

// ---- the mean ----------------------------------------------------------------------------------------

struct average {
  struct lower_window w;
  bool pads;                          // are counted
  uint32_t n_runs[LOWER_WINDOW_AXES]; // along the axis, of places of equal counts
};

// The count at the place `at`, and the first place behind it that has another.
static int64_t next_run(const struct average *a, uint32_t axis, int64_t *at) {
  const int64_t count = lower_window_count(&a->w, axis, *at, a->pads);
  do
    ++*at;
  while (*at < a->w.out[axis] && lower_window_count(&a->w, axis, *at, a->pads) == count);
  return count;
}

static const char *count_runs(struct average *a, uint32_t axis) {
  for (int64_t at = 0; at < a->w.out[axis]; a->n_runs[axis]++)
    if (next_run(a, axis, &at) == 0)
      return "window_of_pads";
    else if (a->n_runs[axis] == MOST_RUNS)
      return "attribute";
  return NULL;
}

static uint32_t fill(struct kit *k, enum dtype dtype, const int64_t *dims, uint32_t rank,
                     int64_t x) {
  uint8_t raw[8];
  const size_t n = kit_number_put(dtype, (double)x, raw);
  return recipe_fill(k->r, dtype, dims, rank, span_of(raw, n));
}

// The counts along an axis, of dims with 1 for all others.
static uint32_t counts_along(struct kit *k, const struct average *a, uint32_t axis) {
  const uint32_t rank = a->w.rank + 2;
  int64_t dims[LOWER_WINDOW_AXES + 2], at = 0;
  uint32_t *parts = arena_alloc(&k->site, a->n_runs[axis] * sizeof *parts);
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = 1;
  for (uint32_t i = 0; i < a->n_runs[axis]; i++) {
    const int64_t from = at, count = next_run(a, axis, &at);
    dims[1 + axis] = at - from;
    parts[i] = fill(k, a->w.dtype, dims, rank, count);
  }
  return recipe_concat(k->r, parts, a->n_runs[axis], 1 + axis);
}

// [N,O…,C], or [1,O…,C] of a batch that is not known.
static uint32_t put_counts(struct lower *l, const struct average *a) {
  struct kit *k = &l->k;
  const uint32_t rank = a->w.rank + 2;
  int64_t dims[LOWER_WINDOW_AXES + 2] = {a->w.batch.value > 0 ? a->w.batch.value : 1}, even = 1;
  memcpy(dims + 1, a->w.out, a->w.rank * sizeof *dims);
  dims[rank - 1] = a->w.channels;
  // What is even goes into one fill, which has all dims.
  for (uint32_t i = 0; i < a->w.rank; i++)
    if (a->n_runs[i] == 1) even *= lower_window_count(&a->w, i, 0, a->pads);
  uint32_t all = fill(k, a->w.dtype, dims, rank, even);
  for (uint32_t i = 0; i < a->w.rank; i++)
    if (a->n_runs[i] > 1)
      all = recipe_map(k->r, RECIPE_MAP_MUL, (const uint32_t[]){all, counts_along(k, a, i)});
  return lower_window_constant(l, "count", all);
}

static const char *match_average(struct lower *l, uint32_t node, struct average *a) {
  struct kit *k = &l->k;
  int64_t pads;
  const char *why = match(l, node, &a->w);
  if (why) return why;
  if (!kit_attr_int(k, node, "count_include_pad", 0, &pads) || pads < 0 || pads > 1)
    return "attribute";
  if (!dtype_is_plain_float(a->w.dtype)) return "float_type";
  a->pads = pads == 1;
  for (uint32_t i = 0; i < a->w.rank; i++)
    if ((why = count_runs(a, i))) return why;
  return NULL;
}

static const char *visit_average(struct lower *l, uint32_t node) {
  struct kit *k = &l->k;
  struct average a = {.pads = false};
  const char *why = match_average(l, node, &a);
  if (why) return why;
  kit_begin(k, node, "average_pool");
  const uint32_t windows = put_windows(l, &a.w, kit_in(k, node, 0), 0);
  const int64_t axis = a.w.rank + 1;
  const uint32_t sum =
      kit_make(k, OP_ReduceSum, KIT_IN(windows, lower_window_ints(l, "axis", &axis, 1)),
               KIT_INT("keepdims", 0));
  const uint32_t mean = kit_make(k, OP_Div, KIT_IN(sum, put_counts(l, &a)));
  lower_window_back(k, &a.w, node, mean);
  return NULL;
}

static int run_average(struct pass_env *env, void *with, struct err *err) {
  return lower_window_walk(env, with, OP_AveragePool, visit_average, err);
}

const struct pass lower_average_pool = {
    .name = "lower-pooling/AveragePoolToReduceSum",
    .summary = "replace AveragePool by Im2Col, ReduceSum and Div",
    .about = "Replaces AveragePool, with its strides, dilations, pads and ceil_mode, by the sum "
             "of each window divided by the number of its elements: Pad, Transpose, the custom "
             "operator Im2Col with an index of all windows, Reshape, ReduceSum, Div and "
             "Transpose. The index is computed while it is written.",
    .needs = "known channels and spatial dims (the batch may be of any size), opset 13",
    .promises = "the same results up to rounding (the order of summation differs)",
    .exactness = EXACTNESS_ROUNDING,
    LOWER_OPTIONS,
    .run = run_average,
};

// ---- the mean of all -----------------------------------------------------------------------------------

static void visit_global(struct kit *k, uint32_t node) {
  int64_t window[LOWER_WINDOW_AXES];
  uint32_t rank;
  const uint32_t x = kit_in(k, node, 0);
  if (kit_op(k, node) != OP_GlobalAveragePool || kit_opset(k, k->m->nodes[node].graph) < 7 ||
      x == NO_ID || kit_may_be_left_out(k->m, x) || !kit_rank(k, x, &rank) || rank < 3 ||
      rank > LOWER_WINDOW_AXES + 2)
    return;
  for (uint32_t i = 0; i + 2 < rank; i++)
    if ((window[i] = kit_dim(k, x, 2 + i).value) < 1) return;
  kit_begin(k, node, "global");
  kit_replace(k, node, OP_AveragePool, KIT_IN(x), KIT_INT("count_include_pad", 1),
              KIT_INTS("kernel_shape", window, rank - 2));
}

const struct pass lower_global_average_pool = {
    .name = "lower-pooling/ExplicitGlobalAveragePool",
    .summary = "replace GlobalAveragePool by AveragePool of the whole window",
    .about = "Replaces GlobalAveragePool by an AveragePool whose window covers all spatial dims.",
    .needs = "known spatial dims (the batch may be of any size)",
    .promises = "the same results up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = visit_global,
};
