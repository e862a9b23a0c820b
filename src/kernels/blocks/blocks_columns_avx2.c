// Blockwise quantization along columns with AVX2: a block's elements lie a row of W apart.
//
// A tile of rows × 32 (or 8) columns is copied, widened to float32, into a scratch tile while its
// ranges are taken: at row strides that are powers of two the rows of a block fall into one set of
// the first-level cache, and would be gone before they are read again. The tile to the right is
// asked for meanwhile.
//
//        in_stride →            scratch [row][32]          dwords [row * bits / 32][column]
//   row  ┌────┬────┬───         ┌────┐ floats, then        ┌────┐ 8 × 8 transposed, a column's
//    ↓   │tile│next│     ──▶    │    │ codes, in place ──▶ │    │ bytes in one piece
//        └────┴────┴───         └────┘                     └────┘ (QDQ: bytes, row by row)
//
// Vectors hold eight columns. Error figures go through the rows of one lane after the other (k mod
// 8), so that a lane's sum is in registers; eight such sums are then reduced across vectors.
#include "kernels/blocks/blocks_avx2.h"

#if defined(__x86_64__)
#define SHORT_TARGET AVX2
#define SHORT_BYTES 32
#define SHORT_ISA(name) name##_avx2
#include "kernels/blocks/inside/blocks_short.h"

enum { WIDE = 32, ROWS_MAX = BLOCKS_NBITS_MAX, ROWS = 64 };

struct tile {
  size_t width;                          // columns: WIDE or 8
  size_t rows;                           // of whole blocks
  _Alignas(64) float v[ROWS_MAX * WIDE]; // [row][width]; later codes as int32
};

// How one tile goes: what is the same for all of a panel.
struct column_way {
  const struct kernels_panel *p;
  const struct kernels_block_format *f;
  struct code_limits limits;
  __m256i mask;
};

AVX2_INLINE __m256 *vector_at(struct tile *t, size_t k, size_t c) {
  return (__m256 *)(void *)(t->v + k * t->width + c);
}

// ---- range -------------------------------------------------------------------------------------

struct ranges {
  __m256 lo[WIDE / 8], hi[WIDE / 8];
};

// Four (or one) vectors of a row to the tile.
AVX2_INLINE void take(struct tile *t, const uint8_t *at, enum kernels_float type, size_t k,
                      size_t c, __m256 *lo, __m256 *hi) {
  __m256 v = load_wide(at + c * (type == KERNELS_F32 ? 4 : 2), type);
  *vector_at(t, k, c) = v;
  *lo = _mm256_min_ps(v, *lo);
  *hi = _mm256_max_ps(v, *hi);
}

// Rows k.. of one block.
AVX2_INLINE struct ranges load_block(struct tile *t, const uint8_t *at, size_t step, size_t k,
                                     size_t n, enum kernels_float type, bool wide) {
  const __m256 most = _mm256_set1_ps(FLT_MAX), least = _mm256_set1_ps(-FLT_MAX);
  struct ranges r = {{most, most, most, most}, {least, least, least, least}};
  for (size_t end = k + n; k < end; k++, at += step) {
    if (wide) {
      const char *next = (const char *)at + WIDE * (type == KERNELS_F32 ? 4 : 2);
      _mm_prefetch(next, _MM_HINT_T1); // the first level has no room for the rows of two tiles
      if (type == KERNELS_F32) _mm_prefetch(next + 64, _MM_HINT_T1);
    }
    take(t, at, type, k, 0, &r.lo[0], &r.hi[0]);
    if (!wide) continue;
    take(t, at, type, k, 8, &r.lo[1], &r.hi[1]);
    take(t, at, type, k, 16, &r.lo[2], &r.hi[2]);
    take(t, at, type, k, 24, &r.lo[3], &r.hi[3]);
  }
  return r;
}

AVX2 static struct ranges load_any(struct tile *t, const struct blocks_run *run, size_t k) {
  struct ranges r;
  if (t->width == WIDE) {
    t->width = WIDE; // known to be, from here on
    BLOCKS_BY_TYPE(run->type, r = load_block(t, run->at, run->step, k, run->n, TYPE, true));
  } else {
    t->width = 8;
    BLOCKS_BY_TYPE(run->type, r = load_block(t, run->at, run->step, k, run->n, TYPE, false));
  }
  return r;
}

// ---- codes, in place ---------------------------------------------------------------------------

AVX2_INLINE void code_rows(struct tile *t, const struct column_way *w, size_t k, size_t n, size_t c,
                           const struct grid8 *g, enum kernels_rule rule) {
  for (size_t i = k; i < k + n; i++) {
    __m256 *at = vector_at(t, i, c);
    *at = _mm256_castsi256_ps(codes8(*at, g, &w->limits, rule));
  }
}

struct figures8 {
  __m256 vv[BLOCKS_LANES], ee[BLOCKS_LANES], ve[BLOCKS_LANES];
  __m256i largest;
};

