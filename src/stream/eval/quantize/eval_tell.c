// Error figures of what is quantized in blocks. There are two kinds of leaves (eval_watcher.h):
//
//   columns   of the NBITS formats: their kernels have the sums, a box's are told when it is filled
//   chunks    of codes that lie as the operand does: told of each panel with the codes just made of it
//             (eval_figures.h); of a line that comes in stripes, into chunks that lie open side by side,
//             and what did not come in the order of its chunk is looked at once more
#include "stream/eval/quantize/inside/eval_layout.h"

#include "stream/eval/core/eval_figures.h"

#include <math.h>

// ---- columns -----------------------------------------------------------------------------------

struct eval_columns eval_tell_columns_of(const struct eval_quantize *z, uint64_t off,
                                         uint64_t len) {
  const uint64_t column = eval_layout_elements(z, 0);
  return (struct eval_columns){.next = (off + column - 1) / column,
                               .end = (off + len + column - 1) / column};
}

struct figures eval_tell_figures(const struct eval_quantize *z, const struct kernels_sums *sums) {
  return (struct figures){.elements = z->k,
                          .nonfinite = sums->nonfinite,
                          .vv = sums->vv,
                          .ee = sums->ee,
                          .ve = sums->ve,
                          .max_error = (double)sums->max_error};
}

// Names the first element of column c that is not finite.
static int not_finite(struct eval_task *t, const struct eval_quantize *z, uint64_t c,
                      struct err *err) {
  uint8_t one[16];
  double v;
  for (uint64_t k = 0; k < z->k; k++) {
    const uint64_t at = (c / z->inner * z->k + k) * z->inner + c % z->inner;
    if (eval_elements(t, z->of, at, 1, one, err) != 0) return -1;
    eval_figures_widen(z->type, one, 1, &v);
    if (isfinite(v)) continue;
    err_fill(err, ERR_FAIL, "element [%s,%s] of the weight is not finite (%g)",
             decimal(z->inner > 1 ? k : c).s, decimal(z->inner > 1 ? c : k).s, v);
    return err_because(err, REASON_NOT_FINITE);
  }
  return err_set(err, ERR_INPUT, "column %s of the weight changed while it was read", decimal(c).s);
}

static int tell_column(struct eval_task *t, const struct eval_quantize *z,
                       const struct kernels_sums *sums, struct err *err) {
  struct eval_columns *w = &t->columns;
  if (sums->nonfinite) return not_finite(t, z, w->next, err);
  if (!isfinite(sums->ee)) { // of finite elements
    err_fill(err, ERR_FAIL,
             "a block of column %s of the weight has no finite scale: its elements are too "
             "large, or their range is too wide, for float32",
             decimal(w->next).s);
    return err_because(err, REASON_NO_SCALE);
  }
  const struct figures f = eval_tell_figures(z, sums);
  t->watcher.told(t->watcher.ctx, w->next++, &f);
  w->next_block = 0;
  return 0;
}

int eval_tell_columns(struct eval_task *t, const struct eval_block_box *h, struct err *err) {
  const struct eval_quantize *z = &h->z;
  struct eval_columns *w = &t->columns;
  if (!h->sums) return 0;
  if (h->from == 0 && h->to == z->cells) {
    while (w->next >= h->first && w->next < min_u64(h->last, w->end))
      if (tell_column(t, z, &h->sums[w->next - h->first], err) != 0) return -1;
    return 0;
  }
  if (h->first != w->next || h->from != w->next_block || h->first >= w->end) return 0;
  w->sums = h->sums[0];
  w->next_block = h->to;
  return h->to == z->cells ? tell_column(t, z, h->sums, err) : 0;
}

// ---- chunks ------------------------------------------------------------------------------------

static struct kernels_scaled scaled_of(const struct eval_block_box *h, const struct eval_run *run) {
  return (struct kernels_scaled){.bits = (uint8_t)h->z.q.bits,
                                 .is_signed = h->z.q.symmetric,
                                 .share = run->share,
                                 .scales = h->scales + run->cell,
                                 .zeros = h->z.q.symmetric ? NULL : h->zeros + run->cell};
}

// Lines of a few elements: a scale and a zero point for each element, so that many lines go to the
// kernel together.
enum { SHORT_LINE = 64 };
struct spread {
  float scales[EVAL_PAIRS];
  uint8_t zeros[EVAL_PAIRS];
};

static bool is_short(const struct eval_block_box *h) {
  return !h->z.by_column && h->z.inner < SHORT_LINE && h->from == 0 && h->to == h->z.inner;
}

