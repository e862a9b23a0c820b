// unbroadcast/UnbroadcastThresholds: thresholds and weights without what broadcasting brings back.
//
//   t [2,3,3] of six equal rows, w [2,3,3] of ones   ──▶   t [3], w []
//
// An axis stays where nobody else has its length (stairs.c): the steps of one threshold that occurs three times, an axis of x
// that may be 1.
#include "passes/thresholds/inside/thresholds.h"

static void visit(struct kit *k, uint32_t node) {
  struct stairs *s = (struct stairs *)k;
  struct stairs_array t, w;
  struct stairs_table table;
  if (!stairs_is(s, node)) return;
  const char *why = stairs_read(s, kit_in(k, node, 1), &t);
  if (!why) why = stairs_read(s, kit_in(k, node, 2), &w);
  if (!why) why = stairs_join(s, &t, &w, &table); // do they fit?
  if (stairs_skips(s, node, why)) return;
  const uint32_t x = kit_in(k, node, 0), old_t = kit_in(k, node, 1), old_w = kit_in(k, node, 2);
  uint32_t thresholds = old_t, weights = old_w;
  const bool less_t = stairs_narrow(s, &t, &w, x), less_w = stairs_narrow(s, &w, &t, x);
  if (!less_t && !less_w) return;
  kit_begin(k, node, "unbroadcast");
  if (less_t) thresholds = stairs_write(s, "thresholds", &t);
  if (less_w) weights = stairs_write(s, "weights", &w);
  stairs_put(s, x, thresholds, weights, node);
  stairs_drop(s, old_t, old_w);
}

const struct pass thresholds_unbroadcast = {
    .name = "unbroadcast/UnbroadcastThresholds",
    .summary = "remove repeated rows from the thresholds and weights of MultiThreshold",
    .about = "Keeps one of several equal rows of constant thresholds and weights, if broadcasting "
             "restores the others.",
    .needs = "constant thresholds and weights of at most 2^18 elements",
    .promises = "the same results",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = stairs_run,
    .visit = visit,
};
