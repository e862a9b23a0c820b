// Affine quantization of floats with AVX2: thirty-two codes at a time, the portable code takes the
// rest.
//
// The bytes are the portable ones because every operation is the same one, in the same order and
// rounding; nothing is fused. Steps are clamped to the range of codes before they become integers,
// so that packing them with saturation changes nothing.
//
//   four vectors of 8 steps ─▶ int32 ─▶ packs to int16 ─▶ packs to int8 ─▶ lanes put in order
//
// Smallest and largest depend on no order, but for zeros: -0 and 0 are equal, and which of them is
// found may differ. So both variants make zeros positive at the end.
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

struct affine_vectors {
  __m256 inverse, steps, zero, lo, hi;
};

AVX2_INLINE __m256i steps_of(const float *in, const struct affine_vectors *v) {
  __m256 x = _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(in), v->inverse), v->steps);
  x = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  x = _mm256_add_ps(x, v->zero);
  x = _mm256_min_ps(_mm256_max_ps(x, v->lo), v->hi);
  return _mm256_cvttps_epi32(x);
}

AVX2 void affine_codes_f32_avx2(int8_t *out, const float *in, size_t n,
                                const struct kernels_affine *a) {
  const struct affine_vectors v = {_mm256_set1_ps((float)a->inverse),
                                   _mm256_set1_ps((float)a->steps), _mm256_set1_ps((float)a->zero),
                                   _mm256_set1_ps((float)a->lo), _mm256_set1_ps((float)a->hi)};
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i ab = _mm256_packs_epi32(steps_of(in + i, &v), steps_of(in + i + 8, &v));
    const __m256i cd = _mm256_packs_epi32(steps_of(in + i + 16, &v), steps_of(in + i + 24, &v));
    const __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
    _mm256_storeu_si256((__m256i *)(void *)(out + i), codes);
  }
  affine_codes_f32_portable(out + i, in + i, n - i, a);
}

AVX2_INLINE float least_of(__m256 x) {
  float lanes[8], y;
  _mm256_storeu_ps(lanes, x);
  y = lanes[0];
  for (int i = 1; i < 8; i++)
    y = lanes[i] < y ? lanes[i] : y;
  return y;
}

AVX2 size_t affine_range_f32_avx2(const float *in, size_t n, float *lo, float *hi) {
  const __m256 least0 = _mm256_set1_ps(*lo), most0 = _mm256_set1_ps(*hi);
  __m256 least = least0, most = most0;
  size_t i = 0, bad = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(in + i);
    const __m256 good = _mm256_cmp_ps(_mm256_sub_ps(x, x), _mm256_setzero_ps(), _CMP_EQ_OQ);
    const int mask = _mm256_movemask_ps(good);
    if (mask != 0xff) bad += 8u - (size_t)__builtin_popcount((unsigned)mask);
    least = _mm256_min_ps(least, _mm256_blendv_ps(least0, x, good));
    most = _mm256_max_ps(most, _mm256_blendv_ps(most0, x, good));
  }
  float a = least_of(least), b = -least_of(_mm256_sub_ps(_mm256_setzero_ps(), most));
  bad += affine_range_f32_portable(in + i, n - i, &a, &b);
  *lo = a + 0.0f;
  *hi = b + 0.0f;
  return bad;
}
#endif
