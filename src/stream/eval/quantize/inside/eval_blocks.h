// Inside quantization: rows whose formats have blocks.
#ifndef WEIR_EVAL_BLOCKS_H
#define WEIR_EVAL_BLOCKS_H

#include "eval_quantize.h"

// Elements of a QUANTIZE row whose format has blocks, and the figures of columns that were not read.
int eval_blocks_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                         uint64_t count, uint8_t *out, struct err *err);
int eval_blocks_end(struct eval_task *t, struct eval_stripe_box *b, struct err *err);

#endif
