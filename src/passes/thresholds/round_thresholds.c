// infer-thresholds/ConvertRoundToThresholds: Round, Ceil and Floor of what lies in a small range, as thresholds.
//
//   Round(x), x in [-4, 3]   ──▶   MultiThreshold(x, [-3.5, -2.5+, …, 2.5+], [1 1 … 1]) - 4
//
// There is a step for every whole number from f(lo) + 1 to f(hi), at the least number of the type that f takes to it. So a
// tie that goes down has its threshold one place above (the + there), and Ceil's thresholds lie just above whole numbers.
// MultiThreshold gives float32; x of another type gets its own back. NaN, which the one keeps and the other does not, is left
// out of account.
//
// Ranges are found here (sure_ranges.c): of Clip and what follows from it, of types, and of what the metadata says.
#include "passes/thresholds/inside/sure_ranges.h"
#include "passes/thresholds/inside/thresholds.h"

struct round_options {
  struct name_filter nodes;
  uint32_t most;
};

static bool is_rounding(struct kit *k, uint32_t node) {
  const enum op op = kit_op(k, node);
  return op == OP_Round || op == OP_Ceil || op == OP_Floor;
}

static double rounded(enum op op, double x) {
  return op == OP_Round ? nearbyint(x) : op == OP_Ceil ? ceil(x) : floor(x);
}

// The least number of the type that is rounded to n or more.
static double threshold(enum op op, enum dtype dtype, double n) {
  if (op == OP_Floor) return stairs_at_least(dtype, n);
  if (op == OP_Ceil) return stairs_above(dtype, n - 1);
  const double t = stairs_at_least(dtype, n - 0.5);
  return nearbyint(t) < n ? stairs_above(dtype, t) : t;
}

static const char *obstacle(struct stairs *s, const struct sure_ranges *r, uint32_t node,
                            uint32_t *steps) {
  const struct round_options *o = s->options;
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0);
  const struct range range = sure_ranges_of(r, x);
  const enum op op = kit_op(k, node);
  uint32_t rank;
  if (!dtype_is_plain_float(kit_dtype(k, x))) return "dtype";
  if (!isfinite(range.lo) || !isfinite(range.hi)) return "no_range";
  const double n = rounded(op, range.hi) - rounded(op, range.lo);
  if (n > o->most || ceil(range.hi - range.lo) > o->most) return "too_many_steps";
  if (n < 1) return "one_value";
  if (!kit_rank(k, x, &rank) || rank + 1 >= RECIPE_MAX_RANK) return "no_rank";
  if (kit_may_be_left_out(k->m, x)) return "left_out";
  *steps = (uint32_t)n;
  return NULL;
}

static void convert(struct stairs *s, const struct sure_ranges *r, uint32_t node, uint32_t steps) {
  struct kit *k = &s->k;
  const enum op op = kit_op(k, node);
  const uint32_t x = kit_in(k, node, 0), y = kit_out(k, node, 0);
  const enum dtype dtype = kit_dtype(k, x);
  const double least = rounded(op, sure_ranges_of(r, x).lo);
  uint32_t rank;
  kit_rank(k, x, &rank);
  struct stairs_array t = {.dtype = dtype, .rank = rank + 1, .count = steps};
  for (uint32_t i = 0; i < rank; i++)
    t.dims[i] = 1;
  t.dims[rank] = steps;
  struct stairs_array w = t;
  w.dtype = DTYPE_FLOAT;
  t.at = arena_alloc(&s->room, steps * sizeof *t.at);
  w.at = arena_alloc(&s->room, steps * sizeof *w.at);
  for (uint32_t i = 0; i < steps; i++) {
    t.at[i] = threshold(op, dtype, least + 1 + i);
    w.at[i] = 1;
  }
  kit_begin(k, node, "thresholds");
  const bool cast = dtype != DTYPE_FLOAT, add = least != 0;
  const uint32_t thresholds = stairs_write(s, "thresholds", &t),
                 weights = stairs_write(s, "weights", &w);
  uint32_t z = stairs_put(s, x, thresholds, weights, cast || add ? NO_ID : node);
  if (!cast && !add) return;
  if (!cast) kit_note_like(k, z, y);
  if (cast && !add) {
    kit_replace(k, node, OP_Cast, KIT_IN(z), KIT_INT("to", dtype));
    return;
  }
  if (cast) {
    z = kit_make(k, OP_Cast, KIT_IN(z), KIT_INT("to", dtype));
    kit_note_like(k, z, y);
  }
  kit_replace(k, node, OP_Add, KIT_IN(z, kit_new_scalar(k, "least", dtype, least)));
}

static void visit(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  const struct sure_ranges *r = s->with;
  uint32_t steps;
  if (!is_rounding(k, node) || kit_out(k, node, 0) == NO_ID) return;
  const char *why = obstacle(s, r, node, &steps);
  if (why)
    kit_skipped(k, node, why);
  else if (stairs_may(s, EXACTNESS_ROUNDING))
    convert(s, r, node, steps);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct stairs s;
  struct sure_ranges r;
  stairs_begin(&s, env, with);
  const int rc = sure_ranges_find(&r, &s.k, is_rounding, err);
  s.with = &r;
  if (rc == 0) stairs_each(&s, visit);
  sure_ranges_done(&r);
  return stairs_end(&s, err) < 0 ? -1 : rc;
}

static const struct pass_option options[] = {
    {"max-thresholds", PASS_NUMBER, "N", "255", "largest number of thresholds of a node",
     PASS_MEMBER(round_options, most)},
    NAME_FILTER_ROWS,
};

const struct pass thresholds_from_round = {
    .name = "infer-thresholds/ConvertRoundToThresholds",
    .summary = "replace Round, Ceil and Floor of values in a small range by MultiThreshold",
    .about = "Replaces Round, Ceil and Floor by MultiThreshold with a step for each whole number, "
             "if the range of their input is known: after a Clip, for small integer types, or "
             "from the metadata (range-annotation).",
    .needs = "a range with at most --max-thresholds whole numbers, and a known rank",
    .promises = "the same results, for inputs that are not NaN",
    .exactness = EXACTNESS_ROUNDING,
    PASS_OPTIONS(options, round_options),
    .run = run,
    .done = name_filter_done,
};
