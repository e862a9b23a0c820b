// Blockwise quantization along rows with AVX2: elements of a block are contiguous.
//
// Eight blocks are taken together, so that the divisions of eight grids cost as much as one, and in three
// passes that stay in the first-level cache:
//
//   range   eight blocks, widened to float32 into a tile unless they are ──▶ lo[8], hi[8] ──▶ grids
//   codes   block by block, a byte a code into a buffer, sums
//   pack    the buffer's bytes to 2 or 4 bits in one go
//
// Blocks that are not of 16 elements or a multiple (QDQ alone) and what is left of the last block go one
// by one, their last elements to the portable code.
#include "blocks_avx2.h"

#if defined(__x86_64__)
enum { TOGETHER = 8, BLOCK_MAX = BLOCKS_NBITS_MAX };

// What eight blocks of a row pass on from one step to the next.
struct group {
  const float *wide; // elements, of any alignment
  size_t n;          // blocks
  float scale[TOGETHER], reciprocal[TOGETHER], zero[TOGETHER];
  _Alignas(32) float tile[TOGETHER * BLOCK_MAX];
  _Alignas(32) uint8_t bytes[TOGETHER * BLOCK_MAX];
};

// ---- range and grids ---------------------------------------------------------------------------

struct extremes {
  __m256 lo, hi;
};

// wide NULL: float32 need not be copied.
AVX2_INLINE struct extremes range_of(const uint8_t *at, enum kernels_float type, size_t n,
                                     float *wide) {
  size_t step = 8 * (type == KERNELS_F32 ? 4 : 2);
  __m256 lo[2], hi[2];
  lo[0] = lo[1] = _mm256_set1_ps(FLT_MAX);
  hi[0] = hi[1] = _mm256_set1_ps(-FLT_MAX);
  for (size_t k = 0; k < n; k += 16, at += 2 * step)
    for (int i = 0; i < 2; i++) {
      __m256 v = load_wide(at + (size_t)i * step, type);
      if (wide) _mm256_store_ps(wide + k + 8 * i, v);
      lo[i] = _mm256_min_ps(v, lo[i]);
      hi[i] = _mm256_max_ps(v, hi[i]);
    }
  return (struct extremes){_mm256_min_ps(lo[1], lo[0]), _mm256_max_ps(hi[1], hi[0])};
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

// The first element that is a number, of a block that holds nothing but zeros and NaN.
static float first_zero(const float *v, size_t n) {
  for (size_t k = 0; k < n; k++) {
    float x;
    memcpy(&x, v + k, sizeof x); // maybe of no alignment
    if (x == x) return x;
  }
  return 0;
}

// Lanes lost the order of zeros: a block of nothing else gets the sign of its first.
AVX2 static void mend_zeros(const struct group *g, size_t block, __m256 *lo, __m256 *hi) {
  float l[TOGETHER], h[TOGETHER];
  _mm256_storeu_ps(l, *lo);
  _mm256_storeu_ps(h, *hi);
  for (size_t b = 0; b < g->n; b++)
    if (l[b] == 0 && h[b] == 0) l[b] = h[b] = first_zero(g->wide + b * block, block);
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

AVX2_INLINE void group_grids(struct group *g, const uint8_t *at, enum kernels_float type,
                             const struct kernels_block_format *f) {
  __m256 lo, hi;
  group_ranges(g, at, type, f->block, &lo, &hi);
  if (f->symmetric) {
    __m256 nothing = _mm256_cmp_ps(_mm256_or_ps(lo, hi), _mm256_setzero_ps(), _CMP_EQ_OQ);
    if (_mm256_movemask_ps(nothing)) mend_zeros(g, f->block, &lo, &hi);
  }
  struct grid8 grids = grid8_of(f, lo, hi);
  _mm256_storeu_ps(g->scale, grids.scale);
  _mm256_storeu_ps(g->reciprocal, grids.reciprocal);
  _mm256_storeu_ps(g->zero, grids.zero);
}

// ---- sums of a row -----------------------------------------------------------------------------

// Those of one column of W while its blocks pass by.
struct row_sums {
  double vv, ee, ve;
  uint32_t largest;
  bool odd; // some block had elements that are not finite
};

AVX2_INLINE double reduce_lanes(__m256d low, __m256d high) {
  __m256d x = _mm256_add_pd(low, high);
  __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(y) + _mm_cvtsd_f64(_mm_unpackhi_pd(y, y));
}

AVX2_INLINE uint32_t largest_of(__m256i x) {
  __m128i y = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0x4e));
  y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0xb1));
  return (uint32_t)_mm_cvtsi128_si32(y);
}

AVX2_INLINE void row_sums_add(struct row_sums *r, const struct sums8 *s) {
  double vv = reduce_lanes(s->vv[0], s->vv[1]);
  r->vv += vv;
  r->ee += reduce_lanes(s->ee[0], s->ee[1]);
  r->ve += reduce_lanes(s->ve[0], s->ve[1]);
  r->odd |= !(vv <= DBL_MAX);
  uint32_t largest = largest_of(s->largest);
  if (largest > r->largest) r->largest = largest;
}

// ---- codes -------------------------------------------------------------------------------------

