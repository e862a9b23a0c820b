// Inside quantization: what its files share.
#ifndef WEIR_EVAL_BLOCKS_H
#define WEIR_EVAL_BLOCKS_H

#include "eval_quantize.h"

#include <assert.h>

// What a box of quantized elements holds: everything of some columns or lines.
struct eval_block_box {
  struct eval_quantize z;
  uint64_t first, last; // columns (NBITS), lines (QDQ)
  uint64_t from, to;    // NBITS: blocks of them; QDQ without codes: inner positions; else: elements
  uint8_t *codes;       // NULL: only scales and zeros are held
  bool told;            // QDQ: error figures are told of codes as they are made
  void *pieces;  // QDQ: for the sums of a line that is made in stripes (eval_figures.h), or NULL
  float *scales; // as the kernels leave them: a column's (line's) together
  uint8_t *zeros;
  float *float_zeros;        // NBITS_HQQ: instead
  struct kernels_sums *sums; // of columns; NULL: nobody asks
  // NBITS, where sums are all that is wanted: of each of these, one after the other's columns.
  const struct eval_quantize *ways;
  uint32_t n_ways;
};

static inline struct eval_block_box *eval_block_box_of(struct eval_stripe_box *b) {
  static_assert(sizeof(struct eval_block_box) <= EVAL_BOX_STATE,
                "a box has room for what it holds");
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

// A panel of operand elements in memory, to be closed again (eval_panel.c).
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

// Elements of a QUANTIZE row of the NBITS formats, and of those that keep the operand's layout.
int eval_nbits_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                        uint64_t count, uint8_t *out, struct err *err);
int eval_qdq_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                      uint64_t count, uint8_t *out, struct err *err);

// First and last but one of what the caller will want of this box's recipe, in its elements from
// `at` on.
uint64_t eval_quantize_wanted_end(const struct eval_task *t, uint32_t id, uint64_t at);
// Tells the statistics of the run about a unit: `n` scales and zero points (NBITS_HQQ: floats),
// through scratch memory.
void eval_quantize_publish(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                           const float *scales, const uint8_t *zeros, size_t n, uint8_t fill,
                           const struct eval_room *room);
// The first unit in (unit, end) that the statistics have, or end: another worker found it out.
uint64_t eval_quantize_unknown_end(struct eval_task *t, const struct eval_quantize *z,
                                   uint64_t unit, uint64_t end);
// Scales or zeros [first, first + *n) as their part holds them, to the end of their unit at most (*n is
// then less), if the statistics have them.
bool eval_quantize_known(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t *n, uint8_t *out);

// The columns of codes whose first byte lies in [off, off + len).
struct eval_columns eval_nbits_columns(const struct eval_quantize *z, uint64_t off, uint64_t len);
int eval_nbits_end(struct eval_task *t, struct eval_stripe_box *b, struct err *err);

// n scales as the part holds them; n zero points of `bits` bits, low bits first, the unused bits of
// the last byte filled with copies of `fill`.
void eval_quantize_store_scales(enum dtype type, const float *scales, size_t n, uint8_t *out);
void eval_quantize_pack_zeros(const uint8_t *zeros, size_t n, uint32_t bits, uint8_t fill,
                              uint8_t *out);

#endif
