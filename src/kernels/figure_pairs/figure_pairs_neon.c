// Error figures of pairs with NEON: eight lanes are four vectors of doubles. What comes before the
// first whole turn of the lanes and behind the last one goes through the portable code.
//
// Nothing is fused, so that every lane gets the bytes of the portable reference.
//
// That a pair is not finite shows in the sums: e * e is then no number either. Sums can get there
// with pairs that are finite, too, so it is left to the portable code to find out which it was. So
// the maximum need not pass over NaN, as the portable comparison does and the instruction does not.
#include "figure_pairs.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>

#define NEON_INLINE static inline __attribute__((always_inline))

enum { VECTORS = 4, STEP = KERNELS_LANES / VECTORS };

struct quarter {
  float64x2_t vv, ee, ve, most;
};

NEON_INLINE struct quarter load(const struct kernels_lanes *s, size_t lane) {
  return (struct quarter){vld1q_f64(s->vv + lane), vld1q_f64(s->ee + lane), vld1q_f64(s->ve + lane),
                          vld1q_f64(s->max_error + lane)};
}

NEON_INLINE void store(struct kernels_lanes *s, size_t lane, const struct quarter *q) {
  vst1q_f64(s->vv + lane, q->vv);
  vst1q_f64(s->ee + lane, q->ee);
  vst1q_f64(s->ve + lane, q->ve);
  vst1q_f64(s->max_error + lane, q->most);
}

NEON_INLINE void add(struct quarter *q, float64x2_t v, float64x2_t w) {
  const float64x2_t e = vsubq_f64(v, w), size = vabsq_f64(e);
  q->vv = vaddq_f64(q->vv, vmulq_f64(v, v));
  q->ee = vaddq_f64(q->ee, vmulq_f64(e, e));
  q->ve = vaddq_f64(q->ve, vmulq_f64(v, e));
  q->most = vmaxq_f64(size, q->most);
}

NEON_INLINE void load_all(struct quarter q[VECTORS], const struct kernels_lanes *s) {
#pragma GCC unroll 4
  for (size_t k = 0; k < VECTORS; k++)
    q[k] = load(s, k * STEP);
}

// False if sums are not finite.
NEON_INLINE bool store_all(struct kernels_lanes *s, const struct quarter q[VECTORS]) {
  uint64x2_t finite = vdupq_n_u64(UINT64_MAX);
#pragma GCC unroll 4
  for (size_t k = 0; k < VECTORS; k++) {
    store(s, k * STEP, &q[k]);
    finite = vandq_u64(finite, vcaltq_f64(q[k].ee, vdupq_n_f64((double)INFINITY)));
  }
  return vgetq_lane_u64(finite, 0) && vgetq_lane_u64(finite, 1);
}

static bool turns(struct kernels_lanes *s, const double *v, const double *w, size_t n) {
  struct quarter q[VECTORS];
  load_all(q, s);
  for (size_t i = 0; i < n; i += KERNELS_LANES)
#pragma GCC unroll 4
    for (size_t k = 0; k < VECTORS; k++)
      add(&q[k], vld1q_f64(v + i + k * STEP), vld1q_f64(w + i + k * STEP));
  return store_all(s, q);
}

bool figure_pairs_neon(struct kernels_lanes *sums, size_t first, const double *v, const double *w,
                       size_t n) {
  struct kernels_lanes s = *sums;
  const struct figure_pairs_cut c = figure_pairs_cut(first, n);
  if (!figure_pairs_portable(&s, first, v, w, c.head)) return false;
  if (!turns(&s, v + c.head, w + c.head, c.whole))
    return figure_pairs_portable(sums, first, v, w, n);
  if (!figure_pairs_portable(&s, first + c.behind, v + c.behind, w + c.behind, n - c.behind))
    return false;
  *sums = s;
  return true;
}

// ---- codes -------------------------------------------------------------------------------------

struct grid {
  float64x2_t scale, zero;
};

NEON_INLINE float64x2_t value_of(float64x2_t code, bool is_unsigned, const struct grid *g) {
  return is_unsigned ? vmulq_f64(vsubq_f64(code, g->zero), g->scale)
                     : vaddq_f64(vmulq_f64(code, g->scale), g->zero);
}

// Four pairs, in two vectors of the lanes. Codes are whole numbers that a float holds.
NEON_INLINE void add_four(struct quarter q[2], float32x4_t v, float32x4_t code, bool is_unsigned,
                          const struct grid *g) {
  const float64x2_t low = vcvt_f64_f32(vget_low_f32(code)), high = vcvt_high_f64_f32(code);
  add(&q[0], vcvt_f64_f32(vget_low_f32(v)), value_of(low, is_unsigned, g));
  add(&q[1], vcvt_high_f64_f32(v), value_of(high, is_unsigned, g));
}

