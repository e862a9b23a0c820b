// Inside quantization: what its files share.
#ifndef WEIR_EVAL_BLOCKS_H
#define WEIR_EVAL_BLOCKS_H

#include "eval_quantize.h"

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
  static_assert(sizeof(struct eval_block_box) <= EVAL_BOX_STATE,
                "a box has room for its items");
  return (struct eval_block_box *)(void *)b->state;
}

// The memory of a box, shared out.
struct eval_room {
  uint8_t *tile; // for elements of the operand; at least EVAL_SCRATCH_BYTES
  size_t tile_bytes;
  uint8_t *rest;
  size_t rest_bytes;
};
struct eval_room eval_quantize_room(struct eval *ev, struct eval_stripe_box *b);

// ---- layouts (eval_layout.c) -------------------------------------------------------------------

static inline bool eval_has_float_zeros(const struct eval_quantize *z) {
  return z->f.rule == KERNELS_HQQ;
}

// Sets packs, by_column, units, cells and group.
void eval_layout_of(struct eval_quantize *z);
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

// ---- panels (eval_panel.c) ---------------------------------------------------------------------

// A panel of operand elements in memory, to be closed again.
struct eval_panel {
  const uint8_t *at;
  struct io_view view;
  bool viewed;
};
// Lines of n elements, `step` elements apart: they lie one behind the other where n is step.
struct eval_stretch {
  uint64_t first, step;
  size_t rows, n;
};
// Elements that a panel can hold where lines lie one behind the other, mapped if they are source
// bytes; of others: what the tile holds.
size_t eval_panel_most(const struct eval *ev, const struct eval_quantize *z,
                       const struct eval_room *room);
// At most as many, dense.
int eval_panel_open(struct eval_task *t, const struct eval_quantize *z,
                    const struct eval_room *room, const struct eval_stretch *s,
                    struct eval_panel *p, struct err *err);
// Closes it whether what was done with it `failed` or not, and says which.
int eval_panel_close(struct eval_task *t, struct eval_panel *p, int failed, struct err *err);

// ---- blocks (eval_blocks.c) --------------------------------------------------------------------

// Elements of a QUANTIZE row whose format has blocks, and the figures of columns that were not read.
int eval_blocks_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                         uint64_t count, uint8_t *out, struct err *err);
int eval_blocks_end(struct eval_task *t, struct eval_stripe_box *b, struct err *err);

// ---- with statistics (eval_whole.c, eval_factor.c) ---------------------------------------------

// Memory of a box that a column takes besides; 0 of formats that look at the weights alone.
uint64_t eval_whole_column_bytes(const struct eval_quantize *z);
// The error where no column fits; -1.
int eval_whole_refuse(const struct eval_quantize *z, uint64_t room, uint64_t column,
                      struct err *err);
// Codes, scales, zero points and sums of a box's columns.
int eval_whole_fill(struct eval_task *t, struct eval_block_box *h, const struct eval_room *room,
                    struct err *err);

// Memory for tiles, for as long as columns are quantized.
struct eval_factor {
  uint64_t k;
  uint32_t gram;
  struct eval_cache_key key;
  double *tile;     // GRAM_SIDE * GRAM_SIDE
  uint8_t *scratch; // KERNELS_PRODUCTS_SCRATCH
  double *all;      // all tiles, where no cache keeps them; or NULL
};
int eval_factor_open(struct eval_factor *f, const struct eval_quantize *z, struct err *err);
void eval_factor_close(struct eval_factor *f);
// Tile (r, c), c <= r, of the lower triangular M with H = MᵀM into f->tile, rows of gram_side(k, c) elements. H: the
// second moments, dampened. A value that was never other than 0 has a diagonal element below 0.
int eval_factor_tile(struct eval_task *t, struct eval_factor *f, uint64_t r, uint64_t c,
                     struct err *err);

// ---- figures (eval_tell.c) ---------------------------------------------------------------------

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

// ---- what is wanted, what is known (eval_quantize.c) -------------------------------------------

// First and last but one of what the caller will want of this box's recipe, in its elements from
// `at` on.
uint64_t eval_quantize_wanted_end(const struct eval_task *t, uint32_t id, uint64_t at);
// Tells the statistics of the run about n units: their scales and zero points (NBITS_HQQ: floats),
// through scratch memory.
void eval_quantize_publish(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                           uint64_t n, const float *scales, const uint8_t *zeros,
                           const struct eval_room *room);
// Is a unit kept by the statistics, when it is published? And all of it, if they have it.
bool eval_quantize_publishes(const struct eval_quantize *z, const struct eval_room *room);
bool eval_quantize_look(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                        float *scales, uint8_t *zeros, const struct eval_room *room);
// The first unit in (unit, end) that the statistics have, or end: another worker found it out.
uint64_t eval_quantize_unknown_end(struct eval_task *t, const struct eval_quantize *z,
                                   uint64_t unit, uint64_t end);
// Scales or zeros [first, first + *n) as their part holds them, as far as the statistics have them (*n is
// then less): of units that are short many at a time, of others to the end of one at most. False: not
// even the first.
bool eval_quantize_known(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t *n, uint8_t *out);

// n scales as the part holds them; n zero points of `bits` bits, low bits first, the unused bits of
// the last byte filled with copies of the code in the middle (NBITS), or 0.
void eval_quantize_store_scales(enum dtype type, const float *scales, size_t n, uint8_t *out);
void eval_quantize_pack_zeros(const struct eval_quantize *z, const uint8_t *zeros, size_t n,
                              uint8_t *out);

#endif
