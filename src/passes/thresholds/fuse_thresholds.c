// fuse-thresholds: comparisons, weights and their sum as the MultiThreshold that they say.
//
//   x ─ Reshape […,1] ─ GreaterOrEqual(t) ─ Cast ─ Mul(w) ─ ReduceSum(-1)      FuseThresholds       MultiThreshold(x, t, w)
//   x ─ Reshape […,1] ─ tree of Xor, Not over comparisons ─ Cast ─ Mul(w) ─ …  FuseThresholdSegments
//
// The first is the definition read backwards, whatever t and w are. What makes the last axis of length 1 may be an Unsqueeze,
// or a Reshape that does more: then what it does more stays, as a Reshape before.
//
// A tree is 1 at an odd number of its steps, counted from below, and Not, Less and LessOrEqual turn it round:
//
//   [x >= a] xor [x >= b], a <= b   =  [x >= a] - [x >= b]            1 - that, where it is turned
//
// So each weight w of the sum becomes w, -w, w, … at the sorted steps of its place; a tree that is turned has -w, w, … and w
// is added, once for all. Steps that cancel go, and so do those at -infinity, which are always reached. Of NaN, a tree that is
// turned says another thing than its sum.
#include "passes/kit/dead_ends.h"
#include "passes/thresholds/inside/thresholds.h"

#include <stdlib.h>

enum { LEAVES = 64, TREE = 256 };

struct leaf {
  uint32_t node, thresholds;
  bool above;  // the step lies above the threshold: x > t
  bool turned; // x < t, or an odd number of Not behind it
};

// What a ReduceSum sums.
struct summed {
  uint32_t root;    // a value of bool
  uint32_t weights; // NO_ID: none
  uint32_t x;       // with one axis more
  struct leaf leaves[LEAVES];
  uint32_t n;
};

// ---- matching ----------------------------------------------------------------------------------

// What a Cast to float makes floats of.
static uint32_t cast_of(struct kit *k, uint32_t value) {
  const uint32_t node = kit_maker(k, value);
  int64_t to;
  return kit_op(k, node) == OP_Cast && kit_attr_int(k, node, "to", 0, &to) && to == DTYPE_FLOAT
             ? kit_in(k, node, 0)
             : NO_ID;
}

static bool sums_last_axis(struct kit *k, uint32_t node) {
  const int64_t *axes;
  int64_t keeps;
  uint32_t n, rank;
  return kit_op(k, node) == OP_ReduceSum && kit_opset(k, k->m->nodes[node].graph) >= 13 &&
         kit_attr_int(k, node, "keepdims", 1, &keeps) && keeps == 0 &&
         kit_axes(k, node, &axes, &n) && n == 1 && kit_rank(k, kit_in(k, node, 0), &rank) &&
         (axes[0] == -1 || axes[0] == (int64_t)rank - 1);
}

static bool find_root(struct kit *k, uint32_t node, struct summed *m) {
  const uint32_t sum = kit_in(k, node, 0), product = kit_maker(k, sum);
  *m = (struct summed){.weights = NO_ID, .x = NO_ID};
  if (!sums_last_axis(k, node)) return false;
  m->root = cast_of(k, sum);
  if (m->root != NO_ID || kit_op(k, product) != OP_Mul) return m->root != NO_ID;
  for (uint32_t i = 0; i < 2 && m->root == NO_ID; i++) {
    m->root = cast_of(k, kit_in(k, product, i));
    m->weights = kit_in(k, product, 1 - i);
  }
  return m->root != NO_ID;
}

// Has the value, for certain, a last axis of length 1?
static bool is_widened(struct kit *k, uint32_t value) {
  uint32_t rank;
  return kit_rank(k, value, &rank) && rank > 0 && kit_dim(k, value, -1).value == 1;
}

// A comparison of x with constants, whichever side they stand on.
static bool read_leaf(struct kit *k, uint32_t node, struct summed *m, struct leaf *leaf) {
  const enum op op = kit_op(k, node);
  uint32_t tensor;
  if (op != OP_GreaterOrEqual && op != OP_LessOrEqual && op != OP_Less && op != OP_Greater)
    return false;
  const bool right = kit_constant(k, kit_in(k, node, 1), &tensor);
  const uint32_t x = kit_in(k, node, right ? 0 : 1);
  leaf->node = node;
  leaf->thresholds = kit_in(k, node, right ? 1 : 0);
  const bool up = (op == OP_GreaterOrEqual || op == OP_Greater) == right; // it is 1 above
  const bool equal = op == OP_GreaterOrEqual || op == OP_LessOrEqual;
  leaf->above = up != equal;
  leaf->turned = !up;
  if (m->x == NO_ID) m->x = x;
  return x == m->x && kit_constant(k, leaf->thresholds, &tensor) && !kit_constant(k, x, &tensor);
}

