// Which values and nodes float16 does not hold, by what calibration found of the float32 model.
//
//   x ─▶ Mul(1000) ─▶ y ─▶ Mul(0.001) ─▶ z        y reaches 990000: both nodes stay, since one makes it and the other reads it
//
// A value does not fit if the largest magnitude that was seen, times the headroom, is beyond 65504. A node stays if a value that it makes or
// reads does not fit, or a sum or square that its operator makes on the way. That is the least: any of these nodes in float16 would make
// such a number, and every other value fits.
//
//   ReduceMean, AveragePool    n times the mean              ReduceL2, LpPool             the power that the norm is the root of
//   LayerNormalization …       the square of the distance from the mean, at most the width of the range
//   Attention                  the scores, at most d times the largest query and key
//   LRN                        squares of `size` channels             Softmax, LogSoftmax       1 for each element that is summed up
//
// The result of a mask is no number (cast_graph_masks.c): values that have a mask in them are judged on the other side alone, and so are
// values that a bound chooses, clips or pads, if their readers only compare. Constants are known exactly, without headroom.
//
// A value without a range is taken to fit, and counted: values that calibration leaves out, and values inside functions and bodies.
// Inputs and outputs of a body have the ranges of the inputs and outputs of its node.
#include "passes/cast/inside/cast_graph_ranges.h"

#include "passes/cast/inside/cast_graph_masks.h"
#include "ranges/ranges.h"

#include <math.h>

struct cast_graph_ranges {
  struct kit *k;
  const struct ranges *ranges;
  const struct cast_graph_masks *masks;
  double headroom;
  double *least, *most; // by value; NaN: not known
  uint32_t n, n_unknown;
  bool cuts; // ranges may leave out what is rare
};

// ---- what is known ------------------------------------------------------------------------------

static void set(struct cast_graph_ranges *g, uint32_t v, double least, double most) {
  g->least[v] = least;
  g->most[v] = most;
}

// The range of the finite elements of a small constant. False: the value is no such constant.
static bool of_constant(struct cast_graph_ranges *g, uint32_t v) {
  const double *x;
  uint32_t tensor, n;
  struct span raw;
  struct kit *k = g->k;
  arena_reset(&k->site);
  if (!kit_constant(k, v, &tensor) || !model_small_value(k->m, tensor, &raw) ||
      !kit_const_floats(k, v, &x, &n))
    return false;
  double least = INFINITY, most = -INFINITY;
  for (uint32_t i = 0; i < n; i++)
    if (isfinite(x[i])) least = fmin(least, x[i]), most = fmax(most, x[i]);
  set(g, v, least, most);
  return true;
}

static bool is_float(struct cast_graph_ranges *g, uint32_t v) {
  return kit_dtype(g->k, v) == DTYPE_FLOAT;
}

// A value that a node only moves has the range of the input.
static uint32_t moved_from(struct cast_graph_ranges *g, uint32_t v) {
  const uint32_t node = kit_maker(g->k, v);
  const enum op op = kit_op(g->k, node);
  if (op == OP_NONE || kit_n_out(g->k, node) != 1 || !kit_op_has(op, KIT_UNROUNDED) ||
      kit_op_has(op, KIT_JUMPS) || kit_op_has(op, KIT_ELEMENTWISE) || op == OP_Pad ||
      op == OP_Concat || op == OP_Scatter || op == OP_TensorScatter)
    return NO_ID;
  const uint32_t in = kit_in(g->k, node, 0);
  return in != NO_ID && in < g->n && is_float(g, in) ? in : NO_ID;
}

// The range that was seen: a method may have cut off what is rare, but its bins have all of it.
static void take(struct cast_graph_ranges *g, uint32_t v, const struct ranges_value *r) {
  const struct ranges_histogram *h = &r->histogram;
  set(g, v, r->least, r->most);
  if (h->n_bins == 0) {
    const enum ranges_method by = g->ranges->method;
    g->cuts |= g->ranges->moving_average || (by != RANGES_MINMAX && by != RANGES_ANY);
    return;
  }
  g->most[v] = fmax(r->most, h->to);
  if (!h->magnitudes) g->least[v] = fmin(r->least, h->from);
  if (h->magnitudes && r->least < 0) g->least[v] = fmin(r->least, -h->to);
}

// Names of values of bodies and functions may be those of others in the main graph.
static void find(struct cast_graph_ranges *g, uint32_t v) {
  const struct model *m = g->k->m;
  if (m->values[v].flags & VALUE_DEAD || !is_float(g, v) || of_constant(g, v)) return;
  if (m->values[v].graph != m->main_graph) return;
  const struct ranges_value *r = ranges_find(g->ranges, model_value_name(m, v));
  if (r) take(g, v, r);
}

static void find_moved(struct cast_graph_ranges *g) {
  for (uint32_t v = 0; v < g->n; v++) {
    const uint32_t from = isnan(g->most[v]) && is_float(g, v) ? moved_from(g, v) : NO_ID;
    if (from != NO_ID) set(g, v, g->least[from], g->most[from]);
  }
}

