// Error figures of pairs with AVX-512: the eight lanes are one vector of doubles. Pairs before the
// first whole turn of the lanes and behind the last one come into their lanes by masks:
//
//   first = 3, n = 12    │ . . . 0 1 2 3 4 │ 5 6 7 8 9 10 11 . │
//
// Nothing is fused that would be rounded otherwise, so that every lane gets the bytes of the portable
// reference.
//
// That a pair is not finite shows in the sums: e * e is then no number either. Sums can get there
// with pairs that are finite, too, so it is left to the portable code to find out which it was.
#include "kernels/figure_pairs/inside/figure_pairs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#define AVX512 __attribute__((target(AVX512_TARGET)))
#define AVX512_INLINE static inline __attribute__((always_inline, target(AVX512_TARGET)))

enum {
  NOT_FINITE = 0x99, // for fpclass: NaNs and infinities
  LARGER_SIZE = 0xb, // for range: the larger absolute value, without its sign
};

struct sums {
  __m512d vv, ee, ve, most;
};

AVX512_INLINE struct sums load(const struct kernels_lanes *s) {
  return (struct sums){_mm512_loadu_pd(s->vv), _mm512_loadu_pd(s->ee), _mm512_loadu_pd(s->ve),
                       _mm512_loadu_pd(s->max_error)};
}

// False if sums are not finite: then nothing is stored.
AVX512_INLINE bool store(struct kernels_lanes *s, const struct sums *t) {
  if (_mm512_fpclass_pd_mask(t->ee, NOT_FINITE)) return false;
  _mm512_storeu_pd(s->vv, t->vv);
  _mm512_storeu_pd(s->ee, t->ee);
  _mm512_storeu_pd(s->ve, t->ve);
  _mm512_storeu_pd(s->max_error, t->most);
  return true;
}

AVX512_INLINE void add(struct sums *s, __mmask8 lanes, __m512d v, __m512d w) {
  const __m512d e = _mm512_sub_pd(v, w);
  s->vv = _mm512_mask_add_pd(s->vv, lanes, s->vv, _mm512_mul_pd(v, v));
  s->ee = _mm512_mask_add_pd(s->ee, lanes, s->ee, _mm512_mul_pd(e, e));
  s->ve = _mm512_mask_add_pd(s->ve, lanes, s->ve, _mm512_mul_pd(v, e));
  s->most = _mm512_mask_range_pd(s->most, lanes, e, s->most, LARGER_SIZE);
}

// The lanes that the next of `n` pairs fill, from `lane` on, and how many pairs those are.
AVX512_INLINE __mmask8 lanes_of(size_t lane, size_t n, size_t *taken) {
  *taken = n < KERNELS_LANES - lane ? n : KERNELS_LANES - lane;
  return (__mmask8)(((1u << *taken) - 1) << lane);
}

AVX512 bool figure_pairs_avx512(struct kernels_lanes *sums, size_t first, const double *v,
                                const double *w, size_t n) {
  struct sums s = load(sums);
  size_t i = 0, taken;
  while (i < n) {
    const __mmask8 lanes = lanes_of((first + i) % KERNELS_LANES, n - i, &taken);
    add(&s, lanes, _mm512_maskz_expandloadu_pd(lanes, v + i),
        _mm512_maskz_expandloadu_pd(lanes, w + i));
    for (i += taken; i + KERNELS_LANES <= n; i += KERNELS_LANES)
      add(&s, 0xff, _mm512_loadu_pd(v + i), _mm512_loadu_pd(w + i));
  }
  return store(sums, &s) || figure_pairs_portable(sums, first, v, w, n);
}

// ---- codes -------------------------------------------------------------------------------------

struct grid {
  __m512d scale, zero;
};

AVX512_INLINE __m512d value_of(__m128i codes, bool is_unsigned, const struct grid *g) {
  const __m256i whole = is_unsigned ? _mm256_cvtepu8_epi32(codes) : _mm256_cvtepi8_epi32(codes);
  const __m512d code = _mm512_cvtepi32_pd(whole);
  return is_unsigned ? _mm512_mul_pd(_mm512_sub_pd(code, g->zero), g->scale)
                     : _mm512_add_pd(_mm512_mul_pd(code, g->scale), g->zero);
}

// The bytes of codes are shifted to their lanes.
AVX512_INLINE void add_some(struct sums *s, __mmask8 lanes, const float *v, const uint8_t *codes,
                            bool is_unsigned, const struct grid *g) {
  const int lane = __builtin_ctz(lanes), n = __builtin_popcount(lanes);
  uint64_t bytes = 0;
  for (int i = 0; i < n; i++)
    bytes |= (uint64_t)codes[i] << (8 * (lane + i));
  add(s, lanes, _mm512_cvtps_pd(_mm256_maskz_expandloadu_ps(lanes, v)),
      value_of(_mm_cvtsi64_si128((long long)bytes), is_unsigned, g));
}

