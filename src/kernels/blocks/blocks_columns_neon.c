// Blockwise quantization along columns with NEON: a strip of one block and up to STRIP columns is
// transposed into a tile, whose rows blocks_rows_neon takes; QDQ codes, which lie as the elements
// do, are transposed back.
//
//   in, block × STRIP ──transpose──▶ tile, STRIP × block ──rows──▶ scales, zeros, sums, packed codes
//                                                            └──▶ bytes ──transpose──▶ codes (QDQ)
//
// Blocks that rows leave to the reference go there at once, and so does the short last block.
#include "blocks.h"

#if defined(__aarch64__)
enum { STRIP = 16, BLOCK_MAX = BLOCKS_NBITS_MAX };

// Columns j..j+n-1, the block that begins at row k.
static void strip(const struct kernels_panel *p, const struct kernels_block_format *f, size_t j,
                  size_t k, size_t n) {
  _Alignas(16) uint8_t tile[STRIP * BLOCK_MAX * sizeof(float)];
  _Alignas(16) uint8_t bytes[STRIP * BLOCK_MAX];
  const size_t at = j * p->blocks_stride + k / f->block;
  const struct blocks_run run = blocks_column_run(p, f->in_type, j, k, f->block);
  const bool in_place = f->rule == KERNELS_QDQ;
  uint8_t *out = blocks_code_at(p, f, j, k, true);
  transpose_neon(tile, run.at,
                 &(struct transpose_shape){f->block, p->in_stride, f->block, n,
                                           (unsigned)blocks_width(run.type)});
  struct kernels_panel rows = *p;
  rows.in = tile;
  rows.in_stride = rows.k = f->block;
  rows.n = n;
  rows.codes = out && in_place ? bytes : out;
  if (in_place) rows.codes_stride = f->block;
  if (p->scales) rows.scales = p->scales + at;
  if (p->zeros) rows.zeros = p->zeros + at;
  if (p->sums) rows.sums = p->sums + j;
  blocks_rows_neon(&rows, f);
  if (out && in_place)
    transpose_neon(out, bytes,
                   &(struct transpose_shape){p->codes_stride, f->block, n, f->block, 1});
}

void blocks_columns_neon(const struct kernels_panel *p, const struct kernels_block_format *f) {
  if (f->block % 16 || f->block > BLOCK_MAX) {
    blocks_columns_portable(p, f);
    return;
  }
  const size_t left = p->k % f->block, whole = p->k - left;
  for (size_t k = 0; k < whole; k += f->block)
    for (size_t j = 0; j < p->n; j += STRIP)
      strip(p, f, j, k, p->n - j < STRIP ? p->n - j : STRIP);
  for (size_t j = 0; left && j < p->n; j++) {
    struct blocks_run run = blocks_column_run(p, f->in_type, j, whole, left);
    blocks_block(&run, p, f, j, whole, true);
  }
}
#endif
