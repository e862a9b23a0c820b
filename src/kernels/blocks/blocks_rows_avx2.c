// Blockwise quantization along rows with AVX2: elements of a block are contiguous.
//
// Eight blocks are taken together, so that the divisions of eight grids cost as much as one, and in
// three passes that stay in the first-level cache:
//
//   range   eight blocks, widened to float32 into a tile unless they are ──▶ lo[8], hi[8] ──▶ grids
//   codes   block by block, a byte a code into a buffer, sums
//   pack    the buffer's bytes to 2 or 4 bits in one go
//
// Blocks that are not of 16 elements or a multiple (QDQ alone) and what is left of the last block
// go one by one, their last elements to the portable code.
#include "kernels/blocks/blocks_avx2.h"
#include "kernels/blocks/inside/blocks_rows.h"

#if defined(__x86_64__)
enum { TOGETHER = 8, BLOCK_MAX = BLOCKS_NBITS_MAX };

// What eight blocks of a row pass on from one step to the next.
struct group {
  const float *wide; // elements, of any alignment
  size_t n;          // blocks
  float scale[TOGETHER], reciprocal[TOGETHER], zero[TOGETHER];
  bool narrow; // error figures of all of them may be added in float32
  _Alignas(32) float tile[TOGETHER * BLOCK_MAX];
  _Alignas(32) uint8_t bytes[TOGETHER * BLOCK_MAX];
};

// ---- range and grids ---------------------------------------------------------------------------

struct extremes {
  __m256 lo, hi;
};

AVX2_INLINE void widen_into(struct extremes *x, const uint8_t *at, enum kernels_float type,
                            float *wide) {
  __m256 v = load_wide(at, type);
  if (wide) _mm256_store_ps(wide, v);
  x->lo = _mm256_min_ps(v, x->lo);
  x->hi = _mm256_max_ps(v, x->hi);
}

// Of n elements, a multiple of 16. wide NULL: float32 need not be copied.
AVX2_INLINE struct extremes range_of(const uint8_t *at, enum kernels_float type, size_t n,
                                     float *wide) {
  const size_t step = 8 * (type == KERNELS_F32 ? 4 : 2);
  struct extremes a = {_mm256_set1_ps(FLT_MAX), _mm256_set1_ps(-FLT_MAX)}, b = a;
  for (size_t k = 0; k < n; k += 16, at += 2 * step) {
    widen_into(&a, at, type, wide ? wide + k : NULL);
    widen_into(&b, at + step, type, wide ? wide + k + 8 : NULL);
  }
  return (struct extremes){_mm256_min_ps(b.lo, a.lo), _mm256_max_ps(b.hi, a.hi)};
}

// The extremes of eight vectors, in order. most: of maxima, else minima.
AVX2_INLINE __m256 join(__m256 a, __m256 b, bool most) {
  return most ? _mm256_max_ps(a, b) : _mm256_min_ps(a, b);
}

AVX2_INLINE __m256 reduce8(const __m256 *x, bool most) {
  __m256 two[4], four[2];
  for (int i = 0; i < 4; i++)
    two[i] = join(_mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]),
                  _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]), most);
  for (int i = 0; i < 2; i++)
    four[i] = join(_mm256_shuffle_ps(two[2 * i], two[2 * i + 1], 0x44),
                   _mm256_shuffle_ps(two[2 * i], two[2 * i + 1], 0xee), most);
  return join(_mm256_permute2f128_ps(four[0], four[1], 0x20),
              _mm256_permute2f128_ps(four[0], four[1], 0x31), most);
}

// Lanes lost the order of zeros: a block of nothing else gets the sign of its first.
AVX2 static void mend_zeros(const struct group *g, size_t block, __m256 *lo, __m256 *hi) {
  float l[TOGETHER], h[TOGETHER];
  _mm256_storeu_ps(l, *lo);
  _mm256_storeu_ps(h, *hi);
  for (size_t b = 0; b < g->n; b++)
    if (l[b] == 0 && h[b] == 0) l[b] = h[b] = blocks_row_first_zero(g->wide + b * block, block);
  *lo = _mm256_loadu_ps(l);
  *hi = _mm256_loadu_ps(h);
}

AVX2_INLINE void group_ranges(struct group *g, const uint8_t *at, enum kernels_float type,
                              size_t block, __m256 *lo, __m256 *hi) {
  __m256 los[TOGETHER], his[TOGETHER];
  bool as_is = type == KERNELS_F32;
  size_t step = block * (as_is ? 4 : 2);
  g->wide = as_is ? (const float *)(const void *)at : g->tile;
  for (size_t b = 0; b < TOGETHER; b++) {
    size_t from = b < g->n ? b : 0;
    struct extremes x =
        range_of(at + from * step, type, block, as_is ? NULL : g->tile + from * block);
    los[b] = x.lo;
    his[b] = x.hi;
  }
  *lo = reduce8(los, false);
  *hi = reduce8(his, true);
}

