// Room for biases beside a weight that is stored once and taken by several nodes:
//
//   Gemm(x, w, b)     x of 1e-8, b of 6      the scale of w must be 10^5 times as large, or the codes of b do not fit int32
//   Gemm(v, w, c)     v of 1                 all codes of w would be 0 by that scale
//
// The first node gets a copy of w with scales of its own. How much a scale would grow follows from the elements of the weight, so a
// stage finds it out: the largest of roomy / natural over all channels. One that grows by an eighth at most is shared: the others lose
// less than a decibel by it. Nodes that want the same scales share one copy; where no node keeps the weight as it is, those of the first
// claim do, and nothing is copied for them.
#include "static_apart.h"

#include "findings.h"

#include <stdlib.h>

static const double shared_growth = 1.125;

static int by_scales(const void *a, const void *b) {
  const struct static_claim *x = a, *y = b;
  if (x->weight != y->weight) return x->weight < y->weight ? -1 : 1;
  if (x->roomy != y->roomy) return x->roomy < y->roomy ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

static int by_copy(const void *a, const void *b) {
  const struct static_claim *x = a, *y = b;
  if (x->weight != y->weight) return x->weight < y->weight ? -1 : 1;
  if (x->copy != y->copy) return x->copy < y->copy ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

// The claims of one weight: how many, from the first on.
static uint32_t of_weight(const struct static_claim *claims, uint32_t n) {
  uint32_t end = 1;
  while (end < n && claims[end].weight == claims[0].weight)
    end++;
  return end;
}

static bool starts(const struct static_claim *claims, uint32_t i) {
  return i == 0 || claims[i - 1].roomy != claims[i].roomy;
}

// Would room for one of them be at the cost of another node?
static bool are_apart(const struct static_claim *claims, uint32_t n, const bool *others) {
  return others[claims[0].weight] || claims[0].roomy != claims[n - 1].roomy;
}

static uint32_t growth_recipe(struct recipes *r, const struct static_claim *c) {
  const uint32_t both[2] = {c->roomy, c->natural};
  return recipe_map(r, RECIPE_MAP_DIV, both);
}

// `found`: what each list of scales that starts here grows by, in order.
static const struct facts *number(struct static_claim *claims, uint32_t n, bool others,
                                  const struct facts *found) {
  bool kept = others;
  const struct facts *at = found;
  for (uint32_t i = 0; i < n; i++)
    if (starts(claims, i) && (at++)->most <= shared_growth) kept = true;
  uint32_t copies = 0, copy = 0;
  at = found;
  for (uint32_t i = 0; i < n; i++) {
    if (starts(claims, i)) {
      const bool stays = (at++)->most <= shared_growth || !kept;
      kept = true;
      copy = stays ? 0 : ++copies;
    }
    claims[i].copy = copy;
  }
  return at;
}

int static_part_claims(struct static_run *s, struct static_claim *claims, uint32_t n,
                       const bool *others, struct err *err) {
  struct arena a = {0};
  uint32_t *of = arena_alloc(&a, (n + (size_t)1) * sizeof *of), n_of = 0;
  int rc = 0;
  if (n) qsort(claims, n, sizeof *claims, by_scales);
  for (uint32_t i = 0, count; i < n && s->k.env->ask; i += count) {
    count = of_weight(claims + i, n - i);
    for (uint32_t c = 0; c < count && are_apart(claims + i, count, others); c++)
      if (starts(claims + i, c)) of[n_of++] = growth_recipe(s->k.r, &claims[i + c]);
  }
  if (n_of) {
    struct facts *found = arena_zalloc(&a, n_of * sizeof *found);
    const struct facts *at = found;
    rc = findings_ask(s->k.env, of, n_of, false, found, err);
    for (uint32_t i = 0, count; i < n && rc == 0; i += count) {
      count = of_weight(claims + i, n - i);
      if (are_apart(claims + i, count, others))
        at = number(claims + i, count, others[claims[i].weight], at);
    }
    if (rc == 0) qsort(claims, n, sizeof *claims, by_copy);
  }
  arena_free(&a);
  return rc;
}
