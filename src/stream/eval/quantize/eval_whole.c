// Columns that are made whole, because what becomes of a row depends on others (gptq, awq): arrays of a box's columns
// side by side, a tile of rows of weights, a group of codes.
#include "stream/eval/quantize/inside/eval_whole.h"

#include "tensor_stats/second_moments.h"

#include <math.h>

static uint64_t tile_rows(const struct eval_quantize *z) {
  return second_moments_side(z->k, 0);
}

// Those of bytes and floats are rounded up, so that arrays begin where they may.
uint64_t eval_whole_column_bytes(const struct eval_quantize *z) {
  return 4 * (tile_rows(z) + z->block + 2) + z->block + 8;
}

static void *share(struct eval_whole *w, uint64_t bytes) {
  void *here = w->at;
  w->at += w->n * bytes;
  return here;
}

double *eval_whole_begin(struct eval_whole *w, const struct eval_filling *f,
                         uint64_t double_bytes) {
  *w = (struct eval_whole){.f = f,
                           .t = f->t,
                           .h = f->h,
                           .z = f->z,
                           .n = (size_t)(f->h->last - f->h->first),
                           .side = (size_t)tile_rows(f->z),
                           .block = (size_t)f->z->block,
                           .at = f->h->work};
  double *const doubles = share(w, double_bytes);
  w->weights = share(w, 4 * w->side);
  w->group = share(w, 4 * w->block);
  w->scales = share(w, 4);
  w->zeros = share(w, 1);
  w->codes = share(w, w->block);
  assert(w->at <= f->room.rest + f->room.rest_bytes);
  return doubles;
}

struct kernels_panel eval_whole_panel(const struct eval_whole *w, size_t rows) {
  return (struct kernels_panel){.in = w->group,
                                .in_stride = w->n,
                                .n = w->n,
                                .k = rows,
                                .scales = w->scales,
                                .zeros = w->zeros,
                                .blocks_stride = 1};
}

struct kernels_block_format eval_whole_format(const struct eval_quantize *z) {
  struct kernels_block_format f = z->f;
  f.in_type = KERNELS_F32;
  if (z->type == DTYPE_BFLOAT16) f.scale_type = KERNELS_BF16; // as they are stored
  return f;
}

// ---- weights -----------------------------------------------------------------------------------

static void widen(const struct eval_quantize *z, const uint8_t *in, size_t n, float *out) {
  const uint16_t *halves = (const uint16_t *)(const void *)in;
  if (z->type == DTYPE_FLOAT)
    memcpy(out, in, n * sizeof *out);
  else if (z->type == DTYPE_FLOAT16)
    kernels_f16_to_f32(out, halves, n);
  else
    kernels_bf16_to_f32(out, halves, n);
}

// A stretch of the operand, `rows` lines of it, as floats at to, `stride` apart.
static int read_stretch(const struct eval_whole *w, const struct eval_stretch *s, float *to,
                        size_t stride, struct err *err) {
  struct eval_panel panel;
  if (eval_panel_open(w->f, s, &panel, err) != 0) return -1;
  for (size_t i = 0; i < s->rows; i++)
    widen(w->z, panel.at + i * s->n * w->z->width, s->n, to + i * stride);
  return eval_panel_close(w->f, &panel, 0, err);
}

// Rows of W as they lie.
static int read_rows(const struct eval_whole *w, uint64_t first, size_t rows, struct err *err) {
  const size_t most = w->f->room.tile_bytes / w->z->width, wide = w->n < most ? w->n : most;
  for (size_t c = 0; c < w->n; c += wide) {
    const size_t n = (size_t)min_u64(wide, w->n - c), step = (size_t)max_u64(most / n, 1);
    for (size_t i = 0; i < rows; i += step) {
      const struct eval_stretch s = {.first = (first + i) * w->z->inner + w->h->first + c,
                                     .step = w->z->inner,
                                     .rows = (size_t)min_u64(step, rows - i),
                                     .n = n};
      if (read_stretch(w, &s, w->weights + i * w->n + c, w->n, err) != 0) return -1;
    }
  }
  return 0;
}

// Columns of W that lie as rows: some of them, turned.
static int read_turned(const struct eval_whole *w, uint64_t first, size_t rows, struct err *err) {
  enum { LINE = SECOND_MOMENTS_SIDE, LINES = 4 };
  float some[LINES * LINE];
  for (size_t c = 0; c < w->n; c += LINES) {
    const struct eval_stretch s = {.first = (w->h->first + c) * w->z->k + first,
                                   .step = w->z->k,
                                   .rows = (size_t)min_u64(LINES, w->n - c),
                                   .n = rows};
    if (read_stretch(w, &s, some, rows, err) != 0) return -1;
    kernels_transpose(w->weights + c, w->n, some, rows, s.rows, rows, sizeof *some);
  }
  return 0;
}

int eval_whole_read(const struct eval_whole *w, uint64_t first, size_t rows, struct err *err) {
  if ((w->z->inner > 1 ? read_rows : read_turned)(w, first, rows, err) != 0) return -1;
  for (size_t j = 0; j < w->n; j++) {
    struct kernels_sums *sums = w->h->sums ? &w->h->sums[j] : NULL;
    for (size_t i = 0; i < rows; i++) {
      float *x = &w->weights[i * w->n + j];
      if (isfinite(*x)) continue;
      if (sums) sums->nonfinite++;
      *x = 0;
    }
  }
  return 0;
}

void eval_whole_figures(const struct eval_whole *w, const struct eval_group *g, size_t l) {
  const float *weights = w->weights + (g->at + l) * w->n;
  for (size_t j = 0; j < w->n; j++) {
    struct kernels_sums *s = &w->h->sums[j];
    const double stored =
        ((double)w->codes[l * w->n + j] - (double)w->zeros[j]) * (double)w->scales[j];
    const double v = (double)weights[j], e = v - stored;
    s->vv += v * v;
    s->ee += e * e;
    s->ve += v * e;
    if (fabs(e) > (double)s->max_error) s->max_error = (float)fabs(e);
  }
}

void eval_whole_put(const struct eval_whole *w, const struct eval_group *g) {
  struct eval_block_box *h = w->h;
  const uint32_t bits = w->z->q.bits, per = 8 / bits;
  const uint64_t cell = (g->first + g->at) / w->block;
  for (size_t j = 0; j < w->n; j++) {
    const struct eval_place place = eval_layout_place(h, h->first + j, cell, 0);
    h->scales[place.cell] = w->scales[j];
    h->zeros[place.cell] = w->zeros[j];
    if (!h->codes) continue;
    uint8_t *out = h->codes + place.code;
    memset(out, 0, w->block * bits / 8);
    for (size_t l = 0; l < g->rows; l++)
      out[l / per] |= (uint8_t)(w->codes[l * w->n + j] << (l % per * bits));
  }
}