static bool read_tree(struct kit *k, struct summed *m) {
  struct {
    uint32_t value;
    bool turned;
  } open[TREE];
  uint32_t n = 0, seen = 0;
  open[n].value = m->root;
  open[n++].turned = false;
  while (n > 0) {
    const uint32_t node = kit_maker(k, open[--n].value);
    const bool turned = open[n].turned;
    const enum op op = kit_op(k, node);
    if (++seen > TREE || n + 2 > TREE) return false;
    if (op == OP_Not) {
      open[n].value = kit_in(k, node, 0);
      open[n++].turned = !turned;
    } else if (op == OP_Xor) { // a turned Xor is one of whose operands one is turned
      open[n].value = kit_in(k, node, 1);
      open[n++].turned = false;
      open[n].value = kit_in(k, node, 0);
      open[n++].turned = turned;
    } else {
      if (m->n == LEAVES || !read_leaf(k, node, m, &m->leaves[m->n])) return false;
      m->leaves[m->n].turned ^= turned;
      m->n++;
    }
  }
  return is_widened(k, m->x);
}

// ---- x -----------------------------------------------------------------------------------------

static bool has_dims_and_one(struct kit *k, uint32_t x, uint32_t widened) {
  uint32_t rank, wide;
  if (!kit_rank(k, x, &rank) || !kit_rank(k, widened, &wide) || wide != rank + 1) return false;
  for (uint32_t i = 0; i < rank; i++)
    if (!kit_dim_equal(kit_dim(k, x, i), kit_dim(k, widened, i))) return false;
  return true;
}

// What the last axis of length 1 was put behind: a value that there is, or one that is made.
static uint32_t without_axis(struct stairs *s, uint32_t widened) {
  struct kit *k = &s->k;
  const uint32_t node = kit_maker(k, widened), x = kit_in(k, node, 0);
  const enum op op = kit_op(k, node);
  const int64_t *list;
  int64_t allowzero;
  uint32_t n;
  if ((op == OP_Reshape || op == OP_Unsqueeze) && has_dims_and_one(k, x, widened) &&
      kit_available(k, x, k->graph, k->before))
    return x;
  if (op == OP_Reshape && kit_const_ints(k, kit_in(k, node, 1), &list, &n) && n > 0 &&
      kit_attr_int(k, node, "allowzero", 0, &allowzero) && kit_available(k, x, k->graph, k->before))
    return allowzero ? kit_make(k, OP_Reshape, KIT_IN(x, kit_new_ints(k, "shape", list, n - 1)),
                                KIT_INT("allowzero", allowzero))
                     : kit_make(k, OP_Reshape, KIT_IN(x, kit_new_ints(k, "shape", list, n - 1)));
  return kit_make(k, OP_Squeeze,
                  KIT_IN(widened, kit_new_ints(k, "axes", (const int64_t[]){-1}, 1)));
}

// What made the sum, and its axes, go where nothing else uses them.
static void sweep(struct kit *k, uint32_t before, uint32_t axes) {
  kit_sweep(k, before);
  if (axes != NO_ID && !(k->m->values[axes].flags & VALUE_DEAD)) dead_ends_drop(k->e, axes);
}

// ---- thresholds --------------------------------------------------------------------------------

static uint32_t ones(struct stairs *s, uint32_t thresholds) {
  struct kit *k = &s->k;
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank;
  const float one = 1;
  if (!kit_static_dims(k, thresholds, dims, RECIPE_MAX_RANK, &rank))
    return kit_new_scalar(k, "weights", DTYPE_FLOAT, 1);
  return kit_new_tensor(k, "weights",
                        recipe_fill(k->r, DTYPE_FLOAT, dims, rank, span_of(&one, sizeof one)));
}

static void fuse(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct summed m;
  if (!find_root(k, node, &m)) return;
  const uint32_t compares = kit_maker(k, m.root), before = kit_maker(k, kit_in(k, node, 0)),
                 axes = kit_in(k, node, 1);
  const enum op op = kit_op(k, compares);
  if (op != OP_GreaterOrEqual && op != OP_LessOrEqual) return;
  const uint32_t left = kit_in(k, compares, op == OP_LessOrEqual),
                 t = kit_in(k, compares, op != OP_LessOrEqual);
  uint32_t tensor;
  if (!is_widened(k, left) || kit_constant(k, left, &tensor)) return;
  if (kit_may_be_left_out(k->m, t) || (m.weights != NO_ID && kit_may_be_left_out(k->m, m.weights)))
    return;
  kit_begin(k, node, "definition");
  const uint32_t x = without_axis(s, left), w = m.weights == NO_ID ? ones(s, t) : m.weights;
  stairs_put(s, x, t, w, node);
  sweep(k, before, axes);
}

