// MultiThreshold nodes as stairs, and what passes about them share.
//
//   MultiThreshold(x, t, w)   y = Σ_j w[j] · [x >= t[j]]     over the last axis of what t and w broadcast to
//
// A pass is a walk (stairs_run) over the nodes of all graphs. What it needs of thresholds and weights is read here,
// within a bound, and what it makes of them is written here.
#ifndef WEIR_STAIRS_H
#define WEIR_STAIRS_H

#include "passes/kit/kit.h"

#include <math.h>

// Elements of a tensor of thresholds or weights that are looked at, and of one that is made.
enum { STAIRS_MOST = EDIT_LOOK_MOST / 8 };

// One walk, which a `visit` gets as its first member. `err`: of the first tensor that could not be read.
struct stairs {
  struct kit k;
  struct arena room; // until the next node
  void *options;
  const void *with; // the pass's own
  struct err err;
};

// The `run` of such a pass: kit_init, kit_infer, its `visit` for every node that the options' filter (their first member) lets through, kit_done.
// `visit` may remove its node and those before it. It takes its kit for the struct stairs around it, so that it belongs to stairs_run alone.
int stairs_run(struct pass_env *env, void *options, struct err *err);
// The same in parts.
void stairs_begin(struct stairs *s, struct pass_env *env, void *options);
void stairs_each(struct stairs *s, void (*visit)(struct kit *k, uint32_t node));
int stairs_end(struct stairs *s, struct err *err);
// May a rewrite of that level be made? Counts it as held back where not.
bool stairs_may(struct stairs *s, enum exactness level);

// ---- arrays ------------------------------------------------------------------------------------

// The elements of a constant as doubles, which hold them exactly.
struct stairs_array {
  enum dtype dtype;
  uint32_t rank;
  int64_t dims[RECIPE_MAX_RANK];
  uint64_t count;
  double *at;
};

// A constant of plain numbers, of floats or of integers up to 2^53, in s->room. NULL, or why not, a stable word:
// "not_constant", "dtype", "too_large", "empty", "unreadable".
const char *stairs_read(struct stairs *s, uint32_t value, struct stairs_array *out);
// A new constant of these elements.
uint32_t stairs_write(struct stairs *s, const char *what, const struct stairs_array *array);
static inline int64_t stairs_last(const struct stairs_array *a) {
  return a->rank > 0 ? a->dims[a->rank - 1] : 1;
}
// The element of `array` that belongs to element i of dims that it broadcasts to.
uint64_t stairs_index(const struct stairs_array *array, const int64_t *dims, uint32_t rank,
                      uint64_t i);

// x rounded to the type; the nearest number of it that is above x, or not below it: of float, double, float16, bfloat16.
double stairs_rounded(enum dtype dtype, double x);
double stairs_above(enum dtype dtype, double x);
double stairs_at_least(enum dtype dtype, double x);

// ---- tables ------------------------------------------------------------------------------------

// Thresholds and weights broadcast to the same dims: `rows` stairs of n steps.
struct stairs_table {
  uint32_t rank; // at least 1
  int64_t dims[RECIPE_MAX_RANK];
  uint64_t rows, n;
  enum dtype dtype; // of thresholds
  double *t, *w;
};
// NULL, or why not: "shape", "too_large", "empty".
const char *stairs_join(struct stairs *s, const struct stairs_array *t,
                        const struct stairs_array *w, struct stairs_table *out);
// Its thresholds and its weights as arrays of its dims.
struct stairs_array stairs_thresholds(const struct stairs_table *table);
struct stairs_array stairs_weights(const struct stairs_table *table);
// Do sums of weights come out the same in float32, in any order? Whole numbers whose magnitudes add up to 2^24 at most.
bool stairs_sums_exactly(const struct stairs_table *table);

// ---- nodes -------------------------------------------------------------------------------------

// A MultiThreshold with both, neither of which is an input of a function that a call may leave out.
bool stairs_is(struct stairs *s, uint32_t node);
// Reads both of such a node, and joins them. NULL, or why not; "weights": not all of them are finite.
const char *stairs_of(struct stairs *s, uint32_t node, struct stairs_array *t,
                      struct stairs_array *w, struct stairs_table *table);

// Takes away from *a what broadcasting brings back, of MultiThreshold(x, a, other): axes along which its elements are alike
// become 1, leading ones go. An axis stays where the result would lose length by it. True if something went.
bool stairs_narrow(struct stairs *s, struct stairs_array *a, const struct stairs_array *other,
                   uint32_t x);

// kit_skips, but constants that are none are not told of.
bool stairs_skips(struct stairs *s, uint32_t node, const char *why);
// MultiThreshold(x, thresholds, weights) before k.before; `as`: the node whose place it takes, NO_ID: none. Gives its output.
uint32_t stairs_put(struct stairs *s, uint32_t x, uint32_t thresholds, uint32_t weights,
                    uint32_t as);
// Behind a rewrite of a MultiThreshold: thresholds and weights that it had, and that nothing uses any more, go.
void stairs_drop(struct stairs *s, uint32_t thresholds, uint32_t weights);

// A threshold with its weight, and where it stood. For qsort: in ascending order, NaN last, equal ones as they stood.
struct stairs_step {
  double t, w;
  uint64_t place;
};
int stairs_by_threshold(const void *a, const void *b);

#endif
