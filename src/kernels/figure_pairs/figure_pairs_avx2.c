// Error figures of pairs with AVX2: eight lanes are two vectors of doubles. What comes before the
// first whole turn of the lanes and behind the last one goes through the portable code.
//
// Nothing is fused, so that every lane gets the bytes of the portable reference.
#include "figure_pairs.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2")))

struct half {
  __m256d vv, ee, ve, most;
  __m256d bad; // all ones where an error is not finite
};

AVX2_INLINE struct half load(const struct kernels_lanes *s, size_t lane) {
  return (struct half){_mm256_loadu_pd(s->vv + lane), _mm256_loadu_pd(s->ee + lane),
                       _mm256_loadu_pd(s->ve + lane), _mm256_loadu_pd(s->max_error + lane),
                       _mm256_setzero_pd()};
}

AVX2_INLINE void store(struct kernels_lanes *s, size_t lane, const struct half *h) {
  _mm256_storeu_pd(s->vv + lane, h->vv);
  _mm256_storeu_pd(s->ee + lane, h->ee);
  _mm256_storeu_pd(s->ve + lane, h->ve);
  _mm256_storeu_pd(s->max_error + lane, h->most);
}

AVX2_INLINE void add(struct half *h, __m256d x, __m256d w) {
  const __m256d e = _mm256_sub_pd(x, w);
  const __m256d size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), e);
  h->vv = _mm256_add_pd(h->vv, _mm256_mul_pd(x, x));
  h->ee = _mm256_add_pd(h->ee, _mm256_mul_pd(e, e));
  h->ve = _mm256_add_pd(h->ve, _mm256_mul_pd(x, e));
  h->most = _mm256_max_pd(size, h->most);
  const __m256d zero = _mm256_sub_pd(e, e);
  h->bad = _mm256_or_pd(h->bad, _mm256_cmp_pd(zero, _mm256_setzero_pd(), _CMP_NEQ_UQ));
}

AVX2 static bool turns(struct kernels_lanes *s, const double *v, const double *w, size_t n) {
  struct half a = load(s, 0), b = load(s, 4);
  for (size_t i = 0; i < n; i += KERNELS_LANES) {
    add(&a, _mm256_loadu_pd(v + i), _mm256_loadu_pd(w + i));
    add(&b, _mm256_loadu_pd(v + i + 4), _mm256_loadu_pd(w + i + 4));
  }
  store(s, 0, &a);
  store(s, 4, &b);
  return _mm256_movemask_pd(_mm256_or_pd(a.bad, b.bad)) == 0;
}

AVX2 bool figure_pairs_avx2(struct kernels_lanes *sums, size_t first, const double *v,
                            const double *w, size_t n) {
  struct kernels_lanes s = *sums;
  const struct figure_pairs_cut c = figure_pairs_cut(first, n);
  if (!figure_pairs_portable(&s, first, v, w, c.head)) return false;
  if (!turns(&s, v + c.head, w + c.head, c.whole)) return false;
  if (!figure_pairs_portable(&s, first + c.behind, v + c.behind, w + c.behind, n - c.behind))
    return false;
  *sums = s;
  return true;
}

// ---- codes -------------------------------------------------------------------------------------

struct grid {
  __m256d scale, zero;
};

AVX2_INLINE __m256d value_of(__m128i code, bool is_unsigned, const struct grid *g) {
  const __m256d c = _mm256_cvtepi32_pd(code);
  return is_unsigned ? _mm256_mul_pd(_mm256_sub_pd(c, g->zero), g->scale)
                     : _mm256_add_pd(_mm256_mul_pd(c, g->scale), g->zero);
}

AVX2_INLINE bool turns_of_codes(struct kernels_lanes *s, const float *v, const uint8_t *codes,
                                size_t n, bool is_unsigned, const struct grid *g) {
  struct half a = load(s, 0), b = load(s, 4);
  for (size_t i = 0; i < n; i += KERNELS_LANES) {
    const __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(codes + i));
    const __m256i code = is_unsigned ? _mm256_cvtepu8_epi32(eight) : _mm256_cvtepi8_epi32(eight);
    add(&a, _mm256_cvtps_pd(_mm_loadu_ps(v + i)),
        value_of(_mm256_castsi256_si128(code), is_unsigned, g));
    add(&b, _mm256_cvtps_pd(_mm_loadu_ps(v + i + 4)),
        value_of(_mm256_extracti128_si256(code, 1), is_unsigned, g));
  }
  store(s, 0, &a);
  store(s, 4, &b);
  return _mm256_movemask_pd(_mm256_or_pd(a.bad, b.bad)) == 0;
}

