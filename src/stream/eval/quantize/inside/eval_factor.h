// Inside quantization: the factor of second moments.
#ifndef WEIR_EVAL_FACTOR_H
#define WEIR_EVAL_FACTOR_H

#include "eval_quantize.h"

// Memory for tiles, for as long as columns are quantized.
struct eval_factor {
  uint64_t k;
  uint32_t gram;
  struct eval_cache_key key;
  double *tile;     // SECOND_MOMENTS_SIDE * SECOND_MOMENTS_SIDE
  uint8_t *scratch; // KERNELS_PRODUCTS_SCRATCH
  double *all;      // all tiles, where no cache keeps them; or NULL
};
int eval_factor_open(struct eval_factor *f, const struct eval_quantize *z, struct err *err);
void eval_factor_close(struct eval_factor *f);
// Tile (r, c), c <= r, of the lower triangular M with H = MᵀM into f->tile, rows of second_moments_side(k, c) elements. H: the
// second moments, dampened. A value that was never other than 0 has a diagonal element below 0.
int eval_factor_tile(struct eval_task *t, struct eval_factor *f, uint64_t r, uint64_t c,
                     struct err *err);

#endif