AVX2 static void group_grids(struct group *g, const uint8_t *at,
                             const struct kernels_block_format *f) {
  __m256 lo, hi;
  BLOCKS_BY_TYPE(f->in_type, group_ranges(g, at, TYPE, f->block, &lo, &hi));
  if (f->symmetric) {
    __m256 nothing = _mm256_cmp_ps(_mm256_or_ps(lo, hi), _mm256_setzero_ps(), _CMP_EQ_OQ);
    if (_mm256_movemask_ps(nothing)) mend_zeros(g, f->block, &lo, &hi);
  }
  struct grid8 grids = grid8_of(f, lo, hi);
  g->narrow = ~(unsigned)narrow_lanes(grids.scale, lo, hi) << (32 - g->n) == 0;
  _mm256_storeu_ps(g->scale, grids.scale);
  _mm256_storeu_ps(g->reciprocal, grids.reciprocal);
  _mm256_storeu_ps(g->zero, grids.zero);
}

// ---- sums of a row -----------------------------------------------------------------------------

// Eight times eight lanes, reduced as struct kernels_sums says, in order.
AVX2_INLINE void reduce_lanes(float *out, const __m256 *x) {
  __m256 two[4], four[2];
  for (int i = 0; i < 4; i++)
    two[i] = _mm256_add_ps(_mm256_permute2f128_ps(x[2 * i], x[2 * i + 1], 0x20),
                           _mm256_permute2f128_ps(x[2 * i], x[2 * i + 1], 0x31));
  for (int i = 0; i < 2; i++)
    four[i] = _mm256_add_ps(_mm256_shuffle_ps(two[2 * i], two[2 * i + 1], 0x44),
                            _mm256_shuffle_ps(two[2 * i], two[2 * i + 1], 0xee));
  // four[0]: first and second half of blocks 0 2 | 1 3, four[1]: of 4 6 | 5 7
  __m256 all = _mm256_add_ps(_mm256_shuffle_ps(four[0], four[1], 0x88),
                             _mm256_shuffle_ps(four[0], four[1], 0xdd));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(all, order));
}

// Lanes of eight blocks.
struct group_sums {
  __m256 vv[TOGETHER], ee[TOGETHER], ve[TOGETHER];
  __m256i largest;
};

AVX2_INLINE void row_sums_add(struct blocks_row_sums *r, const struct group_sums *s, size_t n) {
  float vv[TOGETHER], ee[TOGETHER], ve[TOGETHER];
  reduce_lanes(vv, s->vv);
  reduce_lanes(ee, s->ee);
  reduce_lanes(ve, s->ve);
  blocks_row_add(r, vv, ee, ve, n);
  blocks_row_join(r, largest_of(s->largest), false);
}

// ---- codes -------------------------------------------------------------------------------------

// Eight elements to codes, as dwords. figures: with error figures, here and below a constant of the
// caller.
AVX2_INLINE __m256i eight(const float *v, const struct grid8 *g, const struct code_limits *l,
                          enum kernels_rule rule, bool figures, struct sums8 *sums) {
  __m256 x = _mm256_loadu_ps(v);
  __m256i code = codes8(x, g, l, rule);
  if (figures) sums8_add(sums, x, code, g);
  return code;
}

// How a row's elements become bytes.
struct row_way {
  struct code_limits limits;
  __m256i mask;
};

// A block of n elements (a multiple of 16) to bytes.
AVX2_INLINE struct sums8 codes_of(const float *v, size_t n, const struct grid8 *g,
                                  const struct row_way *w, uint8_t *out, enum kernels_rule rule,
                                  bool figures) {
  const struct code_limits *l = &w->limits;
  struct sums8 s = sums8_none();
  size_t k = 0;
  for (; k + 32 <= n; k += 32) {
    __m256i a = eight(v + k, g, l, rule, figures, &s),
            b = eight(v + k + 8, g, l, rule, figures, &s);
    __m256i c = eight(v + k + 16, g, l, rule, figures, &s),
            d = eight(v + k + 24, g, l, rule, figures, &s);
    _mm256_storeu_si256((__m256i *)(void *)(out + k), bytes32(a, b, c, d, w->mask));
  }
  if (k < n) {
    __m256i a = eight(v + k, g, l, rule, figures, &s),
            b = eight(v + k + 8, g, l, rule, figures, &s);
    _mm_storeu_si128((__m128i *)(void *)(out + k), bytes16(a, b, w->mask));
  }
  return s;
}

AVX2_INLINE void group_codes(const struct group *g, size_t block, const struct row_way *w,
                             uint8_t *out, enum kernels_rule rule, bool figures,
                             struct blocks_row_sums *sums) {
  struct group_sums all;
  all.largest = _mm256_setzero_si256();
  for (size_t b = 0; b < g->n; b++) {
    struct grid8 grid = {_mm256_set1_ps(g->scale[b]), _mm256_set1_ps(g->reciprocal[b]),
                         _mm256_set1_ps(g->zero[b])};
    struct sums8 s = codes_of(g->wide + b * block, block, &grid, w, out + b * block, rule, figures);
    if (!figures) continue;
    all.vv[b] = s.vv;
    all.ee[b] = s.ee;
    all.ve[b] = s.ve;
    all.largest = _mm256_max_epi32(all.largest, s.largest);
  }
  for (size_t b = g->n; figures && b < TOGETHER; b++)
    all.vv[b] = all.ee[b] = all.ve[b] = _mm256_setzero_ps();
  if (figures) row_sums_add(sums, &all, g->n);
}

