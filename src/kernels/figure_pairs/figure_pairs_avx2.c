// Error figures of pairs with AVX2: figure_pairs_lanes.h with vectors of four doubles.
#include "kernels/figure_pairs/inside/figure_pairs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES_TARGET __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))
FIGURE_PAIRS_LANES(32);

AVX2_INLINE lanes farther(lanes e, lanes most) {
  return _mm256_max_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), e), most);
}

AVX2_INLINE void widen(lanes *out, const uint8_t *codes, bool is_unsigned) {
  const __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)codes);
  const __m256i whole = is_unsigned ? _mm256_cvtepu8_epi32(eight) : _mm256_cvtepi8_epi32(eight);
  out[0] = _mm256_cvtepi32_pd(_mm256_castsi256_si128(whole));
  out[1] = _mm256_cvtepi32_pd(_mm256_extracti128_si256(whole, 1));
}

#include "kernels/figure_pairs/inside/figure_pairs_lanes.h"
FIGURE_PAIRS(avx2)
#endif
