// Inside blocks_*_neon.c: four elements at a time.
//
// Rounding half away from zero has an instruction here (FCVTA), which also cuts: NaN and what lies
// below become 0 where codes are unsigned and the zero point is added before (NBITS). Where it is
// added afterwards (QDQ), a quotient past int32 is INT_MIN by the reference, and NaN with it: those
// lanes are chosen by a comparison. Minimum and maximum are comparisons too: the instruction for
// numbers makes NaN of a signalling one.
#ifndef WEIR_BLOCKS_NEON_H
#define WEIR_BLOCKS_NEON_H

#include "kernels/blocks/blocks.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define NEON_INLINE static inline __attribute__((always_inline))

// blocks_columns_neon.c: columns j .. j + n, rows k .. k + rows, in block number `block` (of those
// whose scales the panel has), transposed into a tile, whose rows go to by_rows. At most a line of a
// cache of columns, and BLOCKS_PIECE rows.
enum { BLOCKS_LINE = 64 };
struct blocks_strip {
  size_t j, n, k, rows, block;
  void (*by_rows)(const struct kernels_panel *p, const struct kernels_block_format *f);
};
void blocks_strip_neon(const struct kernels_panel *p, const struct kernels_block_format *f,
                       const struct blocks_strip *s);

// blocks_width, where the compiler knows the type.
NEON_INLINE size_t width_of(enum kernels_float type) {
  return type == KERNELS_F32 ? 4 : 2;
}

NEON_INLINE float32x4_t load_wide(const uint8_t *at, enum kernels_float type) {
  if (type == KERNELS_F32) return vreinterpretq_f32_u8(vld1q_u8(at));
  uint16x4_t half = vreinterpret_u16_u8(vld1_u8(at));
  if (type == KERNELS_F16) return vcvt_f32_f16(vreinterpret_f16_u16(half));
  return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

struct extremes {
  float32x4_t lo, hi;
};

// Of equal ones the first stays in its lane.
NEON_INLINE void extremes_join(struct extremes *x, float32x4_t v) {
  x->lo = vbslq_f32(vcltq_f32(v, x->lo), v, x->lo);
  x->hi = vbslq_f32(vcgtq_f32(v, x->hi), v, x->hi);
}

struct grid4 {
  float32x4_t scale, reciprocal, zero_float;
  int32x4_t zero, least, most;
};

NEON_INLINE struct grid4 grid4_of(const struct blocks_grid *g) {
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
  return vminq_s32(vmaxq_s32(vaddq_s32(q, g->zero), g->least), g->most);
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

// ((0+4)+(2+6)) + ((1+5)+(3+7))
NEON_INLINE float reduced(float32x4_t low, float32x4_t high) {
  float32x4_t four_sums = vaddq_f32(low, high);
  float32x2_t two = vadd_f32(vget_low_f32(four_sums), vget_high_f32(four_sums));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// Those of one run, both halves of its lanes.
NEON_INLINE void add_figures(struct kernels_sums *sums, const struct sums4 *s,
                             const struct blocks_run *run) {
  float vv = reduced(s[0].vv, s[1].vv);
  sums->vv += (double)vv;
  sums->ee += (double)reduced(s[0].ee, s[1].ee);
  sums->ve += (double)reduced(s[0].ve, s[1].ve);
  blocks_plain_sums(sums, vmaxvq_u32(vmaxq_u32(s[0].largest, s[1].largest)));
  if (!isfinite(vv)) blocks_count_nonfinite(sums, run);
}
#endif
#endif
