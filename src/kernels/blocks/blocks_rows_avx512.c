// Blockwise quantization along rows with AVX-512: elements of a block are contiguous.
//
// Sixteen blocks are taken together, in passes that stay in the first-level cache:
//
//   range   sixteen blocks, widened to float32 into a tile unless they are ──▶ lo[16], hi[16] ──▶ grids
//   codes   a byte a code into a buffer, sums
//   pack    the buffer's bytes to 2 or 4 bits, or as they are
//
// Error figures have eight lanes a block (k mod 8), so with them a vector holds eight elements of
// each of two blocks, whose lanes never meet; without them, sixteen of one.
//
//   figures   │ block 2m: k .. k + 7 │ block 2m + 1: k .. k + 7 │
//
// Blocks that are not of 16 elements or a multiple (QDQ alone), longer ones than 256, and what is
// left of the last block go to the portable code.
#include "kernels/blocks/blocks_avx512.h"
#include "kernels/blocks/inside/blocks_rows.h"

#if defined(__x86_64__)
enum { TOGETHER = 16, BLOCK_MAX = BLOCKS_NBITS_MAX };

// What sixteen blocks of a row pass on from one step to the next.
struct group {
  const float *wide;   // elements, of any alignment
  size_t n;            // blocks
  const uint8_t *next; // the source bytes behind them, to be asked for
  size_t width;        // of an element there
  struct grid16 grids;
  bool calm;   // codes may be cut as integers
  bool narrow; // and error figures of all of them added in float32
  float tile[TOGETHER * BLOCK_MAX] __attribute__((aligned(64)));
  uint8_t bytes[TOGETHER * BLOCK_MAX + 256]
      __attribute__((aligned(64))); // steps write past the end
};

// ---- range and grids ---------------------------------------------------------------------------

// The extremes of sixteen vectors, in order. most: of maxima, else minima.
AVX512_INLINE __m512 reduce16(const __m512 *x, bool most) {
  __m512 two[8], four[4], eight[2];
  for (int i = 0; i < 8; i++)
    two[i] = join(_mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]),
                  _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]), most);
  for (int i = 0; i < 4; i++)
    four[i] = join(_mm512_shuffle_ps(two[2 * i], two[2 * i + 1], 0x44),
                   _mm512_shuffle_ps(two[2 * i], two[2 * i + 1], 0xee), most);
  for (int i = 0; i < 2; i++)
    eight[i] = join(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88),
                    _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xdd), most);
  return join(_mm512_shuffle_f32x4(eight[0], eight[1], 0x88),
              _mm512_shuffle_f32x4(eight[0], eight[1], 0xdd), most);
}

// Of one block, to *lo and *hi. tile NULL: float32 need not be copied.
AVX512_INLINE void range_block(const uint8_t *at, enum kernels_float type, size_t block,
                               float *tile, __m512 *lo, __m512 *hi) {
  const size_t step = 16 * (type == KERNELS_F32 ? 4 : 2);
  __m512 least = _mm512_set1_ps(FLT_MAX), most = _mm512_set1_ps(-FLT_MAX);
  for (size_t k = 0; k < block; k += 16, at += step) {
    __m512 v = load16(at, type);
    if (tile) _mm512_store_ps(tile + k, v);
    least = _mm512_min_ps(v, least);
    most = _mm512_max_ps(v, most);
  }
  *lo = least;
  *hi = most;
}

AVX512_INLINE void group_ranges(struct group *g, const uint8_t *at, enum kernels_float type,
                                size_t block, __m512 *lo, __m512 *hi) {
  const bool as_is = type == KERNELS_F32;
  __m512 los[TOGETHER], his[TOGETHER];
  g->wide = as_is ? (const float *)(const void *)at : g->tile;
  for (size_t b = 0; b < TOGETHER; b++) {
    los[b] = _mm512_set1_ps(FLT_MAX);
    his[b] = _mm512_set1_ps(-FLT_MAX);
    if (b < g->n)
      range_block(at + b * block * (as_is ? 4 : 2), type, block, as_is ? NULL : g->tile + b * block,
                  &los[b], &his[b]);
  }
  *lo = reduce16(los, false);
  *hi = reduce16(his, true);
}

// Lanes lost the order of zeros: a block of nothing else gets the sign of its first.
AVX512 static void mend_zeros(const struct group *g, size_t block, __mmask16 which, __m512 *lo,
                              __m512 *hi) {
  float zeros[TOGETHER] = {0};
  for (size_t b = 0; b < g->n; b++)
    if (which >> b & 1) zeros[b] = blocks_row_first_zero(g->wide + b * block, block);
  *lo = _mm512_mask_loadu_ps(*lo, which, zeros);
  *hi = _mm512_mask_loadu_ps(*hi, which, zeros);
}

