// Error figures of pairs with AVX2: eight lanes are two vectors of doubles. What comes before the first
// whole turn of the lanes and behind the last one goes through the portable code.
//
// Nothing is fused, so that every lane gets the bytes of the portable reference.
#include "kernels_table.h"

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

AVX2_INLINE void add(struct half *h, const double *v, const double *w) {
  const __m256d x = _mm256_loadu_pd(v), e = _mm256_sub_pd(x, _mm256_loadu_pd(w));
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
    add(&a, v + i, w + i);
    add(&b, v + i + 4, w + i + 4);
  }
  store(s, 0, &a);
  store(s, 4, &b);
  return _mm256_movemask_pd(_mm256_or_pd(a.bad, b.bad)) == 0;
}

AVX2 bool pairs_avx2(struct kernels_lanes *sums, size_t first, const double *v, const double *w,
                     size_t n) {
  struct kernels_lanes s = *sums;
  size_t head = (KERNELS_LANES - first % KERNELS_LANES) % KERNELS_LANES;
  if (head > n) head = n;
  const size_t whole = (n - head) / KERNELS_LANES * KERNELS_LANES, behind = head + whole;
  if (!pairs_portable(&s, first, v, w, head)) return false;
  if (!turns(&s, v + head, w + head, whole)) return false;
  if (!pairs_portable(&s, first + behind, v + behind, w + behind, n - behind)) return false;
  *sums = s;
  return true;
}
#endif
