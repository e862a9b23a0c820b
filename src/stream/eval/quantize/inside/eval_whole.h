// Inside quantization: columns that are made whole, by formats that look at statistics.
#ifndef WEIR_EVAL_WHOLE_H
#define WEIR_EVAL_WHOLE_H

#include "stream/eval/core/eval_parts.h"
#include "stream/eval/quantize/eval_quantize.h"
#include "stream/eval/quantize/inside/eval_panel.h"

// A box of columns at work: arrays of `n` columns side by side, in the box behind what it holds.
struct eval_whole {
  const struct eval_filling *f;
  struct eval_task *t; // these of f
  struct eval_block_box *h;
  const struct eval_quantize *z;
  size_t n, side, block; // columns; rows of a tile, of a group, at most
  float *weights;        // of a tile of rows
  float *group;          // of a group: what its parameters are found from
  float *scales;         // of a group: what was found
  uint8_t *zeros;
  uint8_t *codes;
  uint8_t *at; // memory that is left
};

// Rows [at, at + rows) of a tile, whose first row is row `first` of W.
struct eval_group {
  uint64_t first;
  size_t at, rows;
};

// Bytes of the arrays, a column. Makes them, behind as many doubles a column as the format has (below), which are given.
uint64_t eval_whole_column_bytes(const struct eval_quantize *z);
double *eval_whole_begin(struct eval_whole *w, const struct eval_filling *f, uint64_t double_bytes);
// Rows [first, first + rows) of the columns into w->weights. Those that are not finite are told of by figures, and 0 here.
int eval_whole_read(const struct eval_whole *w, uint64_t first, size_t rows, struct err *err);
// The kernel's words for w->group, `rows` of it; the rule of MLAS on floats, with scales as they are stored.
struct kernels_panel eval_whole_panel(const struct eval_whole *w, size_t rows);
struct kernels_block_format eval_whole_format(const struct eval_quantize *z);
// Figures of row l of a group: of the weights as they are.
void eval_whole_figures(const struct eval_whole *w, const struct eval_group *g, size_t l);
// Puts the group's codes, scales and zero points into the box.
void eval_whole_put(const struct eval_whole *w, const struct eval_group *g);

// The nearest whole number, half to even: of numbers far below 2^51.
static inline double eval_whole_nearest(double x) {
  const double big = 0x1.8p52;
  return (x + big) - big;
}

// What becomes of the columns, by format (eval_gptq.c, eval_clipped.c), with so many bytes of doubles a column.
uint64_t eval_gptq_column_bytes(const struct eval_quantize *z);
int eval_gptq_fill(struct eval_whole *w, double *doubles, struct err *err);
uint64_t eval_clipped_column_bytes(const struct eval_quantize *z);
int eval_clipped_fill(struct eval_whole *w, double *doubles, struct err *err);

// ---- the factor of second moments (eval_factor.c) ----

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

// ---- how far second moments are believed that are sums over few rows (eval_moments.c) ----
//
// Of K columns and n rows, G = XᵀX knows at most n directions, and calls errors along all others harmless. What is found by
// it is to hold for other rows too, so it is found by
//
//   G + ridge I          ridge = 0.3 (K / n) (mean of G's diagonal)
//
// which goes to G as rows become many, and to a multiple of the identity, plain errors of weights, as they become few.

// Element i of the diagonal of the second moments `gram` of k columns: not negative, and finite; else ERR_MODEL.
int eval_moments_at(struct eval_task *t, uint32_t gram, uint64_t k, uint64_t i, double *out,
                    struct err *err);
// The ridge of the second moments `gram` of k columns, sums over `seen` rows; 0 where seen is 0: not said.
int eval_moments_ridge(struct eval_task *t, uint32_t gram, uint64_t k, uint64_t seen, double *ridge,
                       struct err *err);
// Adds it to a tile on the diagonal, `side` rows of it.
void eval_moments_add(double *tile, size_t side, double ridge);

#endif
