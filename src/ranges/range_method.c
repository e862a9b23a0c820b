// Calibration methods as onnxruntime.quantization has them (minmax, or from a histogram to a range), step by step in its
// types: where NumPy adds float32 in pairs, so does this; where it rounds, so does this.
//
//   minmax         least, most                                  symmetric: ± the larger magnitude
//   moving average the means of the samples' least and most
//   percentile     edges behind which the rest of the cumulated counts lies
//   entropy        of all stretches around the middle bin the one that loses least when 128 bins stand for it
//   distribution   mean and deviation of the bins' centres; the range is that of the edges
//
// Float16 has edges in float16, since NumPy computes them there, as long as they are all different; beyond that it refuses,
// and here they are float32, as are those of bfloat16 and double, which it does not know.
#include "ranges/range_method.h"

#include "ranges/inside/range_entropy.h"
#include "ranges/inside/range_numpy.h"
#include "ranges/inside/ranges_in.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// ---- what is asked for -------------------------------------------------------------------------

static const double default_percentile = 99.999;

int range_method_parse(struct range_how *how, struct span words, struct err *err) {
  const uint8_t *equals = memchr(words.at, '=', words.n);
  const struct span name = span_of(words.at, equals ? (size_t)(equals - words.at) : words.n);
  char number[32] = "", *end = number;
  how->method = ranges_method_by_name(name);
  how->cube_roots = span_is(words, "distribution=p3");
  const bool scenario = how->cube_roots || span_is(words, "distribution=same");
  if (how->method == RANGES_ANY || (equals && how->method != RANGES_PERCENTILE && !scenario)) {
    err_fill(err, ERR_USAGE, "unknown method '%s'", quote(words).s);
    return err_hint(err, "use minmax, percentile=99.999, entropy, distribution or distribution=p3");
  }
  if (how->method != RANGES_PERCENTILE) return 0;
  how->symmetric = true;
  how->percentile = default_percentile;
  if (!equals) return 0;
  const struct span text = span_of(equals + 1, words.n - name.n - 1);
  if (text.n > 0 && text.n < sizeof number && text.at[0] >= '0' && text.at[0] <= '9') {
    memcpy(number, text.at, text.n);
    how->percentile = strtod(number, &end);
  }
  if (end == number || *end || !(how->percentile >= 0 && how->percentile <= 100))
    return err_set(err, ERR_USAGE, "'%s' is not a percentile: use a number from 0 to 100",
                   quote(text).s);
  return 0;
}

bool range_method_counts(const struct range_how *how) {
  return how->method != RANGES_MINMAX;
}

static int refuse_bins(uint32_t bins, uint32_t least, const char *of, struct err *err) {
  return err_set(err, ERR_USAGE, "%u bins are too few for the method %s: it needs %u or more", bins,
                 of, least);
}

int range_method_check(struct range_how *how, struct err *err) {
  const bool entropy = how->method == RANGES_ENTROPY;
  const char *name = ranges_method_name(how->method);
  if (how->symmetric && how->method != RANGES_MINMAX && how->method != RANGES_PERCENTILE)
    return err_set(err, ERR_USAGE, "the method %s has no symmetric form", name);
  if (how->moving_average && how->method != RANGES_MINMAX)
    return err_set(err, ERR_USAGE, "only the method minmax has a moving average, not %s", name);
  if (how->bins && how->method == RANGES_MINMAX)
    return err_set(err, ERR_USAGE, "the method minmax has no bins");
  if (how->method == RANGES_MINMAX) return 0;
  if (how->bins == 0) how->bins = entropy ? RANGE_ENTROPY_BINS : RANGE_BINS;
  if (how->quantized_bins == 0) how->quantized_bins = RANGE_ENTROPY_BINS;
  // Entropy looks at every stretch of them: its time grows with the square.
  const uint32_t most = entropy ? RANGE_MOST_ENTROPY_BINS : RANGES_MOST_BINS;
  if (how->bins > most)
    return err_set(err, ERR_USAGE, "%u bins are too many for the method %s: at most %u", how->bins,
                   name, most);
  if (entropy && how->bins < how->quantized_bins)
    return refuse_bins(how->bins, how->quantized_bins, name, err);
  if (how->method == RANGES_DISTRIBUTION && how->bins < RANGE_LEAST_DISTRIBUTION_BINS)
    return refuse_bins(how->bins, RANGE_LEAST_DISTRIBUTION_BINS, name, err);
  return 0;
}

// ---- what was seen -----------------------------------------------------------------------------

