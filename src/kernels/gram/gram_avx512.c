// Sums of products with AVX-512: gram_lanes.h with vectors of eight doubles, 24 of 32 registers hold sums.
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES_TARGET __attribute__((target("avx512f")))
enum { ROWS = 8, WIDE = 3, STEP = 8 };
typedef __m512d lanes;

static inline __attribute__((always_inline)) LANES_TARGET lanes load(const double *at) {
  return _mm512_loadu_pd(at);
}

static inline __attribute__((always_inline)) LANES_TARGET void store(double *at, lanes x) {
  _mm512_storeu_pd(at, x);
}

static inline __attribute__((always_inline)) LANES_TARGET lanes all(double x) {
  return _mm512_set1_pd(x);
}

static inline __attribute__((always_inline)) LANES_TARGET lanes fused(lanes a, lanes b, lanes c) {
  return _mm512_fmadd_pd(a, b, c);
}

#include "kernels/gram/inside/gram_lanes.h"
GRAM(avx512)
#endif
