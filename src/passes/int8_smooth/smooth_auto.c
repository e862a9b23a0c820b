// The alpha of each site with the least error at the output of its nodes, of 0.3, 0.35 … 0.65.
//
// What rounding to 8 bits adds to y = x W, by an alpha that makes x' = x / s and W' = s W, a number a weight:
//
//   R^2 / 255^2 · Σ W'^2   +   Σ_n (max_j |W'_jn| / 127)^2 · Σ_j E[x'_j^2]
//
// The first is that of activations with one scale, R being the width of their range with 0 in it; the second that of weights
// with a scale a column. Both are 12 times the expected square, for errors that are spread evenly and have nothing to do with
// one another. E[x^2] is taken as pi/2 times the square of the mean of |x|, which holds for a bell around 0.
//
// R and the three sums are recipes with one element each, and the stage that finds the least element of recipes gives them:
// weights are read for it, a part at a time, and no sample is run. The question is text, with the statistics in it again and
// again: there they have a byte a channel, sixteenths of an octave below the largest, which is as exact as the rest is.
#include "passes/int8_smooth/inside/smooth.h"

#include "passes/questions/findings.h"

#include <math.h>

enum { CANDIDATES = 8, OCTAVE = 16 };
enum part { WIDTH, POWER, WEIGHTS, STEPS, PARTS };

static float candidate(uint32_t i) {
  return (float)(30 + 5 * i) / 100;
}

#define WORDS(folded)                                                                              \
  {                                                                                                \
    folded "0.30", folded "0.35", folded "0.40", folded "0.45", folded "0.50", folded "0.55",      \
        folded "0.60", folded "0.65"                                                               \
  }
static const char *const words[2][CANDIDATES] = {WORDS("smoothed_"), WORDS("smoothed_folded_")};

const char *smooth_auto_word(float alpha, bool folded) {
  uint32_t i = 0;
  while (i + 1 < CANDIDATES && candidate(i) < alpha)
    i++;
  return words[folded][i];
}

static uint32_t two(struct smooth *s, enum recipe_map_op op, uint32_t a, uint32_t b) {
  return recipe_map(s->k.r, op, (const uint32_t[]){a, b});
}

static uint32_t reduced(struct smooth *s, enum recipe_reduce_op op, uint32_t of, uint64_t axes) {
  const struct recipe_reduction q = {op, axes};
  return axes ? recipe_reduce(s->k.r, of, &q) : of;
}

static uint32_t number(struct smooth *s, double x) {
  const float f = (float)x;
  return recipe_fill(s->k.r, DTYPE_FLOAT, NULL, 0, span_of(&f, sizeof f));
}

// Exponent and the first four bits of the fraction: 16 times the logarithm, nearly.
static int32_t sixteenths(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (int32_t)(bits >> 19);
}

// Numbers from 0 on, as bytes of how far they are below the largest.
static uint32_t short_list(struct smooth *s, const float *x, uint32_t n) {
  struct recipes *r = s->k.r;
  uint8_t *codes = arena_alloc(&s->k.site, n);
  float most = 0;
  for (uint32_t j = 0; j < n; j++)
    most = fmaxf(most, x[j]);
  for (uint32_t j = 0; j < n; j++) {
    const int32_t code = UINT8_MAX + sixteenths(x[j]) - sixteenths(most);
    codes[j] = (uint8_t)(code < 0 ? 0 : code);
  }
  uint32_t of = recipe_bytes(r, DTYPE_UINT8, &(int64_t){n}, 1, span_of(codes, n));
  of = two(s, RECIPE_MAP_SUB, recipe_cast(r, of, DTYPE_FLOAT), number(s, UINT8_MAX));
  of =
      two(s, RECIPE_MAP_POW, number(s, 2), two(s, RECIPE_MAP_MUL, of, number(s, 1. / (int)OCTAVE)));
  return two(s, RECIPE_MAP_MUL, of, number(s, (double)most));
}

