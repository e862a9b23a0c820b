// Blockwise quantization along rows with NEON: elements of a block are contiguous. One block at a
// time:
//
//   range, widened to float32 into a tile ──▶ grid (blocks_grid_of) ──▶ codes, a byte each, sums ──▶ packed
//
// Rounding half away from zero has an instruction here (FCVTA), which also cuts: NaN and what lies
// below become 0 where codes are unsigned and the zero point is added before (NBITS). Where it is
// added afterwards (QDQ), a quotient past int32 is INT_MIN by the reference, and NaN with it: those
// lanes are chosen by a comparison. Minimum and maximum are comparisons too: the instruction for
// numbers makes NaN of a signalling one.
//
// To the reference go: blocks of nothing but zeros (lanes lose the order of their signs), blocks
// whose error figures take double, blocks that are not of 16 elements or a multiple, and the short
// last one.
#include "blocks.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <float.h>
#include <math.h>

#define NEON_INLINE static inline __attribute__((always_inline))

enum { BLOCK_MAX = BLOCKS_NBITS_MAX };

NEON_INLINE float32x4_t load_wide(const uint8_t *at, enum kernels_float type) {
  if (type == KERNELS_F32) return vreinterpretq_f32_u8(vld1q_u8(at));
  uint16x4_t half = vreinterpret_u16_u8(vld1_u8(at));
  if (type == KERNELS_F16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
  return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

// ---- range -------------------------------------------------------------------------------------

struct extremes {
  float32x4_t lo, hi;
};

NEON_INLINE void widen_into(float *tile, const uint8_t *at, size_t n, enum kernels_float type,
                            struct extremes *x) {
  for (size_t k = 0; k < n; k += 4) {
    float32x4_t v = load_wide(at + k * (type == KERNELS_F32 ? 4 : 2), type);
    vst1q_f32(tile + k, v);
    x->lo = vbslq_f32(vcltq_f32(v, x->lo), v, x->lo);
    x->hi = vbslq_f32(vcgtq_f32(v, x->hi), v, x->hi);
  }
}

static void widen(float *tile, const struct blocks_run *run, float *lo, float *hi) {
  struct extremes x = {vdupq_n_f32(FLT_MAX), vdupq_n_f32(-FLT_MAX)};
  if (run->type == KERNELS_F32)
    widen_into(tile, run->at, run->n, KERNELS_F32, &x);
  else if (run->type == KERNELS_F16)
    widen_into(tile, run->at, run->n, KERNELS_F16, &x);
  else
    widen_into(tile, run->at, run->n, KERNELS_BF16, &x);
  *lo = vminvq_f32(x.lo); // no NaN among them
  *hi = vmaxvq_f32(x.hi);
}

// ---- codes -------------------------------------------------------------------------------------

struct grid4 {
  float32x4_t scale, reciprocal, zero_float;
  int32x4_t zero, least, most;
};

static struct grid4 grid4_of(const struct blocks_grid *g) {
  return (struct grid4){vdupq_n_f32(g->scale),       vdupq_n_f32(g->reciprocal),
                        vdupq_n_f32((float)g->zero), vdupq_n_s32(g->zero),
                        vdupq_n_s32(g->least),       vdupq_n_s32(g->most)};
}

NEON_INLINE int32x4_t codes4(float32x4_t v, const struct grid4 *g, bool zero_first) {
  float32x4_t x = vmulq_f32(v, g->reciprocal);
  if (zero_first) {
    uint32x4_t q = vcvtaq_u32_f32(vaddq_f32(x, g->zero_float));
    return vreinterpretq_s32_u32(vminq_u32(q, vreinterpretq_u32_s32(g->most)));
  }
  uint32x4_t fits = vcaltq_f32(x, vdupq_n_f32(0x1p31f));
  int32x4_t q = vbslq_s32(fits, vcvtaq_s32_f32(x), vdupq_n_s32(INT32_MIN));
  return vminq_s32(vmaxq_s32(vqaddq_s32(q, g->zero), g->least), g->most);
}

// Error figures in four of the eight lanes of struct kernels_sums.
struct sums4 {
  float32x4_t vv, ee, ve;
  uint32x4_t largest; // bits of |e|
};

NEON_INLINE void sums4_add(struct sums4 *s, float32x4_t v, int32x4_t code, const struct grid4 *g) {
  float32x4_t steps = vcvtq_f32_s32(vsubq_s32(code, g->zero));
  float32x4_t e = vsubq_f32(v, vmulq_f32(steps, g->scale));
  s->vv = vaddq_f32(s->vv, vmulq_f32(v, v));
  s->ee = vaddq_f32(s->ee, vmulq_f32(e, e));
  s->ve = vaddq_f32(s->ve, vmulq_f32(v, e));
  uint32x4_t size = vandq_u32(vreinterpretq_u32_f32(e), vdupq_n_u32(INT32_MAX));
  s->largest = vmaxq_u32(s->largest, size);
}

// Four codes, whose lanes are those of s.
NEON_INLINE uint16x4_t four(const float *v, const struct grid4 *g, bool zero_first,
                            struct sums4 *s) {
  float32x4_t x = vld1q_f32(v);
  int32x4_t code = codes4(x, g, zero_first);
  if (s) sums4_add(s, x, code, g);
  return vmovn_u32(vreinterpretq_u32_s32(code));
}

// n elements, a multiple of 16, to bytes; mask: the bits of a code. s: the two halves of the lanes,
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

// ((0+4)+(2+6)) + ((1+5)+(3+7))
static float reduced(float32x4_t low, float32x4_t high) {
  float32x4_t four_sums = vaddq_f32(low, high);
  float32x2_t two = vadd_f32(vget_low_f32(four_sums), vget_high_f32(four_sums));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static void add_figures(struct kernels_sums *sums, const struct sums4 *s,
                        const struct blocks_run *run) {
  float vv = reduced(s[0].vv, s[1].vv);
  sums->vv += (double)vv;
  sums->ee += (double)reduced(s[0].ee, s[1].ee);
  sums->ve += (double)reduced(s[0].ve, s[1].ve);
  blocks_plain_sums(sums, vmaxvq_u32(vmaxq_u32(s[0].largest, s[1].largest)));
  if (!isfinite(vv)) blocks_count_nonfinite(sums, run);
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

void blocks_rows_neon(const struct kernels_panel *p, const struct kernels_block_format *f) {
  if (f->block % 16 || f->block > BLOCK_MAX) {
    blocks_rows_portable(p, f);
    return;
  }
  size_t left = p->k % f->block, whole = p->k - left;
  for (size_t j = 0; j < p->n; j++) {
    for (size_t k = 0; k < whole; k += f->block)
      whole_block(p, f, j, k);
    if (!left) continue;
    struct blocks_run run = blocks_row_run(p, f->in_type, j, whole, left);
    blocks_block(&run, p, f, j, whole, false);
  }
}
#endif
