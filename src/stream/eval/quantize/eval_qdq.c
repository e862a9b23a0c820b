// Formats whose codes lie as the operand does, [outer, k, inner], a byte a code here (eval.c packs
// them). The elements that share scales are a *line*: of each outer position one block of k, with
// all of inner. Lines lie one behind the other, in codes, scales and zeros alike:
//
//   operand, codes               scales, zeros
//   ┌───────────────────┐
//   │ line 0: block rows│ k      ├─ inner of line 0 ─┤
//   ├───────────────────┤
//   │ line 1            │        ├─ inner of line 1 ─┤
//   └───────────────────┘
//     inner
//
// Error figures (eval_figures.c) are told of as codes are made, from the panel that they were made
// of; of a line that is made in stripes of columns, in pieces that are put together at its end.
//
// A box holds some lines, made in one read. Where a line is too large for that (one block for all
// of a long axis, say), a box holds the scales and zeros of some inner positions of one line;
// making them takes a read of the line, and codes are then computed from the operand straight into
// the caller's buffer. Every worker that makes a part of such a line needs its scales and zeros:
// one finds them, and the others wait for it.
#include "eval_figures.h"
#include "eval_blocks.h"
#include "eval_turns.h"

#include <assert.h>
#include <float.h>

enum { LINES_BOX_BYTES = 1 << 20 };

static uint64_t line_start(const struct eval_quantize *z, uint64_t line) {
  return line / z->blocks * z->k * z->inner + line % z->blocks * z->block * z->inner;
}

// Rows of the operand in a line: of k.
static uint64_t line_rows(const struct eval_quantize *z, uint64_t line) {
  return min_u64(z->block, z->k - line % z->blocks * z->block);
}

static uint64_t line_of(const struct eval_quantize *z, uint64_t element) {
  const uint64_t slab = z->k * z->inner;
  return element / slab * z->blocks + element % slab / (z->block * z->inner);
}

// ---- error figures -----------------------------------------------------------------------------

// What n codes of one scale stand for, and n codes each of its own.
static void decode_block(const uint8_t *codes, size_t n, int sign, int mask, int zero, double scale,
                         double *out) {
  for (size_t i = 0; i < n; i++)
    out[i] = (double)(((codes[i] & mask) ^ sign) - sign - zero) * scale;
}

static void decode_row(const uint8_t *codes, size_t n, int mask, const uint8_t *zeros,
                       const float *scales, double *out) {
  for (size_t i = 0; i < n; i++)
    out[i] = (double)((codes[i] & mask) - zeros[i]) * (double)scales[i];
}

static void decode_signed_row(const uint8_t *codes, size_t n, int sign, int mask,
                              const float *scales, double *out) {
  for (size_t i = 0; i < n; i++)
    out[i] = (double)(((codes[i] & mask) ^ sign) - sign) * (double)scales[i];
}

// What n codes from element `at` of a line on stand for, at most to the end of what shares a scale
// (inner 1) or of a row; how many.
static size_t decode(const struct eval_block_box *h, uint64_t line, uint64_t at,
                     const uint8_t *codes, size_t n, double *out) {
  const struct eval_quantize *z = &h->z;
  const uint64_t column = at % z->inner;
  const int sign = z->q.symmetric ? 1 << (z->q.bits - 1) : 0, mask = (1 << z->q.bits) - 1;
  const size_t first = (size_t)((line - h->first) * (h->to - h->from) + column - h->from);
  if (z->inner == 1) {
    const int zero = z->q.symmetric ? 0 : h->zeros[first];
    decode_block(codes, n, sign, mask, zero, (double)h->scales[first], out);
    return n;
  }
  n = (size_t)min_u64(n, z->inner - column);
  if (z->q.symmetric)
    decode_signed_row(codes, n, sign, mask, h->scales + first, out);
  else
    decode_row(codes, n, mask, h->zeros + first, h->scales + first, out);
  return n;
}