// What elements [at, at + n) of a line have, as bytes: those of its cells, again in each row.
static void repeat_cells(uint8_t *out, const void *cells, size_t width, uint64_t inner, uint64_t at,
                         uint64_t n) {
  const size_t row = (size_t)inner * width, all = (size_t)n * width;
  const size_t from = (size_t)(at % inner) * width, end = min_u64(row - from, all);
  memcpy(out, (const uint8_t *)cells + from, end);
  if (all > end) memcpy(out + end, cells, min_u64(row, all) - end);
  for (size_t have = row, m; have < all; have += m) { // as much as there is already
    m = min_u64(have, all - have);
    memcpy(out + have, out, m);
  }
}

// Of n <= EVAL_PAIRS elements that the box has.
static struct kernels_scaled spread_out(struct spread *s, const struct eval_block_box *h,
                                        uint64_t first, uint64_t n) {
  const struct eval_quantize *z = &h->z;
  struct kernels_scaled all = {.bits = (uint8_t)z->q.bits,
                               .is_signed = z->q.symmetric,
                               .share = 1,
                               .scales = s->scales,
                               .zeros = z->q.symmetric ? NULL : s->zeros};
  for (uint64_t i = 0, m; i < n; i += m) {
    const uint64_t unit = eval_layout_unit(z, first + i);
    const uint64_t at = first + i - eval_layout_start(z, unit);
    const size_t cell = (size_t)((unit - h->first) * z->inner);
    m = min_u64(n - i, eval_layout_elements(z, unit) - at);
    repeat_cells((uint8_t *)(s->scales + i), h->scales + cell, sizeof(float), z->inner, at, m);
    if (all.zeros) repeat_cells(s->zeros + i, h->zeros + cell, 1, z->inner, at, m);
  }
  return all;
}

// The same where an element is not finite: from the one on that is wanted next.
static int add_slowly(struct eval_task *t, uint64_t first, const float *v, const uint8_t *codes,
                      size_t n, const struct kernels_scaled *s, struct err *err) {
  double values[EVAL_CHUNK], stored[EVAL_CHUNK];
  kernels_f32_to_f64(values, v, n);
  kernels_scaled_values(stored, codes, n, s);
  return eval_figures_add(t, first, values, stored, n, err);
}

int eval_tell_codes(struct eval_task *t, const struct eval_block_box *h, uint64_t first, uint64_t n,
                    const uint8_t *in, const uint8_t *codes, struct err *err) {
  const struct eval_quantize *z = &h->z;
  const struct eval_chunks *c = &t->chunks;
  if (!h->told || !eval_figures_wants(t, c->id, first, n)) return 0;
  struct spread spread;
  for (uint64_t i = c->next - first; i < n && c->next < c->end;) {
    const uint8_t *at = in + i * z->width;
    const bool as_they_are = z->type == DTYPE_FLOAT && (uintptr_t)at % sizeof(float) == 0;
    size_t m = (size_t)min_u64(as_they_are ? EVAL_CHUNK : EVAL_PAIRS, n - i);
    struct kernels_scaled s;
    if (is_short(h)) {
      m = (size_t)min_u64(m, EVAL_PAIRS);
      s = spread_out(&spread, h, first + i, m);
    } else {
      const struct eval_run run = eval_layout_run(h, first + i);
      m = (size_t)min_u64(m, run.n);
      s = scaled_of(h, &run);
    }
    float room[EVAL_PAIRS];
    const float *v = as_they_are ? (const float *)(const void *)at : room;
    if (!as_they_are) eval_figures_floats(z->type, at, m, room);
    if (!eval_figures_add_scaled(t, first + i, v, codes + i, m, &s) &&
        add_slowly(t, first + i, v, codes + i, m, &s, err) != 0)
      return -1;
    i += m;
  }
  return 0;
}

void eval_tell_stripe(struct eval_task *t, const struct eval_block_box *h,
                      struct eval_open_chunks *open, uint64_t first, uint64_t n, const uint8_t *in,
                      const uint8_t *codes) {
  const struct eval_quantize *z = &h->z;
  for (uint64_t i = 0; i < n && open->n > 0;) {
    const struct eval_run run = eval_layout_run(h, first + i);
    const size_t m = (size_t)min_u64(min_u64(EVAL_PAIRS, n - i), run.n);
    const struct kernels_scaled s = scaled_of(h, &run);
    float v[EVAL_PAIRS];
    eval_figures_floats(z->type, in + i * z->width, m, v);
    eval_open_chunks_add(t, open, first + i, v, codes + i, m, &s);
    i += m;
  }
}
