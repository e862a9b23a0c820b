// Inside the room: every row of kernels.def as a declaration, and the choice among them.
#ifndef WEIR_KERNELS_TABLE_H
#define WEIR_KERNELS_TABLE_H

#include "kernels/kernels.h"

// A transpose as the rows of kernels.def do it: strides in elements, `width` bytes an element.
struct transpose_shape {
  size_t out_stride, in_stride, rows, cols;
  unsigned width;
};

// The functions of the families, each as F(isa, result, name, parameters). Casts take arrays of the two types in their names.
#define KERNELS_TRANSPOSE(F, isa)                                                                  \
  F(isa, void, transpose, (void *out, const void *in, const struct transpose_shape *shape))
#define KERNELS_CASTS(F, isa)                                                                      \
  F(isa, void, cast_f32_f16, (void *out, const void *in, size_t n))                                \
  F(isa, void, cast_f32_bf16, (void *out, const void *in, size_t n))                               \
  F(isa, void, cast_f16_f32, (void *out, const void *in, size_t n))                                \
  F(isa, void, cast_bf16_f32, (void *out, const void *in, size_t n))                               \
  F(isa, void, cast_f64_f32, (void *out, const void *in, size_t n))                                \
  F(isa, void, cast_f32_f64, (void *out, const void *in, size_t n))                                \
  F(isa, void, cast_f64_f16, (void *out, const void *in, size_t n))                                \
  F(isa, void, cast_f64_bf16, (void *out, const void *in, size_t n))
#define KERNELS_BLOCKS(F, isa)                                                                     \
  F(isa, void, blocks_rows, (const struct kernels_panel *p, const struct kernels_block_format *f)) \
  F(isa, void, blocks_columns,                                                                     \
    (const struct kernels_panel *p, const struct kernels_block_format *f))
#define KERNELS_SEARCH(F, isa)                                                                     \
  F(isa, void, search_rows, (const struct kernels_panel *p, const struct kernels_block_format *f)) \
  F(isa, void, search_columns,                                                                     \
    (const struct kernels_panel *p, const struct kernels_block_format *f))
#define KERNELS_FIXED(F, isa)                                                                      \
  F(isa, void, codes_rows, (const struct kernels_panel *p, const struct kernels_block_format *f))  \
  F(isa, void, codes_columns,                                                                      \
    (const struct kernels_panel *p, const struct kernels_block_format *f))                         \
  F(isa, void, range_rows,                                                                         \
    (const struct kernels_panel *p, enum kernels_float type, float *lo, float *hi))                \
  F(isa, void, range_columns,                                                                      \
    (const struct kernels_panel *p, enum kernels_float type, float *lo, float *hi))
#define KERNELS_AFFINE(F, isa)                                                                     \
  F(isa, void, affine_codes_f32,                                                                   \
    (int8_t * out, const float *in, size_t n, const struct kernels_affine *a))                     \
  F(isa, size_t, affine_range_f32, (const float *in, size_t n, float *lo, float *hi))
#define KERNELS_LINEAR(F, isa)                                                                     \
  F(isa, bool, linear_codes,                                                                       \
    (void *out, const float *in, size_t n, const struct kernels_linear *m))                        \
  F(isa, size_t, linear_ranges, (const float *in, size_t n, float *lo, float *hi))
#define KERNELS_FIGURE_PAIRS(F, isa)                                                               \
  F(isa, bool, figure_pairs,                                                                       \
    (struct kernels_lanes * sums, size_t first, const double *v, const double *w, size_t n))       \
  F(isa, bool, figure_pairs_codes,                                                                 \
    (struct kernels_lanes * sums, size_t first, const float *v, const uint8_t *codes, size_t n,    \
     const struct kernels_stored *m))                                                              \
  F(isa, bool, figure_pairs_scaled,                                                                \
    (struct kernels_lanes * sums, size_t first, const float *v, const uint8_t *codes, size_t n,    \
     const struct kernels_scaled *m))
#define KERNELS_GRAM(F, isa)                                                                       \
  F(isa, void, gram_products,                                                                      \
    (double *c, size_t stride, const struct kernels_products *p, void *scratch))                   \
  F(isa, void, gram_add_scaled, (double *y, const double *x, double a, size_t n))
#define KERNELS_SHA256(F, isa)                                                                     \
  F(isa, void, sha256_lanes,                                                                       \
    (uint32_t state[][8], const uint8_t *const at[], size_t lanes, size_t blocks))                 \
  F(isa, size_t, sha256_width, (void))

// One function of each, whose variant is in use.
struct kernels_table {
#define MEMBER(isa, result, name, parameters) result(*name) parameters;
  KERNELS_TRANSPOSE(MEMBER, )
  KERNELS_CASTS(MEMBER, )
  KERNELS_BLOCKS(MEMBER, )
  KERNELS_SEARCH(MEMBER, )
  KERNELS_FIXED(MEMBER, )
  KERNELS_AFFINE(MEMBER, )
  KERNELS_LINEAR(MEMBER, )
  KERNELS_FIGURE_PAIRS(MEMBER, )
  KERNELS_GRAM(MEMBER, )
  KERNELS_SHA256(MEMBER, )
#undef MEMBER
  const char *isa; // of the most capable row in use
};

// The table that a machine with these features uses.
struct kernels_table kernels_choose(uint32_t features);

#define DECLARE(isa, result, name, parameters) result name##_##isa parameters;
#define KERNELS(family, isa, needs) KERNELS_##family(DECLARE, isa)
#include "kernels/kernels.def"
#undef DECLARE

// What the first `rows` rows and `cols` columns leave of a transpose: the columns to their right, the rows below.
void transpose_rest(void *out, const void *in, const struct transpose_shape *shape, size_t rows,
                    size_t cols);

#endif