AVX512 static void group_grids(struct group *g, const uint8_t *at,
                               const struct kernels_block_format *f) {
  __m512 lo, hi;
  BLOCKS_BY_TYPE(f->in_type, group_ranges(g, at, TYPE, f->block, &lo, &hi));
  if (f->symmetric) {
    __mmask16 nothing = _mm512_cmp_ps_mask(_mm512_or_ps(lo, hi), _mm512_setzero_ps(), _CMP_EQ_OQ);
    if (nothing) mend_zeros(g, f->block, nothing, &lo, &hi);
  }
  g->grids = grid16_of(f, lo, hi);
  const uint32_t all = (1u << g->n) - 1, calm = calm16(&g->grids, lo, hi);
  g->calm = (calm & all) == all;
  g->narrow = (calm & narrow16(g->grids.scale, lo, hi) & all) == all;
}

// ---- codes -------------------------------------------------------------------------------------

// How elements become bytes.
struct row_way {
  struct code_limits16 limits;
  __m512i mask; // the bits per weight, in every 16-bit lane
  __m512i most; // the largest code, in every byte
};

// Lines of the group to come, as many as n elements have, from number `from` on. Ranges are taken
// faster than memory delivers and codes are made slower: so the next group comes in while codes are
// made. It may be nothing of the panel's: nothing is read.
AVX512_INLINE void ask_for(const struct group *g, size_t from, size_t n) {
  for (size_t k = 0; k < n; k += 16)
    _mm_prefetch((const char *)g->next + (from + k) * g->width, _MM_HINT_T0);
}

// Grids of blocks whose numbers the lanes of `which` say.
AVX512_INLINE struct grid16 grids_for(const struct grid16 *g, __m512i which) {
  return (struct grid16){
      _mm512_permutexvar_ps(which, g->scale), _mm512_permutexvar_ps(which, g->reciprocal),
      _mm512_permutexvar_ps(which, g->zero), _mm512_permutexvar_epi32(which, g->whole_zero)};
}

// Four vectors of codes as bytes; `order` puts their dwords right.
AVX512_INLINE __m512i bytes64(const __m512i *x, const struct row_way *w, enum kernels_rule rule,
                              __m512i order) {
  __m512i ab = _mm512_packs_epi32(x[0], x[1]), cd = _mm512_packs_epi32(x[2], x[3]);
  if (rule == KERNELS_QDQ) { // signed codes; others are cut at 0 by the next step
    ab = _mm512_and_si512(ab, w->mask);
    cd = _mm512_and_si512(cd, w->mask);
  }
  __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(ab, cd));
  return rule == KERNELS_QDQ ? bytes : _mm512_min_epu8(bytes, w->most);
}

// Of a block of a multiple of 64 elements.
AVX512_INLINE void long_block(const struct group *g, const struct row_way *w, size_t b,
                              size_t block, uint8_t *out, enum kernels_rule rule, enum cut cut) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const struct grid16 grid = grids_for(&g->grids, _mm512_set1_epi32((int)b));
  const float *v = g->wide + b * block;
  for (size_t k = 0; k < block; k += 64) {
    __m512 some[4];
    __m512i x[4];
    ask_for(g, b * block + k, 64);
    for (size_t i = 0; i < 4; i++)
      some[i] = _mm512_loadu_ps(v + k + i * 16);
    codes64(x, some, &grid, &w->limits, rule, cut);
    _mm512_storeu_si512(out + b * block + k, bytes64(x, w, rule, order));
  }
}

// Of blocks of 16 or 32 elements (a constant of the caller), several at a time.
AVX512_INLINE void short_blocks(const struct group *g, const struct row_way *w, size_t block,
                                uint8_t *out, enum kernels_rule rule, enum cut cut) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const size_t end = g->n * block;
  for (size_t at = 0; at < end; at += 64) {
    __m512i x[4];
    ask_for(g, at, 64);
    for (size_t i = 0; i < 4; i++) {
      const size_t from = at + i * 16;
      const struct grid16 grid = grids_for(&g->grids, _mm512_set1_epi32((int)(from / block)));
      __m512 v = _mm512_maskz_loadu_ps(from < end ? 0xffff : 0, g->wide + from);
      x[i] = codes16(v, &grid, &w->limits, rule, cut);
    }
    _mm512_storeu_si512(out + at, bytes64(x, w, rule, order));
  }
}

