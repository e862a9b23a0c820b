// Ranges of panels, and codes of panels whose scales and zero points are given, with NEON: what
// blocks that do not fit a panel are made of.
//
//   ranges of rows      a column of W after the other, in lanes that are joined at its end
//   ranges of columns   row by row; every column's extremes have a lane of their own
//   codes of rows       a column of W after the other, in pieces (struct kernels_sums)
//   codes of columns    a strip of one piece is transposed into a tile, whose rows go the way of
//                       rows; its codes are transposed back:
//
//   in, piece × STRIP ──transpose──▶ tile, STRIP × piece ──rows──▶ sums, bytes ──transpose──▶ codes
//
// To the reference go: ends of rows and columns that fill no vector (ranges), columns whose scale
// takes double for its error figures, and a row of which zero is an extreme: lanes lose the order
// of zeros of both signs.
#include "kernels/blocks/blocks_neon.h"

#if defined(__aarch64__)
enum { VECTOR = 4, TURN = 16 };

// ---- ranges ------------------------------------------------------------------------------------

// Of n elements, a multiple of TURN.
NEON_INLINE void row_range(const uint8_t *at, size_t n, enum kernels_float type,
                           struct extremes x[TURN / VECTOR]) {
  const size_t width = width_of(type);
  for (size_t k = 0; k < n; k += TURN)
#pragma GCC unroll 4
    for (size_t i = 0; i < TURN / VECTOR; i++)
      extremes_join(&x[i], load_wide(at + (k + i * VECTOR) * width, type));
}

static void row_range_any(const struct blocks_run *run, float *lo, float *hi) {
  const size_t whole = run->n / TURN * TURN;
  const struct extremes begin = {vdupq_n_f32(*lo), vdupq_n_f32(*hi)};
  struct extremes x[TURN / VECTOR] = {begin, begin, begin, begin};
  BLOCKS_BY_TYPE(run->type, row_range(run->at, whole, TYPE, x));
  float los[TURN], his[TURN];
  for (size_t i = 0; i < TURN / VECTOR; i++) {
    vst1q_f32(los + i * VECTOR, x[i].lo);
    vst1q_f32(his + i * VECTOR, x[i].hi);
  }
  for (size_t i = 0; i < TURN; i++) {
    *lo = los[i] < *lo ? los[i] : *lo;
    *hi = his[i] > *hi ? his[i] : *hi;
  }
  struct blocks_run rest = {run->at + whole * run->step, run->step, run->n - whole, run->type};
  blocks_range(&rest, lo, hi);
}

void range_rows_neon(const struct kernels_panel *p, enum kernels_float type, float *lo, float *hi) {
  blocks_range_rows(p, type, lo, hi, row_range_any);
}

// Of n columns, a multiple of four, of one row.
NEON_INLINE void join_row(const uint8_t *at, size_t n, enum kernels_float type, float *lo,
                          float *hi) {
  for (size_t c = 0; c < n; c += VECTOR) {
    struct extremes x = {vld1q_f32(lo + c), vld1q_f32(hi + c)};
    extremes_join(&x, load_wide(at + c * width_of(type), type));
    vst1q_f32(lo + c, x.lo);
    vst1q_f32(hi + c, x.hi);
  }
}

void range_columns_neon(const struct kernels_panel *p, enum kernels_float type, float *lo,
                        float *hi) {
  const size_t whole = p->n / VECTOR * VECTOR;
  for (size_t k = 0; k < p->k; k++) {
    const uint8_t *at = blocks_column_run(p, type, 0, k, 1).at;
    BLOCKS_BY_TYPE(type, join_row(at, whole, TYPE, lo, hi));
  }
  for (size_t j = whole; j < p->n; j++) {
    struct blocks_run run = blocks_column_run(p, type, j, 0, p->k);
    blocks_range(&run, &lo[j], &hi[j]);
  }
}

// ---- codes of rows -----------------------------------------------------------------------------

