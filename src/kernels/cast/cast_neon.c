// Conversions with NEON, four elements at a time (two where a double is one side); the portable
// code takes the rest.
//
// The conversion instructions of the base architecture round to nearest even under the default
// FPCR, which nobody here changes (no flush to zero, no default NaN, IEEE half precision),
// underflow gradually, and make NaNs quiet with sign and top payload bits kept: what the portable
// code spells out. bfloat16 is done on integers.
//
// From double to a 16-bit format the float in between is rounded to odd, for which there is an
// instruction (FCVTXN): rounding that to nearest even gives what rounding the double would have
// (see cast_avx2.c). Where the double is out of range it gives the largest float, which rounds to
// infinity in either format.
#include "kernels/kernels_table.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))

NEON_INLINE uint32x4_t load_32(const uint8_t *in) {
  return vreinterpretq_u32_u8(vld1q_u8(in));
}

NEON_INLINE float64x2_t load_64(const uint8_t *in) {
  return vreinterpretq_f64_u8(vld1q_u8(in));
}

NEON_INLINE uint16x4_t load_16(const uint8_t *in) {
  return vreinterpret_u16_u8(vld1_u8(in));
}

NEON_INLINE void store_16(uint8_t *out, uint16x4_t x) {
  vst1_u8(out, vreinterpret_u8_u16(x));
}

NEON_INLINE uint32x4_t nan_mask(uint32x4_t x) {
  return vcgtq_u32(vandq_u32(x, vdupq_n_u32(0x7fffffff)), vdupq_n_u32(0x7f800000));
}

NEON_INLINE uint16x4_t round_bf16(uint32x4_t x) {
  uint32x4_t high = vshrq_n_u32(x, 16), odd = vandq_u32(high, vdupq_n_u32(1));
  uint32x4_t rounded = vaddq_u32(x, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
  return vmovn_u32(vbslq_u32(nan_mask(x), quiet, vshrq_n_u32(rounded, 16)));
}

NEON_INLINE uint16x4_t round_f16(uint32x4_t x) {
  return vreinterpret_u16_f16(vcvt_f16_f32(vreinterpretq_f32_u32(x)));
}

// Four doubles to floats, rounded to odd.
NEON_INLINE uint32x4_t round_odd(const uint8_t *in) {
  float32x2_t low = vcvtx_f32_f64(load_64(in));
  return vreinterpretq_u32_f32(vcvtx_high_f32_f64(low, load_64(in + 16)));
}

NEON_INLINE uint32x4_t quiet_bf16(uint16x4_t x) {
  uint32x4_t wide = vshll_n_u16(x, 16);
  return vorrq_u32(wide, vandq_u32(nan_mask(wide), vdupq_n_u32(0x400000)));
}

// `many` elements at a time, of in_bytes and out_bytes each; put() stores at `to` what stands at
// `from`.
#define CAST(name, many, in_bytes, out_bytes, put)                                                 \
  void name##_neon(void *out, const void *in, size_t n) {                                          \
    const uint8_t *from = in;                                                                      \
    uint8_t *to = out;                                                                             \
    for (; n >= many; n -= many, from += many * in_bytes, to += many * out_bytes)                  \
      put;                                                                                         \
    name##_portable(to, from, n);                                                                  \
  }
CAST(cast_f32_f16, 4, 4, 2, store_16(to, round_f16(load_32(from))))
CAST(cast_f32_bf16, 4, 4, 2, store_16(to, round_bf16(load_32(from))))
CAST(cast_f16_f32, 4, 2, 4,
     vst1q_u8(to, vreinterpretq_u8_f32(vcvt_f32_f16(vreinterpret_f16_u16(load_16(from))))))
CAST(cast_bf16_f32, 4, 2, 4, vst1q_u8(to, vreinterpretq_u8_u32(quiet_bf16(load_16(from)))))
CAST(cast_f64_f32, 2, 8, 4, vst1_u8(to, vreinterpret_u8_f32(vcvt_f32_f64(load_64(from)))))
CAST(cast_f32_f64, 2, 4, 8,
     vst1q_u8(to, vreinterpretq_u8_f64(vcvt_f64_f32(vreinterpret_f32_u8(vld1_u8(from))))))
CAST(cast_f64_f16, 4, 8, 2, store_16(to, round_f16(round_odd(from))))
CAST(cast_f64_bf16, 4, 8, 2, store_16(to, round_bf16(round_odd(from))))
#endif
