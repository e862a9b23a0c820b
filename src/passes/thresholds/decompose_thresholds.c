// decompose-thresholds: MultiThreshold as others that say the same and go up in steps of one, channel by channel.
//
//   Monotonicity   w = 1 -1 2      ──▶  MT(x, t where w > 0, w) - MT(x, t where w < 0, -w);  all w <= 0: -MT(x, t, -w)
//   Multiplicity   w = 1 2 1       ──▶  w = 1 1 1 1, the second threshold twice
//   Granularity    t[e,c,j]        ──▶  MT(x + b, u, w), t[e,c,j] = u[c,j] - b[e,c], b whole numbers
//
// A step that belongs to the other part of a decomposition goes, if it does in all rows; else its weight is 0 there, so that
// the parts are what they should be at infinity too. Rows of unlike numbers of steps are filled up with thresholds that are
// infinity: of finite inputs none reaches them. Thresholds are shifted only where the shift is exact: no others are made up
// that come close.
#include "passes/thresholds/inside/thresholds.h"

static uint32_t put(struct stairs *s, uint32_t x, const struct stairs_array *t,
                    const struct stairs_array *w, uint32_t as) {
  const uint32_t thresholds = stairs_write(s, "thresholds", t),
                 weights = stairs_write(s, "weights", w);
  return stairs_put(s, x, thresholds, weights, as);
}

// ---- monotonicity ------------------------------------------------------------------------------

// The steps of that sign, in magnitude: those that no row has go.
static struct stairs_table part(struct stairs *s, const struct stairs_table *of, double sign) {
  struct stairs_table p = *of;
  bool *has = arena_zalloc(&s->room, of->n * sizeof *has);
  const uint64_t count = of->rows * of->n;
  uint64_t at = 0;
  p.n = 0;
  for (uint64_t i = 0; i < count; i++)
    if (of->w[i] * sign > 0 && !has[i % of->n]) has[i % of->n] = true, p.n++;
  p.t = arena_alloc(&s->room, count * sizeof *p.t);
  p.w = arena_alloc(&s->room, count * sizeof *p.w);
  for (uint64_t i = 0; i < count; i++) {
    if (!has[i % of->n]) continue;
    p.t[at] = of->t[i];
    p.w[at++] = of->w[i] * sign > 0 ? fabs(of->w[i]) : 0;
  }
  p.dims[p.rank - 1] = (int64_t)p.n;
  return p;
}

static uint32_t put_part(struct stairs *s, uint32_t x, const struct stairs_table *p) {
  struct stairs_array t = stairs_thresholds(p), w = stairs_weights(p);
  stairs_narrow(s, &t, &w, x);
  stairs_narrow(s, &w, &t, x);
  return put(s, x, &t, &w, NO_ID);
}

static void monotonicity(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct stairs_array t, w;
  struct stairs_table table;
  if (!stairs_is(s, node)) return;
  const uint32_t x = kit_in(k, node, 0), old_t = kit_in(k, node, 1), old_w = kit_in(k, node, 2),
                 y = kit_out(k, node, 0);
  const char *why = stairs_read(s, old_w, &w);
  bool up = false, down = false;
  for (uint64_t i = 0; !why && i < w.count; i++) {
    up = up || w.at[i] > 0;
    down = down || w.at[i] < 0;
  }
  if (!why && !down) return; // it goes up, or nowhere
  if (!why) why = stairs_of(s, node, &t, &w, &table);
  if (stairs_skips(s, node, why)) return;
  if (!stairs_may(s, stairs_sums_exactly(&table) ? EXACTNESS_ZERO : EXACTNESS_ROUNDING)) return;
  kit_begin(k, node, "monotone");
  if (!up) {
    for (uint64_t i = 0; i < w.count; i++)
      w.at[i] = fabs(w.at[i]);
    const uint32_t rising = stairs_put(s, x, old_t, stairs_write(s, "weights", &w), NO_ID);
    kit_note_like(k, rising, y);
    kit_replace(k, node, OP_Neg, KIT_IN(rising));
    stairs_drop(s, old_t, old_w);
    return;
  }
  const struct stairs_table rises = part(s, &table, 1), falls = part(s, &table, -1);
  const uint32_t a = put_part(s, x, &rises), b = put_part(s, x, &falls);
  kit_note_like(k, a, y);
  kit_note_like(k, b, y);
  kit_replace(k, node, OP_Sub, KIT_IN(a, b));
  stairs_drop(s, old_t, old_w);
}

// ---- multiplicity ------------------------------------------------------------------------------

