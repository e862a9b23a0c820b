// The rules beyond MLAS with AVX-512: search_lanes.h with vectors of sixteen floats or eight
// doubles; what there is to say of the functions here, search_avx2.c says. Elements are widened and
// turned by the kernels of AVX2.
//
// Where a vector of 512 bits takes two turns of a 256-bit unit (Zen 4), k_quant, RTN and GATHER
// gain a tenth to a fifth over AVX2, and HQQ nothing: more blocks wait for the slowest of them.
#include "blocks_avx512.h"
#include "search.h"

#if defined(__x86_64__)
#define LANES_TARGET AVX512
#define LANES_ISA(name) name##_avx2
SEARCH_LANES(64);

AVX512_INLINE lanes_f most_f(lanes_f a, lanes_f b) {
  return _mm512_max_ps(a, b);
}

AVX512_INLINE lanes_f least_f(lanes_f a, lanes_f b) {
  return _mm512_min_ps(a, b);
}

AVX512_INLINE lanes_d most_d(lanes_d a, lanes_d b) {
  return _mm512_max_pd(a, b);
}

AVX512_INLINE lanes_d least_d(lanes_d a, lanes_d b) {
  return _mm512_min_pd(a, b);
}

AVX512_INLINE lanes_i most_i(lanes_i a, lanes_i b) {
  return (lanes_i)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

AVX512_INLINE lanes_f half_f(lanes_f x) {
  return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#include "search_lanes.h"

SEARCH(avx512)
#endif