// The value of a body holds what a value outside holds, among others.
static void widen(struct cast_graph_ranges *g, uint32_t v, uint32_t by) {
  uint32_t tensor;
  if (v == NO_ID || by == NO_ID || isnan(g->most[by]) || !is_float(g, v)) return;
  if (kit_constant(g->k, v, &tensor)) return;
  set(g, v, fmin(g->least[v], g->least[by]), fmax(g->most[v], g->most[by])); // NaN gives way
}

// Inputs and outputs of a body, from those of its node. A value that a loop carries is both.
static void find_in_body(struct cast_graph_ranges *g, uint32_t graph) {
  const struct kit *k = g->k;
  const struct model *m = k->m;
  const struct model_graph *b = &m->graphs[graph];
  if (b->flags & GRAPH_DEAD || b->kind != GRAPH_SUB || b->owner == NO_ID) return;
  const uint32_t node = m->attrs[b->owner].node;
  const enum op op = kit_op(g->k, node);
  const uint32_t skip_in = op == OP_Loop ? 2 : 0, skip_out = op == OP_Loop ? 1 : 0;
  if (op != OP_If && op != OP_Loop && op != OP_Scan) return;
  if (op == OP_Scan && kit_n_in(k, node) != b->n_inputs) return; // as before opset 9
  for (uint32_t i = 0; i + skip_out < b->n_outputs; i++)
    widen(g, m->graph_io[b->outputs + skip_out + i], kit_out(k, node, i));
  int64_t scanned = 0;
  if (op == OP_Scan && !kit_attr_int(g->k, node, "num_scan_inputs", 0, &scanned)) return;
  for (uint32_t i = skip_in; i < b->n_inputs; i++) {
    widen(g, m->graph_io[b->inputs + i], kit_in(k, node, i));
    if ((int64_t)b->n_inputs - i > scanned && i - skip_in + skip_out < b->n_outputs)
      widen(g, m->graph_io[b->inputs + i], m->graph_io[b->outputs + skip_out + i - skip_in]);
  }
}

static void count_unknown(struct cast_graph_ranges *g) {
  uint32_t tensor;
  for (uint32_t v = 0; v < g->n; v++)
    g->n_unknown += !(g->k->m->values[v].flags & VALUE_DEAD) && is_float(g, v) &&
                    isnan(g->most[v]) && !kit_constant(g->k, v, &tensor);
}

// ---- what does not fit ---------------------------------------------------------------------------

static double magnitude(const struct cast_graph_ranges *g, uint32_t v) {
  const unsigned distant = cast_graph_far(g->masks, v);
  const double below = distant & CAST_GRAPH_BELOW ? 0 : -g->least[v];
  const double above = distant & CAST_GRAPH_ABOVE ? 0 : g->most[v];
  return fmax(fmax(below, above), 0);
}

static bool is_unfit(const struct cast_graph_ranges *g, double x) {
  return x * g->headroom > dtype_largest(DTYPE_FLOAT16);
}

bool cast_graph_is_unfit(struct cast_graph_ranges *g, uint32_t v) {
  uint32_t tensor;
  if (v == NO_ID || v >= g->n || isnan(g->most[v])) return false;
  const double x = magnitude(g, v);
  return kit_constant(g->k, v, &tensor) ? x > dtype_largest(DTYPE_FLOAT16) : is_unfit(g, x);
}

// Elements that a reduction goes over; 0: not known.
static double reduced(struct cast_graph_ranges *g, uint32_t node) {
  struct kit *k = g->k;
  const int64_t *axes;
  uint32_t n, rank;
  double count = 1;
  if (!kit_axes(k, node, &axes, &n) || !kit_rank(k, kit_in(k, node, 0), &rank)) return 0;
  for (uint32_t i = 0; i < (n ? n : rank); i++) {
    const int64_t dim = kit_dim(k, kit_in(k, node, 0), n ? axes[i] : (int64_t)i).value;
    if (dim < 1) return 0;
    count *= (double)dim;
  }
  return count;
}

static double windowed(struct cast_graph_ranges *g, uint32_t node) {
  struct kit *k = g->k;
  const int64_t *list;
  uint32_t n, rank;
  double count = 1;
  if (kit_op(k, node) == OP_AveragePool) {
    if (!kit_attr_ints(k, node, "kernel_shape", &list, &n)) return 0;
    for (uint32_t i = 0; i < n; i++)
      count *= (double)list[i];
    return count;
  }
  if (!kit_rank(k, kit_in(k, node, 0), &rank)) return 0;
  for (uint32_t i = 2; i < rank; i++) {
    const int64_t dim = kit_dim(k, kit_in(k, node, 0), i).value;
    if (dim < 1) return 0;
    count *= (double)dim;
  }
  return count;
}

static double size_of(const struct cast_graph_ranges *g, uint32_t v) {
  return v == NO_ID || v >= g->n || isnan(g->most[v]) ? 0 : magnitude(g, v);
}

static double width_of(const struct cast_graph_ranges *g, uint32_t v) {
  return v == NO_ID || v >= g->n || isnan(g->most[v]) ? 0 : g->most[v] - g->least[v];
}

