// Affine quantization of floats with NEON: sixteen elements at a time, the portable code takes the
// rest.
//
// The bytes are the portable ones because every operation is the same one, in the same order and
// rounding (FRINTN: half to even); nothing is fused. Steps are clamped to the range of codes before
// they become integers, so that narrowing them drops nothing.
//
//   four vectors of 4 steps ─▶ int32 ─▶ two of int16 ─▶ one of int8
//
// Smallest and largest depend on no order, but for zeros: -0 and 0 are equal, and which of them is
// found may differ. So both variants make zeros positive at the end. What is not finite is replaced
// by the extreme that was there, and joins nothing: minimum and maximum never see a NaN.
#include "kernels/kernels_table.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>

#define NEON_INLINE static inline __attribute__((always_inline))

enum { STEP = 4, VECTORS = 4, TURN = STEP * VECTORS };

struct affine_vectors {
  float32x4_t inverse, steps, zero, lo, hi;
};

NEON_INLINE int32x4_t steps_of(const float *in, const struct affine_vectors *v) {
  float32x4_t x = vmulq_f32(vmulq_f32(vld1q_f32(in), v->inverse), v->steps);
  x = vaddq_f32(vrndnq_f32(x), v->zero);
  return vcvtq_s32_f32(vminq_f32(vmaxq_f32(x, v->lo), v->hi));
}

NEON_INLINE int16x8_t steps8_of(const float *in, const struct affine_vectors *v) {
  return vcombine_s16(vmovn_s32(steps_of(in, v)), vmovn_s32(steps_of(in + STEP, v)));
}

void affine_codes_f32_neon(int8_t *out, const float *in, size_t n, const struct kernels_affine *a) {
  const struct affine_vectors v = {vdupq_n_f32((float)a->inverse), vdupq_n_f32((float)a->steps),
                                   vdupq_n_f32((float)a->zero), vdupq_n_f32((float)a->lo),
                                   vdupq_n_f32((float)a->hi)};
  size_t i = 0;
  for (; i + TURN <= n; i += TURN) {
    const int8x8_t low = vmovn_s16(steps8_of(in + i, &v));
    const int8x8_t high = vmovn_s16(steps8_of(in + i + TURN / 2, &v));
    vst1q_s8(out + i, vcombine_s8(low, high));
  }
  affine_codes_f32_portable(out + i, in + i, n - i, a);
}

struct affine_range {
  float32x4_t least, most;
  uint64x2_t good; // elements that are finite
};

NEON_INLINE void join(struct affine_range *r, float32x4_t x) {
  const uint32x4_t good = vcaltq_f32(x, vdupq_n_f32(INFINITY)); // |x| below; false for NaN
  r->least = vminq_f32(r->least, vbslq_f32(good, x, r->least));
  r->most = vmaxq_f32(r->most, vbslq_f32(good, x, r->most));
  r->good = vpadalq_u32(r->good, vshrq_n_u32(good, 31));
}

size_t affine_range_f32_neon(const float *in, size_t n, float *lo, float *hi) {
  const struct affine_range begin = {vdupq_n_f32(*lo), vdupq_n_f32(*hi), vdupq_n_u64(0)};
  struct affine_range r[VECTORS] = {begin, begin, begin, begin};
  size_t i = 0;
  for (; i + TURN <= n; i += TURN)
#pragma GCC unroll 4
    for (size_t k = 0; k < VECTORS; k++)
      join(&r[k], vld1q_f32(in + i + k * STEP));
  for (size_t k = 1; k < VECTORS; k++) {
    r[0].least = vminq_f32(r[0].least, r[k].least);
    r[0].most = vmaxq_f32(r[0].most, r[k].most);
    r[0].good = vaddq_u64(r[0].good, r[k].good);
  }
  float least = vminvq_f32(r[0].least), most = vmaxvq_f32(r[0].most);
  const size_t bad = i - (size_t)vaddvq_u64(r[0].good);
  const size_t bad_behind = affine_range_f32_portable(in + i, n - i, &least, &most);
  *lo = least;
  *hi = most;
  return bad + bad_behind;
}
#endif