// Tells of n codes from element `first` on; `in`: the elements, and codes and elements lie in
// order.
static int tell(struct eval_task *t, const struct eval_block_box *h, uint64_t first, uint64_t n,
                const uint8_t *in, const uint8_t *codes, struct err *err) {
  const struct eval_quantize *z = &h->z;
  double v[EVAL_PAIRS], w[EVAL_PAIRS];
  if (!h->told || !eval_figures_wants(t, t->chunks.id, first, n)) return 0;
  for (uint64_t i = t->chunks.next - first; i < n && t->chunks.next < t->chunks.end;) {
    const uint64_t line = line_of(z, first + i), at = first + i - line_start(z, line);
    const uint64_t rest = line_rows(z, line) * z->inner - at;
    size_t m = (size_t)min_u64(min_u64(EVAL_PAIRS, n - i), rest);
    m = decode(h, line, at, codes + i, m, w);
    eval_figures_widen(z->type, in + i * z->width, m, v);
    if (eval_figures_add(t, first + i, v, w, m, err) != 0) return -1;
    i += m;
  }
  return 0;
}

// Where the codes from element `at` on are in the box, if it holds codes.
static const uint8_t *held_codes(const struct eval_block_box *h, uint64_t at) {
  return h->codes ? h->codes + (at - line_start(&h->z, h->first)) : NULL;
}

// ---- stretches of a line -----------------------------------------------------------------------

struct stretch {
  uint64_t line, row, rows; // rows of the line
  uint64_t column, n;       // inner positions
};

static int open_stretch(struct eval_task *t, const struct eval_quantize *z,
                        const struct eval_room *room, const struct stretch *s,
                        struct eval_panel *panel, struct err *err) {
  const struct eval_stretch lines = {.first =
                                         line_start(z, s->line) + s->row * z->inner + s->column,
                                     .step = z->inner,
                                     .rows = (size_t)s->rows,
                                     .n = (size_t)s->n};
  return eval_panel_open(t, z, room, &lines, panel, err);
}

static int open_elements(struct eval_task *t, const struct eval_quantize *z,
                         const struct eval_room *room, uint64_t first, uint64_t count,
                         struct eval_panel *panel, struct err *err) {
  const struct eval_stretch line = {.first = first, .step = count, .rows = 1, .n = (size_t)count};
  return eval_panel_open(t, z, room, &line, panel, err);
}

// ---- lines at a time ---------------------------------------------------------------------------

static void quantize(const struct eval_block_box *h, const struct kernels_panel *in, uint64_t line,
                     uint64_t column) {
  struct kernels_panel p = *in;
  const size_t at = (size_t)((line - h->first) * h->z.inner + column);
  if (h->codes)
    p.codes = h->codes + (line_start(&h->z, line) - line_start(&h->z, h->first)) + column;
  p.scales = h->scales + at;
  p.zeros = h->zeros + at;
  if (h->z.inner > 1)
    kernels_quantize_columns(&p, &h->z.f);
  else
    kernels_quantize_rows(&p, &h->z.f);
}

// Lines [line, …) that lie in one stretch: whole rows of k, or blocks of one row.
static int fill_row_lines(struct eval_task *t, const struct eval_block_box *h,
                          const struct eval_room *room, uint64_t line, uint64_t *lines,
                          struct err *err) {
  const struct eval_quantize *z = &h->z;
  const uint64_t most = eval_panel_most(t->ev, z, room), left = h->last - line;
  struct kernels_panel p = {.n = 1, .blocks_stride = (size_t)z->blocks};
  struct eval_panel panel;
  if (line % z->blocks == 0 && left >= z->blocks && z->k <= most) {
    p.n = (size_t)min_u64(left / z->blocks, most / z->k);
    p.k = (size_t)z->k;
    *lines = p.n * z->blocks;
  } else {
    const uint64_t in_row = min_u64(z->blocks - line % z->blocks, left);
    *lines = min_u64(in_row, most / z->block);
    const uint64_t row_rest = z->k - line % z->blocks * z->block;
    p.k = (size_t)min_u64(*lines * z->block, row_rest);
  }
  p.in_stride = p.codes_stride = (size_t)z->k;
  if (open_elements(t, z, room, line_start(z, line), p.n * p.k, &panel, err) != 0) return -1;
  p.in = panel.at;
  quantize(h, &p, line, 0);
  const uint64_t first = line_start(z, line);
  const int told = tell(t, h, first, p.n * p.k, panel.at, held_codes(h, first), err);
  return eval_panel_close(t, &panel, told, err);
}

