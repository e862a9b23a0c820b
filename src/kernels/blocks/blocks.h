// Room: blockwise quantization (kernels.h); here are the functions that its variants share. A *run*
// is a line of elements along k: one block of one column, or what is left of it; the ISA variants
// hand the runs they do not take to these functions.
#ifndef WEIR_BLOCKS_H
#define WEIR_BLOCKS_H

#include "kernels/kernels_table.h"

enum {
  BLOCKS_LANES = 8,
  BLOCKS_PIECE = 256,     // elements whose error figures are added before they become double
  BLOCKS_NBITS_MAX = 256, // elements of the largest NBITS block
};
// Added before cutting off, this rounds half away from zero (blocks_portable.c).
#define BLOCKS_BELOW_HALF 0x1.fffffep-2f
// Scales of which error figures are added in float32 (struct kernels_sums).
#define BLOCKS_SCALE_LEAST 0x1p-50f
#define BLOCKS_SCALE_MOST 0x1p40f
static inline bool blocks_narrow(float scale) {
  const float size = scale < 0 ? -scale : scale;
  return size >= BLOCKS_SCALE_LEAST && size <= BLOCKS_SCALE_MOST;
}

// Makes the call with TYPE a constant in it, so that every type of elements has code of its own.
#define BLOCKS_BY_TYPE(type, call)                                                                 \
  do {                                                                                             \
    if ((type) == KERNELS_F32) {                                                                   \
      const enum kernels_float TYPE = KERNELS_F32;                                                 \
      call;                                                                                        \
    } else if ((type) == KERNELS_F16) {                                                            \
      const enum kernels_float TYPE = KERNELS_F16;                                                 \
      call;                                                                                        \
    } else {                                                                                       \
      const enum kernels_float TYPE = KERNELS_BF16;                                                \
      call;                                                                                        \
    }                                                                                              \
  } while (0)

struct blocks_run {
  const uint8_t *at;
  size_t step; // bytes from one element to the next
  size_t n;
  enum kernels_float type;
};

// What turns elements of one block into codes.
struct blocks_grid {
  float scale, reciprocal;
  int zero, least, most; // of the codes
  bool zero_first;       // NBITS: the zero point is added before rounding
};

// Bytes of an element.
size_t blocks_width(enum kernels_float type);
// The run of n elements from row k of column j on, of a panel in rows or in columns.
struct blocks_run blocks_row_run(const struct kernels_panel *p, enum kernels_float type, size_t j,
                                 size_t k, size_t n);
struct blocks_run blocks_column_run(const struct kernels_panel *p, enum kernels_float type,
                                    size_t j, size_t k, size_t n);

// Smallest and largest element, NaN passed over, joined to *lo and *hi; of equal ones the first
// stays (that is a matter of signed zeros).
void blocks_range(const struct blocks_run *run, float *lo, float *hi);
// Scale and zero point (as a code, signed for QDQ symmetric) of a block of that range.
struct blocks_grid blocks_grid_of(const struct kernels_block_format *f, float lo, float hi);
// The same from a scale and a zero point byte that are given; and from those of column j of a panel
// that is one block or a part of one (kernels_codes_*).
struct blocks_grid blocks_grid_given(const struct kernels_block_format *f, float scale,
                                     uint8_t zero);
struct blocks_grid blocks_grid_there(const struct kernels_panel *p,
                                     const struct kernels_block_format *f, size_t j);
// Codes, one byte each, out_step bytes apart; out NULL: not wanted. Sums, unless NULL, are added
// to.
void blocks_codes(const struct blocks_run *run, const struct blocks_grid *g, uint8_t *out,
                  size_t out_step, struct kernels_sums *sums);
// One whole block of column j: grid, codes in their place, sums.
void blocks_block(const struct blocks_run *run, const struct kernels_panel *p,
                  const struct kernels_block_format *f, size_t j, size_t k, bool columns);

// Error figures of n elements and their codes, whose zero point may be any float.
void blocks_figures(struct kernels_sums *sums, const float *v, const int *codes, size_t n,
                    float scale, float zero);
// Error figures closed: NaNs made plain, the largest error (its bits) joined; and non-finite
// elements counted.
void blocks_plain_sums(struct kernels_sums *sums, uint32_t largest);
void blocks_count_nonfinite(struct kernels_sums *sums, const struct blocks_run *run);
// Element k of a run.
float blocks_value(const struct blocks_run *run, size_t k);
// A float rounded to a type, to nearest even.
float blocks_stored(float x, enum kernels_float type);
// NBITS codes of one block, n of them, packed into all of its bytes. begins_group: see
// kernels_panel.
void blocks_pack(uint8_t *out, const uint8_t *codes, size_t n, const struct kernels_block_format *f,
                 bool begins_group);

// The rules beyond MLAS, which are a family of their own (search.h).
static inline bool blocks_searched(const struct kernels_block_format *f) {
  return f->rule > KERNELS_QDQ;
}

// What variants leave of columns j .. j + columns, rows k .. k + rows: whole blocks, the last of them
// maybe short.
void blocks_columns_rest(const struct kernels_panel *p, const struct kernels_block_format *f,
                         size_t j, size_t columns, size_t k, size_t rows);
// kernels_quantize_rows by a variant that takes the whole blocks of column j. Blocks that are not of
// 16 elements or a multiple, and what is left of the last one, go to the reference.
void blocks_rows_by(const struct kernels_panel *p, const struct kernels_block_format *f,
                    void (*whole_blocks)(const struct kernels_panel *p,
                                         const struct kernels_block_format *f, size_t j));

// make() of every block of a panel of rows or of columns, in the order of its elements in memory.
void blocks_each(const struct kernels_panel *p, const struct kernels_block_format *f, bool columns,
                 void (*make)(const struct blocks_run *run, const struct kernels_panel *p,
                              const struct kernels_block_format *f, size_t j, size_t k,
                              bool columns));

// What variants do row by row (kernels_range_rows, kernels_codes_rows): line() takes one row. A
// range may lose the order of zeros of both signs: a row of which zero is an extreme is then done
// again here. So are codes with error figures whose scale takes double.
void blocks_range_rows(const struct kernels_panel *p, enum kernels_float type, float *lo, float *hi,
                       void (*line)(const struct blocks_run *run, float *lo, float *hi));
void blocks_codes_rows(const struct kernels_panel *p, const struct kernels_block_format *f,
                       void (*line)(const struct blocks_run *run, const struct blocks_grid *g,
                                    const struct kernels_block_format *f, uint8_t *out,
                                    struct kernels_sums *sums));

// Where the code of element k of column j lies in a panel of codes; NULL if none are wanted.
uint8_t *blocks_code_at(const struct kernels_panel *p, const struct kernels_block_format *f,
                        size_t j, size_t k, bool columns);

#endif