// n elements (a multiple of 8) to bytes.
AVX2_INLINE void codes_of(const float *v, size_t n, const struct grid8 *g,
                          const struct code_limits *l, enum kernels_rule rule, __m256i mask,
                          uint8_t *out, struct sums8 *sums) {
  size_t k = 0;
  for (; k + 32 <= n; k += 32) {
    __m256i c[4];
    for (int i = 0; i < 4; i++) {
      __m256 x = _mm256_loadu_ps(v + k + 8 * i);
      c[i] = codes8(x, g, l, rule);
      if (sums) sums8_add(sums, x, c[i], g);
    }
    _mm256_storeu_si256((__m256i *)(void *)(out + k), bytes32(c[0], c[1], c[2], c[3], mask));
  }
  for (; k < n; k += 8) {
    __m256 x = _mm256_loadu_ps(v + k);
    __m256i c = codes8(x, g, l, rule);
    if (sums) sums8_add(sums, x, c, g);
    _mm_storel_epi64((__m128i *)(void *)(out + k), bytes8(c, mask));
  }
}

AVX2_INLINE void group_codes(const struct group *g, const struct kernels_block_format *f,
                             enum kernels_rule rule, uint8_t *out, struct row_sums *sums) {
  const struct code_limits l = code_limits_of(f);
  const __m256i mask = code_mask(f);
  for (size_t b = 0; b < g->n; b++) {
    struct grid8 grid = {_mm256_set1_ps(g->scale[b]), _mm256_set1_ps(g->reciprocal[b]),
                         _mm256_set1_ps(g->zero[b])};
    struct sums8 s = sums8_none();
    codes_of(g->wide + b * f->block, f->block, &grid, &l, rule, mask, out + b * f->block,
             sums ? &s : NULL);
    if (sums) row_sums_add(sums, &s);
  }
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

// n codes, a multiple of 16; up to 127 bytes behind them are read, and none behind out's are written.
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
                     enum kernels_float type, enum kernels_rule rule, struct row_sums *sums) {
  struct group g;
  size_t blocks = p->k / f->block;
  bool in_place = rule == KERNELS_QDQ || f->bits == 8;
  for (size_t b = 0; b < blocks; b += g.n) {
    g.n = blocks - b < TOGETHER ? blocks - b : TOGETHER;
    struct blocks_run run = blocks_row_run(p, type, j, b * f->block, g.n * f->block);
    group_grids(&g, run.at, type, f);
    put_grids(&g, p, j * p->blocks_stride + b);
    uint8_t *out = blocks_code_at(p, f, j, b * f->block, false);
    if (!out && !sums) continue;
    group_codes(&g, f, rule, out && in_place ? out : g.bytes, sums);
    if (out && !in_place) pack(out, g.bytes, g.n * f->block, f->bits);
  }
}

AVX2_INLINE void row_of_type(const struct kernels_panel *p, const struct kernels_block_format *f,
                             size_t j, enum kernels_rule rule, struct row_sums *sums) {
  if (f->in_type == KERNELS_F32)
    row(p, f, j, KERNELS_F32, rule, sums);
  else if (f->in_type == KERNELS_F16)
    row(p, f, j, KERNELS_F16, rule, sums);
  else
    row(p, f, j, KERNELS_BF16, rule, sums);
}

AVX2 static void nbits_row(const struct kernels_panel *p, const struct kernels_block_format *f,
                           size_t j) {
  row_of_type(p, f, j, KERNELS_NBITS, NULL);
}

AVX2 static void qdq_row(const struct kernels_panel *p, const struct kernels_block_format *f,
                         size_t j) {
  row_of_type(p, f, j, KERNELS_QDQ, NULL);
}

AVX2 static void nbits_row_sums(const struct kernels_panel *p, const struct kernels_block_format *f,
                                size_t j, struct row_sums *sums) {
  row_of_type(p, f, j, KERNELS_NBITS, sums);
}

AVX2 static void qdq_row_sums(const struct kernels_panel *p, const struct kernels_block_format *f,
                              size_t j, struct row_sums *sums) {
  row_of_type(p, f, j, KERNELS_QDQ, sums);
}

// Whole blocks of one column.
static void whole_blocks(const struct kernels_panel *p, const struct kernels_block_format *f,
                         size_t j) {
  bool nbits = f->rule == KERNELS_NBITS;
  if (!p->sums) {
    (nbits ? nbits_row : qdq_row)(p, f, j);
    return;
  }
  struct kernels_sums *sums = &p->sums[j];
  struct row_sums r = {sums->vv, sums->ee, sums->ve, 0, false};
  (nbits ? nbits_row_sums : qdq_row_sums)(p, f, j, &r);
  sums->vv = r.vv;
  sums->ee = r.ee;
  sums->ve = r.ve;
  blocks_plain_sums(sums, r.largest);
  struct blocks_run run = blocks_row_run(p, f->in_type, j, 0, p->k / f->block * f->block);
  if (r.odd) blocks_count_nonfinite(sums, &run);
}

void blocks_rows_avx2(const struct kernels_panel *p, const struct kernels_block_format *f) {
  if (f->block % 16 || f->block > BLOCK_MAX) {
    blocks_rows_portable(p, f);
    return;
  }
  size_t left = p->k % f->block;
  for (size_t j = 0; j < p->n; j++) {
    whole_blocks(p, f, j);
    if (!left) continue;
    struct blocks_run run = blocks_row_run(p, f->in_type, j, p->k - left, left);
    blocks_block(&run, p, f, j, p->k - left, false);
  }
}
#endif