// Tells of a stripe: row by row of its panel `in`.
static int tell_stripe(struct eval_task *t, const struct eval_block_box *h,
                       struct eval_open_chunks *pieces, const struct stretch *s, const uint8_t *in,
                       struct err *err) {
  const struct eval_quantize *z = &h->z;
  const uint64_t start = line_start(z, s->line);
  double v[EVAL_PAIRS], w[EVAL_PAIRS];
  for (uint64_t row = 0; row < s->rows && pieces->n > 0; row++)
    for (size_t i = 0, n; i < s->n; i += n, in += n * z->width) {
      const uint64_t at = row * z->inner + s->column + i;
      n = (size_t)min_u64(EVAL_PAIRS, s->n - i);
      decode(h, s->line, at, held_codes(h, start + at), n, w);
      eval_figures_widen(z->type, in, n, v);
      if (eval_open_chunks_add(t, pieces, start + at, v, w, n, err) != 0) return -1;
    }
  return 0;
}

// The end of a line that was made stripe by stripe: elements that did not come in the order of
// their chunk are looked at once more.
static int tell_line(struct eval_task *t, const struct eval_block_box *h,
                     const struct eval_room *room, const struct eval_open_chunks *pieces,
                     uint64_t line, struct err *err) {
  const struct eval_quantize *z = &h->z;
  const uint64_t start = line_start(z, line), n = line_rows(z, line) * z->inner;
  if (!h->told || !eval_figures_wants(t, t->chunks.id, start, n)) return 0;
  const uint64_t end = min_u64(start + n, t->chunks.end);
  for (;;) {
    eval_open_chunks_settle(t, pieces);
    const uint64_t at = t->chunks.next;
    if (at >= end) return 0;
    uint64_t some = min_u64(eval_panel_most(t->ev, z, room), end - at);
    if (pieces->n > 0) some = min_u64(some, EVAL_CHUNK - at % EVAL_CHUNK);
    struct eval_panel panel;
    if (open_elements(t, z, room, at, some, &panel, err) != 0) return -1;
    const int told = tell(t, h, at, some, panel.at, held_codes(h, at), err);
    if (eval_panel_close(t, &panel, told, err) != 0) return -1;
  }
}

// Quantizes and tells of a stripe of a line, all of its rows.
static int fill_stripe(struct eval_task *t, const struct eval_block_box *h,
                       const struct eval_room *room, struct eval_open_chunks *pieces,
                       const struct stretch *s, struct err *err) {
  const struct eval_quantize *z = &h->z;
  struct eval_panel panel;
  if (open_stretch(t, z, room, s, &panel, err) != 0) return -1;
  const struct kernels_panel p = {.in = panel.at,
                                  .in_stride = (size_t)s->n,
                                  .n = (size_t)s->n,
                                  .k = (size_t)s->rows,
                                  .codes_stride = (size_t)z->inner,
                                  .blocks_stride = 1};
  quantize(h, &p, s->line, s->column);
  const uint64_t first = line_start(z, s->line), n = s->rows * s->n;
  const int told = s->n == z->inner ? tell(t, h, first, n, panel.at, held_codes(h, first), err)
                                    : tell_stripe(t, h, pieces, s, panel.at, err);
  return eval_panel_close(t, &panel, told, err);
}

static int fill_line(struct eval_task *t, const struct eval_block_box *h,
                     const struct eval_room *room, uint64_t line, struct err *err) {
  const struct eval_quantize *z = &h->z;
  const uint64_t rows = line_rows(z, line);
  const bool whole = z->inner <= eval_panel_most(t->ev, z, room) / rows;
  const uint64_t most = whole ? z->inner : room->tile_bytes / z->width / rows;
  const uint64_t stripes = (z->inner - 1) / most + 1, n = (z->inner - 1) / stripes + 1;
  struct eval_open_chunks pieces = {0};
  if (h->pieces)
    eval_open_chunks_begin(t, &pieces, line_start(z, line), rows * z->inner, h->pieces);
  struct stretch s = {.line = line, .rows = rows};
  for (; s.column < z->inner; s.column += n) {
    s.n = min_u64(n, z->inner - s.column);
    if (fill_stripe(t, h, room, &pieces, &s, err) != 0) return -1;
  }
  return tell_line(t, h, room, &pieces, line, err);
}