// Of a block of any multiple of 16 elements (QDQ alone).
AVX512_INLINE void odd_block(const struct group *g, const struct row_way *w, size_t b, size_t block,
                             uint8_t *out, enum kernels_rule rule, enum cut cut) {
  const struct grid16 grid = grids_for(&g->grids, _mm512_set1_epi32((int)b));
  const __m512i mask = _mm512_sub_epi32(w->limits.most, w->limits.least); // the bits per weight
  for (size_t at = b * block; at < (b + 1) * block; at += 16) {
    __m512i x = codes16(_mm512_loadu_ps(g->wide + at), &grid, &w->limits, rule, cut);
    x = _mm512_and_si512(x, mask);
    _mm_storeu_si128((__m128i *)(void *)(out + at), _mm512_cvtepi32_epi8(x));
  }
}

AVX512_INLINE void group_codes(const struct group *g, const struct row_way *w, size_t block,
                               uint8_t *out, enum kernels_rule rule, enum cut cut) {
  if (block == 16)
    short_blocks(g, w, 16, out, rule, cut);
  else if (block == 32)
    short_blocks(g, w, 32, out, rule, cut);
  else
    for (size_t b = 0; b < g->n; b++)
      if (block % 64 == 0)
        long_block(g, w, b, block, out, rule, cut);
      else
        odd_block(g, w, b, block, out, rule, cut);
}

// ---- error figures -----------------------------------------------------------------------------

// Eight lanes of each of sixteen blocks, two to a vector.
struct group_sums {
  __m512 vv[TOGETHER / 2], ee[TOGETHER / 2], ve[TOGETHER / 2];
  __m512i largest;
};

// Lanes reduced as struct kernels_sums says, blocks in order.
AVX512_INLINE void reduce_lanes(float *out, const __m512 *x) {
  __m512 four[4], two[2];
  for (int i = 0; i < 4; i++) // lanes 0 .. 3 and 4 .. 7 of four blocks
    four[i] = _mm512_add_ps(_mm512_shuffle_f32x4(x[2 * i], x[2 * i + 1], 0x88),
                            _mm512_shuffle_f32x4(x[2 * i], x[2 * i + 1], 0xdd));
  for (int i = 0; i < 2; i++)
    two[i] = _mm512_add_ps(_mm512_shuffle_ps(four[2 * i], four[2 * i + 1], 0x44),
                           _mm512_shuffle_ps(four[2 * i], four[2 * i + 1], 0xee));
  __m512 all = _mm512_add_ps(_mm512_shuffle_ps(two[0], two[1], 0x88),
                             _mm512_shuffle_ps(two[0], two[1], 0xdd));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_ps(out, _mm512_permutexvar_ps(order, all)); // block 4 e + l was at 4 l + e
}

AVX512_INLINE void row_sums_add(struct blocks_row_sums *r, const struct group_sums *s, size_t n) {
  float vv[TOGETHER], ee[TOGETHER], ve[TOGETHER];
  reduce_lanes(vv, s->vv);
  reduce_lanes(ee, s->ee);
  reduce_lanes(ve, s->ve);
  blocks_row_add(r, vv, ee, ve, n);
  blocks_row_join(r, (uint32_t)_mm512_reduce_max_epi32(s->largest), false);
}

// Two blocks, and what becomes of them.
struct pair {
  const float *a, *b;
  uint8_t *out_a, *out_b;
  struct grid16 grid;
  __m512 vv, ee, ve;
  __m512i largest;
};

AVX512_INLINE __m512 load_pair(const struct pair *p, size_t k) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p->a + k)),
                            _mm256_loadu_ps(p->b + k), 1);
}

// n vectors of four count for sums.
AVX512_INLINE void add_pairs(struct pair *p, const __m512 *v, const __m512 *e, size_t n) {
  for (size_t i = 0; i < n; i++)
    p->vv = _mm512_add_ps(p->vv, _mm512_mul_ps(v[i], v[i]));
  for (size_t i = 0; i < n; i++)
    p->ee = _mm512_add_ps(p->ee, _mm512_mul_ps(e[i], e[i]));
  for (size_t i = 0; i < n; i++)
    p->ve = _mm512_add_ps(p->ve, _mm512_mul_ps(v[i], e[i]));
}