// ---- packing -----------------------------------------------------------------------------------

AVX2_INLINE __m256i load_bytes(const uint8_t *at) {
  return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

// Sixty-four codes to as many nibbles.
AVX2_INLINE __m256i nibbles(const uint8_t *codes) {
  const __m256i weights = _mm256_set1_epi16(0x1001);
  __m256i a = _mm256_maddubs_epi16(load_bytes(codes), weights);
  __m256i b = _mm256_maddubs_epi16(load_bytes(codes + 32), weights);
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}

// A hundred and twenty-eight codes of 2 bits: pairs to nibbles, then those.
AVX2_INLINE __m256i crumbs(const uint8_t *codes) {
  const __m256i weights = _mm256_set1_epi16(0x0401);
  _Alignas(32) uint8_t pairs[64];
  for (int i = 0; i < 2; i++) {
    __m256i a = _mm256_maddubs_epi16(load_bytes(codes + 64 * i), weights);
    __m256i b = _mm256_maddubs_epi16(load_bytes(codes + 64 * i + 32), weights);
    __m256i x = _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
    _mm256_store_si256((__m256i *)(void *)(pairs + 32 * i), x);
  }
  return nibbles(pairs);
}

// n codes, a multiple of 16; up to 127 bytes behind them are read, and none behind out's are
// written.
AVX2 static void pack(uint8_t *out, const uint8_t *codes, size_t n, unsigned bits) {
  size_t each = bits == 4 ? 64 : 128;
  for (; n >= each; n -= each, codes += each, out += 32)
    _mm256_storeu_si256((__m256i *)(void *)out, bits == 4 ? nibbles(codes) : crumbs(codes));
  if (!n) return;
  uint8_t last[32];
  _mm256_storeu_si256((__m256i *)(void *)last, bits == 4 ? nibbles(codes) : crumbs(codes));
  memcpy(out, last, n * bits / 8);
}

// ---- rows --------------------------------------------------------------------------------------

static void put_grids(const struct group *g, const struct kernels_panel *p, size_t at) {
  if (p->scales) memcpy(p->scales + at, g->scale, g->n * sizeof *g->scale);
  for (size_t b = 0; p->zeros && b < g->n; b++)
    p->zeros[at + b] = (uint8_t)g->zero[b];
}

// Whole blocks of column j from block 0 on, eight at a time.
AVX2_INLINE void row(const struct kernels_panel *p, const struct kernels_block_format *f, size_t j,
                     enum kernels_rule rule, bool figures, struct blocks_row_sums *sums) {
  const struct row_way way = {code_limits_of(f), code_mask(f)};
  struct group g;
  size_t blocks = p->k / f->block;
  bool in_place = rule == KERNELS_QDQ || f->bits == 8;
  for (size_t b = 0; b < blocks; b += g.n) {
    g.n = blocks - b < TOGETHER ? blocks - b : TOGETHER;
    struct blocks_run run = blocks_row_run(p, f->in_type, j, b * f->block, g.n * f->block);
    group_grids(&g, run.at, f);
    put_grids(&g, p, j * p->blocks_stride + b);
    uint8_t *out = blocks_code_at(p, f, j, b * f->block, false);
    if (!out && !figures) continue;
    uint8_t *bytes = out && in_place ? out : g.bytes;
    if (figures && !g.narrow)
      blocks_row_wide(sums, &(struct blocks_row_group){g.wide, g.scale, g.zero, g.n}, f, bytes);
    else
      group_codes(&g, f->block, &way, bytes, rule, figures, sums);
    if (out && !in_place) pack(out, g.bytes, g.n * f->block, f->bits);
  }
}

AVX2 static void whole_blocks(const struct kernels_panel *p, const struct kernels_block_format *f,
                              size_t j) {
  const bool nbits = f->rule == KERNELS_NBITS;
  struct blocks_row_sums r;
  if (p->sums) r = blocks_row_open(&p->sums[j]);
  if (p->sums && nbits)
    row(p, f, j, KERNELS_NBITS, true, &r);
  else if (p->sums)
    row(p, f, j, KERNELS_QDQ, true, &r);
  else if (nbits)
    row(p, f, j, KERNELS_NBITS, false, NULL);
  else
    row(p, f, j, KERNELS_QDQ, false, NULL);
  if (p->sums) blocks_row_close(&r, p, f, j);
}

void blocks_rows_avx2(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_rows_by(p, f, whole_blocks);
}
#endif
