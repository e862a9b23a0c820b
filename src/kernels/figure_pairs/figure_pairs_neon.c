// Error figures of pairs with NEON: figure_pairs_lanes.h with vectors of two doubles. Codes are whole
// numbers that a float holds.
#include "kernels/figure_pairs/inside/figure_pairs.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define LANES_TARGET
#define NEON_INLINE static inline __attribute__((always_inline))
FIGURE_PAIRS_LANES(16);

NEON_INLINE lanes farther(lanes e, lanes most) {
  return vmaxq_f64(vabsq_f64(e), most);
}

NEON_INLINE void widen(lanes *out, const uint8_t *codes, bool is_unsigned) {
  const uint8x8_t eight = vld1_u8(codes);
  const int16x8_t code =
      is_unsigned ? vreinterpretq_s16_u16(vmovl_u8(eight)) : vmovl_s8(vreinterpret_s8_u8(eight));
  const float32x4_t low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(code)));
  const float32x4_t high = vcvtq_f32_s32(vmovl_high_s16(code));
  out[0] = vcvt_f64_f32(vget_low_f32(low));
  out[1] = vcvt_high_f64_f32(low);
  out[2] = vcvt_f64_f32(vget_low_f32(high));
  out[3] = vcvt_high_f64_f32(high);
}

#include "kernels/figure_pairs/inside/figure_pairs_lanes.h"
FIGURE_PAIRS(neon)
#endif