AVX2_INLINE void code_lanes(struct tile *t, const struct column_way *w, size_t k, size_t n,
                            size_t c, const struct grid8 *g, enum kernels_rule rule,
                            struct figures8 *all) {
  all->largest = _mm256_setzero_si256();
  for (size_t lane = 0; lane < BLOCKS_LANES; lane++) {
    struct sums8 s = sums8_none();
    s.largest = all->largest;
    for (size_t i = k + lane; i < k + n; i += BLOCKS_LANES) {
      __m256 *at = vector_at(t, i, c);
      __m256 v = *at;
      __m256i code = codes8(v, g, &w->limits, rule);
      sums8_add(&s, v, code, g);
      *at = _mm256_castsi256_ps(code);
    }
    all->vv[lane] = s.vv;
    all->ee[lane] = s.ee;
    all->ve[lane] = s.ve;
    all->largest = s.largest;
  }
}

AVX2_INLINE __m256 across(const __m256 *x) {
  __m256 even = _mm256_add_ps(_mm256_add_ps(x[0], x[4]), _mm256_add_ps(x[2], x[6]));
  return _mm256_add_ps(even, _mm256_add_ps(_mm256_add_ps(x[1], x[5]), _mm256_add_ps(x[3], x[7])));
}

// Added to the sums of columns j..j+7; k: the block's first row in the panel.
AVX2 static void add_figures(const struct column_way *w, size_t j, size_t k, size_t n,
                             const struct figures8 *all) {
  float vv[8], ee[8], ve[8];
  uint32_t largest[8];
  _mm256_storeu_ps(vv, across(all->vv));
  _mm256_storeu_ps(ee, across(all->ee));
  _mm256_storeu_ps(ve, across(all->ve));
  _mm256_storeu_si256((__m256i *)(void *)largest, all->largest);
  for (size_t i = 0; i < 8; i++) {
    struct kernels_sums *sums = &w->p->sums[j + i];
    sums->vv += (double)vv[i];
    sums->ee += (double)ee[i];
    sums->ve += (double)ve[i];
    blocks_plain_sums(sums, largest[i]);
    if (vv[i] <= FLT_MAX) continue;
    struct blocks_run run = blocks_column_run(w->p, (enum kernels_float)w->f->in_type, j + i, k, n);
    blocks_count_nonfinite(sums, &run);
  }
}

// Figures of scales that take double, by the reference; the codes are made by the caller.
static void add_wide_figures(const struct column_way *w, size_t j, size_t k, size_t n,
                             const float *scale, const float *zero) {
  for (size_t i = 0; i < 8; i++) {
    struct blocks_grid g = blocks_grid_given(w->f, scale[i], (uint8_t)zero[i]);
    struct blocks_run run = blocks_column_run(w->p, (enum kernels_float)w->f->in_type, j + i, k, n);
    blocks_codes(&run, &g, NULL, 1, &w->p->sums[j + i]);
  }
}

// One block of eight columns, the tile's c.., the panel's j..; its rows are at in the tile, k in
// the panel.
AVX2_INLINE void code_block(struct tile *t, const struct column_way *w, size_t at, size_t k,
                            size_t n, size_t c, size_t j, const struct ranges *r,
                            enum kernels_rule rule) {
  const struct kernels_panel *p = w->p;
  struct grid8 g = grid8_of(w->f, r->lo[c / 8], r->hi[c / 8]);
  float scale[8], zero[8];
  _mm256_storeu_ps(scale, g.scale);
  _mm256_storeu_ps(zero, g.zero);
  for (size_t i = 0; i < 8; i++) {
    size_t to = (j + i) * p->blocks_stride + k / w->f->block;
    if (p->scales) p->scales[to] = scale[i];
    if (p->zeros) p->zeros[to] = (uint8_t)zero[i];
  }
  bool narrow = narrow_lanes(g.scale, r->lo[c / 8], r->hi[c / 8]) == 0xff;
  if (p->sums && narrow) {
    struct figures8 all;
    code_lanes(t, w, at, n, c, &g, rule, &all);
    add_figures(w, j, k, n, &all);
    return;
  }
  if (p->sums) add_wide_figures(w, j, k, n, scale, zero);
  if (p->codes) code_rows(t, w, at, n, c, &g, rule);
}

AVX2 static void code_nbits(struct tile *t, const struct column_way *w, size_t at, size_t k,
                            size_t n, size_t c, size_t j, const struct ranges *r) {
  code_block(t, w, at, k, n, c, j, r, KERNELS_NBITS);
}

AVX2 static void code_qdq(struct tile *t, const struct column_way *w, size_t at, size_t k, size_t n,
                          size_t c, size_t j, const struct ranges *r) {
  code_block(t, w, at, k, n, c, j, r, KERNELS_QDQ);
}

// ---- codes, out --------------------------------------------------------------------------------

