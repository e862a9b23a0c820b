// Inside the room: every row of kernels.def as a declaration, and the choice among them.
#ifndef WEIR_KERNELS_TABLE_H
#define WEIR_KERNELS_TABLE_H

#include "kernels.h"

// A transpose as the rows of kernels.def do it: strides in elements, `width` bytes an element.
struct transpose_shape {
  size_t out_stride, in_stride, rows, cols;
  unsigned width;
};

// One function a family. Casts take arrays of the two types named by the family.
struct kernels_table {
  void (*transpose)(void *out, const void *in, const struct transpose_shape *shape);
  void (*cast_f32_f16)(void *out, const void *in, size_t n);
  void (*cast_f32_bf16)(void *out, const void *in, size_t n);
  void (*cast_f16_f32)(void *out, const void *in, size_t n);
  void (*cast_bf16_f32)(void *out, const void *in, size_t n);
  void (*cast_f64_f32)(void *out, const void *in, size_t n);
  void (*cast_f32_f64)(void *out, const void *in, size_t n);
  void (*cast_f64_f16)(void *out, const void *in, size_t n);
  void (*cast_f64_bf16)(void *out, const void *in, size_t n);
  void (*blocks_rows)(const struct kernels_panel *p, const struct kernels_block_format *f);
  void (*blocks_columns)(const struct kernels_panel *p, const struct kernels_block_format *f);
  void (*search_rows)(const struct kernels_panel *p, const struct kernels_block_format *f);
  void (*search_columns)(const struct kernels_panel *p, const struct kernels_block_format *f);
  void (*codes_rows)(const struct kernels_panel *p, const struct kernels_block_format *f);
  void (*codes_columns)(const struct kernels_panel *p, const struct kernels_block_format *f);
  void (*range_rows)(const struct kernels_panel *p, enum kernels_float type, float *lo, float *hi);
  void (*range_columns)(const struct kernels_panel *p, enum kernels_float type, float *lo,
                        float *hi);
  void (*affine_codes_f32)(int8_t *out, const float *in, size_t n, const struct kernels_affine *a);
  size_t (*affine_range_f32)(const float *in, size_t n, float *lo, float *hi);
  bool (*linear_codes)(void *out, const float *in, size_t n, const struct kernels_linear *m);
  size_t (*linear_ranges)(const float *in, size_t n, float *lo, float *hi);
  bool (*figure_pairs)(struct kernels_lanes *sums, size_t first, const double *v, const double *w,
                       size_t n);
  bool (*figure_pairs_codes)(struct kernels_lanes *sums, size_t first, const float *v,
                             const uint8_t *codes, size_t n, const struct kernels_stored *m);
  bool (*figure_pairs_scaled)(struct kernels_lanes *sums, size_t first, const float *v,
                              const uint8_t *codes, size_t n, const struct kernels_scaled *m);
  void (*gram_products)(double *c, size_t stride, const struct kernels_products *p, void *scratch);
  void (*gram_add_scaled)(double *y, const double *x, double a, size_t n);
  void (*sha256_lanes)(uint32_t state[][8], const uint8_t *const at[], size_t lanes, size_t blocks);
  size_t (*sha256_width)(void);
  const char *isa; // of the most capable row in use
};

// The table that a machine with these features uses.
struct kernels_table kernels_choose(uint32_t features);

void transpose_portable(void *out, const void *in, const struct transpose_shape *shape);
// What the first `rows` rows and `cols` columns leave: the columns to their right, the rows below.
void transpose_rest(void *out, const void *in, const struct transpose_shape *shape, size_t rows,
                    size_t cols);
void transpose_avx2(void *out, const void *in, const struct transpose_shape *shape);
void transpose_neon(void *out, const void *in, const struct transpose_shape *shape);

#define KERNELS_CASTS(isa)                                                                         \
  void cast_f32_f16_##isa(void *out, const void *in, size_t n);                                    \
  void cast_f32_bf16_##isa(void *out, const void *in, size_t n);                                   \
  void cast_f16_f32_##isa(void *out, const void *in, size_t n);                                    \
  void cast_bf16_f32_##isa(void *out, const void *in, size_t n);                                   \
  void cast_f64_f32_##isa(void *out, const void *in, size_t n);                                    \
  void cast_f32_f64_##isa(void *out, const void *in, size_t n);                                    \
  void cast_f64_f16_##isa(void *out, const void *in, size_t n);                                    \
  void cast_f64_bf16_##isa(void *out, const void *in, size_t n)