// Thirty-two elements of each, or sixteen.
AVX512_INLINE void code_pair_bytes(struct pair *p, size_t k, size_t n, const struct row_way *w,
                                   enum kernels_rule rule) {
  const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  __m512 v[4], e[4];
  __m512i x[4];
  for (size_t i = 0; i < 4; i++) // of sixteen elements both vectors twice
    v[i] = load_pair(p, k + (n == 32 ? i : i % 2) * 8);
  codes64(x, v, &p->grid, &w->limits, rule, CUT_CALM);
  errors64(e, v, x, &p->grid, &p->largest);
  add_pairs(p, v, e, n / 8);
  __m512i bytes = bytes64(x, w, rule, order);
  __m256i a = _mm512_castsi512_si256(bytes), b = _mm512_extracti32x8_epi32(bytes, 1);
  if (n == 32) {
    _mm256_storeu_si256((__m256i *)(void *)(p->out_a + k), a);
    _mm256_storeu_si256((__m256i *)(void *)(p->out_b + k), b);
  } else {
    _mm_storeu_si128((__m128i *)(void *)(p->out_a + k), _mm256_castsi256_si128(a));
    _mm_storeu_si128((__m128i *)(void *)(p->out_b + k), _mm256_castsi256_si128(b));
  }
}

AVX512_INLINE void group_figures(const struct group *g, const struct row_way *w, size_t block,
                                 uint8_t *out, enum kernels_rule rule,
                                 struct blocks_row_sums *sums) {
  const __m512i halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  struct group_sums all;
  all.largest = _mm512_setzero_si512();
  for (size_t i = 0; i < TOGETHER / 2; i++) {
    all.vv[i] = all.ee[i] = all.ve[i] = _mm512_setzero_ps();
    if (2 * i >= g->n) continue;
    // The last block may have no other: it goes twice, to bytes that nobody reads.
    const size_t a = 2 * i, b = a + 1 < g->n ? a + 1 : a;
    const __m512i which =
        _mm512_add_epi32(_mm512_set1_epi32((int)a), b > a ? halves : _mm512_setzero_si512());
    struct pair p = {.a = g->wide + a * block,
                     .b = g->wide + b * block,
                     .out_a = out + a * block,
                     .out_b = out + (a + 1) * block,
                     .grid = grids_for(&g->grids, which),
                     .largest = all.largest};
    p.vv = p.ee = p.ve = _mm512_setzero_ps();
    size_t k = 0;
    for (; k + 32 <= block; k += 32) {
      ask_for(g, a * block + k, 32);
      ask_for(g, b * block + k, 32);
      code_pair_bytes(&p, k, 32, w, rule);
    }
    if (k < block) code_pair_bytes(&p, k, 16, w, rule);
    all.vv[i] = p.vv;
    all.ee[i] = p.ee;
    all.ve[i] = p.ve;
    all.largest = p.largest;
  }
  row_sums_add(sums, &all, g->n);
}

// The same by the reference, for scales that take double.
AVX512 static void wide_group(const struct group *g, const struct kernels_block_format *f,
                              uint8_t *out, struct blocks_row_sums *r) {
  float scale[TOGETHER], zero[TOGETHER];
  _mm512_storeu_ps(scale, g->grids.scale);
  _mm512_storeu_ps(zero, g->grids.zero);
  blocks_row_wide(r, &(struct blocks_row_group){g->wide, scale, zero, g->n}, f, out);
}

// ---- packing -----------------------------------------------------------------------------------

// A hundred and twenty-eight codes in pairs: low | high << shift, weights being 1 and 1 << shift.
AVX512_INLINE __m512i pairs(__m512i low, __m512i high, __m512i weights) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  __m512i a = _mm512_maddubs_epi16(low, weights), b = _mm512_maddubs_epi16(high, weights);
  return _mm512_permutexvar_epi64(order, _mm512_packus_epi16(a, b));
}

AVX512_INLINE __m512i nibbles(const uint8_t *codes) {
  return pairs(_mm512_loadu_si512(codes), _mm512_loadu_si512(codes + 64),
               _mm512_set1_epi16(0x1001));
}

AVX512_INLINE __m512i crumbs(const uint8_t *codes) {
  const __m512i weights = _mm512_set1_epi16(0x0401);
  return pairs(pairs(_mm512_loadu_si512(codes), _mm512_loadu_si512(codes + 64), weights),
               pairs(_mm512_loadu_si512(codes + 128), _mm512_loadu_si512(codes + 192), weights),
               _mm512_set1_epi16(0x1001));
}

// n codes, a multiple of 16, to as many bits each; up to 255 bytes behind them are read, and none
// behind out's are written.
AVX512 static void pack(uint8_t *out, const uint8_t *codes, size_t n, unsigned bits) {
  const size_t each = 512 / bits;
  for (size_t k = 0; k < n; k += each, codes += each, out += 64) {
    __m512i x = bits == 4 ? nibbles(codes) : bits == 2 ? crumbs(codes) : _mm512_loadu_si512(codes);
    const size_t bytes = (n - k) * bits / 8;
    if (bytes >= 64)
      _mm512_storeu_si512(out, x);
    else
      _mm512_mask_storeu_epi8(out, (1ull << bytes) - 1, x);
  }
}

