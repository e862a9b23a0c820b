// Sums of products with NEON: gram_lanes.h with vectors of two doubles, 24 of 32 registers hold sums.
#include "kernels/kernels_table.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define LANES_TARGET
enum { ROWS = 6, WIDE = 4, STEP = 2 };
typedef float64x2_t lanes;

static inline __attribute__((always_inline)) LANES_TARGET lanes load(const double *at) {
  return vld1q_f64(at);
}

static inline __attribute__((always_inline)) LANES_TARGET void store(double *at, lanes x) {
  vst1q_f64(at, x);
}

static inline __attribute__((always_inline)) LANES_TARGET lanes all(double x) {
  return vdupq_n_f64(x);
}

static inline __attribute__((always_inline)) LANES_TARGET lanes fused(lanes a, lanes b, lanes c) {
  return vfmaq_f64(c, a, b);
}

#include "kernels/gram/inside/gram_lanes.h"
GRAM(neon)
#endif
