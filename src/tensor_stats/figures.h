// How far the elements of a tensor are from what its codes stand for. Sums of a column come from
// the kernels; those of a tensor are made of its columns by a fixed tree, so that they do not
// depend on who added what when.
#ifndef WEIR_FIGURES_H
#define WEIR_FIGURES_H

#include "base/span.h"

struct figures {
  uint64_t elements;
  uint64_t nonfinite; // elements that are NaN or infinite
  uint64_t overflows; // finite elements that became infinite, or would have
  double vv, ee,
      ve;           // sums of v*v, e*e and v*e; v: the element, e: v minus what its code stands for
  double max_error; // largest |e|; NaN if any is NaN
};

// Signal to quantization noise: 10 * log10(vv / ee). Infinite without an error; NaN if a sum is not
// finite.
double figures_sqnr_db(const struct figures *f);
// Of the angle between the tensor and what it became: (vv - ve) / sqrt(vv * (vv - 2 ve + ee)); 1
// where both are zero, 0 where one is.
double figures_cosine(const struct figures *f);
// Root of the mean of e*e; 0 of no elements.
double figures_rmse(const struct figures *f);

// The sum of both; a NaN in either makes a NaN.
struct figures figures_join(const struct figures *a, const struct figures *b);

// Sums of n leaves as of a binary tree whose left half is the largest power of two below n, leaf by
// leaf in order, in memory of one node a level. Begin with zeros. Subtrees of equal power-of-two
// sizes may be made apart and pushed as leaves: the result is the same.
enum { FIGURES_LEVELS = 64 };
struct figures_tree {
  uint64_t n; // leaves so far
  // The complete subtree of 2^i leaves where bit i of n is set.
  struct figures level[FIGURES_LEVELS];
};
void figures_push(struct figures_tree *t, const struct figures *leaf);
// The root; zeros without leaves.
struct figures figures_root(const struct figures_tree *t);

#endif