// ---- segments ----------------------------------------------------------------------------------

// Stairs with their sum of what is always there.
struct segments {
  struct stairs_table table; // dims of all leaves and weights; n as many as the longest row has
  struct stairs_step *steps; // of all rows, `room` for each
  uint64_t *n_steps;         // by row
  double *bias;              // by row
  uint64_t room;
  bool turned, exact;
};

// Dims of all; thresholds of one leaf after the other, as the steps that they are.
static const char *read_all(struct stairs *s, const struct summed *m, struct stairs_array *t,
                            struct stairs_array *w, struct stairs_table *table) {
  const char *why = NULL;
  *w = (struct stairs_array){.dtype = DTYPE_FLOAT, .count = 1};
  if (m->weights != NO_ID)
    why = stairs_read(s, m->weights, w);
  else
    w->at = arena_zalloc(&s->room, sizeof *w->at), *w->at = 1;
  for (uint64_t i = 0; !why && i < w->count; i++)
    if (!isfinite(w->at[i])) why = "weights";
  struct stairs_array dims = *w;
  for (uint32_t i = 0; !why && i < m->n; i++) {
    why = stairs_read(s, m->leaves[i].thresholds, &t[i]);
    if (!why) why = stairs_join(s, &t[i], &dims, table);
    if (why) break;
    dims = stairs_thresholds(table);
    if (m->leaves[i].above && !dtype_is_plain_float(t[i].dtype)) why = "dtype";
    for (uint64_t e = 0; !why && m->leaves[i].above && e < t[i].count; e++)
      if (!isnan(t[i].at[e])) t[i].at[e] = stairs_above(t[i].dtype, t[i].at[e]);
  }
  return why;
}

// The steps of one place: those of the leaves in order, w and -w by turns.
static void add_place(struct segments *g, const struct stairs_step *at, uint32_t n, uint64_t row,
                      double w) {
  double sign = g->turned ? -w : w;
  if (g->turned) g->bias[row] += w;
  for (uint32_t i = 0; i < n; i++, sign = -sign) {
    if (i + 1 < n && at[i].t == at[i + 1].t) { // one goes up, one down
      i++, sign = -sign;
      continue;
    }
    if (isinf(at[i].t) && at[i].t < 0) {
      g->bias[row] += sign;
      g->exact = false; // of NaN it is not reached
    } else {
      g->steps[row * g->room + g->n_steps[row]] =
          (struct stairs_step){at[i].t, sign, g->n_steps[row]};
      g->n_steps[row]++;
    }
  }
}

static void sort_out(struct stairs *s, const struct summed *m, const struct stairs_array *t,
                     const struct stairs_array *w, struct segments *g) {
  const struct stairs_table *all = &g->table;
  g->room = all->n * m->n;
  g->steps = arena_alloc(&s->room, all->rows * g->room * sizeof *g->steps);
  g->n_steps = arena_zalloc(&s->room, all->rows * sizeof *g->n_steps);
  g->bias = arena_zalloc(&s->room, all->rows * sizeof *g->bias);
  for (uint64_t e = 0; e < all->rows * all->n; e++) {
    struct stairs_step at[LEAVES];
    const double weight = w->at[stairs_index(w, all->dims, all->rank, e)];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
      const double x = t[i].at[stairs_index(&t[i], all->dims, all->rank, e)];
      if (isnan(x)) continue; // never reached
      at[n] = (struct stairs_step){x, 0, i};
      n++;
    }
    qsort(at, n, sizeof *at, stairs_by_threshold);
    if (weight != 0) add_place(g, at, n, e / all->n, weight);
  }
  uint64_t most = 0;
  for (uint64_t row = 0; row < all->rows; row++) {
    qsort(g->steps + row * g->room, g->n_steps[row], sizeof *g->steps, stairs_by_threshold);
    if (g->n_steps[row] > most) most = g->n_steps[row];
  }
  g->table.n = most;
  g->table.dims[g->table.rank - 1] = (int64_t)most;
}

