// Blocks of 16 elements along rows with AVX-512: 4 bits, float32. A block is one vector, so what is
// done once a block weighs as much as what is done once an element. Thirty-two blocks are taken
// together, so that no step waits for the one before it, in quads, turned so that a vector holds a
// quarter of each of four blocks and no step but the turning goes from lane to lane:
//
//   quarter q   │ block 0: 4 q .. 4 q + 3 │ block 1: .. │ block 2: .. │ block 3: .. │
//
//   range     four quads, turned into a tile ──▶ lo, hi ──▶ sixteen grids; twice
//   codes     two quads of the tile ──▶ one line of packed codes; four times
//   figures   a quad and its codes ──▶ sums of its blocks; eight times; if wanted
//   sums      all blocks, one behind the other
//
// Grids stay in the order in which that reduces: position e of lane l is of block 4 e + l.
//
// Codes are made from twice what the reference rounds, t = v * 2r + 2 zero, which is exact doubling
// (where v * r is so small that it is not, both add nothing to the zero point): round(x) of x >= 0
// is (trunc(2 x) + 1) / 2, and that is one average of bytes with 0.
//
// What needs care is left to the caller, all thirty-two blocks of it: NaN, products that leave the
// range of integers, blocks of zeros where the sign of the first one shows, figures that take
// double.
#include "kernels/blocks/blocks_avx512.h"
#include "kernels/blocks/inside/blocks_rows.h"

#if defined(__x86_64__)
enum { BLOCK = 16, QUAD = 4, TOGETHER = 16, MANY = BLOCKS_ROWS16_MANY, LINE = 2 * QUAD * BLOCK };

struct many {
  __m512 quarters[MANY];
  __m512i codes[MANY / QUAD];           // bytes, in order
  struct grid16 grids[MANY / TOGETHER]; // reciprocal: twice; zero: twice
};

// ---- range and grids ---------------------------------------------------------------------------

// x[q] = quarter q of four blocks.
AVX512_INLINE void turn(__m512 *x, const float *v) {
  __m512 half[4]; // of blocks 0 and 1, of 2 and 3: quarters 0 and 1; 2 and 3
  for (int i = 0; i < 2; i++, v += 2 * BLOCK) {
    const __m512 a = _mm512_loadu_ps(v), b = _mm512_loadu_ps(v + BLOCK);
    half[i] = _mm512_shuffle_f32x4(a, b, 0x44);
    half[i + 2] = _mm512_shuffle_f32x4(a, b, 0xee);
  }
  for (int i = 0; i < 2; i++) {
    x[2 * i] = _mm512_shuffle_f32x4(half[2 * i], half[2 * i + 1], 0x88);
    x[2 * i + 1] = _mm512_shuffle_f32x4(half[2 * i], half[2 * i + 1], 0xdd);
  }
}

// The extremes of sixteen blocks from four vectors, number e of which has four elements of block
// 4 e + l in lane l: at position e of lane l. most: of maxima, else minima.
AVX512_INLINE __m512 reduce4(const __m512 *x, bool most) {
  __m512 two[2];
  for (int i = 0; i < 2; i++)
    two[i] = join(_mm512_shuffle_ps(x[2 * i], x[2 * i + 1], 0x44),
                  _mm512_shuffle_ps(x[2 * i], x[2 * i + 1], 0xee), most);
  return join(_mm512_shuffle_ps(two[0], two[1], 0x88), _mm512_shuffle_ps(two[0], two[1], 0xdd),
              most);
}

// Sixteen blocks, turned to x. Gives the extremes; tells whether any element is NaN.
AVX512_INLINE bool range16(__m512 *x, const float *v, __m512 *lo, __m512 *hi) {
  __m512 least[QUAD], most[QUAD];
  unsigned odd = 0;
  for (int i = 0; i < QUAD; i++, x += 4, v += QUAD * BLOCK) {
    turn(x, v);
    odd |= (unsigned)_mm512_cmp_ps_mask(x[0], x[1], _CMP_UNORD_Q) |
           (unsigned)_mm512_cmp_ps_mask(x[2], x[3], _CMP_UNORD_Q);
    least[i] = _mm512_min_ps(_mm512_min_ps(x[0], x[1]), _mm512_min_ps(x[2], x[3]));
    most[i] = _mm512_max_ps(_mm512_max_ps(x[0], x[1]), _mm512_max_ps(x[2], x[3]));
  }
  *lo = reduce4(least, false);
  *hi = reduce4(most, true);
  return odd != 0;
}

