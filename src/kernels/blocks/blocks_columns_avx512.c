// Blockwise quantization along columns with AVX-512: a block's elements lie a row of W apart.
//
// A strip of 64 columns (32 or 16 where blocks are long) is done from top to bottom, tile by tile:
//
//        in_stride →            scratch [row][64]          dwords [16][64]
//   row  ┌────┬────┬───         ┌────┐ floats, L1 ──codes──▶ ┌────┐ 16 × 16 transposed:
//    ↓   │tile│    │     ──▶    │    │ of some blocks        └────┘ a whole line of a column's bytes
//        ├────┤    │   range    └────┘                       scales, zeros [16][64] likewise
//        │next│ ···│ asked for meanwhile                     sums: double, of the strip
//        └────┴────┴───
//
// At row strides that are powers of two the rows of a tile fall into one set of the first-level
// cache, and would be gone before they are read again: hence the scratch tile. Outputs of a column
// lie as far apart as its neighbours' do, so each is written a line at a time and not a few bytes:
// one line of codes is 128 rows at 4 bits, one of scales 16 blocks. The lines of the next tile are
// asked for while codes are made, evenly, so that memory is never idle.
//
// Vectors hold sixteen columns; the last one of a panel is masked. Error figures need eight lanes
// (k mod 8) of three sums, more than there are registers; v * v, which needs no codes, is added in
// a turn of its own.
#include "kernels/blocks/blocks_avx512.h"

#if defined(__x86_64__)
#define SHORT_TARGET AVX512
#define SHORT_BYTES 64
#define SHORT_ISA(name) name##_avx2
#include "kernels/blocks/inside/blocks_short.h"

enum {
  VECTORS = 4,          // of a strip, at most
  WIDE = 16 * VECTORS,  // columns
  ELEMENTS = 64 * WIDE, // of a tile
  SOME = 4,             // blocks of a tile, at most
  STAGED = 16,          // dwords, or blocks, to a line
  ROWS_FAR = 1024, // of a strip; each is a page, and the pages should stay known to the processor
  ROWS_MAX = BLOCKS_NBITS_MAX
};

// How all strips of a panel go.
struct column_way {
  const struct kernels_panel *p;
  const struct kernels_block_format *f;
  struct code_limits16 limits;
};

struct strip {
  size_t j, vectors, first;                          // first column; first block
  __mmask16 mask;                                    // of the columns of the last vector
  const uint8_t *next;                               // the tile to come
  float tile[ELEMENTS] __attribute__((aligned(64))); // [row][vectors * 16]
  float lo[SOME][WIDE] __attribute__((aligned(64))), hi[SOME][WIDE] __attribute__((aligned(64)));
  uint32_t codes[STAGED][WIDE] __attribute__((aligned(64)));
  float scales[STAGED][WIDE] __attribute__((aligned(64)));
  uint32_t zeros[STAGED][WIDE] __attribute__((aligned(64)));
  double vv[WIDE] __attribute__((aligned(64))), ee[WIDE] __attribute__((aligned(64))),
      ve[WIDE] __attribute__((aligned(64)));
  uint32_t largest[WIDE] __attribute__((aligned(64)));
  uint8_t bytes[ROWS_MAX * WIDE] __attribute__((aligned(64))); // QDQ: [row][vectors * 16]
};

// Where a block is.
struct place {
  size_t at, k, n; // its row in the tile, in the panel; rows
  size_t slot;     // which block of the tile
  size_t c;        // of a vector: its first column in the strip
};

// ---- range -------------------------------------------------------------------------------------

AVX512_INLINE void load_rows(struct strip *s, const uint8_t *from, size_t step,
                             const struct place *b, enum kernels_float type, size_t vectors) {
  const size_t width = 16 * (type == KERNELS_F32 ? 4 : 2);
  const __mmask16 mask = s->mask;
  __m512 lo[VECTORS], hi[VECTORS];
  for (size_t c = 0; c < vectors; c++) {
    lo[c] = _mm512_set1_ps(FLT_MAX);
    hi[c] = _mm512_set1_ps(-FLT_MAX);
  }
  float *to = s->tile + b->at * vectors * 16;
  for (size_t i = 0; i < b->n; i++, from += step, to += vectors * 16)
    for (size_t c = 0; c < vectors; c++) {
      __m512 v = vectors == 1 ? load_some(from, type, mask) : load16(from + c * width, type);
      _mm512_store_ps(to + c * 16, v);
      lo[c] = _mm512_min_ps(v, lo[c]);
      hi[c] = _mm512_max_ps(v, hi[c]);
    }
  for (size_t c = 0; c < vectors; c++) {
    _mm512_store_ps(s->lo[b->slot] + c * 16, lo[c]);
    _mm512_store_ps(s->hi[b->slot] + c * 16, hi[c]);
  }
}

