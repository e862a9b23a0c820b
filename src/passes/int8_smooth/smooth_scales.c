// What a value is divided by, channel by channel (SmoothQuant, Xiao et al. 2022):
//
//   s_j = max(a_j^alpha / max(w_j^(1-alpha), 1e-5), 1e-5)      a_j = max |x_j|, of RANGES
//                                                              w_j = max over all weights W of max_n |W_jn|
//
// in float32. w is a recipe over the weights, and so s: no weight is read to decide anything. A channel in which nothing was
// ever seen, or that all weights have zeros for, has nothing to balance: its s is 1 (the published formula makes 1e-5 of the
// one and 1e5 of the other; --compat keeps that).
//
// Statistics are of values by name. Behind a Transpose, Reshape and their kin, which a pass before may have made, they are
// those of what these were given (int8_moved_from).
#include "passes/int8/int8.h"
#include "passes/int8_smooth/inside/smooth.h"

#include <math.h>

enum { MOST_MOVES = 64 };

// ---- statistics --------------------------------------------------------------------------------

const char *smooth_statistics(struct smooth *s, struct smooth_site *site) {
  struct kit *k = &s->k;
  struct int8_channels p = {site->value, site->axis};
  const struct ranges_value *v = NULL;
  for (int i = 0; i < MOST_MOVES; i++) {
    const bool named = k->m->values[p.value].graph == k->m->main_graph;
    v = named ? ranges_find(s->ranges, model_value_name(k->m, p.value)) : NULL;
    if (v || !int8_moved_from(k, &p)) break;
  }
  if (!v) return "no_range";
  if (!v->n_channels || !v->channel_least || !v->channel_most) return "no_channels";
  if (v->n_channels != site->channels || !int8_same_axis(k, &p, v->axis)) return "other_channels";
  float *largest = arena_alloc(&s->arena, v->n_channels * sizeof *largest);
  for (uint32_t j = 0; j < v->n_channels; j++)
    largest[j] = fmaxf(fabsf(v->channel_least[j]), fabsf(v->channel_most[j]));
  site->least = v->channel_least;
  site->most = v->channel_most;
  site->largest = largest;
  site->mean = v->channel_mean;
  return NULL;
}

// ---- scales ------------------------------------------------------------------------------------

static uint32_t number(struct smooth *s, float x) {
  return recipe_fill(s->k.r, DTYPE_FLOAT, NULL, 0, span_of(&x, sizeof x));
}

static uint32_t two(struct smooth *s, enum recipe_map_op op, uint32_t a, uint32_t b) {
  return recipe_map(s->k.r, op, (const uint32_t[]){a, b});
}

static uint32_t list(struct smooth *s, const float *x, uint32_t n) {
  return recipe_bytes(s->k.r, DTYPE_FLOAT, &(int64_t){n}, 1, span_of(x, n * sizeof *x));
}

// max_n |W_jn| of one weight.
static uint32_t largest_of(struct smooth *s, const struct smooth_use *u) {
  struct recipes *r = s->k.r;
  uint32_t w = smooth_recipe(s, u->weight);
  if (r->rows[w].dtype != DTYPE_FLOAT) w = recipe_cast(r, w, DTYPE_FLOAT);
  const uint64_t all = (UINT64_C(1) << r->rows[w].rank) - 1;
  const struct recipe_reduction q = {RECIPE_MAX, all & ~(UINT64_C(1) << u->axis)};
  return recipe_reduce(r, recipe_map(r, RECIPE_MAP_ABS, &w), &q);
}

static uint32_t largest_of_all(struct smooth *s, const struct smooth_site *site) {
  uint32_t w = NO_ID;
  for (uint32_t i = site->first; i != NO_ID; i = s->uses[i].next) {
    const uint32_t one = largest_of(s, &s->uses[i]);
    w = w == NO_ID || w == one ? one : two(s, RECIPE_MAP_MAX, w, one);
  }
  return w;
}

uint32_t smooth_formula(struct smooth *s, const struct smooth_site *site, uint32_t a, float alpha) {
  const uint32_t least = number(s, 1e-5F), w = largest_of_all(s, site);
  const uint32_t over = two(s, RECIPE_MAP_POW, a, number(s, alpha));
  const uint32_t under =
      two(s, RECIPE_MAP_MAX, two(s, RECIPE_MAP_POW, w, number(s, 1 - alpha)), least);
  return two(s, RECIPE_MAP_MAX, two(s, RECIPE_MAP_DIV, over, under), least);
}

uint32_t smooth_scales(struct smooth *s, const struct smooth_site *site) {
  struct recipes *r = s->k.r;
  uint32_t scales = smooth_formula(s, site, list(s, site->largest, site->channels), site->alpha);
  if (!s->options->compat) {
    const uint32_t one = number(s, 1),
                   wanted = two(s, RECIPE_MAP_GREATER, largest_of_all(s, site), number(s, 0));
    bool *seen = arena_alloc(&s->k.site, site->channels), all = true;
    for (uint32_t j = 0; j < site->channels; j++)
      all &= seen[j] = site->largest[j] > 0;
    scales = recipe_map(r, RECIPE_MAP_WHERE, (const uint32_t[]){wanted, scales, one});
    const uint32_t mask = all ? NO_ID
                              : recipe_bytes(r, DTYPE_BOOL, &(int64_t){site->channels}, 1,
                                             span_of(seen, site->channels * sizeof *seen));
    if (!all) scales = recipe_map(r, RECIPE_MAP_WHERE, (const uint32_t[]){mask, scales, one});
  }
  return recipe_can_grow(r, scales) ? scales : NO_ID;
}