// Grids of sixteen blocks, of which v and `at` are the first in the panel. False: they need care.
AVX512_INLINE bool grids16(const struct kernels_panel *p, const struct kernels_block_format *f,
                           size_t at, struct grid16 *g, __m512 *x, const float *v) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512 lo, hi;
  bool plain = !range16(x, v, &lo, &hi);
  if (f->symmetric)
    plain &= _mm512_cmp_ps_mask(_mm512_or_ps(lo, hi), _mm512_setzero_ps(), _CMP_EQ_OQ) == 0;
  *g = grid16_of(f, lo, hi);
  if (p->scales) _mm512_storeu_ps(p->scales + at, _mm512_permutexvar_ps(order, g->scale));
  if (p->zeros)
    _mm_storeu_si128((__m128i *)(void *)(p->zeros + at),
                     _mm512_cvtepi32_epi8(_mm512_permutexvar_epi32(order, g->whole_zero)));
  g->zero = _mm512_add_ps(g->zero, g->zero);
  g->reciprocal = _mm512_add_ps(g->reciprocal, g->reciprocal);
  if (p->sums) plain &= narrow16(g->scale, lo, hi) == 0xffff;
  return plain & (calm16(g, lo, hi) == 0xffff);
}

// ---- codes -------------------------------------------------------------------------------------

// Element e of every lane, throughout it.
AVX512_INLINE __m512 spread(__m512 x, size_t e) {
  return _mm512_permutevar_ps(x, _mm512_set1_epi32((int)e));
}

// Codes of a quad, number i of all, as bytes in order.
AVX512_INLINE __m512i codes4(const struct many *m, size_t i) {
  const struct grid16 *g = &m->grids[i / QUAD];
  const __m512 reciprocal = spread(g->reciprocal, i % QUAD), zero = spread(g->zero, i % QUAD);
  const __m512 *v = m->quarters + i * 4;
  __m512i x[4];
  for (int q = 0; q < 4; q++)
    x[q] = _mm512_cvttps_epi32(_mm512_add_ps(_mm512_mul_ps(v[q], reciprocal), zero));
  __m512i bytes =
      _mm512_packus_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
  bytes = _mm512_avg_epu8(bytes, _mm512_setzero_si512());
  return _mm512_min_epu8(bytes, _mm512_set1_epi8(15));
}

// The codes of two quads.
AVX512_INLINE void put_line(uint8_t *out, __m512i a, __m512i b) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512i weights = _mm512_set1_epi16(0x1001);
  a = _mm512_maddubs_epi16(a, weights);
  b = _mm512_maddubs_epi16(b, weights);
  _mm512_storeu_si512(out, _mm512_permutexvar_epi64(order, _mm512_packus_epi16(a, b)));
}

// The line that many blocks further on; it may be nothing of the panel's: nothing is read.
AVX512_INLINE void ask_for(const float *v) {
  for (size_t k = 0; k < LINE; k += 16)
    _mm_prefetch((const char *)(v + MANY * BLOCK + k), _MM_HINT_T0);
}

AVX512_INLINE void codes(uint8_t *out, struct many *m, const float *v) {
  for (size_t i = 0; i < MANY / QUAD; i += 2, v += LINE, out += LINE / 2) {
    ask_for(v);
    m->codes[i] = codes4(m, i);
    m->codes[i + 1] = codes4(m, i + 1);
    put_line(out, m->codes[i], m->codes[i + 1]);
  }
}

// ---- error figures -----------------------------------------------------------------------------

