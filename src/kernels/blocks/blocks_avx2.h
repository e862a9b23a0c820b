// Inside blocks_*_avx2.c: eight elements, or eight blocks, at a time. NaN is never the second
// operand of a minimum or maximum unless it may pass: the instructions return that operand where
// the two do not compare.
#ifndef WEIR_BLOCKS_AVX2_H
#define WEIR_BLOCKS_AVX2_H

#include "kernels/blocks/blocks.h"

#include <float.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2,f16c")))

AVX2_INLINE __m256 load_wide(const uint8_t *at, enum kernels_float type) {
  if (type == KERNELS_F32) return _mm256_loadu_ps((const float *)(const void *)at);
  __m128i half = _mm_loadu_si128((const __m128i *)(const void *)at);
  if (type == KERNELS_F16) return _mm256_cvtph_ps(half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

// Eight grids: of the blocks of a row, or of as many columns. zero as float; all codes minus it are
// in least - zero .. most - zero.
struct grid8 {
  __m256 scale, reciprocal, zero;
};

AVX2_INLINE __m256 store_scale(__m256 s, enum kernels_float type) {
  if (type == KERNELS_F32) return s;
  if (type == KERNELS_F16)
    return _mm256_cvtph_ps(_mm256_cvtps_ph(s, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  __m256i x = _mm256_castps_si256(s); // never NaN
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
  x = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-0x10000)));
}

AVX2_INLINE __m256 reciprocal_of(__m256 scale) {
  __m256 there = _mm256_cmp_ps(scale, _mm256_setzero_ps(), _CMP_NEQ_UQ);
  return _mm256_and_ps(there, _mm256_div_ps(_mm256_set1_ps(1), scale));
}

// As blocks_grid_of. A symmetric block of zeros must come with the sign of its first one.
AVX2_INLINE struct grid8 grid8_of(const struct kernels_block_format *f, __m256 lo, __m256 hi) {
  const __m256 nothing = _mm256_setzero_ps(), sign = _mm256_set1_ps(-0.0f);
  struct grid8 g;
  if (f->symmetric) {
    __m256 up = _mm256_cmp_ps(_mm256_andnot_ps(sign, hi), _mm256_andnot_ps(sign, lo), _CMP_GT_OQ);
    __m256 m = _mm256_blendv_ps(lo, hi, up);
    __m256 half = _mm256_set1_ps((float)(1 << (f->bits - 1)));
    g.scale = _mm256_div_ps(_mm256_xor_ps(m, sign), half);
    g.zero = f->rule == KERNELS_NBITS ? half : nothing;
  } else {
    __m256 most = _mm256_set1_ps((float)((1 << f->bits) - 1));
    lo = _mm256_min_ps(lo, nothing);
    hi = _mm256_max_ps(hi, nothing);
    g.scale = _mm256_div_ps(_mm256_sub_ps(hi, lo), most);
    __m256 zero = _mm256_sub_ps(nothing, _mm256_div_ps(lo, g.scale));
    zero = _mm256_and_ps(zero, _mm256_cmp_ps(g.scale, nothing, _CMP_NEQ_UQ));
    zero = _mm256_add_ps(zero, _mm256_set1_ps(BLOCKS_BELOW_HALF));
    zero = _mm256_max_ps(_mm256_min_ps(most, zero), nothing); // NaN: 0
    g.zero = _mm256_cvtepi32_ps(_mm256_cvttps_epi32(zero));
  }
  g.scale = store_scale(g.scale, f->scale_type);
  g.reciprocal = reciprocal_of(g.scale);
  return g;
}

// What codes are cut to; the same for all blocks of a format.
struct code_limits {
  __m256 most_float;
  __m256i least, most;
};

AVX2_INLINE struct code_limits code_limits_of(const struct kernels_block_format *f) {
  bool is_signed = f->rule == KERNELS_QDQ && f->symmetric;
  int least = is_signed ? -(1 << (f->bits - 1)) : 0, most = least + (1 << f->bits) - 1;
  return (struct code_limits){_mm256_set1_ps((float)most), _mm256_set1_epi32(least),
                              _mm256_set1_epi32(most)};
}

AVX2_INLINE __m256i codes8(__m256 v, const struct grid8 *g, const struct code_limits *l,
                           enum kernels_rule rule) {
  const __m256 below_half = _mm256_set1_ps(BLOCKS_BELOW_HALF);
  __m256 x = _mm256_mul_ps(v, g->reciprocal);
  if (rule == KERNELS_NBITS) {
    x = _mm256_add_ps(_mm256_add_ps(x, g->zero), below_half);
    x = _mm256_min_ps(l->most_float, x);                       // NaN passes
    return _mm256_max_epi32(_mm256_cvttps_epi32(x), l->least); // and is INT_MIN, then 0
  }
  const __m256 sign = _mm256_set1_ps(-0.0f);
  x = _mm256_add_ps(x, _mm256_or_ps(_mm256_and_ps(x, sign), below_half));
  __m256i q = _mm256_add_epi32(_mm256_cvttps_epi32(x), _mm256_cvtps_epi32(g->zero));
  return _mm256_min_epi32(_mm256_max_epi32(q, l->least), l->most);
}

// Error figures in eight lanes.
struct sums8 {
  __m256 vv, ee, ve;
  __m256i largest; // bits of |e|
};

AVX2_INLINE struct sums8 sums8_none(void) {
  const __m256 z = _mm256_setzero_ps();
  return (struct sums8){z, z, z, _mm256_setzero_si256()};
}

AVX2_INLINE void sums8_add(struct sums8 *s, __m256 v, __m256i code, const struct grid8 *g) {
  __m256 steps = _mm256_sub_ps(_mm256_cvtepi32_ps(code), g->zero); // whole numbers: exact
  __m256 e = _mm256_sub_ps(v, _mm256_mul_ps(steps, g->scale));
  s->vv = _mm256_add_ps(s->vv, _mm256_mul_ps(v, v));
  s->ee = _mm256_add_ps(s->ee, _mm256_mul_ps(e, e));
  s->ve = _mm256_add_ps(s->ve, _mm256_mul_ps(v, e));
  __m256i size = _mm256_and_si256(_mm256_castps_si256(e), _mm256_set1_epi32(INT32_MAX));
  s->largest = _mm256_max_epi32(s->largest, size);
}

// Lanes whose figures may be added in float32: the scale is of the range for it, or there is
// nothing to add but zeros and NaN.
AVX2_INLINE int narrow_lanes(__m256 scale, __m256 lo, __m256 hi) {
  __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), scale);
  __m256 fits = _mm256_and_ps(_mm256_cmp_ps(size, _mm256_set1_ps(BLOCKS_SCALE_LEAST), _CMP_GE_OQ),
                              _mm256_cmp_ps(size, _mm256_set1_ps(BLOCKS_SCALE_MOST), _CMP_LE_OQ));
  __m256 nothing = _mm256_cmp_ps(_mm256_or_ps(lo, hi), _mm256_setzero_ps(), _CMP_EQ_OQ);
  return _mm256_movemask_ps(_mm256_or_ps(fits, nothing));
}

// The largest lane.
AVX2_INLINE uint32_t largest_of(__m256i x) {
  __m128i y = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0x4e));
  y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0xb1));
  return (uint32_t)_mm_cvtsi128_si32(y);
}

// Codes as bytes, in order; mask: the bits per weight, in every 16-bit lane.
AVX2_INLINE __m256i code_mask(const struct kernels_block_format *f) {
  return _mm256_set1_epi16((short)((1 << f->bits) - 1));
}

AVX2_INLINE __m256i bytes32(__m256i a, __m256i b, __m256i c, __m256i d, __m256i mask) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  __m256i ab = _mm256_and_si256(_mm256_packs_epi32(a, b), mask);
  __m256i cd = _mm256_and_si256(_mm256_packs_epi32(c, d), mask);
  return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order);
}

AVX2_INLINE __m128i bytes16(__m256i a, __m256i b, __m256i mask) {
  __m256i x = bytes32(a, b, a, b, mask); // every other eight bytes twice
  return _mm256_castsi256_si128(x);
}
#endif
#endif
