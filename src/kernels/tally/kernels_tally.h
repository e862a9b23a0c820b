// Room: counts for calibration: the minimum, the maximum, and the number of elements in each bin.
//
// Elements are float, float16, bfloat16 or double; all are looked at as float32, which doubles are rounded to. NaN is passed
// over and counted; infinities are counted, and belong to no extreme and no bin. Zero has no sign: -0 counts as +0.
//
// Results do not depend on how elements are cut or in which order the pieces come.
#ifndef WEIR_KERNELS_TALLY_H
#define WEIR_KERNELS_TALLY_H

#include "base/dtype.h"

struct kernels_extremes {
  float least, most; // least > most: no number yet
  float magnitude;   // the least of |x|
  uint64_t numbers, nans, infinities;
};
struct kernels_extremes kernels_tally_nothing(void);
// Adds n elements of `type`.
void kernels_tally_extremes(struct kernels_extremes *x, enum dtype type, const void *in, size_t n);
void kernels_tally_join(struct kernels_extremes *x, const struct kernels_extremes *other);

// n bins: bin i has all x with edge i <= x < edge i + 1, the last one also its upper edge. There are n + 1 edges, which
// rise (not strictly: a bin of no width stays empty). `step` not 0: edge i is f32(f32(i * step) + edge 0) for
// i < n, which need not be looked up.
struct kernels_bins {
  uint32_t n;      // at most 2^20
  bool magnitudes; // |x| is counted
  const float *edges;
  float step;
};
// Adds n elements of `type` to b->n counts. What lies outside the bins is not counted.
void kernels_tally_bins(uint64_t *counts, const struct kernels_bins *b, enum dtype type,
                        const void *in, size_t n);

#endif
