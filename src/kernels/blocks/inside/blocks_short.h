// Inside blocks_columns_<isa>.c: the last block of columns where it is shorter than the others, packed
// (NBITS). Of a weight of few rows it is the only one, and there are as many as columns: [1, N] has N
// blocks of one element.
//
//   columns j .. j + 15      v [row][16]         dwords [k * bits / 32][16]
//   ┌────┐ rows              ┌────┐ ──grids──▶   ┌────┐ a column's dwords to its place,
//   └────┘      ──widened──▶ └────┘   codes      └────┘ those behind the last row 0
//                               └──▶ error figures, lane by lane (k mod 8), of sixteen columns
//
// A lane is a column: no lane needs another, and each does what blocks_portable.c does with one block,
// operation by operation. Sixteen columns go to the reference where one of them has elements that are
// not finite, or a scale that takes double, and so do the last columns, which are fewer.
//
// Arithmetic is written with the vector types of GCC and Clang. Before including this a file says
// SHORT_TARGET, a function attribute; SHORT_BYTES of its vectors; and SHORT_ISA(name), the variant of
// casts to use.
#ifndef WEIR_BLOCKS_SHORT_H
#define WEIR_BLOCKS_SHORT_H

#include "kernels/blocks/blocks.h"

#include <float.h>
#include <string.h>

#define SHORT_INLINE static inline __attribute__((always_inline)) SHORT_TARGET

enum { SHORT_COLUMNS = 16, SHORT_LANES = SHORT_BYTES / 4 };
typedef float short_f __attribute__((vector_size(SHORT_BYTES)));
typedef int32_t short_i __attribute__((vector_size(SHORT_BYTES)));

struct short_strip {
  const struct kernels_panel *p;
  const struct kernels_block_format *f;
  size_t j, k, rows;
  _Alignas(64) float v[BLOCKS_NBITS_MAX][SHORT_COLUMNS];
  _Alignas(64) float scale[SHORT_COLUMNS];
  _Alignas(64) int32_t zero[SHORT_COLUMNS];
  _Alignas(64) int32_t codes[BLOCKS_NBITS_MAX / 4][SHORT_COLUMNS]; // dwords
  // Error figures: sums of v * v, e * e, v * e, and the bits of the largest |e|.
  _Alignas(64) float vv[SHORT_COLUMNS], ee[SHORT_COLUMNS], ve[SHORT_COLUMNS];
  _Alignas(64) uint32_t largest[SHORT_COLUMNS];
};

SHORT_INLINE short_f short_load(const float *at) {
  short_f x;
  memcpy(&x, at, sizeof x);
  return x;
}

SHORT_INLINE short_f short_all(float x) {
  return x - (short_f){0};
}

SHORT_INLINE short_f short_pick(short_i where, short_f a, short_f b) {
  return (short_f)(((short_i)a & where) | ((short_i)b & ~where));
}

SHORT_INLINE short_f short_size(short_f x) {
  return (short_f)((short_i)x & INT32_MAX);
}

// To the nearest whole number, half up, cut to 0 .. most; NaN to 0.
SHORT_INLINE short_i short_whole(short_f x, float most) {
  x = short_pick(x < short_all(most), x, short_all(most));
  x = short_pick(x > 0, x + BLOCKS_BELOW_HALF, (short_f){0});
  return __builtin_convertvector(x, short_i);
}

SHORT_TARGET static void short_widen(struct short_strip *s) {
  const enum kernels_float type = (enum kernels_float)s->f->in_type;
  const struct blocks_run run = blocks_column_run(s->p, type, s->j, s->k, s->rows);
  for (size_t k = 0; k < s->rows; k++) {
    const uint8_t *at = run.at + k * run.step;
    if (type == KERNELS_F32)
      memcpy(s->v[k], at, sizeof s->v[k]);
    else if (type == KERNELS_F16)
      SHORT_ISA(cast_f16_f32)(s->v[k], at, SHORT_COLUMNS);
    else
      SHORT_ISA(cast_bf16_f32)(s->v[k], at, SHORT_COLUMNS);
  }
}

