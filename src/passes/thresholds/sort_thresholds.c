// sort-thresholds/SortThresholds: thresholds in ascending order, each with its weight.
//
//   MultiThreshold(x, [1 -1 0], [1 2 3])   ──▶   MultiThreshold(x, [-1 0 1], [2 3 1])
//
// Every row is sorted on its own; equal ones stay in their order, and NaN, which nothing reaches, goes to the end. A row
// that is in order already stays as it is, so that a second run changes nothing. Weights of whole numbers add up to the same
// sums in any order; of others the sums may differ in their last bits.
#include "passes/thresholds/inside/thresholds.h"

#include <stdlib.h>

static bool sort_row(struct stairs_step *room, double *t, double *w, uint64_t n) {
  bool moved = false;
  for (uint64_t j = 0; j < n; j++)
    room[j] = (struct stairs_step){t[j], w[j], j};
  qsort(room, n, sizeof *room, stairs_by_threshold);
  for (uint64_t j = 0; j < n; j++) {
    moved = moved || room[j].place != j;
    t[j] = room[j].t;
    w[j] = room[j].w;
  }
  return moved;
}

static void visit(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct stairs_array t, w;
  struct stairs_table table;
  if (!stairs_is(s, node)) return;
  const char *why = stairs_of(s, node, &t, &w, &table);
  if (stairs_skips(s, node, why)) return;
  struct stairs_step *room = arena_alloc(&s->room, table.n * sizeof *room);
  bool moved = false;
  for (uint64_t row = 0; row < table.rows; row++)
    moved |= sort_row(room, table.t + row * table.n, table.w + row * table.n, table.n);
  if (!moved) return;
  if (!stairs_may(s, stairs_sums_exactly(&table) ? EXACTNESS_EXACT : EXACTNESS_ROUNDING)) return;
  const uint32_t x = kit_in(k, node, 0), old_t = kit_in(k, node, 1), old_w = kit_in(k, node, 2);
  t = stairs_thresholds(&table);
  w = stairs_weights(&table);
  stairs_narrow(s, &t, &w, x);
  stairs_narrow(s, &w, &t, x);
  kit_begin(k, node, "sorted");
  const uint32_t thresholds = stairs_write(s, "thresholds", &t),
                 weights = stairs_write(s, "weights", &w);
  stairs_put(s, x, thresholds, weights, node);
  stairs_drop(s, old_t, old_w);
}

const struct pass thresholds_sort = {
    .name = "sort-thresholds/SortThresholds",
    .summary = "put the thresholds of MultiThreshold in ascending order",
    .about = "Sorts constant thresholds along their last axis, each with its weight, and removes "
             "repeated rows that broadcasting restores.",
    .needs = "constant thresholds and weights of at most 2^18 elements",
    .promises = "the same results; the same up to rounding if weights are not whole numbers",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = visit,
};
