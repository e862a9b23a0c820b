// Inside blocks_*_avx512.c: sixteen elements, or sixteen blocks, at a time; operation by operation
// what blocks_avx2.h does with eight. The features are those of Ice Lake and Zen 4 on (kernels.c):
// the one instruction that shifts a code into a dword is worth leaving older processors to AVX2.
#ifndef WEIR_BLOCKS_AVX512_H
#define WEIR_BLOCKS_AVX512_H

#include "kernels/blocks/blocks.h"

#include <float.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512_TARGET "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2"
#define AVX512 __attribute__((target(AVX512_TARGET)))
#define AVX512_INLINE static inline __attribute__((always_inline, target(AVX512_TARGET)))

AVX512_INLINE __m512 widen16(__m256i half, enum kernels_float type) {
  if (type == KERNELS_F16) return _mm512_cvtph_ps(half);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

AVX512_INLINE __m512 load16(const uint8_t *at, enum kernels_float type) {
  if (type == KERNELS_F32) return _mm512_loadu_ps(at);
  return widen16(_mm256_loadu_si256((const __m256i *)(const void *)at), type);
}

// Those of the mask; zeros else, and no byte of them is touched.
AVX512_INLINE __m512 load_some(const uint8_t *at, enum kernels_float type, __mmask16 some) {
  if (type == KERNELS_F32) return _mm512_maskz_loadu_ps(some, at);
  return widen16(_mm256_maskz_loadu_epi16(some, at), type);
}

// Sixteen grids: of the blocks of a row, or of as many columns.
struct grid16 {
  __m512 scale, reciprocal, zero; // zero as float
  __m512i whole_zero;             // and not
};

AVX512_INLINE __m512 store_scale16(__m512 s, enum kernels_float type) {
  if (type == KERNELS_F32) return s;
  if (type == KERNELS_F16)
    return _mm512_cvtph_ps(_mm512_cvtps_ph(s, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  __m512i x = _mm512_castps_si512(s); // never NaN
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  x = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-0x10000)));
}

AVX512_INLINE __m512 zero_of(__m512 lo, __m512 scale, __m512 most) {
  const __m512 nothing = _mm512_setzero_ps();
  __mmask16 there = _mm512_cmp_ps_mask(scale, nothing, _CMP_NEQ_UQ);
  __m512 zero = _mm512_maskz_sub_ps(there, nothing, _mm512_div_ps(lo, scale));
  zero = _mm512_add_ps(zero, _mm512_set1_ps(BLOCKS_BELOW_HALF));
  zero = _mm512_max_ps(_mm512_min_ps(most, zero), nothing); // NaN: 0
  return _mm512_cvtepi32_ps(_mm512_cvttps_epi32(zero));
}

// As blocks_grid_of. A symmetric block of zeros must come with the sign of its first one.
AVX512_INLINE struct grid16 grid16_of(const struct kernels_block_format *f, __m512 lo, __m512 hi) {
  const __m512 nothing = _mm512_setzero_ps();
  struct grid16 g;
  if (f->symmetric) {
    __mmask16 up = _mm512_cmp_ps_mask(_mm512_abs_ps(hi), _mm512_abs_ps(lo), _CMP_GT_OQ);
    __m512 m = _mm512_mask_blend_ps(up, lo, hi);
    __m512 half = _mm512_set1_ps((float)(1 << (f->bits - 1)));
    g.scale = _mm512_div_ps(_mm512_xor_ps(m, _mm512_set1_ps(-0.0f)), half);
    g.zero = f->rule == KERNELS_NBITS ? half : nothing;
  } else {
    __m512 most = _mm512_set1_ps((float)((1 << f->bits) - 1));
    lo = _mm512_min_ps(lo, nothing);
    hi = _mm512_max_ps(hi, nothing);
    g.scale = _mm512_div_ps(_mm512_sub_ps(hi, lo), most);
    g.zero = zero_of(lo, g.scale, most);
  }
  g.scale = store_scale16(g.scale, (enum kernels_float)f->scale_type);
  __mmask16 there = _mm512_cmp_ps_mask(g.scale, nothing, _CMP_NEQ_UQ);
  g.reciprocal = _mm512_maskz_div_ps(there, _mm512_set1_ps(1), g.scale);
  g.whole_zero = _mm512_cvttps_epi32(g.zero);
  return g;
}

