// Ranges of panels, and codes of panels whose scales and zero points are given, with AVX2: what
// blocks that do not fit a panel are made of. Nothing has to be kept from one pass to the other, so
// both go through memory in its own order, columns too:
//
//   columns   row by row over CHUNK columns: what belongs to a column (extremes, a grid, eight lanes of
//             sums) lies in small arrays that stay in the first-level cache
//   rows      a column of W after the other
//
// Columns that fill no vector go to the portable code, and so do those whose scale takes double for
// its error figures, and a row of which zero is an extreme: lanes lose the order of zeros of both
// signs.
#include "kernels/blocks/blocks_avx2.h"

#if defined(__x86_64__)
enum { CHUNK = 64, VECTOR = 8 };

// ---- ranges ------------------------------------------------------------------------------------

AVX2_INLINE void row_range(const uint8_t *at, size_t n, enum kernels_float type, __m256 *lo,
                           __m256 *hi) {
  const size_t step = VECTOR * (type == KERNELS_F32 ? 4 : 2);
  __m256 lo2 = *lo, hi2 = *hi;
  for (; n >= 2 * VECTOR; n -= 2 * VECTOR, at += 2 * step) {
    __m256 a = load_wide(at, type), b = load_wide(at + step, type);
    *lo = _mm256_min_ps(a, *lo);
    *hi = _mm256_max_ps(a, *hi);
    lo2 = _mm256_min_ps(b, lo2);
    hi2 = _mm256_max_ps(b, hi2);
  }
  *lo = _mm256_min_ps(lo2, *lo);
  *hi = _mm256_max_ps(hi2, *hi);
}

AVX2 static void row_range_any(const struct blocks_run *run, float *lo, float *hi) {
  const size_t whole = run->n / (2 * VECTOR) * (2 * VECTOR);
  __m256 least = _mm256_set1_ps(*lo), most = _mm256_set1_ps(*hi);
  BLOCKS_BY_TYPE(run->type, row_range(run->at, whole, TYPE, &least, &most));
  float los[VECTOR], his[VECTOR];
  _mm256_storeu_ps(los, least);
  _mm256_storeu_ps(his, most);
  for (size_t i = 0; i < VECTOR; i++) {
    *lo = los[i] < *lo ? los[i] : *lo;
    *hi = his[i] > *hi ? his[i] : *hi;
  }
  struct blocks_run rest = {run->at + whole * run->step, run->step, run->n - whole, run->type};
  blocks_range(&rest, lo, hi);
}

void range_rows_avx2(const struct kernels_panel *p, enum kernels_float type, float *lo, float *hi) {
  blocks_range_rows(p, type, lo, hi, row_range_any);
}

// Of n columns, a multiple of eight, of one row.
AVX2_INLINE void join_row(const uint8_t *at, size_t n, enum kernels_float type, float *lo,
                          float *hi) {
  for (size_t c = 0; c < n; c += VECTOR) {
    __m256 v = load_wide(at + c * (type == KERNELS_F32 ? 4 : 2), type);
    _mm256_storeu_ps(lo + c, _mm256_min_ps(v, _mm256_loadu_ps(lo + c)));
    _mm256_storeu_ps(hi + c, _mm256_max_ps(v, _mm256_loadu_ps(hi + c)));
  }
}

AVX2 void range_columns_avx2(const struct kernels_panel *p, enum kernels_float type, float *lo,
                             float *hi) {
  const size_t whole = p->n / VECTOR * VECTOR;
  for (size_t k = 0; k < p->k; k++) {
    const uint8_t *at = blocks_column_run(p, type, 0, k, 1).at;
    BLOCKS_BY_TYPE(type, join_row(at, whole, TYPE, lo, hi));
  }
  for (size_t j = whole; j < p->n; j++) {
    struct blocks_run run = blocks_column_run(p, type, j, 0, p->k);
    blocks_range(&run, &lo[j], &hi[j]);
  }
}

// ---- codes -------------------------------------------------------------------------------------

// How codes become bytes.
struct given_way {
  struct code_limits limits;
  __m256i mask;
};

AVX2_INLINE struct given_way way_of(const struct kernels_block_format *f) {
  return (struct given_way){code_limits_of(f), code_mask(f)};
}

AVX2_INLINE void put8(uint8_t *out, __m256i code, const struct given_way *w) {
  _mm_storel_epi64((__m128i *)(void *)out, bytes16(code, code, w->mask));
}