// The largest score before the Softmax, at most.
static double scores(struct cast_graph_ranges *g, uint32_t node) {
  struct kit *k = g->k;
  const uint32_t q = kit_in(k, node, 0), key = kit_in(k, node, 1);
  int64_t d = kit_dim(k, q, -1).value, heads = 1;
  uint32_t rank;
  float scale;
  if (kit_rank(k, q, &rank) && rank == 3 && kit_attr_int(k, node, "q_num_heads", 1, &heads) &&
      heads > 0)
    d /= heads;
  if (d < 1 || !kit_attr_float(k, node, "scale", 0, &scale)) return 0;
  const double by = scale > 0 ? (double)scale : 1 / sqrt((double)d);
  return size_of(g, q) * size_of(g, key) * (double)d * by;
}

// Squares of as many channels as are summed up.
static double local_squares(struct cast_graph_ranges *g, uint32_t node) {
  int64_t n;
  const double x = size_of(g, kit_in(g->k, node, 0));
  return kit_attr_int(g->k, node, "size", 1, &n) ? x * x * (double)n : 0;
}

// Exponentials of at most 0, each of which may be 1: no headroom makes more of them.
static bool sums_too_many(struct cast_graph_ranges *g, uint32_t node) {
  const enum op op = kit_op(g->k, node);
  return (op == OP_Softmax || op == OP_LogSoftmax) &&
         (double)kit_softmax_terms(g->k, node) > dtype_largest(DTYPE_FLOAT16);
}

// The sum of powers that a norm is the root of; of LpNormalization, where the norm is not known, the largest of them.
static double powers(struct cast_graph_ranges *g, uint32_t node, uint32_t value) {
  int64_t p;
  if (!kit_attr_int(g->k, node, "p", 2, &p)) return 0;
  return p > 1 ? pow(size_of(g, value), (double)p) : 0;
}

// The largest number that the operator makes on the way; 0: none that is known.
static double on_the_way(struct cast_graph_ranges *g, uint32_t node) {
  struct kit *k = g->k;
  const uint32_t in = kit_in(k, node, 0), out = kit_out(k, node, 0);
  switch (kit_op(k, node)) {
  case OP_ReduceMean: return reduced(g, node) * size_of(g, out);
  case OP_GlobalAveragePool:
  case OP_AveragePool: return windowed(g, node) * size_of(g, out);
  case OP_ReduceL2: return size_of(g, out) * size_of(g, out);
  case OP_ReduceLogSum: return exp(size_of(g, out));
  case OP_RMSNormalization: return size_of(g, in) * size_of(g, in);
  case OP_LpNormalization: return powers(g, node, in);
  case OP_LpPool:
  case OP_GlobalLpPool: return powers(g, node, out);
  case OP_InstanceNormalization:
  case OP_GroupNormalization:
  case OP_LayerNormalization: return width_of(g, in) * width_of(g, in);
  case OP_Attention: return scores(g, node);
  case OP_LRN: return local_squares(g, node);
  default: return 0;
  }
}

const char *cast_graph_range_keeps(struct cast_graph_ranges *g, uint32_t node, uint32_t *value) {
  struct kit *k = g->k;
  const enum op op = kit_op(k, node);
  *value = NO_ID;
  if (op == OP_Cast || op == OP_Shape || op == OP_Size) return NULL;
  for (uint32_t i = 0; i < kit_n_out(k, node); i++)
    if (cast_graph_is_unfit(g, *value = kit_out(k, node, i))) return "float16_range";
  for (uint32_t i = 0; i < kit_n_in(k, node); i++)
    if (cast_graph_is_unfit(g, *value = kit_in(k, node, i))) return "float16_range";
  *value = kit_out(k, node, 0);
  return sums_too_many(g, node) || is_unfit(g, on_the_way(g, node)) ? "float16_sum" : NULL;
}

// ---- life ----------------------------------------------------------------------------------------

struct cast_graph_ranges *cast_graph_ranges_of(struct kit *k, const struct ranges *ranges,
                                               const struct cast_graph_masks *masks,
                                               double headroom) {
  struct arena *a = k->env->scratch;
  struct cast_graph_ranges *g = arena_zalloc(a, sizeof *g);
  *g = (struct cast_graph_ranges){
      .k = k, .ranges = ranges, .masks = masks, .headroom = headroom, .n = k->m->n_values};
  g->least = arena_alloc(a, (g->n + (size_t)1) * sizeof *g->least);
  g->most = arena_alloc(a, (g->n + (size_t)1) * sizeof *g->most);
  for (uint32_t v = 0; v < g->n; v++)
    set(g, v, NAN, NAN);
  for (uint32_t v = 0; v < g->n; v++)
    find(g, v);
  for (uint32_t b = 0; b < k->m->n_graphs; b++)
    find_in_body(g, b);
  find_moved(g);
  count_unknown(g);
  return g;
}

uint32_t cast_graph_unknown(const struct cast_graph_ranges *g) {
  return g->n_unknown;
}

bool cast_graph_ranges_cut(const struct cast_graph_ranges *g) {
  return g->cuts;
}
