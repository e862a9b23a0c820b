// Codes of ONNX's QuantizeLinear, and ranges of columns, with AVX2: eight elements at a time, operation by
// operation what the portable code does, which takes the rest.
//
//   four vectors of 8 codes ─▶ int32 ─▶ their low bytes, or low halves
//
// A NaN becomes the least code by the order of the operands of max. Of a range each column is a lane of its own, so
// that zeros of both signs are met in the same order as in the portable code.
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

enum { STEP = 8 };

struct linear_vectors {
  __m256 scale, zero, lo, hi;
  const float *scales, *zeros; // NULL: all have one
};

AVX2_INLINE __m256i codes_at(const float *in, size_t i, const struct linear_vectors *v,
                             __m256 *bad) {
  const __m256 x = _mm256_loadu_ps(in + i);
  const __m256 scale = v->scales ? _mm256_loadu_ps(v->scales + i) : v->scale;
  const __m256 zero = v->zeros ? _mm256_loadu_ps(v->zeros + i) : v->zero;
  __m256 y =
      _mm256_round_ps(_mm256_div_ps(x, scale), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  y = _mm256_min_ps(_mm256_max_ps(_mm256_add_ps(y, zero), v->lo), v->hi);
  *bad = _mm256_or_ps(*bad, _mm256_sub_ps(x, x)); // 0 of what is finite, else NaN
  return _mm256_cvttps_epi32(y);
}

// The low bytes of 32 codes, or of 16 the low halves.
AVX2_INLINE void store_bytes(uint8_t *out, __m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i mask = _mm256_set1_epi32(0xff), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i ab = _mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
  const __m256i cd = _mm256_packus_epi32(_mm256_and_si256(c, mask), _mm256_and_si256(d, mask));
  _mm256_storeu_si256((__m256i *)(void *)out,
                      _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order));
}

AVX2_INLINE void store_halves(uint8_t *out, __m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  const __m256i ab = _mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask));
  _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute4x64_epi64(ab, 0xd8));
}

AVX2 bool linear_codes_avx2(void *out, const float *in, size_t n, const struct kernels_linear *m) {
  uint8_t *to = out;
  const struct linear_vectors v = {.scale = _mm256_set1_ps(m->scales[0]),
                                   .zero = _mm256_set1_ps(m->zeros ? m->zeros[0] : 0),
                                   .lo = _mm256_set1_ps(m->lo),
                                   .hi = _mm256_set1_ps(m->hi),
                                   .scales = m->each ? m->scales : NULL,
                                   .zeros = m->each ? m->zeros : NULL};
  __m256 bad = _mm256_setzero_ps();
  size_t i = 0;
  for (; m->width == 1 && i + 4 * STEP <= n; i += 4 * STEP) {
    const __m256i a = codes_at(in, i, &v, &bad), b = codes_at(in, i + STEP, &v, &bad);
    const __m256i c = codes_at(in, i + 2 * STEP, &v, &bad),
                  d = codes_at(in, i + 3 * STEP, &v, &bad);
    store_bytes(to + i, a, b, c, d);
  }
  for (; m->width == 2 && i + 2 * STEP <= n; i += 2 * STEP) {
    const __m256i a = codes_at(in, i, &v, &bad), b = codes_at(in, i + STEP, &v, &bad);
    store_halves(to + 2 * i, a, b);
  }
  const bool finite = _mm256_movemask_ps(_mm256_cmp_ps(bad, _mm256_setzero_ps(), _CMP_NEQ_UQ)) == 0;
  struct kernels_linear rest = *m;
  if (m->each) rest.scales += i;
  if (m->each && m->zeros) rest.zeros += i;
  return linear_codes_portable(to + i * m->width, in + i, n - i, &rest) && finite;
}

AVX2 size_t linear_ranges_avx2(const float *in, size_t n, float *lo, float *hi) {
  size_t i = 0, bad = 0;
  for (; i + STEP <= n; i += STEP) {
    const __m256 x = _mm256_loadu_ps(in + i);
    const __m256 least = _mm256_loadu_ps(lo + i), most = _mm256_loadu_ps(hi + i);
    const __m256 good = _mm256_cmp_ps(_mm256_sub_ps(x, x), _mm256_setzero_ps(), _CMP_EQ_OQ);
    const int mask = _mm256_movemask_ps(good);
    if (mask != 0xff) bad += 8u - (size_t)__builtin_popcount((unsigned)mask);
    _mm256_storeu_ps(lo + i, _mm256_min_ps(_mm256_blendv_ps(least, x, good), least));
    _mm256_storeu_ps(hi + i, _mm256_max_ps(_mm256_blendv_ps(most, x, good), most));
  }
  return bad + linear_ranges_portable(in + i, n - i, lo + i, hi + i);
}
#endif
