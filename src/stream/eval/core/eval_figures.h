// Inside the evaluator: error figures by chunks of elements (eval.h says what is told).
#ifndef WEIR_EVAL_FIGURES_H
#define WEIR_EVAL_FIGURES_H

#include "stream/eval/core/eval_parts.h"

enum { EVAL_PAIRS = 512 }; // pairs that are brought into form at once

// Are this recipe's elements told of, in this range or in another one's?
bool eval_figures_watches(const struct eval_task *t, uint32_t id);
// The end of the piece that element `at` is in. Where codes are made column by column (eval_linear.c) a chunk's
// sums are those of its pieces, which end with every EVAL_PIECE elements of a line, with the line, and with the chunk.
uint64_t eval_figures_piece_end(uint64_t line, uint64_t at);
// Is the next element that is to be told of among these elements of recipe `id`?
bool eval_figures_wants(const struct eval_task *t, uint32_t id, uint64_t first, uint64_t n);
// Elements [first, first + n) and what they are stored as, after eval_figures_wants of the same.
// ERR_MODEL if one that is quantized is not finite.
int eval_figures_add(struct eval_task *t, uint64_t first, const double *v, const double *w,
                     size_t n, struct err *err);
// The same of floats and their codes. False if one of them is not finite: what is wanted from there
// on is left to eval_figures_add.
bool eval_figures_add_codes(struct eval_task *t, uint64_t first, const float *v,
                            const uint8_t *codes, size_t n, const struct kernels_stored *stored);
bool eval_figures_add_scaled(struct eval_task *t, uint64_t first, const float *v,
                             const uint8_t *codes, size_t n, const struct kernels_scaled *scaled);
// What lanes that began with a piece have at its end; and such a piece, the next one that is to be told of.
void eval_figures_end_piece(const struct kernels_lanes *lanes, struct eval_piece *piece);
void eval_figures_add_piece(struct eval_task *t, const struct eval_piece *piece);
// Chunks that lie open side by side, in memory of the caller's: for elements that come in order within
// each row, but not row by row.
struct eval_open_chunk {
  struct eval_sums sums;
  uint32_t have; // elements of the chunk
};
struct eval_open_chunks {
  struct eval_open_chunk *at;
  uint64_t first, n; // chunks; n 0: none of them is wanted
};
// Bytes of memory for so many elements that lie one behind the other.
size_t eval_open_chunks_bytes(uint64_t elements);
// Opens those chunks of elements [first, first + n) that are wanted next.
void eval_open_chunks_begin(const struct eval_task *t, struct eval_open_chunks *p, uint64_t first,
                            uint64_t n, void *memory);
// As eval_figures_add_scaled, of any elements with scales of their own: those that are not the next
// ones of their chunk are passed over, and so are all from one on that is not finite.
void eval_open_chunks_add(const struct eval_task *t, struct eval_open_chunks *p, uint64_t first,
                          const float *v, const uint8_t *codes, size_t n,
                          const struct kernels_scaled *scaled);
// Tells of chunks from the next one on that are complete. Where one is not, the element that is wanted
// next (t->chunks.next) is the first that did not come in time; when the rest of its chunk was given
// to eval_figures_add, more can be settled.
void eval_open_chunks_settle(struct eval_task *t, const struct eval_open_chunks *p);
// n <= EVAL_PAIRS elements of float32, float16 or bfloat16 as floats, from any address.
void eval_figures_floats(enum dtype type, const void *in, size_t n, float *out);
// n <= EVAL_PAIRS elements of a float type as doubles, from any address.
void eval_figures_widen(enum dtype type, const void *in, size_t n, double *out);
#endif
