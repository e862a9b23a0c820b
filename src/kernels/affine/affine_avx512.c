// Affine quantization of floats with AVX-512: sixty-four codes, or smallest and largest of
// sixty-four elements, at a time; operation by operation what the portable code does. What is left
// over goes by masks, so that no byte outside of the given elements is touched.
//
// As with AVX2, smallest and largest depend on no order but for zeros, which are made positive at
// the end.
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#define AVX512 __attribute__((target(AVX512_TARGET)))
#define AVX512_INLINE static inline __attribute__((always_inline, target(AVX512_TARGET)))

enum { STEP = 16, TURN = 64, NOT_FINITE = 0x99 }; // for fpclass: NaNs and infinities

struct affine_vectors {
  __m512 inverse, steps, zero, lo, hi;
};

AVX512_INLINE __m128i codes_of(__m512 x, const struct affine_vectors *v) {
  x = _mm512_mul_ps(_mm512_mul_ps(x, v->inverse), v->steps);
  x = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  x = _mm512_add_ps(x, v->zero);
  x = _mm512_min_ps(_mm512_max_ps(x, v->lo), v->hi);
  return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x));
}

AVX512_INLINE __mmask16 first_of(size_t n) {
  return (__mmask16)(n < STEP ? (1u << n) - 1 : 0xffffu);
}

AVX512 void affine_codes_f32_avx512(int8_t *out, const float *in, size_t n,
                                    const struct kernels_affine *a) {
  const struct affine_vectors v = {_mm512_set1_ps((float)a->inverse),
                                   _mm512_set1_ps((float)a->steps), _mm512_set1_ps((float)a->zero),
                                   _mm512_set1_ps((float)a->lo), _mm512_set1_ps((float)a->hi)};
  size_t i = 0;
  for (; i + TURN <= n; i += TURN)
    for (size_t k = i; k < i + TURN; k += STEP)
      _mm_storeu_si128((__m128i *)(void *)(out + k), codes_of(_mm512_loadu_ps(in + k), &v));
  for (; i < n; i += STEP) {
    const __mmask16 some = first_of(n - i);
    _mm_mask_storeu_epi8(out + i, some, codes_of(_mm512_maskz_loadu_ps(some, in + i), &v));
  }
}

struct affine_range {
  __m512 least, most;
};

AVX512_INLINE size_t join(struct affine_range *r, __mmask16 some, __m512 x) {
  const __mmask16 bad = _mm512_mask_fpclass_ps_mask(some, x, NOT_FINITE);
  const __mmask16 good = (__mmask16)(some & ~bad);
  r->least = _mm512_mask_min_ps(r->least, good, r->least, x);
  r->most = _mm512_mask_max_ps(r->most, good, r->most, x);
  return (size_t)__builtin_popcount(bad);
}

AVX512 size_t affine_range_f32_avx512(const float *in, size_t n, float *lo, float *hi) {
  struct affine_range r[TURN / STEP];
  size_t i = 0, bad = 0;
  for (int k = 0; k < TURN / STEP; k++)
    r[k] = (struct affine_range){_mm512_set1_ps(*lo), _mm512_set1_ps(*hi)};
  for (; i + TURN <= n; i += TURN)
    for (size_t k = 0; k < TURN / STEP; k++)
      bad += join(&r[k], 0xffff, _mm512_loadu_ps(in + i + k * STEP));
  for (; i < n; i += STEP) {
    const __mmask16 some = first_of(n - i);
    bad += join(&r[0], some, _mm512_maskz_loadu_ps(some, in + i));
  }
  for (int k = 1; k < TURN / STEP; k++) {
    r[0].least = _mm512_min_ps(r[0].least, r[k].least);
    r[0].most = _mm512_max_ps(r[0].most, r[k].most);
  }
  *lo = _mm512_reduce_min_ps(r[0].least) + 0.0f;
  *hi = _mm512_reduce_max_ps(r[0].most) + 0.0f;
  return bad;
}
#endif
