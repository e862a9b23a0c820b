// Blockwise quantization, the reference: one run at a time, one element at a time, in the words of
// kernels.h. The other variants give these bytes and call what is here for the ends they leave.
//
//   run of elements ──range──▶ lo, hi ──grid──▶ scale, zero ──codes──▶ bytes, packed (NBITS)
//                                                             └──▶ sums of one block ──▶ of a column
//
// What is fixed here beside the formulas, all of it as the compiled MLAS for x86-64 does it:
//
//   - NaN as a code is the least one: 0 (NBITS: a comparison with NaN is false and the conversion to
//     a byte gives 0) or -2^(bits-1) (QDQ: the conversion to an integer gives INT_MIN).
//   - A quotient past the range of int32 is INT_MIN in QDQ, of either sign. It takes a scale so small that
//     its reciprocal is infinite. The zero point is added in 32 bits, past whose end the sum begins anew.
//   - Of zeros of both signs the first in order of k is the extreme; a block of zeros has a symmetric
//     scale of the other sign.
//   - The last byte of packed codes, where elements do not fill it, repeats the byte before (MLAS keeps
//     the values of the last turn), unless it begins a work item of 8/bits blocks.
//
// Rounding half away from zero is done without libm: adding the float below 0.5 and cutting off
// gives it for every float (below 2^23; from there on all are whole): the sum cannot reach the next
// whole number unless the fraction was at least a half.
#include "kernels/blocks/blocks.h"

#include "kernels/float_bits.h"

#include <float.h>
#include <math.h>
#include <string.h>

static inline float round_away(float x) {
  if (!(fabsf(x) < 0x1p23f)) return x;
  return (float)(int32_t)(x + (x < 0 ? -BLOCKS_BELOW_HALF : BLOCKS_BELOW_HALF));
}

// As the x86-64 instruction: what does not fit is INT_MIN.
static inline int32_t int_of(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
}

size_t blocks_width(enum kernels_float type) {
  return type == KERNELS_F32 ? 4 : 2;
}

struct blocks_run blocks_row_run(const struct kernels_panel *p, enum kernels_float type, size_t j,
                                 size_t k, size_t n) {
  size_t width = blocks_width(type);
  const uint8_t *in = p->in;
  return (struct blocks_run){in + (j * p->in_stride + k) * width, width, n, type};
}

struct blocks_run blocks_column_run(const struct kernels_panel *p, enum kernels_float type,
                                    size_t j, size_t k, size_t n) {
  size_t width = blocks_width(type);
  const uint8_t *in = p->in;
  return (struct blocks_run){in + (k * p->in_stride + j) * width, p->in_stride * width, n, type};
}

static inline float value(const struct blocks_run *run, size_t k) {
  const uint8_t *at = run->at + k * run->step;
  float x;
  if (run->type == KERNELS_F32)
    memcpy(&x, at, sizeof x);
  else if (run->type == KERNELS_F16)
    cast_f16_f32_portable(&x, at, 1);
  else
    cast_bf16_f32_portable(&x, at, 1);
  return x;
}

float blocks_value(const struct blocks_run *run, size_t k) {
  return value(run, k);
}

void blocks_range(const struct blocks_run *run, float *lo, float *hi) {
  for (size_t k = 0; k < run->n; k++) {
    float v = value(run, k);
    if (v < *lo) *lo = v;
    if (v > *hi) *hi = v;
  }
}

// ---- scale and zero point ----------------------------------------------------------------------

float blocks_stored(float scale, enum kernels_float type) {
  uint16_t half;
  if (type == KERNELS_F16) {
    cast_f32_f16_portable(&half, &scale, 1);
    cast_f16_f32_portable(&scale, &half, 1);
  } else if (type == KERNELS_BF16) {
    cast_f32_bf16_portable(&half, &scale, 1);
    cast_bf16_f32_portable(&scale, &half, 1);
  }
  return scale;
}

static struct blocks_grid empty_grid(const struct kernels_block_format *f) {
  struct blocks_grid g = {.zero_first = f->rule == KERNELS_NBITS, .most = (1 << f->bits) - 1};
  if (!f->symmetric) return g;
  int half = 1 << (f->bits - 1);
  if (f->rule == KERNELS_NBITS) {
    g.zero = half;
  } else {
    g.least = -half;
    g.most = half - 1;
  }
  return g;
}