// How many steps of one a weight is: none where nothing finite reaches its threshold.
static uint64_t times(const struct stairs_table *table, uint64_t i) {
  const double t = table->t[i];
  return isnan(t) || (isinf(t) && t > 0) ? 0 : (uint64_t)fabs(table->w[i]);
}

// The largest number of steps that a row has. `level`: how exact it is to write them one by one. 0 where weights are no
// whole numbers, or nothing is gained; UINT64_MAX: more than there can be.
static uint64_t steps_of_one(const struct stairs_table *table, enum exactness *level) {
  uint64_t most = 0, least = UINT64_MAX;
  bool large = false, infinite = false;
  for (uint64_t row = 0; row < table->rows; row++) {
    uint64_t n = 0;
    for (uint64_t i = row * table->n; i < (row + 1) * table->n; i++) {
      if (nearbyint(table->w[i]) != table->w[i]) return 0;
      if (fabs(table->w[i]) > (double)STAIRS_MOST) return UINT64_MAX;
      n += times(table, i);
      large = large || fabs(table->w[i]) > 1;
      infinite = infinite || isinf(table->t[i]);
    }
    if (n > most) most = n;
    if (n < least) least = n;
  }
  *level = infinite || least < most ? EXACTNESS_ROUNDING : EXACTNESS_EXACT;
  return large || most < table->n ? most : 0;
}

static void multiplicity(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct stairs_array t, w;
  struct stairs_table table;
  enum exactness level = EXACTNESS_ROUNDING;
  if (!stairs_is(s, node)) return;
  const char *why = stairs_of(s, node, &t, &w, &table);
  const uint64_t n = why ? 0 : steps_of_one(&table, &level);
  if (!why && n > STAIRS_MOST / table.rows) why = "too_large";
  if (stairs_skips(s, node, why) || n == 0 || !stairs_may(s, level)) return;
  struct stairs_table ones = table;
  ones.n = n;
  ones.dims[ones.rank - 1] = (int64_t)n;
  ones.t = arena_alloc(&s->room, ones.rows * n * sizeof *ones.t);
  ones.w = arena_alloc(&s->room, ones.rows * n * sizeof *ones.w);
  for (uint64_t row = 0; row < table.rows; row++) {
    uint64_t at = row * n;
    for (uint64_t i = row * table.n; i < (row + 1) * table.n; i++)
      for (uint64_t left = times(&table, i); left > 0; left--) {
        ones.t[at] = table.t[i];
        ones.w[at++] = table.w[i] < 0 ? -1 : 1;
      }
    for (; at < (row + 1) * n; at++) {
      ones.t[at] = (double)INFINITY;
      ones.w[at] = 1;
    }
  }
  const uint32_t x = kit_in(k, node, 0), old_t = kit_in(k, node, 1), old_w = kit_in(k, node, 2);
  t = stairs_thresholds(&ones);
  w = stairs_weights(&ones);
  kit_begin(k, node, "steps_of_one");
  put(s, x, &t, &w, node);
  stairs_drop(s, old_t, old_w);
}

// ---- granularity -------------------------------------------------------------------------------

// A whole number that the type has beside x, so that x + by is no rounded sum.
static bool shifts_exactly(enum dtype dtype, double x, double by) {
  const double sum = x + by;
  return isinf(x) || isnan(x) || (stairs_at_least(dtype, sum) == sum && sum - by == x);
}

// The shift b of a row t to the row u, by the first step that is finite in both: t[j] + b == u[j] for all of them.
static bool shift_of(enum dtype dtype, const double *t, const double *u, uint64_t n, double *b) {
  uint64_t j = 0;
  while (j < n && !(isfinite(t[j]) && isfinite(u[j])))
    j++;
  *b = j < n ? u[j] - t[j] : 0;
  if (nearbyint(*b) != *b || fabs(*b) > 0x1p53) return false;
  for (j = 0; j < n; j++) {
    if (!shifts_exactly(dtype, t[j], *b)) return false;
    if (!(t[j] + *b == u[j] || (isnan(t[j]) && isnan(u[j])))) return false;
  }
  return stairs_at_least(dtype, *b) == *b;
}

// The row that stands for those of a channel: its first finite step is moved into [0, 1).
static void canonical(enum dtype dtype, const double *t, uint64_t n, double *u) {
  uint64_t j = 0;
  bool exact = true;
  while (j < n && !isfinite(t[j]))
    j++;
  const double by = j < n ? -floor(t[j]) : 0;
  for (j = 0; j < n; j++)
    exact = exact && shifts_exactly(dtype, t[j], by);
  for (j = 0; j < n; j++)
    u[j] = exact ? t[j] + by : t[j];
}

