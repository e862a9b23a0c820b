// Conversions with AVX2 and F16C, eight (or four) elements at a time; the portable code takes the
// rest.
//
// Where an instruction exists it is used: its rounding is to nearest even (given in the instruction
// for binary16; by the default rounding mode, which nobody here changes, for double to float), it
// underflows gradually, and NaNs become quiet and keep sign and top payload bits, exactly as the
// portable code spells out. bfloat16 is done on integers.
//
// From double to a 16-bit format there is no instruction, and going through float would round
// twice. So the float in between is rounded to odd: truncated, and its last bit set if anything was
// cut off. It has more than two bits more than the target (24 against 11 and 8; and the denormals
// of bfloat16 end 16 bits above those of float), so that rounding it to nearest even gives what
// rounding the double would have (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums: proved algorithms using rounding to odd", 2008).
#include "kernels/kernels_table.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2,f16c")))

enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

AVX2_INLINE __m256i load_256(const uint8_t *in) {
  return _mm256_loadu_si256((const __m256i *)(const void *)in);
}

AVX2_INLINE __m128i load_128(const uint8_t *in) {
  return _mm_loadu_si128((const __m128i *)(const void *)in);
}

AVX2_INLINE void store_256(uint8_t *out, __m256i x) {
  _mm256_storeu_si256((__m256i *)(void *)out, x);
}

AVX2_INLINE void store_128(uint8_t *out, __m128i x) {
  _mm_storeu_si128((__m128i *)(void *)out, x);
}

// The low halves of eight dwords (each below 2^16), in order.
AVX2_INLINE __m128i pack_halves(__m256i x) {
  return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

AVX2_INLINE __m128i round_bf16(__m256i x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), infinity = _mm256_set1_epi32(0x7f800000);
  __m256i high = _mm256_srli_epi32(x, 16);
  __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(x, magnitude), infinity);
  __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return pack_halves(_mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), quiet, nan));
}

// Four doubles to floats, rounded to odd; NaNs quiet with the top of their payload.
AVX2_INLINE __m128i round_odd(__m256d x) {
  const __m256i magnitude = _mm256_set1_epi64x(INT64_MAX);
  __m128 nearest = _mm256_cvtpd_ps(x);
  __m256d back = _mm256_cvtps_pd(nearest);
  __m256d inexact = _mm256_cmp_pd(back, x, _CMP_NEQ_OQ); // false for NaN
  __m256d up = _mm256_cmp_pd(_mm256_and_pd(back, _mm256_castsi256_pd(magnitude)),
                             _mm256_and_pd(x, _mm256_castsi256_pd(magnitude)), _CMP_GT_OQ);
  // The masks of four doubles as four dwords of all ones or zeros.
  const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  __m128i cut =
      _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_castpd_si256(inexact), even));
  __m128i too_far =
      _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_castpd_si256(up), even));
  __m128i truncated = _mm_add_epi32(_mm_castps_si128(nearest), too_far); // minus one unit if up
  return _mm_or_si128(truncated, _mm_srli_epi32(cut, 31));
}

AVX2_INLINE __m256i round_odd_8(const uint8_t *in) {
  __m128i low = round_odd(_mm256_castsi256_pd(load_256(in)));
  __m128i high = round_odd(_mm256_castsi256_pd(load_256(in + 32)));
  return _mm256_set_m128i(high, low);
}

AVX2_INLINE __m128i half_of(__m256i x) {
  return _mm256_cvtps_ph(_mm256_castsi256_ps(x), NEAREST);
}

AVX2_INLINE __m256i quiet_bf16(__m128i x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), infinity = _mm256_set1_epi32(0x7f800000);
  __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16);
  __m256i nan = _mm256_cmpgt_epi32(_mm256_and_si256(wide, magnitude), infinity);
  return _mm256_or_si256(wide, _mm256_and_si256(nan, _mm256_set1_epi32(0x400000)));
}

// `many` elements at a time, of in_bytes and out_bytes each; put() stores at `to` what stands at
// `from`.
#define CAST(name, many, in_bytes, out_bytes, put)                                                 \
  AVX2 void name##_avx2(void *out, const void *in, size_t n) {                                     \
    const uint8_t *from = in;                                                                      \
    uint8_t *to = out;                                                                             \
    for (; n >= many; n -= many, from += many * in_bytes, to += many * out_bytes)                  \
      put;                                                                                         \
    name##_portable(to, from, n);                                                                  \
  }
CAST(cast_f32_f16, 8, 4, 2, store_128(to, half_of(load_256(from))))
CAST(cast_f32_bf16, 8, 4, 2, store_128(to, round_bf16(load_256(from))))
CAST(cast_f16_f32, 8, 2, 4, store_256(to, _mm256_castps_si256(_mm256_cvtph_ps(load_128(from)))))
CAST(cast_bf16_f32, 8, 2, 4, store_256(to, quiet_bf16(load_128(from))))
CAST(cast_f64_f32, 4, 8, 4,
     store_128(to, _mm_castps_si128(_mm256_cvtpd_ps(_mm256_castsi256_pd(load_256(from))))))
CAST(cast_f32_f64, 4, 4, 8,
     store_256(to, _mm256_castpd_si256(_mm256_cvtps_pd(_mm_castsi128_ps(load_128(from))))))
CAST(cast_f64_f16, 8, 8, 2, store_128(to, half_of(round_odd_8(from))))
CAST(cast_f64_bf16, 8, 8, 2, store_128(to, round_bf16(round_odd_8(from))))
#endif