static int fill_lines(struct eval_task *t, const struct eval_block_box *h,
                      const struct eval_room *room, struct err *err) {
  uint64_t lines = 1;
  for (uint64_t line = h->first; line < h->last; line += lines) {
    const int failed = h->z.inner == 1 ? fill_row_lines(t, h, room, line, &lines, err)
                                       : fill_line(t, h, room, line, err);
    if (failed) return -1;
  }
  return 0;
}

// ---- a part of a line --------------------------------------------------------------------------

// As much of the stretch (from its row, of its columns) as one panel takes: at least one element.
static void cut_stretch(const struct eval *ev, const struct eval_quantize *z,
                        const struct eval_room *room, struct stretch *s) {
  uint64_t most = eval_panel_most(ev, z, room);
  if (s->n < z->inner && s->rows > 1) most = room->tile_bytes / z->width;
  s->n = min_u64(s->n, most);
  s->rows = min_u64(s->rows, most / s->n);
  if (s->n < z->inner && s->rows > 1)
    s->rows = min_u64(s->rows, max_u64(room->tile_bytes / z->width / s->n, 1));
}

static int join_range(struct eval_task *t, const struct eval_quantize *z,
                      const struct eval_room *room, const struct stretch *s, float *lo, float *hi,
                      struct err *err) {
  struct eval_panel panel;
  if (open_stretch(t, z, room, s, &panel, err) != 0) return -1;
  const struct kernels_panel p = {.in = panel.at,
                                  .in_stride = (size_t)(z->inner == 1 ? s->rows : s->n),
                                  .n = (size_t)s->n,
                                  .k = (size_t)s->rows};
  if (z->inner == 1)
    kernels_range_rows(&p, (enum kernels_float)z->f.in_type, lo, hi);
  else
    kernels_range_columns(&p, (enum kernels_float)z->f.in_type, lo, hi);
  return eval_panel_close(t, &panel, 0, err);
}

// Scales and zeros of the box's inner positions of its line, from their ranges.
static int fill_statistics(struct eval_task *t, const struct eval_block_box *h,
                           const struct eval_room *room, float *lo, float *hi, struct err *err) {
  const struct eval_quantize *z = &h->z;
  const uint64_t rows = line_rows(z, h->first), n = h->to - h->from;
  for (uint64_t i = 0; i < n; i++) {
    lo[i] = FLT_MAX;
    hi[i] = -FLT_MAX;
  }
  for (uint64_t row = 0; row < rows;) {
    if (eval_may_go_on(t->ev, err) != 0) return -1;
    uint64_t some = rows - row;
    for (uint64_t i = 0; i < n;) {
      struct stretch s = {
          .line = h->first, .row = row, .rows = some, .column = h->from + i, .n = n - i};
      cut_stretch(t->ev, z, room, &s);
      some = s.rows; // the first of them is the widest: the others take as many rows
      if (join_range(t, z, room, &s, lo + i, hi + i, err) != 0) return -1;
      i += s.n;
    }
    row += some;
  }
  for (uint64_t i = 0; i < n; i++)
    kernels_scale_zero(&z->f, lo[i], hi[i], &h->scales[i], &h->zeros[i]);
  return 0;
}