AVX512_INLINE void load_type(struct strip *s, const uint8_t *from, size_t step,
                             const struct place *b, enum kernels_float type) {
  if (s->vectors == 4)
    load_rows(s, from, step, b, type, 4);
  else if (s->vectors == 2)
    load_rows(s, from, step, b, type, 2);
  else
    load_rows(s, from, step, b, type, 1);
}

AVX512 static void load_block(struct strip *s, const struct column_way *w, const struct place *b) {
  enum kernels_float type = (enum kernels_float)w->f->in_type;
  struct blocks_run run = blocks_column_run(w->p, type, s->j, b->k, b->n);
  BLOCKS_BY_TYPE(type, load_type(s, run.at, run.step, b, TYPE));
}

// ---- sums --------------------------------------------------------------------------------------

// Sums of one vector's columns come in, and go back.
static void open_sums(struct strip *s, const struct column_way *w, size_t c) {
  for (size_t i = c; i < c + 16; i++) {
    bool there = s->j + i < w->p->n;
    const struct kernels_sums none = {0}, *sums = there ? &w->p->sums[s->j + i] : &none;
    s->vv[i] = sums->vv;
    s->ee[i] = sums->ee;
    s->ve[i] = sums->ve;
    s->largest[i] = 0;
  }
}

static void close_sums(const struct strip *s, const struct column_way *w, size_t c) {
  for (size_t i = c; i < c + 16 && s->j + i < w->p->n; i++) {
    struct kernels_sums *sums = &w->p->sums[s->j + i];
    sums->vv = s->vv[i];
    sums->ee = s->ee[i];
    sums->ve = s->ve[i];
    blocks_plain_sums(sums, s->largest[i]);
  }
}

// Lanes of one figure, reduced.
AVX512_INLINE __m512 across(const __m512 *x) {
  __m512 even = _mm512_add_ps(_mm512_add_ps(x[0], x[4]), _mm512_add_ps(x[2], x[6]));
  return _mm512_add_ps(even, _mm512_add_ps(_mm512_add_ps(x[1], x[5]), _mm512_add_ps(x[3], x[7])));
}

AVX512_INLINE void add_double(double *to, __m512 x) {
  __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
  __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
  _mm512_store_pd(to, _mm512_add_pd(_mm512_load_pd(to), lo));
  _mm512_store_pd(to + 8, _mm512_add_pd(_mm512_load_pd(to + 8), hi));
}

static void count_nonfinite(const struct strip *s, const struct column_way *w,
                            const struct place *b, uint32_t columns) {
  for (size_t i = 0; i < 16; i++) {
    if (!(columns >> i & 1)) continue;
    size_t j = s->j + b->c + i;
    struct blocks_run run =
        blocks_column_run(w->p, (enum kernels_float)w->f->in_type, j, b->k, b->n);
    blocks_count_nonfinite(&w->p->sums[j], &run);
  }
}

// Of scales that take double: by the reference.
static void add_wide_sums(struct strip *s, const struct column_way *w, const struct place *b,
                          const float *scales, const uint32_t *zeros) {
  close_sums(s, w, b->c);
  for (size_t i = 0; i < 16 && s->j + b->c + i < w->p->n; i++) {
    size_t j = s->j + b->c + i;
    struct blocks_grid g = blocks_grid_given(w->f, scales[i], (uint8_t)zeros[i]);
    struct blocks_run run =
        blocks_column_run(w->p, (enum kernels_float)w->f->in_type, j, b->k, b->n);
    blocks_codes(&run, &g, NULL, 1, &w->p->sums[j]);
  }
  open_sums(s, w, b->c);
}

// ---- codes, out --------------------------------------------------------------------------------

// Rows of a staging area (n of them, from `from` on) as columns: `n` dwords of each of sixteen.
AVX512_INLINE void turn(__m512i *x, const void *from, size_t n) {
  for (size_t i = 0; i < STAGED; i++)
    x[i] = i < n ? _mm512_load_si512((const uint32_t *)from + i * WIDE) : _mm512_setzero_si512();
  transpose16(x);
}