NEON_INLINE bool turns_of_codes(struct kernels_lanes *s, const float *v, const uint8_t *codes,
                                size_t n, bool is_unsigned, const struct grid *g) {
  struct quarter q[VECTORS];
  load_all(q, s);
  for (size_t i = 0; i < n; i += KERNELS_LANES) {
    const uint8x8_t eight = vld1_u8(codes + i);
    const int16x8_t code =
        is_unsigned ? vreinterpretq_s16_u16(vmovl_u8(eight)) : vmovl_s8(vreinterpret_s8_u8(eight));
    const int32x4_t low = vmovl_s16(vget_low_s16(code)), high = vmovl_high_s16(code);
    add_four(q, vld1q_f32(v + i), vcvtq_f32_s32(low), is_unsigned, g);
    add_four(q + 2, vld1q_f32(v + i + 4), vcvtq_f32_s32(high), is_unsigned, g);
  }
  return store_all(s, q);
}

bool figure_pairs_codes_neon(struct kernels_lanes *sums, size_t first, const float *v,
                             const uint8_t *codes, size_t n, const struct kernels_stored *m) {
  const struct grid g = {vdupq_n_f64(m->scale), vdupq_n_f64(m->zero)};
  struct kernels_lanes s = *sums;
  const struct figure_pairs_cut c = figure_pairs_cut(first, n);
  if (!figure_pairs_codes_portable(&s, first, v, codes, c.head, m)) return false;
  if (!(m->is_unsigned ? turns_of_codes(&s, v + c.head, codes + c.head, c.whole, true, &g)
                       : turns_of_codes(&s, v + c.head, codes + c.head, c.whole, false, &g)))
    return figure_pairs_codes_portable(sums, first, v, codes, n, m);
  if (!figure_pairs_codes_portable(&s, first + c.behind, v + c.behind, codes + c.behind,
                                   n - c.behind, m))
    return false;
  *sums = s;
  return true;
}

// ---- codes with scales of their own ------------------------------------------------------------

// Four pairs, in two vectors of the lanes, codes less their zero points.
NEON_INLINE void add_four_scaled(struct quarter q[2], float32x4_t v, int16x4_t code,
                                 float32x4_t scale) {
  const float32x4_t x = vcvtq_f32_s32(vmovl_s16(code));
  add(&q[0], vcvt_f64_f32(vget_low_f32(v)),
      vmulq_f64(vcvt_f64_f32(vget_low_f32(x)), vcvt_f64_f32(vget_low_f32(scale))));
  add(&q[1], vcvt_high_f64_f32(v), vmulq_f64(vcvt_high_f64_f32(x), vcvt_high_f64_f32(scale)));
}

// Codes as signed numbers: the sign bit is flipped, and taken away again with the zero point.
NEON_INLINE void add_eight(struct quarter q[VECTORS], const float *v, const uint8_t *codes,
                           uint8x8_t mask, uint8x8_t sign, int16x8_t less, float32x4_t low,
                           float32x4_t high) {
  const uint8x8_t bits = veor_u8(vand_u8(vld1_u8(codes), mask), sign);
  const int16x8_t code = vsubq_s16(vreinterpretq_s16_u16(vmovl_u8(bits)), less);
  add_four_scaled(q, vld1q_f32(v), vget_low_s16(code), low);
  add_four_scaled(q + 2, vld1q_f32(v + 4), vget_high_s16(code), high);
}

static bool turns_of_scaled(struct kernels_lanes *s, const float *v, const uint8_t *codes, size_t n,
                            const struct kernels_scaled *m) {
  const uint8_t flip = m->is_signed ? (uint8_t)(1 << (m->bits - 1)) : 0;
  const uint8x8_t mask = vdup_n_u8((uint8_t)((1 << m->bits) - 1)), sign = vdup_n_u8(flip);
  struct quarter q[VECTORS];
  load_all(q, s);
  for (size_t i = 0; i < n; i += KERNELS_LANES) {
    const size_t at = i / m->share;
    const bool each = m->share == 1;
    int16x8_t less = vdupq_n_s16((int16_t)(flip + (m->zeros && !each ? m->zeros[at] : 0)));
    if (m->zeros && each)
      less = vaddq_s16(less, vreinterpretq_s16_u16(vmovl_u8(vld1_u8(m->zeros + i))));
    add_eight(q, v + i, codes + i, mask, sign, less,
              each ? vld1q_f32(m->scales + i) : vdupq_n_f32(m->scales[at]),
              each ? vld1q_f32(m->scales + i + 4) : vdupq_n_f32(m->scales[at]));
  }
  return store_all(s, q);
}

bool figure_pairs_scaled_neon(struct kernels_lanes *sums, size_t first, const float *v,
                              const uint8_t *codes, size_t n, const struct kernels_scaled *m) {
  const struct figure_pairs_cut c = figure_pairs_cut_scaled(first, n, m);
  struct kernels_lanes s = *sums;
  const struct kernels_scaled whole = figure_pairs_scaled_from(m, c.head),
                              behind = figure_pairs_scaled_from(m, c.behind);
  if (!figure_pairs_scaled_portable(&s, first, v, codes, c.head, m) ||
      !turns_of_scaled(&s, v + c.head, codes + c.head, c.whole, &whole) ||
      !figure_pairs_scaled_portable(&s, first + c.behind, v + c.behind, codes + c.behind,
                                    n - c.behind, &behind))
    return figure_pairs_scaled_portable(sums, first, v, codes, n, m);
  *sums = s;
  return true;
}
#endif