static int compute_codes(struct eval_task *t, const struct eval_block_box *h,
                         const struct eval_room *room, const struct stretch *s, uint8_t *out,
                         struct err *err) {
  const struct eval_quantize *z = &h->z;
  struct eval_panel panel;
  if (open_stretch(t, z, room, s, &panel, err) != 0) return -1;
  const size_t at = (size_t)(s->column - h->from),
               stride = (size_t)(z->inner == 1 ? s->rows : s->n);
  const struct kernels_panel p = {.in = panel.at,
                                  .in_stride = stride,
                                  .n = (size_t)s->n,
                                  .k = (size_t)s->rows,
                                  .codes = out,
                                  .codes_stride = stride,
                                  .scales = h->scales + at,
                                  .zeros = h->zeros + at,
                                  .blocks_stride = 1};
  if (z->inner == 1)
    kernels_codes_rows(&p, &z->f);
  else
    kernels_codes_columns(&p, &z->f);
  const uint64_t first = line_start(z, s->line) + s->row * z->inner + s->column;
  const int told = tell(t, h, first, s->rows * s->n, panel.at, out, err);
  return eval_panel_close(t, &panel, told, err);
}

// ---- boxes -------------------------------------------------------------------------------------

// Can one column of a line be brought into memory at once?
static bool fits_panel(const struct eval *ev, const struct eval_quantize *z,
                       const struct eval_room *room) {
  const uint64_t most = z->inner == 1 ? eval_panel_most(ev, z, room) : room->tile_bytes / z->width;
  return z->block <= most;
}

// Is a line that is whole in the box made in stripes?
static bool has_stripes(const struct eval *ev, const struct eval_quantize *z,
                        const struct eval_room *room) {
  return z->inner > 1 && z->inner > eval_panel_most(ev, z, room) / z->block;
}

// Bytes for the sums of a line's chunks that lie open side by side. (Where rows are shorter than
// chunks, nearly all elements would come too early.)
static uint64_t pieces_bytes(const struct eval *ev, const struct eval_quantize *z,
                             const struct eval_room *room) {
  if (z->inner < EVAL_CHUNK || !has_stripes(ev, z, room)) return 0;
  return eval_open_chunks_bytes(z->inner * z->block);
}

// Lines that the box takes at once, with their codes or without; 0: not even one.
static uint64_t lines_that_fit(const struct eval *ev, const struct eval_quantize *z,
                               const struct eval_room *room, bool with_codes) {
  uint64_t codes, statistics = sizeof(float) + 1, line, room_bytes = room->rest_bytes;
  if (!fits_panel(ev, z, room) || mul_overflows(z->inner, z->block, &codes)) return 0;
  if (!with_codes) codes = 0;
  if (mul_overflows(z->inner, statistics, &line) || add_overflows(line, codes, &line)) return 0;
  if (line > room_bytes) return 0;
  if (codes) line += pieces_bytes(ev, z, room);
  if (line > room_bytes) return 0;
  if (codes) room_bytes = min_u64(room_bytes, max_u64(LINES_BOX_BYTES, line));
  return room_bytes / line;
}

static int fill_some_lines(struct eval_task *t, struct eval_stripe_box *b,
                           const struct eval_room *room, uint64_t line, uint64_t fit,
                           struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_quantize *z = &h->z;
  const bool codes = z->part == PART_CODES;
  const uint64_t at = codes ? line_start(z, line) : line * z->inner;
  const uint64_t end = eval_quantize_wanted_end(t, b->id, at) - 1;
  const uint64_t last = codes ? line_of(z, end) : end / z->inner;
  const uint64_t of_unit = z->inner == 1 ? z->blocks : 1, unit = line / of_unit;
  h->first = line;
  h->last = line + min_u64(last + 1 - line, fit);
  if (!codes) {
    const uint64_t unknown = eval_quantize_unknown_end(t, z, unit, (h->last - 1) / of_unit + 1);
    h->last = min_u64(h->last, unknown * of_unit);
  }
  h->from = 0;
  h->to = z->inner;
  const uint64_t n = (h->last - line) * z->inner;
  const uint64_t pieces = codes ? pieces_bytes(t->ev, z, room) : 0;
  h->told = codes && eval_figures_watches(t, b->id);
  h->pieces = pieces && h->told ? room->rest : NULL; // of one line after the other
  h->scales = (float *)(void *)(room->rest + pieces);
  h->zeros = room->rest + pieces + n * sizeof(float);
  h->codes = codes ? h->zeros + n : NULL;
  return fill_lines(t, h, room, err);
}