static size_t columns_from(const struct strip *s, const struct column_way *w, size_t c) {
  size_t left = w->p->n - s->j - c;
  return left < 16 ? left : 16;
}

// The first n staged dwords of a vector's columns to their places, dword number `first` on.
AVX512 static void put_dwords(const struct strip *s, const struct column_way *w, size_t c,
                              size_t first, size_t n) {
  const size_t columns = columns_from(s, w, c), stride = w->p->codes_stride;
  uint8_t *out = w->p->codes + (s->j + c) * stride + first * 4;
  __m512i x[STAGED];
  if (n == STAGED) {
    turn(x, s->codes[0] + c, STAGED);
    for (size_t i = 0; i < columns; i++)
      _mm512_storeu_si512(out + i * stride, x[i]);
    return;
  }
  turn(x, s->codes[0] + c, n);
  for (size_t i = 0; i < columns; i++)
    _mm512_mask_storeu_epi32(out + i * stride, (__mmask16)((1u << n) - 1), x[i]);
}

// Bytes of rows k.. of the panel, n of them, the tile's first.
AVX512 static void put_bytes(const struct strip *s, const struct column_way *w, size_t k,
                             size_t n) {
  const __m512i mask = _mm512_set1_epi8((char)((1 << w->f->bits) - 1));
  const size_t columns = w->p->n - s->j, wide = s->vectors * 16;
  const __mmask64 some = columns < wide ? (1ull << columns) - 1 : ~0ull >> (64 - wide);
  uint8_t *out = w->p->codes + k * w->p->codes_stride + s->j;
  for (size_t i = 0; i < n; i++, out += w->p->codes_stride) {
    __m512i x = _mm512_maskz_loadu_epi8(some, s->bytes + i * wide);
    _mm512_mask_storeu_epi8(out, some, _mm512_and_si512(x, mask));
  }
}

// Scales and zeros of n blocks, from number `first` on.
AVX512 static void put_grids(const struct strip *s, const struct column_way *w, size_t first,
                             size_t n) {
  const __mmask16 some = (__mmask16)((1u << n) - 1);
  const struct kernels_panel *p = w->p;
  __m512i x[STAGED];
  for (size_t c = 0; c < s->vectors * 16; c += 16) {
    const size_t columns = columns_from(s, w, c), at = (s->j + c) * p->blocks_stride + first;
    if (p->scales) {
      turn(x, s->scales[0] + c, n);
      for (size_t i = 0; i < columns; i++)
        _mm512_mask_storeu_epi32(p->scales + at + i * p->blocks_stride, some, x[i]);
    }
    if (p->zeros) {
      turn(x, s->zeros[0] + c, n);
      for (size_t i = 0; i < columns; i++)
        _mm_mask_storeu_epi8(p->zeros + at + i * p->blocks_stride, some,
                             _mm512_cvtepi32_epi8(x[i]));
    }
  }
}

// ---- codes -------------------------------------------------------------------------------------

// Eight lanes of two figures; v * v is added by itself.
struct lanes16 {
  __m512 ee[BLOCKS_LANES], ve[BLOCKS_LANES];
  __m512i largest;
};

// How a block becomes codes: all but grid and limits are constants of the caller.
struct coding {
  struct grid16 grid;
  struct code_limits16 limits;
  enum kernels_rule rule;
  int bits;
  enum cut cut;
  bool figures;
};

AVX512_INLINE __m512i code_at(const float *tile, const struct coding *how, struct lanes16 *lanes,
                              size_t lane) {
  __m512 v = _mm512_load_ps(tile);
  __m512i code = codes16(v, &how->grid, &how->limits, how->rule, how->cut);
  if (!how->figures) return code;
  __m512 e = error16(v, code, &how->grid, &lanes->largest);
  lanes->ee[lane] = _mm512_add_ps(lanes->ee[lane], _mm512_mul_ps(e, e));
  lanes->ve[lane] = _mm512_add_ps(lanes->ve[lane], _mm512_mul_ps(v, e));
  return code;
}

// Lines of eight rows of the tile to come. They may be none of the panel's: nothing is read.
AVX512_INLINE void ask_for(const struct strip *s, const struct column_way *w, const struct place *b,
                           size_t row) {
  const size_t width = w->f->in_type == KERNELS_F32 ? 4 : 2, step = w->p->in_stride * width;
  if (b->c * width % 64) return;
  const uint8_t *at = s->next + (b->at + row) * step + b->c * width;
  for (int i = 0; i < 8; i++, at += step)
    _mm_prefetch((const char *)at, _MM_HINT_T1);
}

