// Blockwise quantization along columns with NEON: a strip of one block and up to STRIP columns is
// transposed into a tile, whose rows blocks_rows_neon takes; QDQ codes, which lie as the elements
// do, are transposed back.
//
//   in, block × STRIP ──transpose──▶ tile, STRIP × block ──rows──▶ scales, zeros, sums, packed codes
//                                                            └──▶ bytes ──transpose──▶ codes (QDQ)
//
// Blocks that rows leave to the reference go there at once, and so does the short last block.
#include "kernels/blocks/blocks_neon.h"

#if defined(__aarch64__)
#define SHORT_TARGET
#define SHORT_BYTES 16
#define SHORT_ISA(name) name##_neon
#include "kernels/blocks/inside/blocks_short.h"

enum { STRIP = 16, BLOCK_MAX = BLOCKS_NBITS_MAX };

void blocks_strip_neon(const struct kernels_panel *p, const struct kernels_block_format *f,
                       const struct blocks_strip *s) {
  _Alignas(BLOCKS_LINE) uint8_t tile[BLOCKS_LINE * BLOCK_MAX];
  _Alignas(BLOCKS_LINE) uint8_t bytes[BLOCKS_LINE / 2 * BLOCK_MAX];
  const size_t j = s->j, k = s->k, n = s->n, at = j * p->blocks_stride + s->block;
  const struct blocks_run run = blocks_column_run(p, f->in_type, j, k, s->rows);
  const bool in_place = f->rule == KERNELS_QDQ;
  uint8_t *out = blocks_code_at(p, f, j, k, true);
  transpose_neon(tile, run.at,
                 &(struct transpose_shape){s->rows, p->in_stride, s->rows, n,
                                           (unsigned)blocks_width(run.type)});
  struct kernels_panel rows = *p;
  rows.in = tile;
  rows.in_stride = rows.k = s->rows;
  rows.n = n;
  rows.codes = out && in_place ? bytes : out;
  if (in_place) rows.codes_stride = s->rows;
  if (p->scales) rows.scales = p->scales + at;
  if (p->zeros) rows.zeros = p->zeros + at;
  if (p->sums) rows.sums = p->sums + j;
  s->by_rows(&rows, f);
  if (out && in_place)
    transpose_neon(out, bytes, &(struct transpose_shape){p->codes_stride, s->rows, n, s->rows, 1});
}

void blocks_columns_neon(const struct kernels_panel *p, const struct kernels_block_format *f) {
  if (f->block % 16 || f->block > BLOCK_MAX) {
    blocks_columns_portable(p, f);
    return;
  }
  const size_t left = p->k % f->block, whole = p->k - left;
  for (size_t k = 0; k < whole; k += f->block)
    for (size_t j = 0; j < p->n; j += STRIP)
      blocks_strip_neon(p, f,
                        &(struct blocks_strip){.j = j,
                                               .n = p->n - j < STRIP ? p->n - j : STRIP,
                                               .k = k,
                                               .rows = f->block,
                                               .block = k / f->block,
                                               .by_rows = blocks_rows_neon});
  if (left && f->rule == KERNELS_NBITS)
    short_columns(p, f, whole);
  else
    blocks_columns_rest(p, f, 0, p->n, whole, left);
}
#endif