// What codes are cut to; the same for all blocks of a format.
struct code_limits16 {
  __m512 most_float;
  __m512i least, most;
};

AVX512_INLINE struct code_limits16 code_limits16_of(const struct kernels_block_format *f) {
  bool is_signed = f->rule == KERNELS_QDQ && f->symmetric;
  int least = is_signed ? -(1 << (f->bits - 1)) : 0, most = least + (1 << f->bits) - 1;
  return (struct code_limits16){_mm512_set1_ps((float)most), _mm512_set1_epi32(least),
                                _mm512_set1_epi32(most)};
}

// How NBITS codes are cut to their limits. Minima and maxima of floats share two of the four pipes
// with additions and conversions, those of integers run anywhere; but an integer of what is past
// 2^31 is INT_MIN.
enum cut {
  CUT_WILD,  // anything may come: as floats
  CUT_CALM,  // what comes is in the range of integers, or NaN (calm16): as integers
  CUT_LATER, // the same, but the caller cuts
};

AVX512_INLINE __m512i codes16(__m512 v, const struct grid16 *g, const struct code_limits16 *l,
                              enum kernels_rule rule, enum cut cut) {
  const __m512 below_half = _mm512_set1_ps(BLOCKS_BELOW_HALF);
  __m512 x = _mm512_mul_ps(v, g->reciprocal);
  __m512i q;
  if (rule == KERNELS_NBITS) {
    x = _mm512_add_ps(_mm512_add_ps(x, g->zero), below_half);
    if (cut == CUT_WILD) x = _mm512_min_ps(l->most_float, x); // NaN passes
    q = _mm512_cvttps_epi32(x);                               // and is INT_MIN, then 0
    if (cut == CUT_LATER) return q;
  } else {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN), half = _mm512_castps_si512(below_half);
    // x & sign | half
    __m512i away = _mm512_ternarylogic_epi32(_mm512_castps_si512(x), sign, half, 0xea);
    x = _mm512_add_ps(x, _mm512_castsi512_ps(away));
    q = _mm512_add_epi32(_mm512_cvttps_epi32(x), g->whole_zero);
  }
  return _mm512_min_epi32(_mm512_max_epi32(q, l->least), l->most);
}

// Four vectors of one grid, step by step: each waits for its step before, and the processor does
// not look far enough ahead to find the others' by itself.
AVX512_INLINE void codes64(__m512i *q, const __m512 *v, const struct grid16 *g,
                           const struct code_limits16 *l, enum kernels_rule rule, enum cut cut) {
  __m512 x[4];
  if (rule != KERNELS_NBITS || cut == CUT_WILD) {
    for (int i = 0; i < 4; i++)
      q[i] = codes16(v[i], g, l, rule, cut);
    return;
  }
  for (int i = 0; i < 4; i++)
    x[i] = _mm512_mul_ps(v[i], g->reciprocal);
  for (int i = 0; i < 4; i++)
    x[i] = _mm512_add_ps(x[i], g->zero);
  for (int i = 0; i < 4; i++)
    x[i] = _mm512_add_ps(x[i], _mm512_set1_ps(BLOCKS_BELOW_HALF));
  for (int i = 0; i < 4; i++)
    q[i] = _mm512_cvttps_epi32(x[i]);
  for (int i = 0; i < 4 && cut == CUT_CALM; i++)
    q[i] = _mm512_max_epi32(q[i], l->least);
  for (int i = 0; i < 4 && cut == CUT_CALM; i++)
    q[i] = _mm512_min_epi32(q[i], l->most);
}

// Lanes whose numbers times the reciprocal are far from the limits of integers.
AVX512_INLINE __mmask16 calm16(const struct grid16 *g, __m512 lo, __m512 hi) {
  const __m512 limit = _mm512_set1_ps(0x1p30f);
  __m512 a = _mm512_abs_ps(_mm512_mul_ps(lo, g->reciprocal));
  __m512 b = _mm512_abs_ps(_mm512_mul_ps(hi, g->reciprocal));
  return _mm512_cmp_ps_mask(a, limit, _CMP_LT_OQ) & _mm512_cmp_ps_mask(b, limit, _CMP_LT_OQ);
}