// Inner positions of a line that fit where codes do not.
static uint64_t columns_that_fit(const struct eval_room *room) {
  return room->rest_bytes / (3 * sizeof(float) + 1);
}

// Units are lines, or where inner is 1, all lines of an outer position.
static void publish(struct eval_task *t, const struct eval_block_box *h,
                    const struct eval_room *room) {
  const struct eval_quantize *z = &h->z;
  if (h->from > 0 || h->to < z->inner) return;
  const uint64_t lines = z->inner == 1 ? z->blocks : 1;
  uint64_t line = (h->first + lines - 1) / lines * lines;
  for (; line + lines <= h->last; line += lines) {
    const size_t at = (size_t)((line - h->first) * z->inner);
    eval_quantize_publish(t, z, line / lines, h->scales + at, h->zeros + at,
                          (size_t)(lines * z->inner), 0, room);
  }
}

// Is a line a unit, and kept as one (if its turn comes)?
static bool lines_are_units(const struct eval_quantize *z, const struct eval_room *room) {
  return z->key.units > 0 && (z->inner > 1 || z->blocks == 1) &&
         z->key.bytes[EVAL_QUANTIZE_ZEROS] <= room->tile_bytes;
}

// What another worker, or this one before, found out about the box's line.
static bool known_line(struct eval_task *t, const struct eval_block_box *h,
                       const struct eval_room *room) {
  const struct eval_quantize *z = &h->z;
  uint8_t *packed = z->key.bytes[EVAL_QUANTIZE_ZEROS] ? room->tile : NULL;
  struct eval_cache *c = t->ev->cache;
  if (!eval_cache_look(c, &z->key, h->first, EVAL_QUANTIZE_SCALES, (uint8_t *)h->scales) ||
      (packed && !eval_cache_look(c, &z->key, h->first, EVAL_QUANTIZE_ZEROS, packed)))
    return false;
  if (packed)
    eval_bits_unpack(h->zeros, packed, 0, (size_t)z->inner, z->q.bits);
  else
    memset(h->zeros, 0, (size_t)z->inner);
  return true;
}

static int find_part_of_line(struct eval_task *t, const struct eval_block_box *h,
                             const struct eval_room *room, struct err *err) {
  float *lo = (float *)(void *)room->rest, *hi = lo + (h->to - h->from);
  if (fill_statistics(t, h, room, lo, hi, err) != 0) return -1;
  publish(t, h, room);
  return 0;
}

// Scales and zeros alone, of the inner positions from `column` on.
static int fill_part_of_line(struct eval_task *t, struct eval_stripe_box *b,
                             const struct eval_room *room, uint64_t line, uint64_t column,
                             struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_quantize *z = &h->z;
  const uint64_t fit = columns_that_fit(room);
  assert(fit > 0);
  h->first = line;
  h->last = line + 1;
  h->from = fit >= z->inner ? 0 : column;
  h->to = min_u64(h->from + fit, z->inner);
  const uint64_t n = h->to - h->from;
  h->scales = (float *)(void *)room->rest + 2 * n; // behind the ranges
  h->zeros = (uint8_t *)(h->scales + n);
  h->codes = NULL;
  h->pieces = NULL;
  h->told = z->part == PART_CODES && eval_figures_watches(t, b->id);
  if (n < z->inner || !lines_are_units(z, room)) return find_part_of_line(t, h, room, err);
  const enum eval_turns_next turn = eval_turns_wait(t->ev->cache, &z->key, line, t->ev->go_on);
  if (turn == EVAL_TURNS_STOPPED) return eval_interrupted(err);
  if (turn == EVAL_TURNS_LOOK)
    return known_line(t, h, room) ? 0 : find_part_of_line(t, h, room, err);
  const int failed = find_part_of_line(t, h, room, err);
  eval_turns_done(t->ev->cache, &z->key, line);
  return failed;
}