// Of W' of one node: Σ W'^2, and Σ_n max_j W'_jn^2.
static void add_weight(struct smooth *s, const struct smooth_site *site, const struct smooth_use *u,
                       uint32_t parts[PARTS]) {
  struct recipes *r = s->k.r;
  uint32_t w = smooth_recipe(s, u->weight);
  if (r->rows[w].dtype != DTYPE_FLOAT) w = recipe_cast(r, w, DTYPE_FLOAT);
  const uint32_t rank = r->rows[w].rank;
  const uint64_t all = (UINT64_C(1) << rank) - 1;
  w = two(s, RECIPE_MAP_MUL, w, smooth_spread(s, site, false, rank - 1 - u->axis, DTYPE_FLOAT));
  // Columns: of a matrix, the other one of its last two axes; of a Conv, the first.
  const uint32_t column = rank == u->axis + 2 ? rank - 1 : 0;
  const uint32_t widest =
      reduced(s, RECIPE_MAX, recipe_map(r, RECIPE_MAP_ABS, &w), all & ~(UINT64_C(1) << column));
  const uint32_t made[PARTS] = {[WEIGHTS] = reduced(s, RECIPE_SUM_SQUARE, w, all),
                                [STEPS] = reduced(s, RECIPE_SUM_SQUARE, widest, 1)};
  for (enum part i = WEIGHTS; i < PARTS; i++)
    parts[i] = parts[i] == NO_ID ? made[i] : two(s, RECIPE_MAP_ADD, parts[i], made[i]);
}

// The recipes of a site with an alpha. False: they would be too deep.
static bool make_parts(struct smooth *s, struct smooth_site *site, float alpha,
                       uint32_t parts[PARTS]) {
  const uint32_t a = short_list(s, site->largest, site->channels);
  site->scales = smooth_formula(s, site, a, alpha);
  const uint32_t x = two(s, RECIPE_MAP_DIV, a, site->scales);
  parts[WIDTH] = reduced(s, RECIPE_MAX, x, 1);
  const uint32_t mean = short_list(s, site->mean, site->channels);
  parts[POWER] = reduced(s, RECIPE_SUM_SQUARE, two(s, RECIPE_MAP_DIV, mean, site->scales), 1);
  parts[WEIGHTS] = parts[STEPS] = NO_ID;
  bool fits = true;
  for (uint32_t i = site->first; i != NO_ID && fits; i = s->uses[i].next) {
    add_weight(s, site, &s->uses[i], parts);
    fits = s->k.r->rows[parts[STEPS]].depth <= RECIPE_MAX_DEPTH;
  }
  return fits;
}

// Twice as wide as the largest magnitude where both signs were seen.
static double width_of(const struct smooth_site *site) {
  double least = 0, most = 0;
  for (uint32_t j = 0; j < site->channels; j++) {
    least = fmin(least, (double)site->least[j]);
    most = fmax(most, (double)site->most[j]);
  }
  return most > least ? (most - least) / fmax(most, -least) : 1;
}

static float best_of(const struct smooth_site *site, const struct tensor_stats *found) {
  uint32_t best = 0;
  double least = (double)INFINITY;
  for (uint32_t c = 0; c < CANDIDATES; c++) {
    const struct tensor_stats *of = found + (size_t)c * PARTS;
    const double width = of[WIDTH].least * width_of(site) / 255,
                 power = of[POWER].least * acos(-1) / 2,
                 error = width * width * of[WEIGHTS].least + of[STEPS].least / (127 * 127) * power;
    if (error < least) least = error, best = c;
  }
  return candidate(best);
}

int smooth_auto(struct smooth *s, struct err *err) {
  struct {
    TABLE(uint32_t, of);
    TABLE(uint32_t, sites);
  } asked = {0};
  if (!s->k.env->ask)
    return err_set(err, ERR_USAGE,
                   "--alpha auto needs access to the weights, which this run does not have");
  for (uint32_t i = 0; i < s->n_sites; i++) {
    uint32_t of[CANDIDATES][PARTS];
    bool known = s->sites[i].n > 0 && s->sites[i].mean;
    arena_reset(&s->k.site);
    for (uint32_t c = 0; c < CANDIDATES && known; c++)
      known = make_parts(s, &s->sites[i], candidate(c), of[c]);
    if (!known) continue;
    *TABLE_PUSH(&asked, sites) = i;
    for (uint32_t c = 0; c < CANDIDATES; c++)
      for (enum part p = WIDTH; p < PARTS; p++)
        *TABLE_PUSH(&asked, of) = of[c][p];
  }
  struct tensor_stats *found = arena_zalloc(&s->arena, (asked.n_of + (size_t)1) * sizeof *found);
  const int rc = asked.n_of ? findings_ask(s->k.env, asked.of, asked.n_of, false, found, err) : 0;
  for (uint32_t i = 0; i < asked.n_sites && rc == 0; i++) {
    struct smooth_site *site = &s->sites[asked.sites[i]];
    site->alpha = best_of(site, found + (size_t)i * CANDIDATES * PARTS);
  }
  TABLES_FREE(&asked, of, sites);
  return rc;
}
