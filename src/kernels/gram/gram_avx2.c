// Sums of products with AVX2 and FMA: gram_lanes.h with vectors of four doubles, twelve of sixteen registers hold sums.
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES_TARGET __attribute__((target("avx2,fma")))
enum { ROWS = 4, WIDE = 3, STEP = 4 };
typedef __m256d lanes;

static inline __attribute__((always_inline)) LANES_TARGET lanes load(const double *at) {
  return _mm256_loadu_pd(at);
}

static inline __attribute__((always_inline)) LANES_TARGET void store(double *at, lanes x) {
  _mm256_storeu_pd(at, x);
}

static inline __attribute__((always_inline)) LANES_TARGET lanes all(double x) {
  return _mm256_set1_pd(x);
}

static inline __attribute__((always_inline)) LANES_TARGET lanes fused(lanes a, lanes b, lanes c) {
  return _mm256_fmadd_pd(a, b, c);
}

#include "kernels/gram/inside/gram_lanes.h"
GRAM(avx2)
#endif