// t [E…,C,n] as u [C,n] and b [E…,C]. NULL, or why not.
static const char *split(struct stairs *s, const struct stairs_array *t, struct stairs_array *u,
                         struct stairs_array *b) {
  const uint64_t n = (uint64_t)stairs_last(t), channels = (uint64_t)t->dims[t->rank - 2],
                 rows = t->count / n;
  *u = (struct stairs_array){.dtype = t->dtype, .rank = 2, .count = channels * n};
  u->dims[0] = (int64_t)channels;
  u->dims[1] = (int64_t)n;
  u->at = arena_alloc(&s->room, u->count * sizeof *u->at);
  *b = (struct stairs_array){.dtype = t->dtype, .rank = t->rank - 1, .count = rows};
  memcpy(b->dims, t->dims, b->rank * sizeof *b->dims);
  b->at = arena_alloc(&s->room, rows * sizeof *b->at);
  for (uint64_t row = 0; row < rows; row++) {
    double *own = u->at + row % channels * n;
    if (row < channels) canonical(t->dtype, t->at + row * n, n, own);
    if (!shift_of(t->dtype, t->at + row * n, own, n, &b->at[row])) return "no_whole_shift";
  }
  return NULL;
}

static void granularity(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct stairs_array t, w, u, b;
  if (!stairs_is(s, node)) return;
  const uint32_t x = kit_in(k, node, 0), old_t = kit_in(k, node, 1), old_w = kit_in(k, node, 2);
  uint32_t weights = old_w;
  const char *why = stairs_read(s, old_t, &t);
  if (!why && !dtype_is_plain_float(t.dtype)) why = "dtype";
  if (stairs_skips(s, node, why)) return;
  // Weights that are not known may have an axis or not: the thresholds then keep theirs.
  const bool known = stairs_read(s, weights, &w) == NULL;
  if (!known) w = (struct stairs_array){.rank = 0};
  stairs_narrow(s, &t, &w, x);
  if (t.rank <= 2) return;
  why = split(s, &t, &u, &b);
  if (stairs_skips(s, node, why)) return;
  if (!stairs_may(s, EXACTNESS_FINITE)) return; // the sum is rounded, and then compared
  const struct stairs_array none = {.rank = 0};
  stairs_narrow(s, &u, known ? &w : &none, x);
  const bool less_w = known && stairs_narrow(s, &w, &u, x);
  kit_begin(k, node, "per_channel");
  if (less_w) weights = stairs_write(s, "weights", &w);
  const uint32_t bias = stairs_write(s, "bias", &b);
  const uint32_t shifted = kit_make(k, OP_Add, KIT_IN(x, bias));
  stairs_put(s, shifted, stairs_write(s, "thresholds", &u), weights, node);
  stairs_drop(s, old_t, old_w);
}

// ---- the passes --------------------------------------------------------------------------------

const struct pass thresholds_by_monotonicity = {
    .name = "decompose-thresholds/ThresholdMonotonicityDecomposition",
    .summary = "replace a MultiThreshold with positive and negative steps by a difference of two "
               "MultiThresholds",
    .about = "Replaces a MultiThreshold with positive and negative weights by two with positive "
             "weights, and subtracts the second from the first. A MultiThreshold with negative "
             "weights only becomes the negative of one with positive weights.",
    .needs = "constant thresholds and weights of at most 2^18 elements",
    .promises = "the same results except for the sign of zeros; the same up to rounding if "
                "weights are not whole numbers",
    .exactness = EXACTNESS_ZERO,
    .loosest = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = monotonicity,
};

const struct pass thresholds_by_multiplicity = {
    .name = "decompose-thresholds/ThresholdMultiplicityDecomposition",
    .summary = "replace steps of MultiThreshold larger than one by several steps of one",
    .about = "Repeats each threshold with a whole-number weight that many times. Thresholds with "
             "weight 0 and infinite thresholds are removed. Rows with fewer steps are padded with "
             "infinity.",
    .needs = "constant thresholds, and constant weights that are whole numbers",
    .promises = "the same results, for finite inputs",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = multiplicity,
};

const struct pass thresholds_by_granularity = {
    .name = "decompose-thresholds/ThresholdGranularityDecomposition",
    .summary = "replace thresholds for each element by a bias and thresholds for each channel",
    .about = "If the thresholds of the elements of a channel differ only by whole numbers, adds "
             "these numbers to the input instead. Thresholds are never approximated.",
    .needs = "constant thresholds that differ by whole numbers, with exact sums",
    .promises = "the same results unless an input is so close to a threshold that the rounding of "
                "the sum of input and bias decides",
    .exactness = EXACTNESS_FINITE,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = granularity,
};