// A line of codes is written when 512 / bits rows are done. Some of a vector's are asked for at a
// time, not long before: they may all fall into one set of a cache.
AVX512_INLINE void ask_to_write(const struct strip *s, const struct column_way *w,
                                const struct place *b, size_t row, size_t bits) {
  const size_t line = 512 / bits, done = (b->k + row) % line, left = line - done;
  if (left <= 32 || left > 64) return;
  uint8_t *at = w->p->codes + (s->j + b->c + (64 - left) / 2) * w->p->codes_stride;
  at += (b->k + row - done) * bits / 8;
  for (int i = 0; i < 4; i++, at += w->p->codes_stride)
    __builtin_prefetch(at, 1);
}

// The lines of a strip's scales and zeros.
static void ask_for_grids(const struct strip *s, const struct column_way *w, size_t k) {
  const struct kernels_panel *p = w->p;
  for (size_t j = s->j; j < s->j + s->vectors * 16 && j < p->n; j++) {
    const size_t at = j * p->blocks_stride + k / w->f->block;
    if (p->scales) __builtin_prefetch(p->scales + at, 1);
    if (p->zeros) __builtin_prefetch(p->zeros + at, 1);
  }
}

// Four rows' codes to a dword, or to bytes.
AVX512_INLINE __m512i four_rows(struct strip *s, size_t at, const struct coding *how,
                                struct lanes16 *lanes, size_t lane, __m512i dword) {
  const size_t wide = s->vectors * 16;
  __m512 v[4], e[4];
  __m512i x[4];
  for (size_t i = 0; i < 4; i++)
    v[i] = _mm512_load_ps(s->tile + at + i * wide);
  codes64(x, v, &how->grid, &how->limits, how->rule, how->cut);
  if (how->figures) {
    errors64(e, v, x, &how->grid, &lanes->largest);
    for (size_t i = 0; i < 4; i++)
      lanes->ee[lane + i] = _mm512_add_ps(lanes->ee[lane + i], _mm512_mul_ps(e[i], e[i]));
    for (size_t i = 0; i < 4; i++)
      lanes->ve[lane + i] = _mm512_add_ps(lanes->ve[lane + i], _mm512_mul_ps(v[i], e[i]));
  }
  for (size_t i = 0; i < 4; i++)
    if (how->rule == KERNELS_QDQ)
      _mm_store_si128((__m128i *)(void *)(s->bytes + at + i * wide), _mm512_cvtepi32_epi8(x[i]));
    else if (how->bits == 4)
      dword = _mm512_shrdi_epi32(dword, x[i], 4);
    else if (how->bits == 2)
      dword = _mm512_shrdi_epi32(dword, x[i], 2);
    else
      dword = _mm512_shrdi_epi32(dword, x[i], 8);
  return dword;
}

// Rows row .. row + 7 of a block to dwords from `to` on, or to bytes.
AVX512_INLINE void eight_rows(struct strip *s, const struct place *b, size_t row,
                              const struct coding *how, struct lanes16 *lanes, uint32_t *to) {
  const size_t wide = s->vectors * 16, at = (b->at + row) * wide + b->c;
  __m512i dword = _mm512_setzero_si512();
  if (how->bits == 2 && row % 16) dword = _mm512_load_si512(to);
  dword = four_rows(s, at, how, lanes, 0, dword);
  if (how->bits == 8) _mm512_store_si512(to, dword);
  dword = four_rows(s, at + 4 * wide, how, lanes, 4, dword);
  if (how->rule == KERNELS_NBITS) _mm512_store_si512(how->bits == 8 ? to + WIDE : to, dword);
}

// What eight rows at a time leave: fewer than eight.
AVX512_INLINE void last_rows(struct strip *s, const struct place *b, const struct coding *how,
                             struct lanes16 *lanes) {
  const size_t wide = s->vectors * 16;
  for (size_t row = b->n / 8 * 8; row < b->n; row++) {
    const size_t at = (b->at + row) * wide + b->c;
    __m512i code = code_at(s->tile + at, how, lanes, row % 8);
    _mm_store_si128((__m128i *)(void *)(s->bytes + at), _mm512_cvtepi32_epi8(code));
  }
}