SHORT_TARGET static void short_store_scales(float *scale, enum kernels_float type) {
  uint16_t half[SHORT_COLUMNS];
  if (type == KERNELS_F16) {
    SHORT_ISA(cast_f32_f16)(half, scale, SHORT_COLUMNS);
    SHORT_ISA(cast_f16_f32)(scale, half, SHORT_COLUMNS);
  } else if (type == KERNELS_BF16) {
    SHORT_ISA(cast_f32_bf16)(half, scale, SHORT_COLUMNS);
    SHORT_ISA(cast_bf16_f32)(scale, half, SHORT_COLUMNS);
  }
}

// Scales and zero points, as blocks_grid_of makes them. False: the reference must.
SHORT_INLINE bool short_grids(struct short_strip *s) {
  const struct kernels_block_format *f = s->f;
  const float most = (float)((1 << f->bits) - 1), half = (float)(1 << (f->bits - 1));
  const short_f nothing = {0};
  short_i zeros[SHORT_COLUMNS / SHORT_LANES]; // all elements of a column are zeros
  short_i odd = {0};
  for (size_t c = 0; c < SHORT_COLUMNS; c += SHORT_LANES) {
    short_f lo = short_all(FLT_MAX), hi = short_all(-FLT_MAX);
    for (size_t k = 0; k < s->rows; k++) {
      const short_f v = short_load(s->v[k] + c);
      odd |= ~(short_size(v) <= FLT_MAX);
      lo = short_pick(v < lo, v, lo);
      hi = short_pick(v > hi, v, hi);
    }
    short_f scale;
    short_i zero;
    zeros[c / SHORT_LANES] = (lo == nothing) & (hi == nothing);
    if (f->symmetric) {
      const short_f m = short_pick(short_size(hi) > short_size(lo), hi, lo);
      scale = -m / half;
      zero = __builtin_convertvector(short_all(half), short_i);
    } else {
      lo = short_pick(lo < 0, lo, nothing);
      hi = short_pick(hi > 0, hi, nothing);
      scale = (hi - lo) / most;
      zero = short_whole(short_pick(scale != 0, 0 - lo / scale, nothing), most);
    }
    memcpy(s->scale + c, &scale, sizeof scale);
    memcpy(s->zero + c, &zero, sizeof zero);
  }
  short_store_scales(s->scale, (enum kernels_float)f->scale_type);
  for (size_t c = 0; c < SHORT_COLUMNS; c += SHORT_LANES) {
    const short_f size = short_size(short_load(s->scale + c));
    const short_i narrow = (size >= BLOCKS_SCALE_LEAST) & (size <= BLOCKS_SCALE_MOST);
    odd |= ~(narrow | zeros[c / SHORT_LANES]);
  }
  int32_t any = 0;
  for (size_t i = 0; i < SHORT_LANES; i++)
    any |= odd[i];
  return any == 0;
}

struct short_lanes {
  short_f vv[BLOCKS_LANES], ee[BLOCKS_LANES], ve[BLOCKS_LANES];
};

SHORT_INLINE void short_reduce(float *out, const short_f *x) {
  const short_f sum = ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
  memcpy(out, &sum, sizeof sum);
}