// ---- rows --------------------------------------------------------------------------------------

AVX512 static void put_grids(const struct group *g, const struct kernels_panel *p, size_t at) {
  const __mmask16 some = (__mmask16)((1u << g->n) - 1);
  if (p->scales) _mm512_mask_storeu_ps(p->scales + at, some, g->grids.scale);
  if (p->zeros)
    _mm_mask_storeu_epi8(p->zeros + at, some,
                         _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(g->grids.zero)));
}

AVX512_INLINE void code_group(struct group *g, const struct row_way *w,
                              const struct kernels_block_format *f, enum kernels_rule rule,
                              enum cut cut, struct blocks_row_sums *sums) {
  if (!sums)
    group_codes(g, w, f->block, g->bytes, rule, cut);
  else if (f->block == 64)
    group_figures(g, w, 64, g->bytes, rule, sums);
  else
    group_figures(g, w, f->block, g->bytes, rule, sums);
}

// One instance a way, so that each has its constants.
#define CODE(name, rule, cut, figures)                                                             \
  AVX512 static void name(struct group *g, const struct row_way *w,                                \
                          const struct kernels_block_format *f, struct blocks_row_sums *sums) {    \
    code_group(g, w, f, rule, cut, (figures) ? sums : NULL);                                       \
  }
CODE(code_nbits, KERNELS_NBITS, CUT_LATER, false)
CODE(code_wild, KERNELS_NBITS, CUT_WILD, false)
CODE(code_qdq, KERNELS_QDQ, CUT_CALM, false)
CODE(code_nbits_sums, KERNELS_NBITS, CUT_CALM, true)
CODE(code_qdq_sums, KERNELS_QDQ, CUT_CALM, true)

// Blocks b .. b + g->n of column j.
static void do_group(struct group *g, const struct kernels_panel *p,
                     const struct kernels_block_format *f, const struct row_way *w, size_t j,
                     size_t b, struct blocks_row_sums *sums) {
  struct blocks_run run =
      blocks_row_run(p, (enum kernels_float)f->in_type, j, b * f->block, g->n * f->block);
  group_grids(g, run.at, f);
  g->width = run.step;
  g->next = run.at + run.n * run.step;
  put_grids(g, p, j * p->blocks_stride + b);
  uint8_t *out = blocks_code_at(p, f, j, b * f->block, false);
  const bool nbits = f->rule == KERNELS_NBITS;
  if (!out && !sums) return;
  if (!sums)
    (!nbits ? code_qdq : g->calm ? code_nbits : code_wild)(g, w, f, NULL);
  else if (g->narrow)
    (nbits ? code_nbits_sums : code_qdq_sums)(g, w, f, sums);
  else
    wide_group(g, f, g->bytes, sums);
  if (out) pack(out, g->bytes, g->n * f->block, nbits ? f->bits : 8);
}

// Whole blocks of column j.
static void do_row(const struct kernels_panel *p, const struct kernels_block_format *f,
                   const struct row_way *w, size_t j, struct blocks_row_sums *sums) {
  struct group g;
  const size_t blocks = p->k / f->block;
  const bool rows16 = f->rule == KERNELS_NBITS && f->block == 16 && f->bits == 4 &&
                      f->in_type == KERNELS_F32 && p->codes;
  for (size_t b = 0; b < blocks; b += g.n) {
    g.n = BLOCKS_ROWS16_MANY;
    if (rows16 && blocks - b >= g.n && blocks_rows16_avx512(p, f, j, b, sums)) continue;
    g.n = blocks - b < TOGETHER ? blocks - b : TOGETHER;
    do_group(&g, p, f, w, j, b, sums);
  }
}

AVX512 static void whole_blocks(const struct kernels_panel *p, const struct kernels_block_format *f,
                                size_t j) {
  const struct row_way w = {code_limits16_of(f), _mm512_set1_epi16((short)((1 << f->bits) - 1)),
                            _mm512_set1_epi8((char)((1 << f->bits) - 1))};
  struct blocks_row_sums r;
  if (p->sums) r = blocks_row_open(&p->sums[j]);
  do_row(p, f, &w, j, p->sums ? &r : NULL);
  if (p->sums) blocks_row_close(&r, p, f, j);
}

void blocks_rows_avx512(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_rows_by(p, f, whole_blocks);
}
#endif