struct range_seen range_method_nothing(void) {
  return (struct range_seen){
      .least = (double)INFINITY, .most = -(double)INFINITY, .magnitude = (double)INFINITY};
}

void range_method_see(struct range_seen *s, const struct kernels_extremes *x) {
  if ((double)x->least < s->least) s->least = (double)x->least;
  if ((double)x->most > s->most) s->most = (double)x->most;
  if ((double)x->magnitude < s->magnitude) s->magnitude = (double)x->magnitude;
  s->elements += x->numbers + x->nans + x->infinities;
  s->nans += x->nans;
}

static bool is_empty(const struct range_seen *s) {
  return s->least > s->most;
}

// What rounds to nothing else: the type that a value's histogram is computed in.
static double rounded(double x, enum dtype type) {
  return ranges_in_rounded(x, type == DTYPE_FLOAT16 ? DTYPE_FLOAT16 : DTYPE_FLOAT);
}

// ---- bins --------------------------------------------------------------------------------------

// NumPy's linspace: in the type, step by step.
static void make_edges(float *edges, uint32_t n, double from, double to, enum dtype type,
                       double *step) {
  *step = rounded(rounded(to - from, type) / (double)n, type);
  for (uint32_t i = 0; i < n; i++) {
    const double at = rounded(rounded((double)i, type) * *step, type);
    edges[i] = (float)rounded(at + from, type);
  }
  edges[0] = (float)from;
  edges[n] = (float)to;
}

// Where the width is past the largest float.
static void make_wide_edges(float *edges, uint32_t n, double from, double to) {
  for (uint32_t i = 0; i <= n; i++)
    edges[i] = (float)(from + (to - from) * ((double)i / (double)n));
}

static bool all_differ(const float *edges, uint32_t n) {
  uint32_t i = 0;
  while (i < n && edges[i] < edges[i + 1])
    i++;
  return i == n;
}

// The outer edges: NumPy widens what has no width.
static void outer_edges(struct range_bins *b, const struct range_how *how,
                        const struct range_seen *s) {
  const bool empty = is_empty(s);
  const double magnitude = empty ? 0 : fmax(fabs(s->least), fabs(s->most));
  b->bins.magnitudes = how->method == RANGES_PERCENTILE && how->symmetric;
  b->from = b->bins.magnitudes ? s->magnitude : -magnitude;
  b->to = magnitude;
  if (empty && b->bins.magnitudes) {
    b->from = 0;
    b->to = 1;
  }
  if (b->from == b->to) {
    b->from -= 0.5;
    b->to += 0.5;
  }
}

float range_method_edges(float *edges, uint32_t n, double from, double to, enum dtype type) {
  double step;
  make_edges(edges, n, from, to, type, &step);
  if (isfinite(step) && all_differ(edges, n)) return type == DTYPE_FLOAT16 ? 0 : (float)step;
  make_edges(edges, n, from, to, DTYPE_FLOAT, &step);
  if (isfinite(step) && all_differ(edges, n)) return (float)step;
  if (!isfinite(step)) make_wide_edges(edges, n, from, to);
  return 0;
}

void range_method_bins(struct range_bins *b, const struct range_how *how,
                       const struct range_seen *s, enum dtype type, struct arena *a) {
  float *edges = arena_alloc(a, (how->bins + (size_t)1) * sizeof *edges);
  *b = (struct range_bins){.bins = {.n = how->bins, .edges = edges}};
  outer_edges(b, how, s);
  b->from = rounded(b->from, type);
  b->to = rounded(b->to, type);
  b->bins.step = range_method_edges(edges, how->bins, b->from, b->to, type);
}

// ---- percentile --------------------------------------------------------------------------------

// The first bin whose cumulated share is not below `share`; n if there is none (NumPy's searchsorted).
static uint32_t bin_of_share(const uint64_t *counts, uint32_t n, uint64_t total, double share) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    sum = i ? sum + (double)counts[i] / (double)total : (double)counts[i] / (double)total;
    if (sum >= share) return i;
  }
  return n;
}

static void percentile_range(struct ranges_value *v, const struct range_how *how,
                             const struct kernels_bins *b, const uint64_t *counts, uint64_t total) {
  if (how->symmetric) {
    v->most = (double)b->edges[bin_of_share(counts, b->n, total, how->percentile / 100.0)];
    v->least = -v->most;
    return;
  }
  const double cut = (100.0 - how->percentile) / 200.0;
  v->most = (double)b->edges[bin_of_share(counts, b->n, total, 1.0 - cut)];
  v->least = (double)b->edges[bin_of_share(counts, b->n, total, cut)];
}

// ---- distribution ------------------------------------------------------------------------------

