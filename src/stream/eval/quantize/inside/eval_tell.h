// Inside quantization: error figures of what a box holds.
#ifndef WEIR_EVAL_TELL_H
#define WEIR_EVAL_TELL_H

#include "eval_layout.h"

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
