// Error figures of what a run quantizes, in pieces that depend on nobody's order.
//
// The leaves of a codes tensor (eval.h says what they are) are numbered from its first byte; the
// tensor's figures are the tree of figures.h over them. A unit makes the leaves whose first byte it
// holds, and keeps the roots of the largest complete subtrees among them: at most two a level.
// Those of all units together make the tensor's.
#ifndef WEIR_FIGURE_SUMS_H
#define WEIR_FIGURE_SUMS_H

#include "json/json.h"
#include "tensor_stats/figures.h"

struct figure_sum {
  uint32_t unit;
  uint32_t segment; // of the plan: the one that makes the codes
  uint32_t level;   // leaves [index << level, (index + 1) << level)
  uint64_t index;
  struct figures f;
};

struct figure_sums {
  struct figure_sum *rows;
  size_t n, cap;
};
void figure_sums_free(struct figure_sums *s);

// The next leaf of a segment. Leaves of a segment come in order.
void figure_sums_push(struct figure_sums *s, uint32_t segment, uint64_t leaf,
                      const struct figures *f);
// What was found out about the leaves that come next, in the same segment or later ones.
void figure_sums_join(struct figure_sums *s, const struct figure_sums *next);
// What a unit found out, in place of what it was said to have found before.
void figure_sums_put_unit(struct figure_sums *all, uint32_t unit, const struct figure_sums *s);

// As an array of arrays, and back; false (and nothing kept) if it is not one.
void figure_sums_write(struct json_out *j, const struct figure_sums *s);
bool figure_sums_read(const struct json_value *v, struct figure_sums *s);

// Orders all sums; then the figures of the segment whose sums begin at *at, which moves on behind
// them. False at the end. *whole: the leaves are 0 to the last that is there, each once.
void figure_sums_sort(struct figure_sums *all);
bool figure_sums_next(const struct figure_sums *all, size_t *at, uint32_t *segment,
                      struct figures *f, bool *whole);

#endif