// Rows that are shorter end with steps of weight 0.
static void fill(struct stairs *s, struct segments *g) {
  struct stairs_table *table = &g->table;
  table->t = arena_alloc(&s->room, table->rows * table->n * sizeof *table->t);
  table->w = arena_alloc(&s->room, table->rows * table->n * sizeof *table->w);
  for (uint64_t row = 0; row < table->rows; row++)
    for (uint64_t j = 0; j < table->n; j++) {
      const bool own = j < g->n_steps[row];
      const struct stairs_step *step = &g->steps[row * g->room + j];
      table->t[row * table->n + j] = own ? step->t : (double)INFINITY;
      table->w[row * table->n + j] = own ? step->w : 0;
    }
}

// What is added, a value: one number where all rows have the same. NO_ID: 0.
static uint32_t bias_of(struct stairs *s, const struct segments *g) {
  struct stairs_array a = {
      .dtype = DTYPE_FLOAT, .rank = g->table.rank - 1, .count = g->table.rows, .at = g->bias};
  bool alike = true, zero = true;
  memcpy(a.dims, g->table.dims, a.rank * sizeof *a.dims);
  for (uint64_t row = 0; row < a.count; row++) {
    alike = alike && a.at[row] == a.at[0];
    zero = zero && a.at[row] == 0;
  }
  if (zero) return NO_ID;
  if (alike) a.rank = 0, a.count = 1;
  return stairs_write(s, "bias", &a);
}

static void fuse_segments(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct summed m;
  struct segments g = {.exact = true};
  struct stairs_array t[LEAVES], w;
  if (!find_root(k, node, &m) || !read_tree(k, &m)) return;
  if (m.n == 1 && !m.leaves[0].above && !m.leaves[0].turned) return; // FuseThresholds'
  for (uint32_t i = 0; i < m.n; i++)
    g.turned ^= m.leaves[i].turned;
  const char *why = read_all(s, &m, t, &w, &g.table);
  if (!why && g.table.rows * g.table.n > STAIRS_MOST / m.n) why = "too_large";
  if (!why) {
    g.table.dtype = t[0].dtype;
    sort_out(s, &m, t, &w, &g);
    if (g.table.n == 0) why = "no_steps";
  }
  if (kit_skips(k, node, why)) return;
  fill(s, &g);
  bool numbers = true; // that keep NaN as it was
  for (uint32_t i = 0; i < m.n; i++)
    numbers = numbers && !m.leaves[i].turned;
  const bool exact = numbers && g.exact && stairs_sums_exactly(&g.table);
  if (!stairs_may(s, exact ? EXACTNESS_ZERO : EXACTNESS_ROUNDING)) return;
  const uint32_t before = kit_maker(k, kit_in(k, node, 0)), axes = kit_in(k, node, 1),
                 y = kit_out(k, node, 0);
  const struct stairs_array thresholds = stairs_thresholds(&g.table),
                            weights = stairs_weights(&g.table);
  kit_begin(k, node, "segments");
  const uint32_t x = without_axis(s, m.x);
  const uint32_t new_t = stairs_write(s, "thresholds", &thresholds),
                 new_w = stairs_write(s, "weights", &weights), bias = bias_of(s, &g);
  const uint32_t steps = stairs_put(s, x, new_t, new_w, bias == NO_ID ? node : NO_ID);
  if (bias != NO_ID) {
    kit_note_like(k, steps, y);
    kit_replace(k, node, OP_Add, KIT_IN(steps, bias));
  }
  sweep(k, before, axes);
}

// ---- the passes --------------------------------------------------------------------------------

const struct pass thresholds_fuse = {
    .name = "fuse-thresholds/FuseThresholds",
    .summary = "fuse comparisons, weights and their sum into MultiThreshold",
    .about = "Replaces ReduceSum along the last axis of comparisons of x with thresholds, with or "
             "without weights, by MultiThreshold.",
    .needs = "comparisons of a value with a last axis of length 1, cast to float",
    .promises = "the same results",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = fuse,
};

const struct pass thresholds_fuse_segments = {
    .name = "fuse-thresholds/FuseThresholdSegments",
    .summary = "fuse Xor and Not of comparisons, weights and their sum into MultiThreshold",
    .about = "Replaces ReduceSum along the last axis of weighted Xor, Not and comparisons of one "
             "value with constants by a bias and a MultiThreshold with positive and negative "
             "steps.",
    .needs = "constant thresholds and weights of at most 2^18 elements",
    .promises = "the same results up to rounding, for inputs that are not NaN",
    .exactness = EXACTNESS_ZERO,
    .loosest = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = fuse_segments,
};