// ---- codes of rows -----------------------------------------------------------------------------

AVX2_INLINE float reduced(__m256 x) {
  __m128 a = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  a = _mm_add_ps(a, _mm_movehl_ps(a, a)); // 0 + 4 + (2 + 6), 1 + 5 + (3 + 7)
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps(a, a, 1)));
}

// Codes of one piece; out NULL: not wanted.
AVX2_INLINE void piece_of_row(const struct blocks_run *run, enum kernels_float type,
                              const struct grid8 *g, const struct given_way *w, uint8_t *out,
                              struct sums8 *sums) {
  const size_t whole = run->n / VECTOR * VECTOR, left = run->n - whole;
  const size_t step = type == KERNELS_F32 ? 4 : 2;
  for (size_t k = 0; k < whole; k += VECTOR) {
    __m256 v = load_wide(run->at + k * step, type);
    __m256i code = codes8(v, g, &w->limits, KERNELS_QDQ);
    if (sums) sums8_add(sums, v, code, g);
    if (out) put8(out + k, code, w);
  }
  if (!left) return;
  uint8_t last[VECTOR * sizeof(float)] = {0}, bytes[VECTOR]; // zeros add nothing to sums
  memcpy(last, run->at + whole * step, left * step);
  __m256 v = load_wide(last, type);
  __m256i code = codes8(v, g, &w->limits, KERNELS_QDQ);
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), lanes);
  // A code of zero may stand for something else; the elements that are not there have no error.
  const __m256i none = _mm256_cvtps_epi32(g->zero);
  if (sums) sums8_add(sums, v, _mm256_blendv_epi8(none, code, there), g);
  put8(bytes, code, w);
  if (out) memcpy(out + whole, bytes, left);
}

AVX2 static void row_codes(const struct blocks_run *run, const struct blocks_grid *grid,
                           const struct kernels_block_format *f, uint8_t *out,
                           struct kernels_sums *sums) {
  const struct given_way w = way_of(f);
  const struct grid8 g = {_mm256_set1_ps(grid->scale), _mm256_set1_ps(grid->reciprocal),
                          _mm256_set1_ps((float)grid->zero)};
  for (size_t k = 0; k < run->n; k += BLOCKS_PIECE) {
    struct blocks_run piece = {run->at + k * run->step, run->step, run->n - k, run->type};
    if (piece.n > BLOCKS_PIECE) piece.n = BLOCKS_PIECE;
    struct sums8 s = sums8_none();
    uint8_t *to = out ? out + k : NULL;
    BLOCKS_BY_TYPE(run->type, piece_of_row(&piece, TYPE, &g, &w, to, sums ? &s : NULL));
    if (!sums) continue;
    const float vv = reduced(s.vv);
    sums->vv += (double)vv;
    sums->ee += (double)reduced(s.ee);
    sums->ve += (double)reduced(s.ve);
    blocks_plain_sums(sums, largest_of(s.largest));
    if (!(vv <= FLT_MAX)) blocks_count_nonfinite(sums, &piece);
  }
}

void codes_rows_avx2(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_codes_rows(p, f, row_codes);
}

// ---- codes of columns --------------------------------------------------------------------------

// Of CHUNK columns at most: their grids, and the sums of a piece.
struct given_chunk {
  const struct kernels_panel *p;
  const struct kernels_block_format *f;
  struct given_way way;
  size_t j, n; // a multiple of eight
  float scale[CHUNK], reciprocal[CHUNK], zero[CHUNK];
  float vv[BLOCKS_LANES][CHUNK], ee[BLOCKS_LANES][CHUNK], ve[BLOCKS_LANES][CHUNK];
  uint32_t largest[CHUNK];
};

AVX2_INLINE void lane_add(struct given_chunk *h, size_t lane, size_t c, __m256 v, __m256i code,
                          const struct grid8 *g) {
  struct sums8 s = {_mm256_loadu_ps(h->vv[lane] + c), _mm256_loadu_ps(h->ee[lane] + c),
                    _mm256_loadu_ps(h->ve[lane] + c),
                    _mm256_loadu_si256((const __m256i *)(const void *)(h->largest + c))};
  sums8_add(&s, v, code, g);
  _mm256_storeu_ps(h->vv[lane] + c, s.vv);
  _mm256_storeu_ps(h->ee[lane] + c, s.ee);
  _mm256_storeu_ps(h->ve[lane] + c, s.ve);
  _mm256_storeu_si256((__m256i *)(void *)(h->largest + c), s.largest);
}