// How codes become bytes, and sums, or NULL.
struct given_way {
  struct grid4 grid;
  uint8x16_t mask;
  struct sums4 *sums; // the two halves of the lanes
};

// Four elements, the low or the high half of the lanes.
NEON_INLINE uint16x4_t four(const uint8_t *in, enum kernels_float type, size_t half,
                            const struct given_way *w) {
  const float32x4_t v = load_wide(in, type);
  const int32x4_t code = codes4(v, &w->grid, false);
  if (w->sums) sums4_add(&w->sums[half], v, code, &w->grid);
  return vmovn_u32(vreinterpretq_u32_s32(code));
}

NEON_INLINE uint8x8_t eight(const uint8_t *in, enum kernels_float type, const struct given_way *w) {
  const uint16x4_t low = four(in, type, 0, w);
  const uint16x4_t high = four(in + VECTOR * width_of(type), type, 1, w);
  return vmovn_u16(vcombine_u16(low, high));
}

NEON_INLINE uint8x16_t sixteen(const uint8_t *in, enum kernels_float type,
                               const struct given_way *w) {
  const uint8x8_t low = eight(in, type, w);
  const uint8x8_t high = eight(in + 2 * VECTOR * width_of(type), type, w);
  return vandq_u8(vcombine_u8(low, high), w->mask);
}

// Codes of one piece; out NULL: not wanted.
NEON_INLINE void piece_codes(const struct blocks_run *run, enum kernels_float type,
                             const struct given_way *w, uint8_t *out) {
  const size_t width = width_of(type);
  const size_t whole = run->n / TURN * TURN, left = run->n - whole;
  for (size_t k = 0; k < whole; k += TURN) {
    const uint8x16_t codes = sixteen(run->at + k * width, type, w);
    if (out) vst1q_u8(out + k, codes);
  }
  if (!left) return;
  // Behind the last element are zeros: their code is the zero point, and they add nothing to sums.
  uint8_t last[TURN * sizeof(float)] = {0}, bytes[TURN];
  memcpy(last, run->at + whole * width, left * width);
  vst1q_u8(bytes, sixteen(last, type, w));
  if (out) memcpy(out + whole, bytes, left);
}

static void row_codes(const struct blocks_run *run, const struct blocks_grid *g,
                      const struct kernels_block_format *f, uint8_t *out,
                      struct kernels_sums *sums) {
  (void)f; // the grid has its limits
  const uint8x16_t mask = vdupq_n_u8((uint8_t)(g->most - g->least));
  for (size_t k = 0; k < run->n; k += BLOCKS_PIECE) {
    struct blocks_run piece = {run->at + k * run->step, run->step, run->n - k, run->type};
    if (piece.n > BLOCKS_PIECE) piece.n = BLOCKS_PIECE;
    struct sums4 s[2] = {0};
    uint8_t *to = out ? out + k : NULL;
    const struct given_way plain = {grid4_of(g), mask, NULL}, figures = {grid4_of(g), mask, s};
    if (sums)
      BLOCKS_BY_TYPE(run->type, piece_codes(&piece, TYPE, &figures, to));
    else
      BLOCKS_BY_TYPE(run->type, piece_codes(&piece, TYPE, &plain, to));
    if (sums) add_figures(sums, s, &piece);
  }
}

void codes_rows_neon(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_codes_rows(p, f, row_codes);
}

// ---- codes of columns --------------------------------------------------------------------------

void codes_columns_neon(const struct kernels_panel *p, const struct kernels_block_format *f) {
  const size_t wide = BLOCKS_LINE / blocks_width((enum kernels_float)f->in_type);
  for (size_t k = 0; k < p->k; k += BLOCKS_PIECE)
    for (size_t j = 0; j < p->n; j += wide)
      blocks_strip_neon(
          p, f,
          &(struct blocks_strip){.j = j,
                                 .n = p->n - j < wide ? p->n - j : wide,
                                 .k = k,
                                 .rows = p->k - k < BLOCKS_PIECE ? p->k - k : BLOCKS_PIECE,
                                 .by_rows = codes_rows_neon});
}
#endif
