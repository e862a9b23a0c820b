// The rules beyond MLAS with AVX-512: search_lanes.h with vectors of sixteen floats or eight
// doubles; what there is to say of the functions here, search_avx2.c says. Elements are widened and
// turned by the kernels of AVX2.
//
// Where a vector of 512 bits takes two turns of a 256-bit unit (Zen 4), k_quant, RTN and GATHER
// gain a tenth to a fifth over AVX2, and HQQ nothing: more blocks wait for the slowest of them.
#include "kernels/blocks/blocks_avx512.h"
#include "kernels/search/inside/search.h"

#if defined(__x86_64__)
#define LANES_TARGET AVX512
#define LANES_ISA(name) name##_avx2
SEARCH_LANES(64);

#define OF_TWO(name, lanes, instruction)                                                           \
  AVX512_INLINE lanes name(lanes a, lanes b) {                                                     \
    return instruction(a, b);                                                                      \
  }
OF_TWO(most_f, lanes_f, _mm512_max_ps)
OF_TWO(least_f, lanes_f, _mm512_min_ps)
OF_TWO(most_d, lanes_d, _mm512_max_pd)
OF_TWO(least_d, lanes_d, _mm512_min_pd)

AVX512_INLINE lanes_i most_i(lanes_i a, lanes_i b) {
  return (lanes_i)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

AVX512_INLINE lanes_f half_f(lanes_f x) {
  return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#include "kernels/search/inside/search_lanes.h"

SEARCH(avx512)
#endif