// Row k of the chunk.
AVX2_INLINE void code_row(struct given_chunk *h, size_t k, enum kernels_float type) {
  const uint8_t *at = blocks_column_run(h->p, type, h->j, k, 1).at;
  uint8_t *out = blocks_code_at(h->p, h->f, h->j, k, true);
  for (size_t c = 0; c < h->n; c += VECTOR) {
    const struct grid8 g = {_mm256_loadu_ps(h->scale + c), _mm256_loadu_ps(h->reciprocal + c),
                            _mm256_loadu_ps(h->zero + c)};
    __m256 v = load_wide(at + c * (type == KERNELS_F32 ? 4 : 2), type);
    __m256i code = codes8(v, &g, &h->way.limits, KERNELS_QDQ);
    if (h->p->sums) lane_add(h, k % BLOCKS_LANES, c, v, code, &g);
    if (out) put8(out + c, code, &h->way);
  }
}

AVX2 static void code_rows(struct given_chunk *h, size_t k, size_t n) {
  const enum kernels_float type = (enum kernels_float)h->f->in_type;
  for (size_t end = k + n; k < end; k++)
    BLOCKS_BY_TYPE(type, code_row(h, k, TYPE));
}

static float across(float x[BLOCKS_LANES][CHUNK], size_t c) {
  return ((x[0][c] + x[4][c]) + (x[2][c] + x[6][c])) + ((x[1][c] + x[5][c]) + (x[3][c] + x[7][c]));
}

// Sums of rows k .. k + n, but of columns that take double: those by the reference.
static void close_piece(struct given_chunk *h, size_t k, size_t n) {
  const enum kernels_float type = (enum kernels_float)h->f->in_type;
  for (size_t c = 0; c < h->n; c++) {
    struct kernels_sums *sums = &h->p->sums[h->j + c];
    struct blocks_run run = blocks_column_run(h->p, type, h->j + c, k, n);
    if (!blocks_narrow(h->scale[c])) {
      struct blocks_grid g = blocks_grid_there(h->p, h->f, h->j + c);
      blocks_codes(&run, &g, NULL, 1, sums);
      continue;
    }
    const float vv = across(h->vv, c);
    sums->vv += (double)vv;
    sums->ee += (double)across(h->ee, c);
    sums->ve += (double)across(h->ve, c);
    blocks_plain_sums(sums, h->largest[c]);
    if (!(vv <= FLT_MAX)) blocks_count_nonfinite(sums, &run);
  }
}

static void code_chunk(struct given_chunk *h) {
  for (size_t c = 0; c < h->n; c++) {
    struct blocks_grid g = blocks_grid_there(h->p, h->f, h->j + c);
    h->scale[c] = g.scale;
    h->reciprocal[c] = g.reciprocal;
    h->zero[c] = (float)g.zero;
  }
  for (size_t k = 0; k < h->p->k; k += BLOCKS_PIECE) {
    const size_t n = h->p->k - k < BLOCKS_PIECE ? h->p->k - k : BLOCKS_PIECE;
    memset(h->vv, 0, sizeof h->vv);
    memset(h->ee, 0, sizeof h->ee);
    memset(h->ve, 0, sizeof h->ve);
    memset(h->largest, 0, sizeof h->largest);
    code_rows(h, k, n);
    if (h->p->sums) close_piece(h, k, n);
  }
}

AVX2 void codes_columns_avx2(const struct kernels_panel *p, const struct kernels_block_format *f) {
  const size_t whole = p->n / VECTOR * VECTOR;
  struct given_chunk h;
  h.p = p;
  h.f = f;
  h.way = way_of(f);
  for (h.j = 0; h.j < whole; h.j += CHUNK) {
    h.n = whole - h.j < CHUNK ? whole - h.j : CHUNK;
    code_chunk(&h);
  }
  for (size_t j = whole; j < p->n; j++) {
    struct blocks_run run = blocks_column_run(p, (enum kernels_float)f->in_type, j, 0, p->k);
    struct blocks_grid g = blocks_grid_there(p, f, j);
    blocks_codes(&run, &g, blocks_code_at(p, f, j, 0, true), p->codes_stride,
                 p->sums ? &p->sums[j] : NULL);
  }
}
#endif