// Codes and error figures of columns c .. of the strip.
SHORT_INLINE void short_codes(struct short_strip *s, size_t c) {
  const uint32_t bits = s->f->bits, each = 32 / bits;
  const float most = (float)((1 << bits) - 1);
  const short_f scale = short_load(s->scale + c);
  const short_f reciprocal = short_pick(scale != 0, 1 / scale, (short_f){0});
  struct short_lanes lanes = {0};
  short_i zero, largest = {0}, dword = {0};
  memcpy(&zero, s->zero + c, sizeof zero);
  const short_f zero_float = __builtin_convertvector(zero, short_f);
  for (size_t k = 0; k < s->rows; k++) {
    const short_f v = short_load(s->v[k] + c);
    const short_i code = short_whole(v * reciprocal + zero_float, most);
    const short_f e = v - __builtin_convertvector(code - zero, short_f) * scale;
    const short_i size = (short_i)short_size(e), larger = size > largest;
    largest = (size & larger) | (largest & ~larger);
    lanes.vv[k % BLOCKS_LANES] += v * v;
    lanes.ee[k % BLOCKS_LANES] += e * e;
    lanes.ve[k % BLOCKS_LANES] += v * e;
    dword |= code << (int32_t)(k % each * bits);
    if (k % each < each - 1 && k < s->rows - 1) continue;
    memcpy(s->codes[k / each] + c, &dword, sizeof dword);
    dword = (short_i){0};
  }
  short_reduce(s->vv + c, lanes.vv);
  short_reduce(s->ee + c, lanes.ee);
  short_reduce(s->ve + c, lanes.ve);
  memcpy(s->largest + c, &largest, sizeof largest);
}

static void short_put_codes(const struct short_strip *s) {
  const struct kernels_block_format *f = s->f;
  const size_t each = 8u / f->bits, bytes = f->block / each, dwords = bytes / 4;
  const size_t used = (s->rows + each - 1) / each, dwords_used = (used + 3) / 4;
  const bool begins_group = s->k / f->block % each == 0;
  const bool repeats = s->rows % each && (used > 1 || !begins_group); // blocks_pack
  const uint8_t filled = (uint8_t)((1u << (s->rows % each * f->bits)) - 1);
  for (size_t i = 0; i < SHORT_COLUMNS; i++) {
    uint8_t *out = blocks_code_at(s->p, f, s->j + i, s->k, true);
    for (size_t d = 0; d < dwords; d++) {
      const int32_t dword = d < dwords_used ? s->codes[d][i] : 0;
      memcpy(out + d * 4, &dword, sizeof dword);
    }
    if (repeats) out[used - 1] |= (uint8_t)(out[(ptrdiff_t)used - 2] & ~filled);
  }
}

static void short_put(const struct short_strip *s) {
  const struct kernels_panel *p = s->p;
  for (size_t i = 0; i < SHORT_COLUMNS; i++) {
    const size_t at = (s->j + i) * p->blocks_stride + s->k / s->f->block;
    if (p->scales) p->scales[at] = s->scale[i];
    if (p->zeros) p->zeros[at] = (uint8_t)s->zero[i];
  }
  for (size_t i = 0; i < SHORT_COLUMNS && p->sums; i++) {
    struct kernels_sums *sums = &p->sums[s->j + i];
    sums->vv += (double)s->vv[i];
    sums->ee += (double)s->ee[i];
    sums->ve += (double)s->ve[i];
    blocks_plain_sums(sums, s->largest[i]);
  }
  if (p->codes) short_put_codes(s);
}

// Rows k .. p->k of all columns, fewer than a block.
SHORT_TARGET static void short_columns(const struct kernels_panel *p,
                                       const struct kernels_block_format *f, size_t k) {
  struct short_strip s;
  s.p = p;
  s.f = f;
  s.k = k;
  s.rows = p->k - k;
  for (s.j = 0; p->n - s.j >= SHORT_COLUMNS; s.j += SHORT_COLUMNS) {
    short_widen(&s);
    if (!short_grids(&s)) {
      blocks_columns_rest(p, f, s.j, SHORT_COLUMNS, k, s.rows);
      continue;
    }
    for (size_t c = 0; c < SHORT_COLUMNS; c += SHORT_LANES)
      short_codes(&s, c);
    short_put(&s);
  }
  blocks_columns_rest(p, f, s.j, p->n - s.j, k, s.rows);
}

#endif