// What the codes of four vectors leave, e; and the largest of its kind (bits of |e|).
AVX512_INLINE void errors64(__m512 *e, const __m512 *v, const __m512i *codes,
                            const struct grid16 *g, __m512i *largest) {
  const __m512i size = _mm512_set1_epi32(INT32_MAX);
  for (int i = 0; i < 4; i++)
    e[i] = _mm512_cvtepi32_ps(_mm512_sub_epi32(codes[i], g->whole_zero));
  for (int i = 0; i < 4; i++)
    e[i] = _mm512_mul_ps(e[i], g->scale);
  for (int i = 0; i < 4; i++)
    e[i] = _mm512_sub_ps(v[i], e[i]);
  for (int i = 0; i < 4; i++)
    *largest = _mm512_max_epi32(*largest, _mm512_and_si512(_mm512_castps_si512(e[i]), size));
}

AVX512_INLINE __m512 error16(__m512 v, __m512i code, const struct grid16 *g, __m512i *largest) {
  __m512 e = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(code, g->whole_zero)), g->scale);
  e = _mm512_sub_ps(v, e);
  __m512i size = _mm512_and_si512(_mm512_castps_si512(e), _mm512_set1_epi32(INT32_MAX));
  *largest = _mm512_max_epi32(*largest, size);
  return e;
}

// Lanes whose figures may be added in float32: the scale is of the range for it, or there is
// nothing to add but zeros and NaN.
AVX512_INLINE __mmask16 narrow16(__m512 scale, __m512 lo, __m512 hi) {
  __m512 size = _mm512_abs_ps(scale);
  __mmask16 fits = _mm512_cmp_ps_mask(size, _mm512_set1_ps(BLOCKS_SCALE_LEAST), _CMP_GE_OQ) &
                   _mm512_cmp_ps_mask(size, _mm512_set1_ps(BLOCKS_SCALE_MOST), _CMP_LE_OQ);
  return (__mmask16)(fits |
                     _mm512_cmp_ps_mask(_mm512_or_ps(lo, hi), _mm512_setzero_ps(), _CMP_EQ_OQ));
}

AVX512_INLINE __m512 join(__m512 a, __m512 b, bool most) {
  return most ? _mm512_max_ps(a, b) : _mm512_min_ps(a, b);
}

// x[c] = column c of sixteen rows.
AVX512_INLINE void transpose16(__m512i *x) {
  __m512i a[16], b[16];
  for (int i = 0; i < 8; i++) {
    a[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  }
  for (int i = 0; i < 4; i++) {
    b[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4;
       i++) { // b[4 r + i]: columns i, 4 + i, 8 + i, 12 + i of rows 4 r .. 4 r + 3
    a[i] = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88);
    a[4 + i] = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xdd);
    a[8 + i] = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x88);
    a[12 + i] = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xdd);
  }
  for (int i = 0; i < 4; i++) {
    x[i] = _mm512_shuffle_i32x4(a[i], a[8 + i], 0x88);
    x[8 + i] = _mm512_shuffle_i32x4(a[i], a[8 + i], 0xdd);
    x[4 + i] = _mm512_shuffle_i32x4(a[4 + i], a[12 + i], 0x88);
    x[12 + i] = _mm512_shuffle_i32x4(a[4 + i], a[12 + i], 0xdd);
  }
}

// blocks_rows16_avx512.c: blocks b .. b + MANY of column j, of 16 elements, NBITS of 4 bits,
// float32, with codes; r NULL: no figures. False: they are of a kind that it does not take, and
// nothing that was written of them counts.
enum { BLOCKS_ROWS16_MANY = 32 };
struct blocks_row_sums;
bool blocks_rows16_avx512(const struct kernels_panel *p, const struct kernels_block_format *f,
                          size_t j, size_t b, struct blocks_row_sums *r);
#endif
#endif