// Scales and zeros of lines whose codes do not fit are found by themselves, for codes, scales and
// zeros alike: it is the same read, and one worker does it for all. So it is where codes would fit,
// but their figures take another read (pieces_bytes): codes that are made in their order afterwards
// are told of at once.
static bool is_large(const struct eval *ev, const struct eval_quantize *z,
                     const struct eval_room *room) {
  if (z->f.rule != KERNELS_QDQ || z->inner > columns_that_fit(room) || !lines_are_units(z, room))
    return false;
  const bool told_late = has_stripes(ev, z, room) && pieces_bytes(ev, z, room) == 0;
  return lines_that_fit(ev, z, room, true) == 0 || (ev->cache && told_late);
}

static int fill(struct eval_task *t, struct eval_stripe_box *b, uint64_t line, uint64_t column,
                struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_room room = eval_quantize_room(t->ev, b);
  const uint64_t fit = lines_that_fit(t->ev, &h->z, &room, h->z.part == PART_CODES);
  if (fit == 0 && h->z.f.rule == KERNELS_GATHER) {
    err_set(err, ERR_USAGE, "blocks of %llu elements, %llu side by side, do not fit the memory",
            (unsigned long long)h->z.block, (unsigned long long)h->z.inner);
    return err_because(err, REASON_LONG_BLOCKS);
  }
  const bool by_lines = fit > 0 && !is_large(t->ev, &h->z, &room);
  const int failed = by_lines ? fill_some_lines(t, b, &room, line, fit, err)
                              : fill_part_of_line(t, b, &room, line, column, err);
  if (failed) {
    h->last = h->first;
    return -1;
  }
  if (by_lines) publish(t, h, &room);
  return 0;
}

static bool holds(const struct eval_block_box *h, uint64_t line, uint64_t column) {
  return line >= h->first && line < h->last && column >= h->from && column < h->to;
}

// ---- serving -----------------------------------------------------------------------------------

static int codes(struct eval_task *t, struct eval_stripe_box *b, uint64_t first, uint64_t count,
                 uint8_t *out, struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_quantize *z = &h->z;
  const struct eval_room room = eval_quantize_room(t->ev, b);
  while (count > 0) {
    const uint64_t line = line_of(z, first), at = first - line_start(z, line);
    const uint64_t row = at / z->inner, column = at % z->inner;
    if (!holds(h, line, column) && fill(t, b, line, column, err) != 0) return -1;
    uint64_t n;
    if (h->codes) {
      const uint64_t start = line_start(z, h->first);
      const uint64_t end = line_start(z, h->last - 1) + line_rows(z, h->last - 1) * z->inner;
      n = min_u64(end - first, count);
      memcpy(out, h->codes + (first - start), (size_t)n);
    } else {
      struct stretch s = {.line = line, .row = row, .rows = 1, .column = column};
      s.n = min_u64(h->to - column, count);
      if (s.n == z->inner) s.rows = min_u64(count / z->inner, line_rows(z, line) - row);
      cut_stretch(t->ev, z, &room, &s);
      if (s.n < z->inner) s.rows = 1;
      if (compute_codes(t, h, &room, &s, out, err) != 0) return -1;
      n = s.rows * s.n;
    }
    first += n;
    count -= n;
    out += n;
  }
  return 0;
}

static int statistics(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                      uint64_t count, uint8_t *out, struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_quantize *z = &h->z;
  const uint32_t width = z->part == PART_SCALES ? z->width : 1;
  while (count > 0) {
    uint64_t n = count;
    if (!eval_quantize_known(t, z, first, &n, out)) {
      const uint64_t line = first / z->inner, column = first % z->inner;
      if (!holds(h, line, column) && fill(t, b, line, column, err) != 0) return -1;
      const uint64_t held = (h->last - h->first) * (h->to - h->from);
      const uint64_t at = (line - h->first) * z->inner + column - h->from;
      n = min_u64(held - at, count);
      if (z->part == PART_SCALES)
        eval_quantize_store_scales(z->type, h->scales + at, (size_t)n, out);
      else
        memcpy(out, h->zeros + at, (size_t)n);
    }
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}

int eval_qdq_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                      uint64_t count, uint8_t *out, struct err *err) {
  return eval_block_box_of(b)->z.part == PART_CODES ? codes(t, b, first, count, out, err)
                                                    : statistics(t, b, first, count, out, err);
}
