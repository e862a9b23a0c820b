// Inside quantization: a box of what is quantized in blocks, and where in it, and in the parts, things lie.
#ifndef WEIR_EVAL_LAYOUT_H
#define WEIR_EVAL_LAYOUT_H

#include "stream/eval/quantize/eval_quantize.h"

#include <assert.h>

// What a box of quantized elements holds: everything of some units, or of some cells of one
// (eval_layout.c says what those are).
struct eval_block_box {
  struct eval_quantize z;
  uint64_t first, last; // units
  uint64_t from, to;    // cells
  uint8_t *codes;       // NULL: only scales and zeros are held
  bool told;            // error figures are told by chunks, of codes as they are made
  void *open;           // for the chunks of a line that comes in stripes, or NULL
  float *scales;        // as the kernels leave them: a unit's together
  uint8_t *zeros;
  float *float_zeros;        // NBITS_HQQ: instead
  struct kernels_sums *sums; // of columns; NULL: nobody asks
  uint8_t *work;             // with statistics: behind all of these
  // NBITS, where sums are all that is wanted: of each of these, one after the other's columns.
  const struct eval_quantize *ways;
  uint32_t n_ways;
};

static inline struct eval_block_box *eval_block_box_of(struct eval_stripe_box *b) {
  static_assert(sizeof(struct eval_block_box) <= EVAL_BOX_STATE, "a box has room for its items");
  return (struct eval_block_box *)(void *)b->state;
}

// Others are quantized by tensor or channel (eval_affine.c), or as FORMAT_LINEAR (eval_linear.h).
static inline bool eval_in_blocks(enum recipe_format format) {
  return format != FORMAT_SHRINK && format != FORMAT_LEVELS && format != FORMAT_AFFINE &&
         format != FORMAT_LINEAR;
}
static inline bool eval_has_float_zeros(const struct eval_quantize *z) {
  return z->f.rule == KERNELS_HQQ;
}

// Elements of the part that a unit has, where they begin, and the unit that has an element.
uint64_t eval_layout_elements(const struct eval_quantize *z, uint64_t unit);
uint64_t eval_layout_start(const struct eval_quantize *z, uint64_t unit);
uint64_t eval_layout_unit(const struct eval_quantize *z, uint64_t element);
// The cell that element `at` of a unit's part belongs to (of packed zero points: the first).
uint64_t eval_layout_cell(const struct eval_quantize *z, uint64_t at);
// Bytes that codes of so many cells of a unit take in a box, at most.
uint64_t eval_layout_codes(const struct eval_quantize *z, uint64_t cells);
// A line: a block of k, all of inner. The operand element that it begins with, and its rows.
uint64_t eval_layout_line_start(const struct eval_quantize *z, uint64_t line);
uint64_t eval_layout_line_rows(const struct eval_quantize *z, uint64_t line);
// Where in the box the scale of a cell is, and the code of a row of it; and codes from one column of a
// panel to the next (inner = 1), or from one row to the next.
struct eval_place {
  size_t cell, code, stride;
};
struct eval_place eval_layout_place(const struct eval_block_box *h, uint64_t unit, uint64_t cell,
                                    uint64_t row);
// Codes that lie as the operand does: where in the box the scale of an element is, how many elements share
// one, and how many from this one on have scales that lie one behind the other. An element that is not
// the first of its share has no more than the rest of it.
struct eval_run {
  size_t cell, share;
  uint64_t n;
};
struct eval_run eval_layout_run(const struct eval_block_box *h, uint64_t element);

// n scales as the part holds them; n zero points of `bits` bits, low bits first, the unused bits of
// the last byte filled with copies of the code in the middle (NBITS), or 0.
void eval_layout_store_scales(enum dtype type, const float *scales, size_t n, uint8_t *out);
void eval_layout_pack_zeros(const struct eval_quantize *z, const uint8_t *zeros, size_t n,
                            uint8_t *out);

// Elements of a QUANTIZE row whose format has blocks, and the figures of columns that were not read.
int eval_blocks_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                         uint64_t count, uint8_t *out, struct err *err);
int eval_blocks_end(struct eval_task *t, struct eval_stripe_box *b, struct err *err);

// ---- error figures of what a box holds (eval_tell.c) ----

// The columns of codes whose first byte lies in [off, off + len), and what is told of one.
struct eval_columns eval_tell_columns_of(const struct eval_quantize *z, uint64_t off, uint64_t len);
struct figures eval_tell_figures(const struct eval_quantize *z, const struct kernels_sums *sums);
// Tells of the box's columns, or keeps the sums of a piece of one for the next piece.
int eval_tell_columns(struct eval_task *t, const struct eval_block_box *h, struct err *err);
// Tells of chunks: of n codes from element `first` on; `in`: the elements, and codes and elements lie
// in order.
int eval_tell_codes(struct eval_task *t, const struct eval_block_box *h, uint64_t first, uint64_t n,
                    const uint8_t *in, const uint8_t *codes, struct err *err);
// The same of codes that may not be the next ones.
struct eval_open_chunks;
void eval_tell_stripe(struct eval_task *t, const struct eval_block_box *h,
                      struct eval_open_chunks *open, uint64_t first, uint64_t n, const uint8_t *in,
                      const uint8_t *codes);

#endif
