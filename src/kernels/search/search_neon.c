// The rules beyond MLAS with NEON: search_lanes.h with vectors of four floats or two doubles. Here
// is only what the vector types of compilers have no operator for. NEON's own minimum and maximum
// return NaN where there is one; comparing and choosing gives what search_lanes.h wants, the second
// operand where the two do not compare.
#include "kernels/search/inside/search.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))
#define LANES_TARGET
#define LANES_ISA(name) name##_neon
SEARCH_LANES(16);

NEON_INLINE lanes_f most_f(lanes_f a, lanes_f b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}

NEON_INLINE lanes_f least_f(lanes_f a, lanes_f b) {
  return vbslq_f32(vcltq_f32(a, b), a, b);
}

NEON_INLINE lanes_d most_d(lanes_d a, lanes_d b) {
  return vbslq_f64(vcgtq_f64(a, b), a, b);
}

NEON_INLINE lanes_d least_d(lanes_d a, lanes_d b) {
  return vbslq_f64(vcltq_f64(a, b), a, b);
}

NEON_INLINE lanes_i most_i(lanes_i a, lanes_i b) {
  return vmaxq_s32(a, b);
}

NEON_INLINE lanes_f half_f(lanes_f x) {
  return vcvt_f32_f16(vcvt_f16_f32(x));
}

#include "kernels/search/inside/search_lanes.h"

SEARCH(neon)
#endif