// Sum of v * v of a block.
AVX512 static __m512 squares(const struct strip *s, const struct place *b) {
  const size_t wide = s->vectors * 16;
  const float *at = s->tile + b->at * wide + b->c;
  __m512 sum[BLOCKS_LANES] = {0};
  size_t row = 0;
  for (; row + 8 <= b->n; row += 8)
    for (size_t i = 0; i < 8; i++, at += wide) {
      __m512 v = _mm512_load_ps(at);
      sum[i] = _mm512_add_ps(sum[i], _mm512_mul_ps(v, v));
    }
  __m512 all[BLOCKS_LANES];
  memcpy(all, sum, sizeof all);
  for (; row < b->n; row++, at += wide) {
    __m512 v = _mm512_load_ps(at);
    all[row % 8] = _mm512_add_ps(all[row % 8], _mm512_mul_ps(v, v));
  }
  return across(all);
}

AVX512_INLINE void close_block(struct strip *s, const struct column_way *w, const struct place *b,
                               const struct lanes16 *lanes) {
  __m512 vv = squares(s, b);
  add_double(s->vv + b->c, vv);
  add_double(s->ee + b->c, across(lanes->ee));
  add_double(s->ve + b->c, across(lanes->ve));
  __m512i *largest = (__m512i *)(void *)(s->largest + b->c);
  *largest = _mm512_max_epi32(*largest, lanes->largest);
  uint32_t odd = _mm512_cmp_ps_mask(vv, _mm512_set1_ps(FLT_MAX), _CMP_NLE_UQ);
  if (odd) count_nonfinite(s, w, b, odd & ((1u << columns_from(s, w, b->c)) - 1));
}

AVX512_INLINE void code_vector(struct strip *s, const struct column_way *w, const struct place *b,
                               const struct grid16 *g, enum kernels_rule rule, int bits,
                               enum cut cut, bool figures) {
  const struct coding how = {*g, w->limits, rule, bits, cut, figures};
  struct lanes16 lanes = {0};
  for (size_t row = 0; row + 8 <= b->n; row += 8) {
    const size_t dword = (b->k + row) * (size_t)bits / 32, end = (b->k + row + 8) * (size_t)bits;
    ask_for(s, w, b, row);
    if (rule == KERNELS_NBITS) ask_to_write(s, w, b, row, (size_t)bits);
    eight_rows(s, b, row, &how, &lanes, s->codes[dword % STAGED] + b->c);
    if (rule == KERNELS_NBITS && end % (32 * STAGED) == 0 && w->p->codes)
      put_dwords(s, w, b->c, end / 32 - STAGED, STAGED);
  }
  struct lanes16 all = lanes;
  if (rule == KERNELS_QDQ) last_rows(s, b, &how, &all);
  if (figures) close_block(s, w, b, &all);
}

// One instance a way, so that each has its constants.
#define CODE(name, rule, bits, cut, figures)                                                       \
  AVX512 static void name(struct strip *s, const struct column_way *w, const struct place *b,      \
                          const struct grid16 *g) {                                                \
    code_vector(s, w, b, g, rule, bits, cut, figures);                                             \
  }
