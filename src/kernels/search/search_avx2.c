// The rules beyond MLAS with AVX2: search_lanes.h with vectors of eight floats or four doubles.
// Here is only what the vector types of compilers have no operator for. The instructions for
// minimum and maximum return their second operand where the two do not compare, as search_lanes.h
// wants it; and rounding to float16 is what F16C is for.
#include "kernels/blocks/blocks_avx2.h"
#include "kernels/search/inside/search.h"

#if defined(__x86_64__)
#define LANES_TARGET AVX2
#define LANES_ISA(name) name##_avx2
SEARCH_LANES(32);

#define OF_TWO(name, lanes, instruction)                                                           \
  AVX2_INLINE lanes name(lanes a, lanes b) {                                                       \
    return instruction(a, b);                                                                      \
  }
OF_TWO(most_f, lanes_f, _mm256_max_ps)
OF_TWO(least_f, lanes_f, _mm256_min_ps)
OF_TWO(most_d, lanes_d, _mm256_max_pd)
OF_TWO(least_d, lanes_d, _mm256_min_pd)

AVX2_INLINE lanes_i most_i(lanes_i a, lanes_i b) {
  return (lanes_i)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

AVX2_INLINE lanes_f half_f(lanes_f x) {
  return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#include "kernels/search/inside/search_lanes.h"

SEARCH(avx2)
#endif
