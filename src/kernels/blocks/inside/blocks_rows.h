// Inside blocks_rows_avx*.c: what does not depend on the width of a vector. Error figures of a row
// are added group by group (8 or 16 blocks) to sums of its own, which go back into the panel's at
// its end.
#ifndef WEIR_BLOCKS_ROWS_H
#define WEIR_BLOCKS_ROWS_H

#include "kernels/blocks/blocks.h"

#include <float.h>
#include <string.h>

// The first element that is a number, of a block that holds nothing but zeros and NaN.
static inline float blocks_row_first_zero(const float *v, size_t n) {
  for (size_t k = 0; k < n; k++) {
    float x;
    memcpy(&x, v + k, sizeof x); // maybe of no alignment
    if (x == x) return x;
  }
  return 0;
}

// Those of one column of W while its blocks pass by.
struct blocks_row_sums {
  double vv, ee, ve;
  uint32_t largest; // bits of |e|
  bool odd;         // some block had elements that are not finite
};

static inline struct blocks_row_sums blocks_row_open(const struct kernels_sums *sums) {
  return (struct blocks_row_sums){sums->vv, sums->ee, sums->ve, 0, false};
}

static inline void blocks_row_join(struct blocks_row_sums *r, uint32_t largest, bool odd) {
  if (largest > r->largest) r->largest = largest;
  r->odd |= odd;
}

// Sums of n blocks, each in the order of the blocks.
static inline void blocks_row_add(struct blocks_row_sums *r, const float *vv, const float *ee,
                                  const float *ve, size_t n) {
  for (size_t b = 0; b < n; b++) {
    r->vv += (double)vv[b];
    r->ee += (double)ee[b];
    r->ve += (double)ve[b];
    r->odd |= !(vv[b] <= FLT_MAX);
  }
}

// n whole blocks, widened, and their grids.
struct blocks_row_group {
  const float *v, *scale, *zero; // v of any alignment
  size_t n;
};

// Codes, a byte each, and sums of a group by the reference, for scales that take double.
static inline void blocks_row_wide(struct blocks_row_sums *r, const struct blocks_row_group *g,
                                   const struct kernels_block_format *f, uint8_t *out) {
  struct kernels_sums sums = {r->vv, r->ee, r->ve, 0, 0};
  for (size_t b = 0; b < g->n; b++) {
    struct blocks_grid grid = blocks_grid_given(f, g->scale[b], (uint8_t)g->zero[b]);
    struct blocks_run run = {(const uint8_t *)(g->v + b * f->block), sizeof(float), f->block,
                             KERNELS_F32};
    blocks_codes(&run, &grid, out + b * f->block, 1, &sums);
  }
  uint32_t largest;
  memcpy(&largest, &sums.max_error, sizeof largest);
  r->vv = sums.vv;
  r->ee = sums.ee;
  r->ve = sums.ve;
  blocks_row_join(r, largest, sums.nonfinite > 0);
}

// Into the sums of column j, whose whole blocks these were.
static inline void blocks_row_close(const struct blocks_row_sums *r, const struct kernels_panel *p,
                                    const struct kernels_block_format *f, size_t j) {
  struct kernels_sums *sums = &p->sums[j];
  sums->vv = r->vv;
  sums->ee = r->ee;
  sums->ve = r->ve;
  blocks_plain_sums(sums, r->largest);
  struct blocks_run run =
      blocks_row_run(p, (enum kernels_float)f->in_type, j, 0, p->k / f->block * f->block);
  if (r->odd) blocks_count_nonfinite(sums, &run);
}

#endif