// For weights whose cubes are spread as those of a float8: onnxruntime's scenario p3.
static double cube_root(double x, enum dtype t) {
  const double third = (double)(float)(1.0 / 3.0);
  return copysign(rounded(pow(fabs(x), third), t), x);
}

static void spread(struct ranges_value *v, const struct range_how *how, const struct range_bins *b,
                   const uint64_t *counts, uint64_t total) {
  struct arena room = {0};
  const uint32_t n = b->bins.n;
  const enum dtype t = v->type;
  // Squares past the largest float16 are infinite there, and the deviation is none; here they are float32.
  const double most = fmax(fabs(b->from), fabs(b->to));
  const enum dtype t2 = isfinite(rounded(most * most, t)) ? t : DTYPE_FLOAT;
  double *x = arena_alloc(&room, n * sizeof *x), *squares = arena_alloc(&room, n * sizeof *squares);
  for (uint32_t i = 0; i < n; i++) {
    const double sum = rounded((double)b->bins.edges[i] + (double)b->bins.edges[i + 1], t);
    const double middle = rounded(sum * 0.5, t);
    const double centre = how->cube_roots ? cube_root(middle, t) : middle;
    x[i] = (double)counts[i] * centre;
    squares[i] = (double)counts[i] * rounded(centre * centre, t2);
  }
  const double mean = total ? range_numpy_sum(x, n, false) / (double)total : 0;
  const double square =
      total ? range_numpy_sum(squares, n, false) / (double)total - mean * mean : 0;
  v->has_spread = true;
  v->mean = ranges_in_rounded(mean, t);
  v->deviation = square > 0 ? ranges_in_rounded(sqrt(square), t) : 0; // below 0 by rounding alone
  arena_free(&room);
}

// ---- the range ---------------------------------------------------------------------------------

// NumPy's mean of float32 or float16: the sum in float32, rounded to the type.
static double mean_of(const float *x, uint32_t n, enum dtype type) {
  struct arena room = {0};
  double *wide = arena_alloc(&room, n * sizeof *wide);
  for (uint32_t i = 0; i < n; i++)
    wide[i] = (double)x[i];
  const double sum = rounded(range_numpy_sum(wide, n, true), type);
  arena_free(&room);
  return ranges_in_rounded(rounded(sum / (double)n, type), type);
}

static void extremes(struct ranges_value *v, const struct range_how *how,
                     const struct range_seen *s) {
  v->least = s->least;
  v->most = s->most;
  if (how->moving_average && s->n_samples > 0) {
    v->least = mean_of(s->sample_least, s->n_samples, v->type);
    v->most = mean_of(s->sample_most, s->n_samples, v->type);
  }
  if (!how->symmetric) return;
  v->most = fmax(fabs(v->least), fabs(v->most));
  v->least = -v->most;
}

// Methods look at edges: no range goes beyond what was seen.
static void clip(struct ranges_value *v, const struct range_seen *s) {
  if (v->least < s->least) v->least = s->least;
  if (v->most > s->most) v->most = s->most;
  v->least = ranges_in_rounded(v->least, v->type);
  v->most = ranges_in_rounded(v->most, v->type);
  ranges_in_settle(v);
}

void range_method_find(struct ranges_value *v, const struct range_how *how,
                       const struct range_seen *s, const struct range_bins *b,
                       const uint64_t *counts) {
  assert(dtype_is_plain_float(v->type) && how->method != RANGES_ANY);
  assert(range_method_counts(how) == (b != NULL));
  uint64_t total = 0;
  uint32_t first, last;
  v->elements = s->elements;
  v->nans = s->nans;
  v->least = v->most = 0;
  if (b) {
    for (uint32_t i = 0; i < b->bins.n; i++)
      total += counts[i];
    v->histogram = (struct ranges_histogram){b->bins.n, b->bins.magnitudes, b->from, b->to, counts};
  }
  if (how->method == RANGES_DISTRIBUTION) {
    v->least = b->from;
    v->most = b->to;
    spread(v, how, b, counts, total);
  }
  if (is_empty(s) || how->method == RANGES_DISTRIBUTION) return;
  if (how->method == RANGES_MINMAX) {
    extremes(v, how, s);
    return;
  }
  if (how->method == RANGES_PERCENTILE) {
    percentile_range(v, how, &b->bins, counts, total);
  } else {
    range_entropy_find(counts, b->bins.n, how->quantized_bins, v->type, &first, &last);
    v->least = (double)b->bins.edges[first];
    v->most = (double)b->bins.edges[last];
  }
  clip(v, s);
}
