// Questions of different kinds in one call: each kind is measured by its own module, and the
// answers come back in the order of the questions.
//
//   codes ──┬─▶ blockwise (measure_blocks.c) ───────┬──▶ out
//           └─▶ a scale a channel (measure_axes.c) ─┘
//
// A kind that nobody asks about costs nothing, not even a look at its sources; with no question at
// all the sources are still checked.
#include "measure.h"

#include "measure_axes.h"
#include "measure_blocks.h"

bool measure_can(const struct recipes *r, uint32_t codes) {
  return measure_blocks_can(r, codes) || measure_axes_can(r, codes);
}

// Questions of one kind, their places in the caller's list, and their answers.
struct part {
  uint32_t *codes, *at, n;
  struct figures *out;
};

static struct part part_of(const struct recipes *r, const uint32_t *codes, uint32_t n, bool axes,
                           struct arena *a) {
  struct part p = {.codes = arena_alloc(a, (n + (size_t)1) * sizeof *p.codes),
                   .at = arena_alloc(a, (n + (size_t)1) * sizeof *p.at),
                   .out = arena_alloc(a, (n + (size_t)1) * sizeof *p.out)};
  for (uint32_t i = 0; i < n; i++) {
    if (measure_axes_can(r, codes[i]) != axes) continue;
    p.at[p.n] = i;
    p.codes[p.n++] = codes[i];
  }
  return p;
}

static void put_back(const struct part *p, struct figures *out) {
  for (uint32_t i = 0; i < p->n; i++)
    out[p->at[i]] = p->out[i];
}

int measure_run(const struct recipes *r, struct sources *s, const uint32_t *codes, uint32_t n,
                const struct work_options *options, struct figures *out,
                struct measure_stats *stats, struct err *err) {
  struct arena arena = {0};
  const struct part blocks = part_of(r, codes, n, false, &arena);
  const struct part axes = part_of(r, codes, n, true, &arena);
  memset(stats, 0, sizeof *stats);
  int rc = 0;
  if (blocks.n > 0 || axes.n == 0)
    rc = measure_blocks_run(r, s, blocks.codes, blocks.n, options, blocks.out, stats, err);
  if (rc == 0 && axes.n > 0)
    rc = measure_axes_run(r, s, axes.codes, axes.n, options, axes.out, stats, err);
  if (rc == 0) {
    put_back(&blocks, out);
    put_back(&axes, out);
  }
  arena_free(&arena);
  return rc;
}
