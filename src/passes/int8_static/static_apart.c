// Room for biases beside a weight that is stored once and taken by several nodes:
//
//   Gemm(x, w, b)     x of 1e-8, b of 6      the scale of w must be 10^5 times as large, or the codes of b do not fit int32
//   Gemm(v, w, c)     v of 1                 all codes of w would be 0 by that scale
//
// The first node gets a copy of w with scales of its own. How much a scale would grow follows from the elements of the weight, so a
// stage finds it out: the largest of roomy / natural over all channels. One that grows by an eighth at most is shared: the others lose
// less than a decibel by it. Nodes that want nearly the same scales share one copy; where no node keeps the weight as it is, those that
// grow least do, and nothing is copied for them.
//
// Which scales are nearly the same is asked by rounds. In each, the one that grows least of those that are left leads a group, and all
// whose scales are within an eighth of its own, in every channel, join it. The last group takes all that are left, so there are few copies and few
// rounds, however many nodes there are: a bias that wants room is large beside the products, so codes that are lost there are seen least.
#include "passes/int8_static/inside/static_apart.h"

#include "passes/questions/findings.h"

#include <stdlib.h>

static const double shared_growth = 1.125;

enum { GROUPS = 8, UNDECIDED = GROUPS + 1 }; // beside those who keep the weight

// Claims of one weight that want the same scales.
struct wish {
  uint32_t from, n; // claims
  double growth;
  uint32_t copy, run;
};

// The wishes about one weight.
struct run {
  uint32_t first, n;
  uint32_t group; // the number of its group in the first round
};

struct parting {
  struct static_run *s;
  struct static_claim *claims;
  struct wish *wishes; // by weight, then by growth
  struct run *runs;
  uint32_t n, n_runs;
  uint32_t *of, *row; // what a stage is asked, and of which wish
  struct tensor_stats *found;
  uint32_t n_of;
};

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

static int by_growth(const void *a, const void *b) {
  const struct wish *x = a, *y = b;
  if (x->growth != y->growth) return x->growth < y->growth ? -1 : 1;
  return x->from < y->from ? -1 : x->from > y->from;
}

// The claims of one weight: how many, from the first on.
static uint32_t of_weight(const struct static_claim *claims, uint32_t n) {
  uint32_t end = 1;
  while (end < n && claims[end].weight == claims[0].weight)
    end++;
  return end;
}

// Would room for one of them be at the cost of another node?
static bool are_apart(const struct static_claim *claims, uint32_t n, const bool *others) {
  return others[claims[0].weight] || claims[0].roomy != claims[n - 1].roomy;
}

static void find_wishes(struct parting *p, uint32_t n, const bool *others) {
  for (uint32_t i = 0, count; i < n; i += count) {
    count = of_weight(p->claims + i, n - i);
    if (!are_apart(p->claims + i, count, others)) continue;
    struct run *run = &p->runs[p->n_runs];
    *run = (struct run){.first = p->n};
    for (uint32_t c = i; c < i + count; c++)
      if (c == i || p->claims[c - 1].roomy != p->claims[c].roomy)
        p->wishes[p->n++] = (struct wish){.from = c, .n = 1, .copy = UNDECIDED, .run = p->n_runs};
      else
        p->wishes[p->n - 1].n++;
    run->n = p->n - run->first;
    p->n_runs++;
  }
}

static const struct static_claim *claim_of(const struct parting *p, uint32_t wish) {
  return &p->claims[p->wishes[wish].from];
}

// Asks how much larger than others the scales of a wish are.
static void want_ratio(struct parting *p, uint32_t wish, uint32_t to) {
  const uint32_t both[2] = {claim_of(p, wish)->roomy, to};
  p->row[p->n_of] = wish;
  p->of[p->n_of++] = recipe_map(p->s->k.r, RECIPE_MAP_DIV, both);
}

static int ask(struct parting *p, struct err *err) {
  return findings_ask(p->s->k.env, p->of, p->n_of, false, p->found, err);
}

static int find_growth(struct parting *p, struct err *err) {
  for (uint32_t i = 0; i < p->n; i++)
    want_ratio(p, i, claim_of(p, i)->natural);
  if (ask(p, err)) return -1;
  for (uint32_t i = 0; i < p->n; i++)
    p->wishes[i].growth = p->found[i].most;
  for (uint32_t i = 0; i < p->n_runs; i++)
    qsort(p->wishes + p->runs[i].first, p->runs[i].n, sizeof *p->wishes, by_growth);
  return 0;
}

// Those that grow little keep the weight. Returns the number of the first group: 0 where nobody keeps the weight.
static uint32_t keep(struct wish *wishes, uint32_t n, bool others) {
  uint32_t kept = 0;
  while (kept < n && wishes[kept].growth <= shared_growth)
    wishes[kept++].copy = 0;
  return kept > 0 || others;
}

// One weight's group of a round: who leads it, and who may join it.
static void lead(struct parting *p, const struct run *run, uint32_t round) {
  const uint32_t end = run->first + run->n;
  uint32_t leader = run->first;
  while (leader < end && p->wishes[leader].copy != UNDECIDED)
    leader++;
  for (uint32_t i = leader; i < end; i++) {
    if (p->wishes[i].copy != UNDECIDED) continue;
    if (i == leader || round + 1 == GROUPS)
      p->wishes[i].copy = run->group + round;
    else
      want_ratio(p, i, claim_of(p, leader)->roomy);
  }
}

static int part(struct parting *p, const bool *others, struct err *err) {
  for (uint32_t i = 0; i < p->n_runs; i++) {
    struct run *run = &p->runs[i];
    run->group = keep(p->wishes + run->first, run->n, others[claim_of(p, run->first)->weight]);
  }
  for (uint32_t round = 0; round < GROUPS; round++) {
    p->n_of = 0;
    for (uint32_t i = 0; i < p->n_runs; i++)
      lead(p, &p->runs[i], round);
    if (p->n_of == 0) return 0;
    if (ask(p, err)) return -1;
    for (uint32_t i = 0; i < p->n_of; i++) {
      struct wish *wish = &p->wishes[p->row[i]];
      if (p->found[i].most <= shared_growth && p->found[i].least >= 1 / shared_growth)
        wish->copy = p->runs[wish->run].group + round;
    }
  }
  return 0;
}

int static_part_claims(struct static_run *s, struct static_claim *claims, uint32_t n,
                       const bool *others, struct err *err) {
  struct arena a = {0};
  const size_t room = n + (size_t)1;
  struct parting p = {.s = s,
                      .claims = claims,
                      .wishes = arena_alloc(&a, room * sizeof *p.wishes),
                      .of = arena_alloc(&a, room * sizeof *p.of),
                      .row = arena_alloc(&a, room * sizeof *p.row),
                      .runs = arena_alloc(&a, room * sizeof *p.runs),
                      .found = arena_zalloc(&a, room * sizeof *p.found)};
  int rc = 0;
  if (n) qsort(claims, n, sizeof *claims, by_scales);
  if (s->k.env->ask) find_wishes(&p, n, others);
  if (p.n) {
    rc = find_growth(&p, err) || part(&p, others, err) ? -1 : 0;
    for (uint32_t i = 0; i < p.n; i++)
      for (uint32_t c = 0; c < p.wishes[i].n; c++)
        claims[p.wishes[i].from + c].copy = p.wishes[i].copy;
    if (rc == 0) qsort(claims, n, sizeof *claims, by_copy);
  }
  arena_free(&a);
  return rc;
}
