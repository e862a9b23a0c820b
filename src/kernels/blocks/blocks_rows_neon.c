// Blockwise quantization along rows with NEON: elements of a block are contiguous. One block at a
// time:
//
//   range, widened to float32 into a tile ──▶ grid (blocks_grid_of) ──▶ codes, a byte each, sums ──▶ packed
//
// To the reference go: blocks of nothing but zeros (lanes lose the order of their signs), blocks
// whose error figures take double, blocks that are not of 16 elements or a multiple, and the short
// last one.
#include "kernels/blocks/blocks_neon.h"

#if defined(__aarch64__)
enum { BLOCK_MAX = BLOCKS_NBITS_MAX };

// ---- range -------------------------------------------------------------------------------------

NEON_INLINE void widen_into(float *tile, const uint8_t *at, size_t n, enum kernels_float type,
                            struct extremes *x) {
  for (size_t k = 0; k < n; k += 4) {
    float32x4_t v = load_wide(at + k * width_of(type), type);
    vst1q_f32(tile + k, v);
    extremes_join(x, v);
  }
}

static void widen(float *tile, const struct blocks_run *run, float *lo, float *hi) {
  struct extremes x = {vdupq_n_f32(FLT_MAX), vdupq_n_f32(-FLT_MAX)};
  BLOCKS_BY_TYPE(run->type, widen_into(tile, run->at, run->n, TYPE, &x));
  *lo = vminvq_f32(x.lo); // no NaN among them
  *hi = vmaxvq_f32(x.hi);
}

// ---- codes -------------------------------------------------------------------------------------

// Four codes, whose lanes are those of s.
NEON_INLINE uint16x4_t four(const float *v, const struct grid4 *g, bool zero_first,
                            struct sums4 *s) {
  float32x4_t x = vld1q_f32(v);
  int32x4_t code = codes4(x, g, zero_first);
  if (s) sums4_add(s, x, code, g);
  return vmovn_u32(vreinterpretq_u32_s32(code));
}

// n elements, a multiple of 16, to bytes; mask: the bits per weight. s: the two halves of the lanes,
// or NULL.
NEON_INLINE void codes_of(uint8_t *out, const float *v, size_t n, const struct grid4 *g,
                          uint8x16_t mask, bool zero_first, struct sums4 *s) {
  struct sums4 *low = s, *high = s ? s + 1 : NULL;
  for (size_t k = 0; k < n; k += 16) {
    uint16x8_t a =
        vcombine_u16(four(v + k, g, zero_first, low), four(v + k + 4, g, zero_first, high));
    uint16x8_t b =
        vcombine_u16(four(v + k + 8, g, zero_first, low), four(v + k + 12, g, zero_first, high));
    vst1q_u8(out + k, vandq_u8(vcombine_u8(vmovn_u16(a), vmovn_u16(b)), mask));
  }
}

// ---- a block -----------------------------------------------------------------------------------

// Codes, a byte each, to `bits` bits.
static void pack(uint8_t *out, const uint8_t *codes, const struct kernels_block_format *f) {
  if (f->bits == 2 && f->block % 32) {
    blocks_pack(out, codes, f->block, f, true);
    return;
  }
  for (size_t k = 0; f->bits == 4 && k < f->block; k += 16) {
    uint8x8x2_t x = vld2_u8(codes + k);
    vst1_u8(out + k / 2, vorr_u8(x.val[0], vshl_n_u8(x.val[1], 4)));
  }
  for (size_t k = 0; f->bits == 2 && k < f->block; k += 32) {
    uint8x8x4_t x = vld4_u8(codes + k);
    uint8x8_t low = vorr_u8(x.val[0], vshl_n_u8(x.val[1], 2));
    uint8x8_t high = vorr_u8(vshl_n_u8(x.val[2], 4), vshl_n_u8(x.val[3], 6));
    vst1_u8(out + k / 4, vorr_u8(low, high));
  }
}

static void block_codes(uint8_t *out, const float *tile, const struct blocks_run *run,
                        const struct blocks_grid *g, struct kernels_sums *sums) {
  const struct grid4 grid = grid4_of(g);
  const uint8x16_t mask = vdupq_n_u8((uint8_t)(g->most - g->least));
  struct sums4 s[2] = {0};
  if (g->zero_first && sums)
    codes_of(out, tile, run->n, &grid, mask, true, s);
  else if (g->zero_first)
    codes_of(out, tile, run->n, &grid, mask, true, NULL);
  else if (sums)
    codes_of(out, tile, run->n, &grid, mask, false, s);
  else
    codes_of(out, tile, run->n, &grid, mask, false, NULL);
  if (sums) add_figures(sums, s, run);
}

static void whole_block(const struct kernels_panel *p, const struct kernels_block_format *f,
                        size_t j, size_t k) {
  float tile[BLOCK_MAX], lo, hi;
  uint8_t bytes[BLOCK_MAX];
  struct blocks_run run = blocks_row_run(p, f->in_type, j, k, f->block);
  widen(tile, &run, &lo, &hi);
  struct blocks_grid g = blocks_grid_of(f, lo, hi);
  if ((lo == 0 && hi == 0) || (p->sums && !blocks_narrow(g.scale))) {
    blocks_block(&run, p, f, j, k, false);
    return;
  }
  size_t at = j * p->blocks_stride + k / f->block;
  if (p->scales) p->scales[at] = g.scale;
  if (p->zeros) p->zeros[at] = (uint8_t)g.zero;
  uint8_t *out = blocks_code_at(p, f, j, k, false);
  bool in_place = out && (f->rule == KERNELS_QDQ || f->bits == 8);
  if (!out && !p->sums) return;
  block_codes(in_place ? out : bytes, tile, &run, &g, p->sums ? &p->sums[j] : NULL);
  if (out && !in_place) pack(out, bytes, f);
}

static void whole_blocks(const struct kernels_panel *p, const struct kernels_block_format *f,
                         size_t j) {
  for (size_t k = 0; k + f->block <= p->k; k += f->block)
    whole_block(p, f, j, k);
}

void blocks_rows_neon(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_rows_by(p, f, whole_blocks);
}
#endif