// out[c] = column c of eight rows.
AVX2_INLINE void transpose8(__m256i *x) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; i++) {
    a[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  }
  for (int i = 0; i < 2; i++) {
    b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4; i++) {
    x[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    x[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}

// The codes of 32 / bits rows as dwords of eight columns.
AVX2_INLINE __m256i gather_dword(struct tile *t, size_t k, size_t c, int bits) {
  __m256i x = _mm256_castps_si256(*vector_at(t, k, c));
  for (int i = 1; i < 32 / bits; i++) {
    __m256i code = _mm256_castps_si256(*vector_at(t, k + (size_t)i, c));
    x = _mm256_or_si256(x, _mm256_slli_epi32(code, i * bits));
  }
  return x;
}

// Bytes of eight columns of the tile, from the panel's row k on.
AVX2_INLINE void pack_columns(struct tile *t, const struct column_way *w, size_t k, size_t c,
                              size_t j, int bits) {
  size_t each = (size_t)(32 / bits), dwords = t->rows / each;
  for (size_t d = 0; d < dwords; d += 8) {
    __m256i x[8];
    size_t n = dwords - d < 8 ? dwords - d : 8;
    for (size_t i = 0; i < 8; i++)
      x[i] = i < n ? gather_dword(t, (d + i) * each, c, bits) : _mm256_setzero_si256();
    transpose8(x);
    uint8_t *out = w->p->codes + j * w->p->codes_stride + (k / each + d) * 4;
    for (size_t i = 0; i < 8; i++, out += w->p->codes_stride)
      if (n == 8)
        _mm256_storeu_si256((__m256i *)(void *)out, x[i]);
      else
        memcpy(out, &x[i], n * 4);
  }
}

AVX2_INLINE void pack_tile(struct tile *t, const struct column_way *w, size_t k, size_t j) {
  for (size_t c = 0; c < t->width; c += 8)
    if (w->f->bits == 4)
      pack_columns(t, w, k, c, j + c, 4);
    else if (w->f->bits == 2)
      pack_columns(t, w, k, c, j + c, 2);
    else
      pack_columns(t, w, k, c, j + c, 8);
}

// A byte a code, row by row.
AVX2_INLINE void put_tile(struct tile *t, const struct column_way *w, size_t k, size_t j) {
  for (size_t i = 0; i < t->rows; i++) {
    const __m256i *from = (const __m256i *)(const void *)(t->v + i * t->width);
    uint8_t *out = w->p->codes + (k + i) * w->p->codes_stride + j;
    if (t->width == WIDE)
      _mm256_storeu_si256((__m256i *)(void *)out,
                          bytes32(from[0], from[1], from[2], from[3], w->mask));
    else
      _mm_storel_epi64((__m128i *)(void *)out, bytes16(from[0], from[0], w->mask));
  }
}

// ---- tiles -------------------------------------------------------------------------------------

// Rows k.. of the panel (t->rows of them), columns j...
AVX2 static void do_tile(struct tile *t, const struct column_way *w, size_t k, size_t j) {
  const struct kernels_block_format *f = w->f;
  enum kernels_float type = (enum kernels_float)f->in_type;
  size_t block = f->block < t->rows ? f->block : t->rows;
  for (size_t at = 0; at < t->rows; at += block) {
    struct blocks_run run = blocks_column_run(w->p, type, j, k + at, block);
    struct ranges r = load_any(t, &run, at);
    for (size_t c = 0; c < t->width; c += 8)
      (f->rule == KERNELS_NBITS ? code_nbits : code_qdq)(t, w, at, k + at, block, c, j + c, &r);
  }
  if (!w->p->codes) return;
  if (f->rule == KERNELS_NBITS)
    pack_tile(t, w, k, j);
  else
    put_tile(t, w, k, j);
}

static void tile_row(struct tile *t, const struct column_way *w, size_t k, size_t rows) {
  size_t j = 0;
  t->rows = rows;
  while (w->p->n - j >= 8) {
    t->width = w->p->n - j >= WIDE ? WIDE : 8;
    do_tile(t, w, k, j);
    j += t->width;
  }
  blocks_columns_rest(w->p, w->f, j, w->p->n - j, k, rows); // they fill no vector
}

AVX2 void blocks_columns_avx2(const struct kernels_panel *p, const struct kernels_block_format *f) {
  const struct column_way w = {p, f, code_limits_of(f), code_mask(f)};
  struct tile t;
  if (f->block > ROWS_MAX) {
    blocks_columns_portable(p, f);
    return;
  }
  size_t whole = p->k / f->block * f->block, step = f->block;
  while (step * 2 <= ROWS)
    step *= 2;
  for (size_t k = 0; k < whole; k += step)
    tile_row(&t, &w, k, whole - k < step ? whole - k : step);
  if (whole == p->k) return;
  if (f->rule == KERNELS_QDQ)
    tile_row(&t, &w, whole, p->k - whole);
  else
    short_columns(p, f, whole); // its codes fill no dwords
}
#endif