struct blocks_grid blocks_grid_of(const struct kernels_block_format *f, float lo, float hi) {
  struct blocks_grid g = empty_grid(f);
  float scale;
  if (f->symmetric) {
    float m = fabsf(hi) > fabsf(lo) ? hi : lo;
    scale = -m / (float)(1 << (f->bits - 1));
  } else {
    lo = lo < 0 ? lo : 0;
    hi = hi > 0 ? hi : 0;
    scale = (hi - lo) / (float)g.most;
    float zero = scale != 0 ? 0 - lo / scale : 0;
    g.zero = zero >= (float)g.most ? g.most : zero > 0 ? (int)round_away(zero) : 0; // NaN: 0
  }
  g.scale = blocks_stored(scale, f->scale_type);
  g.reciprocal = g.scale != 0 ? 1 / g.scale : 0;
  return g;
}

struct blocks_grid blocks_grid_given(const struct kernels_block_format *f, float scale,
                                     uint8_t zero) {
  struct blocks_grid g = empty_grid(f);
  if (!f->symmetric) g.zero = zero;
  g.scale = scale;
  g.reciprocal = scale != 0 ? 1 / scale : 0;
  return g;
}

struct blocks_grid blocks_grid_there(const struct kernels_panel *p,
                                     const struct kernels_block_format *f, size_t j) {
  size_t at = j * p->blocks_stride;
  return blocks_grid_given(f, p->scales[at], p->zeros ? p->zeros[at] : 0);
}

// ---- codes and sums ----------------------------------------------------------------------------

static inline int code_of(float v, const struct blocks_grid *g) {
  if (!g->zero_first) {
    int32_t q = (int32_t)((uint32_t)int_of(round_away(v * g->reciprocal)) + (uint32_t)g->zero);
    return q < g->least ? g->least : q > g->most ? g->most : q;
  }
  float x = round_away(v * g->reciprocal + (float)g->zero);
  if (x > (float)g->most) return g->most;
  return x > 0 ? (int)x : 0; // NaN: 0
}

// NaNs in figures are of one kind, whatever the machine makes of inf - inf.
static double plain(double x) {
  return x == x ? x : (double)NAN;
}

void blocks_plain_sums(struct kernels_sums *sums, uint32_t largest) {
  const uint32_t infinity = 0x7f800000;
  sums->vv = plain(sums->vv);
  sums->ee = plain(sums->ee);
  sums->ve = plain(sums->ve);
  if (largest > (f32_bits(sums->max_error) & 0x7fffffff))
    sums->max_error = largest > infinity ? NAN : f32_of_bits(largest);
}

void blocks_count_nonfinite(struct kernels_sums *sums, const struct blocks_run *run) {
  for (size_t k = 0; k < run->n; k++)
    if (!isfinite(value(run, k)) && sums->nonfinite < UINT32_MAX) sums->nonfinite++;
}

// Error figures of one piece.
enum { VV, EE, VE, FIGURES };
struct lanes {
  bool wide; // double
  float narrow_sums[FIGURES][BLOCKS_LANES];
  double wide_sums[FIGURES][BLOCKS_LANES];
  uint32_t largest; // bits of the largest |e|
};

static inline void add_element(struct lanes *l, size_t lane, float v, float e) {
  uint32_t size = f32_bits(e) & 0x7fffffff;
  if (size > l->largest) l->largest = size;
  if (l->wide) {
    l->wide_sums[VV][lane] += (double)v * (double)v;
    l->wide_sums[EE][lane] += (double)e * (double)e;
    l->wide_sums[VE][lane] += (double)v * (double)e;
  } else {
    l->narrow_sums[VV][lane] += v * v;
    l->narrow_sums[EE][lane] += e * e;
    l->narrow_sums[VE][lane] += v * e;
  }
}

static double reduced(const struct lanes *l, int figure) {
  if (l->wide) {
    const double *x = l->wide_sums[figure];
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
  }
  const float *x = l->narrow_sums[figure];
  return (double)(((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])));
}

static void add_sums(struct kernels_sums *sums, const struct lanes *l,
                     const struct blocks_run *run) {
  double vv = reduced(l, VV);
  sums->vv += vv;
  sums->ee += reduced(l, EE);
  sums->ve += reduced(l, VE);
  blocks_plain_sums(sums, l->largest);
  if (!isfinite(vv)) blocks_count_nonfinite(sums, run);
}

static struct lanes lanes_for(float scale) {
  return (struct lanes){.wide = !blocks_narrow(scale)};
}

