// Codes of ONNX's QuantizeLinear, and ranges of columns, with AVX-512: sixteen elements at a time, the last of
// them by a mask; operation by operation what the portable code does.
//
// A NaN becomes the least code by the order of the operands of max.
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#define AVX512 __attribute__((target(AVX512_TARGET)))
#define AVX512_INLINE static inline __attribute__((always_inline, target(AVX512_TARGET)))

enum { STEP = 16, NOT_FINITE = 0x99 }; // for fpclass: NaNs and infinities

struct linear_vectors {
  __m512 scale, zero, lo, hi, one;
  const float *scales, *zeros; // NULL: all have one
  bool wide;
};

AVX512_INLINE __mmask16 first_of(size_t n) {
  return (__mmask16)(n < STEP ? (1u << n) - 1 : 0xffffu);
}

// Elements i of `some`; those that are not finite.
AVX512_INLINE __mmask16 put_codes(uint8_t *out, const float *in, size_t i, __mmask16 some,
                                  const struct linear_vectors *v) {
  const __m512 x = _mm512_maskz_loadu_ps(some, in + i);
  const __m512 scale = v->scales ? _mm512_mask_loadu_ps(v->one, some, v->scales + i) : v->scale;
  const __m512 zero = v->zeros ? _mm512_maskz_loadu_ps(some, v->zeros + i) : v->zero;
  __m512 y =
      _mm512_roundscale_ps(_mm512_div_ps(x, scale), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  y = _mm512_min_ps(_mm512_max_ps(_mm512_add_ps(y, zero), v->lo), v->hi);
  const __m512i codes = _mm512_cvttps_epi32(y);
  if (v->wide)
    _mm256_mask_storeu_epi16(out + 2 * i, some, _mm512_cvtepi32_epi16(codes));
  else
    _mm_mask_storeu_epi8(out + i, some, _mm512_cvtepi32_epi8(codes));
  return _mm512_mask_fpclass_ps_mask(some, x, NOT_FINITE);
}

AVX512 bool linear_codes_avx512(void *out, const float *in, size_t n,
                                const struct kernels_linear *m) {
  const struct linear_vectors v = {.scale = _mm512_set1_ps(m->scales[0]),
                                   .zero = _mm512_set1_ps(m->zeros ? m->zeros[0] : 0),
                                   .lo = _mm512_set1_ps(m->lo),
                                   .hi = _mm512_set1_ps(m->hi),
                                   .one = _mm512_set1_ps(1),
                                   .scales = m->each ? m->scales : NULL,
                                   .zeros = m->each ? m->zeros : NULL,
                                   .wide = m->width == 2};
  __mmask16 bad = 0;
  size_t i = 0;
  for (; i + STEP <= n; i += STEP)
    bad |= put_codes(out, in, i, 0xffff, &v);
  if (i < n) bad |= put_codes(out, in, i, first_of(n - i), &v);
  return bad == 0;
}

AVX512_INLINE size_t join(const float *in, float *lo, float *hi, __mmask16 some) {
  const __m512 x = _mm512_maskz_loadu_ps(some, in);
  const __m512 least = _mm512_maskz_loadu_ps(some, lo), most = _mm512_maskz_loadu_ps(some, hi);
  const __mmask16 bad = _mm512_mask_fpclass_ps_mask(some, x, NOT_FINITE);
  const __mmask16 good = (__mmask16)(some & ~bad);
  _mm512_mask_storeu_ps(lo, good, _mm512_min_ps(x, least));
  _mm512_mask_storeu_ps(hi, good, _mm512_max_ps(x, most));
  return (size_t)__builtin_popcount(bad);
}

AVX512 size_t linear_ranges_avx512(const float *in, size_t n, float *lo, float *hi) {
  size_t i = 0, bad = 0;
  for (; i + STEP <= n; i += STEP)
    bad += join(in + i, lo + i, hi + i, 0xffff);
  return i < n ? bad + join(in + i, lo + i, hi + i, first_of(n - i)) : bad;
}
#endif