KERNELS_CASTS(portable);
KERNELS_CASTS(avx2);
KERNELS_CASTS(neon);

#define KERNELS_BLOCKS(isa)                                                                        \
  void blocks_rows_##isa(const struct kernels_panel *p, const struct kernels_block_format *f);     \
  void blocks_columns_##isa(const struct kernels_panel *p, const struct kernels_block_format *f);  \
  void codes_rows_##isa(const struct kernels_panel *p, const struct kernels_block_format *f);      \
  void codes_columns_##isa(const struct kernels_panel *p, const struct kernels_block_format *f);   \
  void range_rows_##isa(const struct kernels_panel *p, enum kernels_float type, float *lo,         \
                        float *hi);                                                                \
  void range_columns_##isa(const struct kernels_panel *p, enum kernels_float type, float *lo,      \
                           float *hi)
KERNELS_BLOCKS(portable);
KERNELS_BLOCKS(avx2);
KERNELS_BLOCKS(avx512);
KERNELS_BLOCKS(neon);

// Rules beyond MLAS.
#define KERNELS_SEARCH(isa)                                                                        \
  void search_rows_##isa(const struct kernels_panel *p, const struct kernels_block_format *f);     \
  void search_columns_##isa(const struct kernels_panel *p, const struct kernels_block_format *f)
KERNELS_SEARCH(portable);
KERNELS_SEARCH(avx2);
KERNELS_SEARCH(avx512);
KERNELS_SEARCH(neon);

#define KERNELS_AFFINE(isa)                                                                        \
  void affine_codes_f32_##isa(int8_t *out, const float *in, size_t n,                              \
                              const struct kernels_affine *a);                                     \
  size_t affine_range_f32_##isa(const float *in, size_t n, float *lo, float *hi)
#define KERNELS_LINEAR(isa)                                                                        \
  bool linear_codes_##isa(void *out, const float *in, size_t n, const struct kernels_linear *m);   \
  size_t linear_ranges_##isa(const float *in, size_t n, float *lo, float *hi)
KERNELS_LINEAR(portable);
KERNELS_LINEAR(avx2);
KERNELS_LINEAR(avx512);
KERNELS_LINEAR(neon);

KERNELS_AFFINE(portable);
KERNELS_AFFINE(avx2);
KERNELS_AFFINE(avx512);
KERNELS_AFFINE(neon);

#define KERNELS_FIGURE_PAIRS(isa)                                                                  \
  bool figure_pairs_##isa(struct kernels_lanes *sums, size_t first, const double *v,               \
                          const double *w, size_t n);                                              \
  bool figure_pairs_codes_##isa(struct kernels_lanes *sums, size_t first, const float *v,          \
                                const uint8_t *codes, size_t n, const struct kernels_stored *m);   \
  bool figure_pairs_scaled_##isa(struct kernels_lanes *sums, size_t first, const float *v,         \
                                 const uint8_t *codes, size_t n, const struct kernels_scaled *m)
KERNELS_FIGURE_PAIRS(portable);
KERNELS_FIGURE_PAIRS(avx2);
KERNELS_FIGURE_PAIRS(avx512);
KERNELS_FIGURE_PAIRS(neon);

#define KERNELS_GRAM(isa)                                                                          \
  void gram_products_##isa(double *c, size_t stride, const struct kernels_products *p,             \
                           void *scratch);                                                         \
  void gram_add_scaled_##isa(double *y, const double *x, double a, size_t n)
KERNELS_GRAM(portable);
KERNELS_GRAM(avx2);
KERNELS_GRAM(avx512);
KERNELS_GRAM(neon);

#define KERNELS_SHA256(isa)                                                                        \
  void sha256_lanes_##isa(uint32_t state[][8], const uint8_t *const at[], size_t lanes,            \
                          size_t blocks);                                                          \
  size_t sha256_width_##isa(void)
KERNELS_SHA256(portable);
KERNELS_SHA256(shani);
KERNELS_SHA256(armv8);

#endif