void blocks_figures(struct kernels_sums *sums, const float *v, const int *codes, size_t n,
                    float scale, float zero) {
  for (size_t from = 0; from < n; from += BLOCKS_PIECE) {
    struct lanes lanes = lanes_for(scale);
    size_t m = n - from < BLOCKS_PIECE ? n - from : BLOCKS_PIECE;
    for (size_t k = 0; k < m; k++) {
      float x = v[from + k];
      add_element(&lanes, k % BLOCKS_LANES, x, x - ((float)codes[from + k] - zero) * scale);
    }
    struct blocks_run run = {(const uint8_t *)(v + from), sizeof *v, m, KERNELS_F32};
    add_sums(sums, &lanes, &run);
  }
}

static void piece_codes(const struct blocks_run *run, const struct blocks_grid *g, uint8_t *out,
                        size_t out_step, struct kernels_sums *sums) {
  struct lanes lanes = lanes_for(g->scale);
  uint8_t mask = (uint8_t)(g->most - g->least);
  for (size_t k = 0; k < run->n; k++) {
    float v = value(run, k);
    int code = code_of(v, g);
    if (out) out[k * out_step] = (uint8_t)code & mask;
    if (sums) add_element(&lanes, k % BLOCKS_LANES, v, v - (float)(code - g->zero) * g->scale);
  }
  if (sums) add_sums(sums, &lanes, run);
}

void blocks_codes(const struct blocks_run *run, const struct blocks_grid *g, uint8_t *out,
                  size_t out_step, struct kernels_sums *sums) {
  for (size_t k = 0; k < run->n; k += BLOCKS_PIECE) {
    struct blocks_run piece = *run;
    piece.at += k * run->step;
    piece.n = run->n - k < BLOCKS_PIECE ? run->n - k : BLOCKS_PIECE;
    piece_codes(&piece, g, out ? out + k * out_step : NULL, out_step, sums);
  }
}

// ---- places ------------------------------------------------------------------------------------

uint8_t *blocks_code_at(const struct kernels_panel *p, const struct kernels_block_format *f,
                        size_t j, size_t k, bool columns) {
  if (!p->codes) return NULL;
  bool in_place = f->rule == KERNELS_QDQ || f->rule == KERNELS_GATHER;
  if (!in_place) return p->codes + j * p->codes_stride + k * f->bits / 8;
  return columns ? p->codes + k * p->codes_stride + j : p->codes + j * p->codes_stride + k;
}

void blocks_pack(uint8_t *out, const uint8_t *codes, size_t n, const struct kernels_block_format *f,
                 bool begins_group) {
  size_t each = 8u / f->bits, used = (n + each - 1) / each;
  memset(out, 0, f->block / each);
  for (size_t k = 0; k < n; k++)
    out[k / each] |= (uint8_t)(codes[k] << (k % each * f->bits));
  if (n % each == 0 || (used == 1 && begins_group)) return;
  uint8_t filled = (uint8_t)((1u << (n % each * f->bits)) - 1);
  out[used - 1] |= (uint8_t)(out[(ptrdiff_t)used - 2] & ~filled); // maybe of the block before
}

void blocks_block(const struct blocks_run *run, const struct kernels_panel *p,
                  const struct kernels_block_format *f, size_t j, size_t k, bool columns) {
  float lo = FLT_MAX, hi = -FLT_MAX;
  blocks_range(run, &lo, &hi);
  struct blocks_grid g = blocks_grid_of(f, lo, hi);
  size_t at = j * p->blocks_stride + k / f->block;
  if (p->scales) p->scales[at] = g.scale;
  if (p->zeros) p->zeros[at] = (uint8_t)g.zero;
  struct kernels_sums *sums = p->sums ? &p->sums[j] : NULL;
  uint8_t *out = blocks_code_at(p, f, j, k, columns);
  if (f->rule == KERNELS_QDQ || !out) {
    blocks_codes(run, &g, out, columns ? p->codes_stride : 1, sums);
    return;
  }
  uint8_t codes[BLOCKS_NBITS_MAX];
  blocks_codes(run, &g, codes, 1, sums);
  blocks_pack(out, codes, run->n, f, k / f->block % (8u / f->bits) == 0);
}

static size_t min_size(size_t a, size_t b) {
  return a < b ? a : b;
}

void blocks_each(const struct kernels_panel *p, const struct kernels_block_format *f, bool columns,
                 void (*make)(const struct blocks_run *run, const struct kernels_panel *p,
                              const struct kernels_block_format *f, size_t j, size_t k,
                              bool columns)) {
  const enum kernels_float type = (enum kernels_float)f->in_type;
  for (size_t j = 0; !columns && j < p->n; j++)
    for (size_t k = 0; k < p->k; k += f->block) {
      struct blocks_run run = blocks_row_run(p, type, j, k, min_size(f->block, p->k - k));
      make(&run, p, f, j, k, false);
    }
  for (size_t k = 0; columns && k < p->k; k += f->block)
    for (size_t j = 0; j < p->n; j++) {
      struct blocks_run run = blocks_column_run(p, type, j, k, min_size(f->block, p->k - k));
      make(&run, p, f, j, k, true);
    }
}