AVX2 bool figure_pairs_codes_avx2(struct kernels_lanes *sums, size_t first, const float *v,
                                  const uint8_t *codes, size_t n, const struct kernels_stored *m) {
  const struct grid g = {_mm256_set1_pd(m->scale), _mm256_set1_pd(m->zero)};
  struct kernels_lanes s = *sums;
  const struct figure_pairs_cut c = figure_pairs_cut(first, n);
  if (!figure_pairs_codes_portable(&s, first, v, codes, c.head, m)) return false;
  if (!(m->is_unsigned ? turns_of_codes(&s, v + c.head, codes + c.head, c.whole, true, &g)
                       : turns_of_codes(&s, v + c.head, codes + c.head, c.whole, false, &g)))
    return false;
  if (!figure_pairs_codes_portable(&s, first + c.behind, v + c.behind, codes + c.behind,
                                   n - c.behind, m))
    return false;
  *sums = s;
  return true;
}

// ---- codes with scales of their own ------------------------------------------------------------

// Of the bits of a code: the sign bit is flipped, and taken away again.
struct form {
  __m256i mask, sign;
};

AVX2_INLINE __m256i wide_bytes(const uint8_t *at) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
}

AVX2_INLINE void add_eight(struct half h[2], const float *v, const uint8_t *codes,
                           const struct form *f, __m256i zero, __m256d low, __m256d high) {
  const __m256i bits = _mm256_xor_si256(_mm256_and_si256(wide_bytes(codes), f->mask), f->sign);
  const __m256i code = _mm256_sub_epi32(bits, _mm256_add_epi32(f->sign, zero));
  add(&h[0], _mm256_cvtps_pd(_mm_loadu_ps(v)),
      _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(code)), low));
  add(&h[1], _mm256_cvtps_pd(_mm_loadu_ps(v + 4)),
      _mm256_mul_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(code, 1)), high));
}

AVX2 static bool turns_of_scaled(struct kernels_lanes *s, const float *v, const uint8_t *codes,
                                 size_t n, const struct kernels_scaled *m) {
  const struct form f = {_mm256_set1_epi32((1 << m->bits) - 1),
                         _mm256_set1_epi32(m->is_signed ? 1 << (m->bits - 1) : 0)};
  struct half h[2] = {load(s, 0), load(s, 4)};
  if (m->share == 1) {
    for (size_t i = 0; i < n; i += KERNELS_LANES) {
      const __m256i zero = m->zeros ? wide_bytes(m->zeros + i) : _mm256_setzero_si256();
      add_eight(h, v + i, codes + i, &f, zero, _mm256_cvtps_pd(_mm_loadu_ps(m->scales + i)),
                _mm256_cvtps_pd(_mm_loadu_ps(m->scales + i + 4)));
    }
  } else {
    for (size_t i = 0; i < n;) {
      const size_t end = i + m->share < n ? i + m->share : n, block = i / m->share;
      const __m256i zero = _mm256_set1_epi32(m->zeros ? m->zeros[block] : 0);
      const __m256d scale = _mm256_set1_pd((double)m->scales[block]);
      for (; i < end; i += KERNELS_LANES)
        add_eight(h, v + i, codes + i, &f, zero, scale, scale);
    }
  }
  store(s, 0, &h[0]);
  store(s, 4, &h[1]);
  return _mm256_movemask_pd(_mm256_or_pd(h[0].bad, h[1].bad)) == 0;
}

AVX2 bool figure_pairs_scaled_avx2(struct kernels_lanes *sums, size_t first, const float *v,
                                   const uint8_t *codes, size_t n, const struct kernels_scaled *m) {
  const struct figure_pairs_cut c = figure_pairs_cut_scaled(first, n, m);
  struct kernels_lanes s = *sums;
  const struct kernels_scaled whole = figure_pairs_scaled_from(m, c.head),
                              behind = figure_pairs_scaled_from(m, c.behind);
  if (!figure_pairs_scaled_portable(&s, first, v, codes, c.head, m) ||
      !turns_of_scaled(&s, v + c.head, codes + c.head, c.whole, &whole) ||
      !figure_pairs_scaled_portable(&s, first + c.behind, v + c.behind, codes + c.behind,
                                    n - c.behind, &behind))
    return false;
  *sums = s;
  return true;
}
#endif
