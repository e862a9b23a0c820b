// Codes of ONNX's QuantizeLinear, and ranges of columns, with NEON: sixteen elements at a time (ranges: four),
// operation by operation what the portable code does, which takes the rest.
//
// vmaxnmq takes the number of a number and a NaN, so that a NaN becomes the least code.
#include "kernels/kernels_table.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>

#define NEON_INLINE static inline __attribute__((always_inline))

enum { STEP = 4, TURN = 16 };

struct linear_vectors {
  float32x4_t scale, zero, lo, hi;
  const float *scales, *zeros; // NULL: all have one
};

NEON_INLINE int32x4_t codes_at(const float *in, size_t i, const struct linear_vectors *v,
                               uint32x4_t *good) {
  const float32x4_t x = vld1q_f32(in + i);
  const float32x4_t scale = v->scales ? vld1q_f32(v->scales + i) : v->scale;
  const float32x4_t zero = v->zeros ? vld1q_f32(v->zeros + i) : v->zero;
  const float32x4_t y = vaddq_f32(vrndnq_f32(vdivq_f32(x, scale)), zero);
  *good = vandq_u32(*good, vcaltq_f32(x, vdupq_n_f32(INFINITY)));
  return vcvtq_s32_f32(vminq_f32(vmaxnmq_f32(y, v->lo), v->hi));
}

NEON_INLINE int16x8_t codes8_at(const float *in, size_t i, const struct linear_vectors *v,
                                uint32x4_t *good) {
  const int16x4_t low = vmovn_s32(codes_at(in, i, v, good));
  return vcombine_s16(low, vmovn_s32(codes_at(in, i + STEP, v, good)));
}

bool linear_codes_neon(void *out, const float *in, size_t n, const struct kernels_linear *m) {
  uint8_t *to = out;
  const struct linear_vectors v = {.scale = vdupq_n_f32(m->scales[0]),
                                   .zero = vdupq_n_f32(m->zeros ? m->zeros[0] : 0),
                                   .lo = vdupq_n_f32(m->lo),
                                   .hi = vdupq_n_f32(m->hi),
                                   .scales = m->each ? m->scales : NULL,
                                   .zeros = m->each ? m->zeros : NULL};
  uint32x4_t good = vdupq_n_u32(UINT32_MAX);
  size_t i = 0;
  for (; i + TURN <= n; i += TURN) {
    const int16x8_t a = codes8_at(in, i, &v, &good), b = codes8_at(in, i + TURN / 2, &v, &good);
    if (m->width == 1) {
      vst1q_s8((int8_t *)to + i, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
    } else {
      vst1q_s8((int8_t *)to + 2 * i, vreinterpretq_s8_s16(a));
      vst1q_s8((int8_t *)to + 2 * i + TURN, vreinterpretq_s8_s16(b));
    }
  }
  struct kernels_linear rest = *m;
  if (m->each) rest.scales += i;
  if (m->each && m->zeros) rest.zeros += i;
  return linear_codes_portable(to + i * m->width, in + i, n - i, &rest) &&
         vminvq_u32(good) == UINT32_MAX;
}

size_t linear_ranges_neon(const float *in, size_t n, float *lo, float *hi) {
  uint64x2_t good = vdupq_n_u64(0);
  size_t i = 0;
  for (; i + STEP <= n; i += STEP) {
    const float32x4_t x = vld1q_f32(in + i), least = vld1q_f32(lo + i), most = vld1q_f32(hi + i);
    const uint32x4_t fine = vcaltq_f32(x, vdupq_n_f32(INFINITY)); // |x| below; false for NaN
    const uint32x4_t less = vandq_u32(fine, vcltq_f32(x, least));
    const uint32x4_t more = vandq_u32(fine, vcgtq_f32(x, most));
    vst1q_f32(lo + i, vbslq_f32(less, x, least));
    vst1q_f32(hi + i, vbslq_f32(more, x, most));
    good = vpadalq_u32(good, vshrq_n_u32(fine, 31));
  }
  const size_t bad = i - (size_t)vaddvq_u64(good);
  return bad + linear_ranges_portable(in + i, n - i, lo + i, hi + i);
}
#endif
