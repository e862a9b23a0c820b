// Blocks of 16 elements along rows with AVX-512: 4 bits, float32, no error figures. A block is one
// vector, so what is done once a block weighs as much as what is done once an element. Thirty-two
// blocks are taken together, so that no step waits for the one before it:
//
//   range   sixteen blocks ──▶ lo, hi in one vector each ──▶ sixteen grids; twice
//   codes   eight blocks ──▶ one line of packed codes; four times
//
// Codes are made from twice what the reference rounds, t = v * 2r + 2 zero, which is exact doubling
// (where v * r is so small that it is not, both add nothing to the zero point): round(x) of x >= 0 is
// (trunc(2 x) + 1) / 2, and that is one average of bytes with 0.
//
// What needs care is left to the caller, all thirty-two blocks of it: NaN, products that leave the
// range of integers, blocks of zeros where the sign of the first one shows.
#include "blocks_avx512.h"

#if defined(__x86_64__)
enum { BLOCK = 16, TOGETHER = 16, MANY = BLOCKS_ROWS16_MANY, LINE = 8 * BLOCK };

// Grids of the blocks, doubled.
struct twice {
  float reciprocal[MANY], zero[MANY];
};

// The extremes of sixteen blocks, in order. Tells whether any element is NaN.
AVX512_INLINE bool range16(const float *v, __m512 *lo, __m512 *hi) {
  __m512 least[TOGETHER / 2], most[TOGETHER / 2];
  unsigned odd = 0;
  for (int i = 0; i < TOGETHER / 2; i++, v += 2 * BLOCK) {
    const __m512 a = _mm512_loadu_ps(v), b = _mm512_loadu_ps(v + BLOCK);
    const __m512 low = _mm512_unpacklo_ps(a, b), high = _mm512_unpackhi_ps(a, b);
    odd |= _mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q);
    least[i] = _mm512_min_ps(low, high);
    most[i] = _mm512_max_ps(low, high);
  }
  *lo = reduce8(least, false);
  *hi = reduce8(most, true);
  return odd != 0;
}

// Grids of sixteen blocks, number b and on, to the panel and doubled to *t. False: they need care.
AVX512_INLINE bool grids16(const struct kernels_panel *p, const struct kernels_block_format *f,
                           const float *v, size_t at, struct twice *t, size_t b) {
  __m512 lo, hi;
  bool plain = !range16(v + b * BLOCK, &lo, &hi);
  if (f->symmetric)
    plain &= _mm512_cmp_ps_mask(_mm512_or_ps(lo, hi), _mm512_setzero_ps(), _CMP_EQ_OQ) == 0;
  struct grid16 g = grid16_of(f, lo, hi);
  if (p->scales) _mm512_storeu_ps(p->scales + at + b, g.scale);
  if (p->zeros)
    _mm_storeu_si128((__m128i *)(void *)(p->zeros + at + b), _mm512_cvtepi32_epi8(g.whole_zero));
  g.reciprocal = _mm512_add_ps(g.reciprocal, g.reciprocal);
  _mm512_storeu_ps(t->reciprocal + b, g.reciprocal);
  _mm512_storeu_ps(t->zero + b, _mm512_add_ps(g.zero, g.zero));
  return plain & (calm16(&g, lo, hi) == 0xffff);
}

// Codes of four blocks, number b and on, two in every 16-bit lane: lanes 8 q + 2 i of quarter q of
// block i.
AVX512_INLINE __m512i codes4(const float *v, const struct twice *t, size_t b) {
  __m512i x[4];
  for (size_t i = 0; i < 4; i++) {
    __m512 y =
        _mm512_mul_ps(_mm512_loadu_ps(v + (b + i) * BLOCK), _mm512_set1_ps(t->reciprocal[b + i]));
    x[i] = _mm512_cvttps_epi32(_mm512_add_ps(y, _mm512_set1_ps(t->zero[b + i])));
  }
  __m512i bytes =
      _mm512_packus_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
  bytes = _mm512_avg_epu8(bytes, _mm512_setzero_si512());
  bytes = _mm512_min_epu8(bytes, _mm512_set1_epi8(15));
  return _mm512_maddubs_epi16(bytes, _mm512_set1_epi16(0x1001));
}

static const uint16_t line_order[32] = {0, 8,  16, 24, 1, 9,  17, 25, 2, 10, 18, 26, 3, 11, 19, 27,
                                        4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31};

AVX512 bool blocks_rows16_avx512(const struct kernels_panel *p,
                                 const struct kernels_block_format *f, size_t j, size_t b) {
  const float *v = (const float *)p->in + j * p->in_stride + b * BLOCK;
  struct twice t;
  bool plain = true;
  for (size_t i = 0; i < MANY; i += TOGETHER)
    plain &= grids16(p, f, v, j * p->blocks_stride + b, &t, i);
  if (!plain) return false;
  const __m512i order = _mm512_loadu_si512(line_order);
  uint8_t *out = p->codes + j * p->codes_stride + b * (BLOCK / 2);
  for (size_t i = 0; i < MANY; i += 8, out += 64) {
    for (size_t k = 0; k < LINE; k += 16)
      _mm_prefetch((const char *)(v + (MANY + i) * BLOCK + k), _MM_HINT_T0);
    __m512i x = _mm512_packus_epi16(codes4(v, &t, i), codes4(v, &t, i + 4));
    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(order, x));
  }
  return true;
}
#endif