AVX512_INLINE void add_codes(struct sums *s, size_t first, const float *v, const uint8_t *codes,
                             size_t n, bool is_unsigned, const struct grid *g) {
  size_t i = 0, taken;
  while (i < n) {
    const __mmask8 lanes = lanes_of((first + i) % KERNELS_LANES, n - i, &taken);
    add_some(s, lanes, v + i, codes + i, is_unsigned, g);
    for (i += taken; i + KERNELS_LANES <= n; i += KERNELS_LANES)
      add(s, 0xff, _mm512_cvtps_pd(_mm256_loadu_ps(v + i)),
          value_of(_mm_loadl_epi64((const __m128i *)(const void *)(codes + i)), is_unsigned, g));
  }
}

AVX512 bool figure_pairs_codes_avx512(struct kernels_lanes *sums, size_t first, const float *v,
                                      const uint8_t *codes, size_t n,
                                      const struct kernels_stored *m) {
  const struct grid g = {_mm512_set1_pd(m->scale), _mm512_set1_pd(m->zero)};
  struct sums s = load(sums);
  if (m->is_unsigned)
    add_codes(&s, first, v, codes, n, true, &g);
  else
    add_codes(&s, first, v, codes, n, false, &g);
  return store(sums, &s) || figure_pairs_codes_portable(sums, first, v, codes, n, m);
}

// ---- codes with scales of their own ------------------------------------------------------------

// Of the bits per weight: the sign bit is flipped, and taken away again.
struct form {
  __m256i mask, sign;
};

// v * v of floats has no more bits than a double holds: what is fused here has nothing to round that
// is not rounded without.
AVX512_INLINE void add_eight(struct sums *s, const float *in, const uint8_t *codes,
                             const struct form *f, __m256i zero, __m256 scale) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)codes));
  const __m256i low = _mm256_xor_si256(_mm256_and_si256(bytes, f->mask), f->sign);
  const __m256i code = _mm256_sub_epi32(low, _mm256_add_epi32(f->sign, zero));
  const __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(in));
  const __m256 w = _mm256_mul_ps(_mm256_cvtepi32_ps(code), scale);
  const __m512d e = _mm512_sub_pd(v, _mm512_cvtps_pd(w));
  s->vv = _mm512_fmadd_pd(v, v, s->vv);
  s->ee = _mm512_add_pd(s->ee, _mm512_mul_pd(e, e));
  s->ve = _mm512_add_pd(s->ve, _mm512_mul_pd(v, e));
  s->most = _mm512_range_pd(e, s->most, LARGER_SIZE);
}

AVX512_INLINE void add_rows(struct sums *s, const float *v, const uint8_t *codes, size_t n,
                            const struct form *f, const float *scales, const uint8_t *zeros) {
  for (size_t i = 0; i < n; i += KERNELS_LANES) {
    __m256i zero = _mm256_setzero_si256();
    if (zeros)
      zero = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(zeros + i)));
    add_eight(s, v + i, codes + i, f, zero, _mm256_loadu_ps(scales + i));
  }
}

AVX512 static bool turns_of_scaled(struct kernels_lanes *sums, const float *v, const uint8_t *codes,
                                   size_t n, const struct kernels_scaled *m) {
  const struct form f = {_mm256_set1_epi32((1 << m->bits) - 1),
                         _mm256_set1_epi32(m->is_signed ? 1 << (m->bits - 1) : 0)};
  struct sums s = load(sums);
  if (m->share == 1 && m->zeros && !m->is_signed) {
    const struct form plain = {f.mask, _mm256_setzero_si256()};
    add_rows(&s, v, codes, n, &plain, m->scales, m->zeros);
  } else if (m->share == 1 && m->zeros) {
    add_rows(&s, v, codes, n, &f, m->scales, m->zeros);
  } else if (m->share == 1) {
    add_rows(&s, v, codes, n, &f, m->scales, NULL);
  } else {
    for (size_t i = 0; i < n;) {
      const size_t end = i + m->share < n ? i + m->share : n, block = i / m->share;
      const __m256i zero = _mm256_set1_epi32(m->zeros ? m->zeros[block] : 0);
      const __m256 scale = _mm256_set1_ps(m->scales[block]);
      for (; i < end; i += KERNELS_LANES)
        add_eight(&s, v + i, codes + i, &f, zero, scale);
    }
  }
  return store(sums, &s);
}

AVX512 bool figure_pairs_scaled_avx512(struct kernels_lanes *sums, size_t first, const float *v,
                                       const uint8_t *codes, size_t n,
                                       const struct kernels_scaled *m) {
  const struct figure_pairs_cut c = figure_pairs_cut_scaled(first, n, m);
  if (c.whole == n && turns_of_scaled(sums, v, codes, n, m)) return true;
  struct kernels_lanes s = *sums;
  const struct kernels_scaled whole = figure_pairs_scaled_from(m, c.head),
                              behind = figure_pairs_scaled_from(m, c.behind);
  if (!figure_pairs_scaled_portable(&s, first, v, codes, c.head, m) ||
      !turns_of_scaled(&s, v + c.head, codes + c.head, c.whole, &whole) ||
      !figure_pairs_scaled_portable(&s, first + c.behind, v + c.behind, codes + c.behind,
                                    n - c.behind, &behind))
    return figure_pairs_scaled_portable(sums, first, v, codes, n, m);
  *sums = s;
  return true;
}
#endif