void blocks_columns_rest(const struct kernels_panel *p, const struct kernels_block_format *f,
                         size_t j, size_t columns, size_t k, size_t rows) {
  for (size_t at = k; at < k + rows; at += f->block)
    for (size_t c = j; c < j + columns; c++) {
      struct blocks_run run =
          blocks_column_run(p, f->in_type, c, at, min_size(f->block, k + rows - at));
      blocks_block(&run, p, f, c, at, true);
    }
}

void blocks_rows_by(const struct kernels_panel *p, const struct kernels_block_format *f,
                    void (*whole_blocks)(const struct kernels_panel *p,
                                         const struct kernels_block_format *f, size_t j)) {
  if (f->block % 16 || f->block > BLOCKS_NBITS_MAX) {
    blocks_rows_portable(p, f);
    return;
  }
  const size_t left = p->k % f->block, whole = p->k - left;
  for (size_t j = 0; j < p->n; j++) {
    whole_blocks(p, f, j);
    struct blocks_run run = blocks_row_run(p, f->in_type, j, whole, left);
    if (left) blocks_block(&run, p, f, j, whole, false);
  }
}

void blocks_rows_portable(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_each(p, f, false, blocks_block);
}

void blocks_columns_portable(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_each(p, f, true, blocks_block);
}

void blocks_range_rows(const struct kernels_panel *p, enum kernels_float type, float *lo, float *hi,
                       void (*line)(const struct blocks_run *run, float *lo, float *hi)) {
  for (size_t j = 0; j < p->n; j++) {
    struct blocks_run run = blocks_row_run(p, type, j, 0, p->k);
    float least = lo[j], most = hi[j];
    line(&run, &least, &most);
    if (least == 0 || most == 0) {
      blocks_range(&run, &lo[j], &hi[j]);
      continue;
    }
    lo[j] = least;
    hi[j] = most;
  }
}

void blocks_codes_rows(const struct kernels_panel *p, const struct kernels_block_format *f,
                       void (*line)(const struct blocks_run *run, const struct blocks_grid *g,
                                    const struct kernels_block_format *f, uint8_t *out,
                                    struct kernels_sums *sums)) {
  for (size_t j = 0; j < p->n; j++) {
    struct blocks_run run = blocks_row_run(p, (enum kernels_float)f->in_type, j, 0, p->k);
    struct blocks_grid g = blocks_grid_there(p, f, j);
    uint8_t *out = blocks_code_at(p, f, j, 0, false);
    struct kernels_sums *sums = p->sums ? &p->sums[j] : NULL;
    if (sums && !blocks_narrow(g.scale))
      blocks_codes(&run, &g, out, 1, sums);
    else
      line(&run, &g, f, out, sums);
  }
}

void codes_rows_portable(const struct kernels_panel *p, const struct kernels_block_format *f) {
  for (size_t j = 0; j < p->n; j++) {
    struct blocks_run run = blocks_row_run(p, f->in_type, j, 0, p->k);
    struct blocks_grid g = blocks_grid_there(p, f, j);
    blocks_codes(&run, &g, blocks_code_at(p, f, j, 0, false), 1, p->sums ? &p->sums[j] : NULL);
  }
}

void codes_columns_portable(const struct kernels_panel *p, const struct kernels_block_format *f) {
  for (size_t j = 0; j < p->n; j++) {
    struct blocks_run run = blocks_column_run(p, f->in_type, j, 0, p->k);
    struct blocks_grid g = blocks_grid_there(p, f, j);
    blocks_codes(&run, &g, blocks_code_at(p, f, j, 0, true), p->codes_stride,
                 p->sums ? &p->sums[j] : NULL);
  }
}

void range_rows_portable(const struct kernels_panel *p, enum kernels_float type, float *lo,
                         float *hi) {
  for (size_t j = 0; j < p->n; j++) {
    struct blocks_run run = blocks_row_run(p, type, j, 0, p->k);
    blocks_range(&run, &lo[j], &hi[j]);
  }
}

void range_columns_portable(const struct kernels_panel *p, enum kernels_float type, float *lo,
                            float *hi) {
  for (size_t j = 0; j < p->n; j++) {
    struct blocks_run run = blocks_column_run(p, type, j, 0, p->k);
    blocks_range(&run, &lo[j], &hi[j]);
  }
}