#define CODE_BITS(bits)                                                                            \
  CODE(code_##bits##_wild, KERNELS_NBITS, bits, CUT_WILD, false)                                   \
  CODE(code_##bits, KERNELS_NBITS, bits, CUT_CALM, false)                                          \
  CODE(code_##bits##_sums, KERNELS_NBITS, bits, CUT_CALM, true)
CODE_BITS(2)
CODE_BITS(4)
CODE_BITS(8)
CODE(code_bytes, KERNELS_QDQ, 1, CUT_CALM, false)
CODE(code_bytes_sums, KERNELS_QDQ, 1, CUT_CALM, true)

static void code_any(struct strip *s, const struct column_way *w, const struct place *b,
                     const struct grid16 *g, bool calm, bool figures) {
  if (w->f->rule == KERNELS_QDQ)
    (figures ? code_bytes_sums : code_bytes)(s, w, b, g);
  else if (w->f->bits == 2)
    (figures ? code_2_sums : calm ? code_2 : code_2_wild)(s, w, b, g);
  else if (w->f->bits == 4)
    (figures ? code_4_sums : calm ? code_4 : code_4_wild)(s, w, b, g);
  else
    (figures ? code_8_sums : calm ? code_8 : code_8_wild)(s, w, b, g);
}

// One block of sixteen columns: its range is known.
AVX512 static void code_block(struct strip *s, const struct column_way *w, const struct place *b) {
  const __m512 lo = _mm512_load_ps(s->lo[b->slot] + b->c),
               hi = _mm512_load_ps(s->hi[b->slot] + b->c);
  const size_t at = b->k / w->f->block - s->first;
  const struct grid16 g = grid16_of(w->f, lo, hi);
  float *scales = s->scales[at] + b->c;
  uint32_t *zeros = s->zeros[at] + b->c;
  _mm512_store_ps(scales, g.scale);
  _mm512_store_si512(zeros, g.whole_zero);
  const bool calm = calm16(&g, lo, hi) == 0xffff;
  const bool narrow = calm && narrow16(g.scale, lo, hi) == 0xffff;
  if (w->p->sums && !narrow) add_wide_sums(s, w, b, scales, zeros);
  if (w->p->codes || (w->p->sums && narrow)) code_any(s, w, b, &g, calm, w->p->sums && narrow);
}

// ---- strips ------------------------------------------------------------------------------------

// Rows k .. k + rows of the strip, of at most SOME blocks.
static void do_tile(struct strip *s, const struct column_way *w, size_t k, size_t rows) {
  const size_t block = w->f->block;
  struct place b[SOME];
  size_t blocks = 0;
  for (size_t at = 0; at < rows; at += block, blocks++) {
    b[blocks] = (struct place){at, k + at, rows - at < block ? rows - at : block, blocks, 0};
    load_block(s, w, &b[blocks]);
  }
  for (size_t c = 0; c < s->vectors * 16; c += 16)
    for (size_t i = 0; i < blocks; i++) {
      b[i].c = c;
      code_block(s, w, &b[i]);
    }
  if (w->p->codes && w->f->rule == KERNELS_QDQ) put_bytes(s, w, k, rows);
}

static size_t smaller(size_t a, size_t b) {
  return a < b ? a : b;
}

// Rows k .. end of the strip at s->j.
static void do_strip(struct strip *s, const struct column_way *w, size_t k, size_t end,
                     size_t rows) {
  const enum kernels_float type = (enum kernels_float)w->f->in_type;
  const size_t block = w->f->block, columns = s->vectors * 16;
  s->first = k / block;
  ask_for_grids(s, w, k);
  for (size_t c = 0; c < columns && w->p->sums; c += 16)
    open_sums(s, w, c);
  for (size_t at = k; at < end; at += rows) {
    bool last = end - at <= rows, very_last = last && w->p->n - s->j <= columns;
    size_t next_j = last && !very_last ? s->j + columns : s->j;
    s->next = blocks_column_run(w->p, type, next_j, very_last ? at : last ? k : at + rows, 0).at;
    do_tile(s, w, at, smaller(rows, end - at));
  }
  for (size_t c = 0; c < columns; c += 16) {
    if (w->p->sums) close_sums(s, w, c);
    size_t left = end * w->f->bits / 32 % STAGED;
    if (w->p->codes && w->f->rule == KERNELS_NBITS && left)
      put_dwords(s, w, c, end * w->f->bits / 32 - left, left);
  }
  put_grids(s, w, k / block, (end - k - 1) / block + 1);
}

// All columns of rows k .. end; end - k: at most STAGED blocks.
static void do_strips(struct strip *s, const struct column_way *w, size_t k, size_t end,
                      size_t rows) {
  const size_t most = rows <= 64 ? 4 : rows <= 128 ? 2 : 1;
  for (s->j = 0; s->j < w->p->n; s->j += s->vectors * 16) {
    size_t left = w->p->n - s->j;
    s->vectors = left >= most * 16 ? most : 1;
    s->mask = (__mmask16)(left >= 16 ? 0xffffu : (1u << left) - 1);
    do_strip(s, w, k, end, rows);
  }
}

AVX512 void blocks_columns_avx512(const struct kernels_panel *p,
                                  const struct kernels_block_format *f) {
  const struct column_way w = {p, f, code_limits16_of(f)};
  struct strip s;
  if (f->block > ROWS_MAX) {
    blocks_columns_portable(p, f);
    return;
  }
  const size_t block = f->block, whole = f->rule == KERNELS_QDQ ? p->k : p->k / block * block;
  const size_t stretch = smaller(STAGED, ROWS_FAR / block) * block;
  const size_t rows = smaller(SOME, block < 64 ? 64 / block : 1) * block;
  for (size_t k = 0; k < whole; k += stretch)
    do_strips(&s, &w, k, smaller(whole, k + stretch), rows);
  // A last block whose codes fill no dwords.
  if (whole < p->k) short_columns(p, f, whole);
}
#endif