// What a quad's codes leave of its elements.
AVX512_INLINE void errors4(__m512 *e, const struct many *m, size_t i) {
  const struct grid16 *g = &m->grids[i / QUAD];
  const __m512 scale = spread(g->scale, i % QUAD);
  const __m512i zero = _mm512_castps_si512(spread(_mm512_castsi512_ps(g->whole_zero), i % QUAD));
  // Byte 4 q + c of a lane becomes dword c; a byte of 0x80 and up, 0.
  const __m512i picks = _mm512_set4_epi32(-256 + 3, -256 + 2, -256 + 1, -256);
  for (int q = 0; q < 4; q++) {
    __m512i code =
        _mm512_shuffle_epi8(m->codes[i], _mm512_add_epi32(picks, _mm512_set1_epi32(4 * q)));
    e[q] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(code, zero)), scale);
    e[q] = _mm512_sub_ps(m->quarters[i * 4 + (size_t)q], e[q]);
  }
}

// Sums of products in the lanes of struct kernels_sums, lane l + 4 added to lane l: four of each
// block.
AVX512_INLINE __m512 products(const __m512 *a, const __m512 *b) {
  const __m512 low = _mm512_add_ps(_mm512_mul_ps(a[0], b[0]), _mm512_mul_ps(a[2], b[2]));
  const __m512 high = _mm512_add_ps(_mm512_mul_ps(a[1], b[1]), _mm512_mul_ps(a[3], b[3]));
  return _mm512_add_ps(low, high);
}

// The one farther from 0 in every lane, without its sign. Nothing is NaN.
AVX512_INLINE __m512 farther(__m512 a, __m512 b) {
  return _mm512_range_ps(a, b, 0x0b);
}

// A quad's sums, of v v, e e, v e, v e of each block; gives its largest errors.
AVX512_INLINE __m512 figures4(float *sums, const struct many *m, size_t i) {
  const __m512 *v = m->quarters + i * 4;
  __m512 e[4];
  errors4(e, m, i);
  const __m512 vv = products(v, v), ee = products(e, e), ve = products(v, e);
  const __m512 a = _mm512_add_ps(_mm512_shuffle_ps(vv, ee, 0x44), _mm512_shuffle_ps(vv, ee, 0xee));
  const __m512 b = _mm512_add_ps(ve, _mm512_permute_ps(ve, 0x4e));
  _mm512_storeu_ps(sums,
                   _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd)));
  return farther(farther(e[0], e[1]), farther(e[2], e[3]));
}

AVX512_INLINE void figures(struct blocks_row_sums *r, const struct many *m) {
  float sums[MANY * 4];
  double all[4];
  __m512 largest = _mm512_setzero_ps();
  for (size_t i = 0; i < MANY / QUAD; i++)
    largest = farther(largest, figures4(sums + i * QUAD * 4, m, i));
  // The reference's lanes begin with 0, so that its sums of -0 are 0: here what they add to is.
  __m256d x = _mm256_add_pd(_mm256_setr_pd(r->vv, r->ee, r->ve, 0), _mm256_setzero_pd());
  for (int b = 0; b < MANY; b++)
    x = _mm256_add_pd(x, _mm256_cvtps_pd(_mm_loadu_ps(sums + b * 4)));
  _mm256_storeu_pd(all, x);
  r->vv = all[0];
  r->ee = all[1];
  r->ve = all[2];
  blocks_row_join(r, (uint32_t)_mm512_reduce_max_epi32(_mm512_castps_si512(largest)), false);
}

AVX512 bool blocks_rows16_avx512(const struct kernels_panel *p,
                                 const struct kernels_block_format *f, size_t j, size_t b,
                                 struct blocks_row_sums *r) {
  const float *v = (const float *)p->in + j * p->in_stride + b * BLOCK;
  struct many m;
  bool plain = true;
  for (size_t i = 0; i < MANY; i += TOGETHER)
    plain &= grids16(p, f, j * p->blocks_stride + b + i, &m.grids[i / TOGETHER], m.quarters + i,
                     v + i * BLOCK);
  if (!plain) return false;
  codes(p->codes + j * p->codes_stride + b * (BLOCK / 2), &m, v);
  if (r) figures(r, &m);
  return true;
}
#endif
