// Quantization in blocks, whatever its layout (eval_layout.c): codes, scales and zero points of a
// stretch of the operand [outer, k, inner].
//
//   choose   which units a box holds: as many as are wanted and fit, in shares of about equal size; of
//            a unit that does not fit, some of its cells
//   fill     the operand comes by in panels, and the kernel puts into the box what it makes of them
//   tell     error figures (eval_tell.c)
//   publish  scales and zero points of whole units, for all workers (eval_known.c)
//   take     what was asked for
//
//   inner = 1: a column is a row            inner > 1: columns lie across
//     ┌────────────────────┐                  ┌──────┬──────┬──────┐
//     │ box 0: rows n0..n1 │                  │ box  │ box  │ box  │  panels of whole rows, as they lie;
//     ├────────────────────┤                  │  0   │  1   │  2   │  stripes of them where the box has
//     │ box 1              │                  │      │      │      │  not all columns (packed) or the
//     └────────────────────┘                  └──────┴──────┴──────┘  blocks are too long
//
// Rows are read as they lie, so their boxes stay small enough for the cache of the core. Packed columns
// are taken as many at a time as are wanted and fit, because each box goes through all rows of the
// operand; lines (eval_layout.c) are cut anywhere.
//
// A column that does not fit the box is held a piece at a time, of whole groups: the blocks whose
// codes end on a byte together.
//
// A line that no panel takes comes in stripes, all of its rows at a time; its chunks of error figures
// lie open side by side meanwhile.
//
// Where a block is too long for that, or a line too large for the box (one block for all of a long axis,
// say), a box holds scales and zero points alone. They come of ranges, which take a read of the line,
// and codes are then computed from the operand straight into the caller's buffer. Every worker that
// makes a part of such a line needs its scales and zeros: one finds them, and the others wait for it.
//
// Where figures are all that is wanted (eval_blocks_measure) a box holds nothing but sums, and several
// quantizations of the operand go over each panel of it.
#include "stream/eval/quantize/inside/eval_layout.h"

#include "stream/eval/core/eval_figures.h"
#include "stream/eval/quantize/inside/eval_panel.h"
#include "stream/eval/quantize/inside/eval_whole.h"

#include <float.h>

enum {
  ROWS_BOX_BYTES = 512 << 10,
  LINES_BOX_BYTES = 1 << 20,
  LONG_BLOCK = 256,   // longer ones are faster by their range (kernels.h)
  MEASURE_ROWS = 256, // of a tile: blocks divide it
  MEASURE_COLUMNS = 128,
  MEASURE_BYTES = 128 << 10,
};

// ---- filling -----------------------------------------------------------------------------------

static void run_kernel(const struct eval_quantize *z, const struct kernels_panel *p) {
  if (z->inner > 1)
    kernels_quantize_columns(p, &z->f);
  else
    kernels_quantize_rows(p, &z->f);
}

// Long blocks of QDQ, from their ranges: some columns at a time, so that they stay in the cache.
static void run_long(const struct eval_quantize *z, const struct kernels_panel *in) {
  enum { COLUMNS = 256 };
  const enum kernels_float type = (enum kernels_float)z->f.in_type;
  const bool rows = z->inner == 1;
  float lo[COLUMNS], hi[COLUMNS];
  for (size_t j = 0; j < in->n; j += COLUMNS)
    for (size_t k = 0; k < in->k; k += z->f.block) {
      struct kernels_panel p = *in;
      p.n = (size_t)min_u64(COLUMNS, in->n - j);
      p.k = (size_t)min_u64(z->f.block, in->k - k);
      p.in = (const uint8_t *)in->in +
             (rows ? j * in->in_stride + k : k * in->in_stride + j) * z->width;
      p.scales = in->scales + j * in->blocks_stride + k / z->f.block;
      p.zeros = in->zeros + j * in->blocks_stride + k / z->f.block;
      for (size_t i = 0; i < p.n; i++)
        lo[i] = FLT_MAX, hi[i] = -FLT_MAX;
      if (rows)
        kernels_range_rows(&p, type, lo, hi);
      else
        kernels_range_columns(&p, type, lo, hi);
      for (size_t i = 0; i < p.n; i++)
        kernels_scale_zero(&z->f, lo[i], hi[i], &p.scales[i * p.blocks_stride],
                           &p.zeros[i * p.blocks_stride]);
      if (!in->codes) continue;
      p.codes = in->codes + (rows ? j * in->codes_stride + k : k * in->codes_stride + j);
      if (rows)
        kernels_codes_rows(&p, &z->f);
      else
        kernels_codes_columns(&p, &z->f);
    }
}

// Sums by all ways of a panel, tile by tile: a tile stays in the cache of the core while every way
// goes over it. Searches take their time: each tile asks whether to go on.
static int add_up(const struct eval_filling *f, const struct kernels_panel *in, uint64_t c,
                  struct err *err) {
  const struct eval_block_box *h = f->h;
  const bool rows = h->z.inner == 1;
  const size_t wide = (size_t)(h->last - h->first), width = h->z.width;
  const size_t k_step = rows ? MEASURE_BYTES / 4 : MEASURE_ROWS;
  const size_t line = min_u64(k_step, in->k) * width;
  const size_t n_step = rows ? (size_t)max_u64(MEASURE_BYTES / line, 1) : MEASURE_COLUMNS;
  for (size_t j = 0; j < in->n; j += n_step)
    for (size_t k = 0; k < in->k; k += k_step) {
      if (eval_may_go_on(f->t->ev, err) != 0) return -1;
      struct kernels_panel p = *in;
      p.in =
          (const uint8_t *)in->in + (rows ? j * in->in_stride + k : k * in->in_stride + j) * width;
      p.n = (size_t)min_u64(n_step, in->n - j);
      p.k = (size_t)min_u64(k_step, in->k - k);
      for (uint32_t i = 0; i < h->n_ways; i++) {
        p.sums = h->sums + i * wide + (c - h->first) + j;
        run_kernel(&h->ways[i], &p);
      }
    }
  return 0;
}

// Puts into the box what comes of a panel; the panel with its places there.
static struct kernels_panel make_panel(const struct eval_filling *f, const struct eval_cut *at) {
  const struct eval_quantize *z = f->z;
  const struct eval_block_box *h = f->h;
  const struct eval_place place = z->by_column ? eval_layout_place(h, at->c, at->k / z->block, 0)
                                               : eval_layout_place(h, at->line, at->c, at->k);
  struct kernels_panel p = at->p;
  p.codes = h->codes ? h->codes + place.code : NULL;
  p.codes_stride = place.stride;
  p.scales = h->scales + place.cell;
  p.zeros = h->zeros + place.cell;
  if (h->float_zeros) p.float_zeros = h->float_zeros + place.cell;
  p.blocks_stride = z->by_column ? (size_t)(h->to - h->from) : 1;
  if (h->sums) p.sums = h->sums + (at->c - h->first);
  if (z->f.rule == KERNELS_QDQ && z->block > LONG_BLOCK)
    run_long(z, &p);
  else
    run_kernel(z, &p);
  return p;
}

// And tells of it.
static int take_panel(const struct eval_filling *f, const struct eval_cut *at, void *ctx,
                      struct err *err) {
  const struct eval_quantize *z = f->z;
  const struct eval_block_box *h = f->h;
  struct eval_open_chunks *open = ctx;
  if (h->n_ways > 0) return add_up(f, &at->p, at->c, err);
  const struct kernels_panel p = make_panel(f, at);
  if (z->inner == 1 || p.n == z->inner)
    return eval_tell_codes(f->t, h, at->element, p.n * p.k, p.in, p.codes, err);
  for (size_t row = 0; h->told && row < p.k; row++)
    eval_tell_stripe(f->t, h, open, at->element + row * z->inner, p.n,
                     (const uint8_t *)p.in + row * p.n * z->width, p.codes + row * p.codes_stride);
  return 0;
}

// The end of a line that came in stripes: elements that did not come in the order of their chunk are
// looked at once more.
static int tell_rest(const struct eval_filling *f, const struct eval_open_chunks *open,
                     uint64_t first, uint64_t n, struct err *err) {
  const struct eval_block_box *h = f->h;
  const struct eval_chunks *c = &f->t->chunks;
  const uint8_t *codes = h->codes + (first - eval_layout_start(f->z, h->first));
  for (;;) {
    eval_open_chunks_settle(f->t, open);
    if (!eval_figures_wants(f->t, c->id, first, n)) return 0;
    const uint64_t at = c->next;
    uint64_t some = min_u64(f->most, min_u64(first + n, c->end) - at);
    if (open->n > 0) some = min_u64(some, EVAL_CHUNK - at % EVAL_CHUNK);
    const struct eval_stretch s = {.first = at, .step = some, .rows = 1, .n = (size_t)some};
    struct eval_panel panel;
    if (eval_panel_open(f, &s, &panel, err) != 0) return -1;
    const int told = eval_tell_codes(f->t, h, at, some, panel.at, codes + (at - first), err);
    if (eval_panel_close(f, &panel, told, err) != 0) return -1;
  }
}

// How many lines from this one on come by in one panel: whole ones, which lie one behind the other. A panel for each line of a
// few elements costs more than its codes.
static uint64_t lines_together(const struct eval_filling *f, uint64_t line, uint64_t group) {
  const struct eval_quantize *z = f->z;
  const struct eval_block_box *h = f->h;
  if (z->inner == 1 || h->from > 0 || h->to < z->inner || h->open || h->n_ways > 0) return 1;
  if (group > f->most / z->inner) return 1;
  return min_u64(h->last - line, f->most / (z->block * z->inner));
}

static int do_lines(const struct eval_filling *f, uint64_t line, uint64_t n, struct err *err) {
  const struct eval_quantize *z = f->z;
  const uint64_t first = eval_layout_line_start(z, line), last = line + n - 1;
  const uint64_t end = eval_layout_line_start(z, last) + eval_layout_line_rows(z, last) * z->inner;
  const struct eval_stretch lines = {.first = first,
                                     .step = z->inner,
                                     .rows = (size_t)((end - first) / z->inner),
                                     .n = (size_t)z->inner};
  const struct eval_open_chunks none = {0};
  const uint8_t *codes = NULL;
  struct eval_panel panel;
  if (eval_panel_open(f, &lines, &panel, err) != 0) return -1;
  for (uint64_t i = line; i <= last; i++) {
    const uint64_t element = eval_layout_line_start(z, i);
    const struct eval_cut at = {
        .p = {.in = (const uint8_t *)panel.at + (element - first) * z->width,
              .in_stride = lines.n,
              .n = lines.n,
              .k = (size_t)eval_layout_line_rows(z, i)},
        .line = i,
        .element = element};
    const struct kernels_panel p = make_panel(f, &at);
    if (i == line) codes = p.codes;
  }
  const int told = eval_tell_codes(f->t, f->h, first, end - first, panel.at, codes, err);
  if (eval_panel_close(f, &panel, told, err) != 0) return -1;
  return f->h->told ? tell_rest(f, &none, first, end - first, err) : 0;
}

static int fill_box(const struct eval_filling *f, struct err *err) {
  const struct eval_quantize *z = f->z;
  const struct eval_block_box *h = f->h;
  // Whole groups, or the longest block of all ways, which the others divide.
  uint64_t group = h->n_ways > 0 ? 0 : z->group * z->block;
  for (uint32_t i = 0; i < h->n_ways; i++)
    group = max_u64(group, h->ways[i].block);
  if (z->by_column) {
    const struct eval_window s = eval_panel_window(f, 0);
    return eval_panel_each(f, &s, group, take_panel, NULL, err);
  }
  for (uint64_t line = h->first; line < h->last; line++) { // a kernel knows the blocks of one
    const uint64_t together = lines_together(f, line, group);
    if (together > 1) {
      if (do_lines(f, line, together, err) != 0) return -1;
      line += together - 1;
      continue;
    }
    const struct eval_window s = eval_panel_window(f, line);
    const uint64_t first = eval_layout_line_start(z, line), n = (s.k1 - s.k0) * z->inner;
    struct eval_open_chunks open = {0};
    if (h->open) eval_open_chunks_begin(f->t, &open, first, n, h->open);
    if (eval_panel_each(f, &s, group, take_panel, &open, err) != 0) return -1;
    if (h->told && tell_rest(f, &open, first, n, err) != 0) return -1;
  }
  return 0;
}

// ---- boxes -------------------------------------------------------------------------------------

static uint64_t statistics_bytes(const struct eval_quantize *z) {
  return sizeof(float) + (eval_has_float_zeros(z) ? sizeof(float) : 0) + 1;
}

// Memory for the open chunks of a line that no panel takes: 0 of others.
static uint64_t open_bytes(const struct eval_filling *f) {
  const struct eval_quantize *z = f->z;
  if (z->by_column || !f->h->told || z->inner <= f->most / min_u64(z->block, z->k)) return 0;
  return round_up(eval_open_chunks_bytes(min_u64(z->block, z->k) * z->inner), 8);
}

// Shares out the memory from `at` on.
static void share_memory(const struct eval_filling *f, bool with_sums, bool with_codes,
                         uint8_t *at) {
  struct eval_block_box *h = f->h;
  const uint64_t units = h->last - h->first, n = units * (h->to - h->from);
  h->open = with_codes && open_bytes(f) > 0 ? at : NULL;
  if (h->open) at += open_bytes(f);
  h->sums = with_sums ? (struct kernels_sums *)(void *)at : NULL;
  if (with_sums) at = memset(at, 0, units * sizeof *h->sums);
  if (with_sums) at += units * sizeof *h->sums;
  h->scales = (float *)(void *)at;
  at += n * sizeof(float);
  h->float_zeros = eval_has_float_zeros(f->z) ? (float *)(void *)at : NULL;
  if (h->float_zeros) at += n * sizeof(float);
  h->codes = with_codes ? at : NULL;
  if (with_codes) at += units * eval_layout_codes(f->z, h->to - h->from);
  h->zeros = at;
  at += n;
  if (f->z->by.gram != NO_ID) h->work = f->room.rest + round_up((uint64_t)(at - f->room.rest), 64);
  assert(at <= f->room.rest + f->room.rest_bytes);
}

// Bytes that a column takes besides while it is made whole, by formats that look at statistics: doubles, and all.
static uint64_t double_bytes(const struct eval_quantize *z) {
  return z->q.format == FORMAT_NBITS_GPTQ ? eval_gptq_column_bytes(z)
                                          : eval_clipped_column_bytes(z);
}

static uint64_t column_bytes(const struct eval_quantize *z) {
  return z->by.gram == NO_ID ? 0 : double_bytes(z) + eval_whole_column_bytes(z);
}

static int fill_whole(const struct eval_filling *f, struct err *err) {
  struct eval_whole w;
  double *doubles = eval_whole_begin(&w, f, double_bytes(f->z));
  return f->z->q.format == FORMAT_NBITS_GPTQ ? eval_gptq_fill(&w, doubles, err)
                                             : eval_clipped_fill(&w, doubles, err);
}

// First and last but one of what the caller will want of this box's recipe, in its elements from
// `at` on.
static uint64_t wanted_end(const struct eval_task *t, uint32_t id, uint64_t at) {
  const struct recipe *x = &t->r->rows[id];
  if (t->wanted.id != id) return x->count;
  const uint32_t bits = dtype_bits((enum dtype)x->dtype);
  const uint64_t end =
      (t->wanted.off + t->wanted.len + bits - 1) / bits * 8; // packed ones are made by eights
  const uint64_t exact =
      bits >= 8 ? (t->wanted.off + t->wanted.len + bits / 8 - 1) / (bits / 8) : end;
  return max_u64(min_u64(exact, x->count), at + 1);
}

// Chooses the units and cells of a box that has this cell.
static int choose(const struct eval_filling *f, uint32_t id, uint64_t unit, uint64_t cell,
                  struct err *err) {
  struct eval_block_box *h = f->h;
  const struct eval_quantize *z = f->z;
  const uint64_t room =
      f->room.rest_bytes - (z->by.gram != NO_ID ? 64 : 0); // for where work begins
  const uint64_t sums = z->packs ? sizeof *h->sums : 0;
  const uint64_t statistics = statistics_bytes(z);
  const bool codes = z->part == PART_CODES;
  const uint64_t bytes =
      z->cells * statistics + sums + (codes ? eval_layout_codes(z, z->cells) : 0) + column_bytes(z);
  const uint64_t column = z->inner == 1 ? f->most : f->room.tile_bytes / z->width;
  uint64_t fit = (room - min_u64(codes ? open_bytes(f) : 0, room)) / bytes;
  h->first = unit;
  h->from = 0;
  h->to = z->cells;
  if (fit == 0 && z->by.gram != NO_ID) {
    err_set(err, ERR_USAGE,
            "a column of %s rows needs %s bytes while it is quantized with statistics, more "
            "than the %s of a worker",
            decimal(z->k).s, decimal(bytes).s, decimal(room).s);
    return err_because(err, REASON_MEMORY);
  }
  if (fit == 0 || (!z->packs && z->block > column)) { // QDQ is long then
    const uint64_t each = statistics + (codes ? eval_layout_codes(z, 1) : 0);
    const uint64_t groups = z->by_column ? (room - sums) / each / z->group : 0;
    if (groups == 0 || z->block > column) {
      assert(!z->packs);
      err_set(err, ERR_USAGE, "blocks of %s elements, %s at once, do not fit into memory",
              decimal(z->block).s, decimal(z->inner).s);
      return err_because(err, REASON_LONG_BLOCKS);
    }
    h->last = unit + 1;
    h->from = cell / z->group * z->group;
    h->to = min_u64(h->from + groups * z->group, z->cells);
    return 0;
  }
  const uint64_t wanted = wanted_end(f->t, id, eval_layout_start(z, unit));
  uint64_t end = eval_layout_unit(z, wanted - 1) + 1;
  if ((z->inner == 1 || !z->packs) && z->by.gram == NO_ID)
    fit = min_u64(fit, max_u64((z->inner == 1 ? ROWS_BOX_BYTES : LINES_BOX_BYTES) / bytes, 1));
  // Of millions of short columns no box asks farther than it and its neighbour reach.
  if (!codes) end = eval_known_next(f->t, z, unit, min_u64(end, unit + 2 * fit));
  const uint64_t boxes = (end - unit - 1) / fit + 1;
  h->last = unit + min_u64(round_up((end - unit - 1) / boxes + 1, 16), min_u64(fit, end - unit));
  return 0;
}

// ---- long lines --------------------------------------------------------------------------------

// Cells whose ranges, scales and zero points fit.
static uint64_t cells_that_fit(const struct eval_filling *f) {
  return f->room.rest_bytes / (3 * sizeof(float) + 1);
}

// Are scales and zero points of this found by themselves? For codes, scales and zeros alike: it is the
// same read, and one worker does it for all.
static bool is_long(const struct eval_filling *f) {
  const struct eval_quantize *z = f->z;
  if (z->f.rule != KERNELS_QDQ) return false;
  const uint64_t beside = z->by_column ? 1 : z->inner;
  if (z->block > (z->inner == 1 ? f->most : f->room.tile_bytes / z->width)) return true;
  if (beside * (z->block + statistics_bytes(z)) + open_bytes(f) <= f->room.rest_bytes) return false;
  return z->part == PART_CODES || beside <= cells_that_fit(f) ||
         beside * statistics_bytes(z) > f->room.rest_bytes;
}

// Scales and zeros of what the box has, cells of one unit, from their ranges.
struct finding {
  const struct eval_filling *f;
  struct eval_window s;
  float *lo, *hi;
};

static int join_range(const struct eval_filling *f, const struct eval_cut *at, void *ctx,
                      struct err *err) {
  const struct finding *x = ctx;
  const uint64_t i = at->c - x->s.c0;
  const enum kernels_float type = (enum kernels_float)f->z->f.in_type;
  if (eval_may_go_on(f->t->ev, err) != 0) return -1;
  if (f->z->inner == 1)
    kernels_range_rows(&at->p, type, x->lo + i, x->hi + i);
  else
    kernels_range_columns(&at->p, type, x->lo + i, x->hi + i);
  eval_looked(f->t->ev, f->z->of, (uint64_t)at->p.n * at->p.k * f->z->width);
  return 0;
}

static int find_ranges(void *ctx, struct err *err) {
  struct finding *x = ctx;
  const struct eval_filling *f = x->f;
  const uint64_t n = x->s.c1 - x->s.c0;
  for (uint64_t i = 0; i < n; i++)
    x->lo[i] = FLT_MAX, x->hi[i] = -FLT_MAX;
  if (eval_panel_each(f, &x->s, 1, join_range, x, err) != 0) return -1;
  for (uint64_t i = 0; i < n; i++)
    kernels_scale_zero(&f->z->f, x->lo[i], x->hi[i], &f->h->scales[i], &f->h->zeros[i]);
  eval_known_publish(f);
  return 0;
}

static bool know_unit(void *ctx) {
  return eval_known_unit(((const struct finding *)ctx)->f);
}

// Scales and zeros alone, from a cell on.
static int find_statistics(const struct eval_filling *f, uint64_t unit, uint64_t cell,
                           struct err *err) {
  struct eval_block_box *h = f->h;
  const struct eval_quantize *z = f->z;
  const uint64_t fit = z->by_column ? 1 : cells_that_fit(f);
  assert(cells_that_fit(f) > 0);
  h->first = unit;
  h->last = unit + 1;
  h->from = fit >= z->cells ? 0 : cell;
  h->to = min_u64(h->from + fit, z->cells);
  const uint64_t n = h->to - h->from;
  float *lo = (float *)(void *)f->room.rest;
  share_memory(f, false, false, f->room.rest + 2 * n * sizeof *lo);
  struct finding x = {.f = f, .s = eval_panel_window(f, h->first), .lo = lo, .hi = lo + n};
  if (n < z->cells || !eval_known_keeps(f)) return find_ranges(&x, err);
  return eval_find_once(f->t, &z->key, unit, know_unit, find_ranges, &x, err);
}

struct computing {
  uint64_t first; // element, whose code
  uint8_t *out;   // is here
};

static int code_panel(const struct eval_filling *f, const struct eval_cut *at, void *ctx,
                      struct err *err) {
  const struct eval_quantize *z = f->z;
  const struct computing *x = ctx;
  const size_t cell = z->by_column ? 0 : (size_t)(at->c - f->h->from);
  struct kernels_panel p = at->p;
  p.codes = x->out + (at->element - x->first);
  p.codes_stride = p.in_stride;
  p.scales = f->h->scales + cell;
  p.zeros = f->h->zeros + cell;
  p.blocks_stride = 1;
  if (z->inner == 1)
    kernels_codes_rows(&p, &z->f);
  else
    kernels_codes_columns(&p, &z->f);
  return eval_tell_codes(f->t, f->h, at->element, p.n * p.k, p.in, p.codes, err);
}

// Codes from element `first` on, at most *n, with scales that the box holds; how many: whole rows, if a
// panel takes one, or some of one row, so that they come in order.
static int compute_codes(const struct eval_filling *f, uint64_t first, uint64_t *n, uint8_t *out,
                         struct err *err) {
  const struct eval_quantize *z = f->z;
  const uint64_t at =
      first - eval_layout_line_start(z, f->h->first * (z->by_column ? z->blocks : 1));
  const uint64_t row = at / z->inner, column = at % z->inner;
  struct computing x = {.first = first, .out = out};
  struct eval_window s = eval_panel_window(f, f->h->first);
  const bool whole = s.c1 - s.c0 == z->inner || z->inner == 1;
  s.k0 = row;
  if (z->inner == 1 || (whole && column == 0 && *n >= z->inner && z->inner <= f->most)) {
    s.k1 = min_u64(s.k1, row + *n / z->inner);
  } else {
    s.k1 = row + 1;
    s.c0 = column;
    s.c1 = min_u64(s.c1, column + *n);
  }
  *n = (s.k1 - s.k0) * (z->inner == 1 ? 1 : s.c1 - s.c0);
  return eval_panel_each(f, &s, 1, code_panel, &x, err);
}

// ---- serving -----------------------------------------------------------------------------------

static int fill(struct eval_task *t, struct eval_stripe_box *b, uint64_t unit, uint64_t cell,
                struct err *err) {
  const struct eval_filling f = eval_panel_filling(t, b);
  struct eval_block_box *h = f.h;
  const bool codes = h->z.part == PART_CODES, is_wanted = t->wanted.id == b->id;
  const struct eval_columns *w = &t->columns;
  int failed;
  h->told = codes && !h->z.packs && eval_figures_watches(t, b->id);
  if (is_long(&f)) {
    failed = find_statistics(&f, unit, cell, err);
  } else {
    failed = choose(&f, b->id, unit, cell, err);
    if (!failed) {
      share_memory(&f, is_wanted && w->next < w->end, codes, f.room.rest);
      if (h->sums && unit == w->next && h->from > 0 && h->from == w->next_block)
        h->sums[0] = w->sums;
      failed = (h->z.by.gram != NO_ID ? fill_whole(&f, err) : fill_box(&f, err)) != 0 ||
               eval_tell_columns(t, h, err) != 0;
    }
    if (!failed && !t->measures)
      eval_known_publish(&f); // codes that are thrown away ask for nothing more
  }
  if (!failed) return 0;
  h->last = h->first;
  return -1;
}

// Elements [at, at + n) of a unit's part, as far as the box goes; how many.
static uint64_t take(const struct eval_block_box *h, uint64_t unit, uint64_t at, uint64_t n,
                     uint8_t *out) {
  const struct eval_quantize *z = &h->z;
  const uint64_t cell = eval_layout_cell(z, at), cells = h->to - cell;
  const struct eval_place place = eval_layout_place(h, unit, cell, 0);
  if (z->part == PART_CODES && z->by_column) {
    const uint64_t each = eval_layout_codes(z, 1);
    n = min_u64(n, h->to * each - at);
    memcpy(out, h->codes + place.code + at % each, (size_t)n);
  } else if (z->part == PART_CODES) {
    memcpy(out, h->codes + eval_layout_place(h, unit, 0, 0).code + at, (size_t)n);
  } else if (z->part == PART_SCALES || h->float_zeros) {
    n = min_u64(n, cells);
    eval_layout_store_scales(z->type,
                             (z->part == PART_SCALES ? h->scales : h->float_zeros) + place.cell,
                             (size_t)n, out);
  } else if (z->packs) {
    n = min_u64(n, (cells - 1) / z->group + 1);
    eval_layout_pack_zeros(z, h->zeros + place.cell, (size_t)min_u64(n * z->group, cells), out);
  } else {
    n = min_u64(n, cells);
    memcpy(out, h->zeros + place.cell, (size_t)n);
  }
  return n;
}

// Whole units from `unit` on, at most n elements of them, of a part that lies unit by unit; how many.
static uint64_t take_units(const struct eval_block_box *h, uint64_t unit, uint64_t n,
                           uint8_t *out) {
  const struct eval_quantize *z = &h->z;
  const uint64_t each = eval_layout_elements(z, unit), units = min_u64(n / each, h->last - unit);
  const struct eval_place place = eval_layout_place(h, unit, 0, 0);
  const size_t cells = (size_t)z->cells;
  if (z->part == PART_CODES)
    memcpy(out, h->codes + place.code, (size_t)(units * each));
  else if (z->part == PART_SCALES || h->float_zeros)
    eval_layout_store_scales(z->type,
                             (z->part == PART_SCALES ? h->scales : h->float_zeros) + place.cell,
                             (size_t)units * cells, out);
  else if (!z->packs)
    memcpy(out, h->zeros + place.cell, (size_t)units * cells);
  else
    for (uint64_t i = 0; i < units; i++)
      eval_layout_pack_zeros(z, h->zeros + place.cell + i * cells, cells, out + i * each);
  return units * each;
}

static bool holds(const struct eval_block_box *h, uint64_t unit, uint64_t cell) {
  return unit >= h->first && unit < h->last && cell >= h->from && cell < h->to;
}

int eval_blocks_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                         uint64_t count, uint8_t *out, struct err *err) {
  struct eval_block_box *h = eval_block_box_of(b);
  const struct eval_quantize *z = &h->z;
  const uint32_t width = eval_width(t->r, b->id);
  if (b->count == 0) {
    *h = (struct eval_block_box){0};
    eval_layout_of(t->r, b->id, &h->z);
    b->count = 1;
  }
  while (count > 0) {
    const uint64_t unit = eval_layout_unit(z, first), at = first - eval_layout_start(z, unit);
    const uint64_t all = eval_layout_elements(z, unit);
    // Units may be short, and many: they come by the boxful.
    const bool whole = at == 0 && count >= all && (z->by_column || z->part != PART_CODES);
    uint64_t n = whole ? count : min_u64(all - at, count);
    const uint64_t cell = eval_layout_cell(z, at);
    const bool held = holds(h, unit, cell); // what the box has is at hand: nobody need be asked
    if (z->part == PART_CODES || held || !eval_known_elements(t, z, first, &n, out)) {
      if (!held && fill(t, b, unit, cell, err) != 0) return -1;
      if (z->part == PART_CODES && !h->codes) {
        const struct eval_filling f = eval_panel_filling(t, b);
        n = min_u64(n, all - at);
        if (compute_codes(&f, first, &n, out, err) != 0) return -1;
      } else {
        const bool in_one = whole && h->from == 0 && h->to == z->cells;
        n = in_one ? take_units(h, unit, n, out) : take(h, unit, at, min_u64(n, all - at), out);
      }
    }
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}

int eval_blocks_end(struct eval_task *t, struct eval_stripe_box *b, struct err *err) {
  const struct eval_columns *w = &t->columns;
  while (w->next < w->end)
    if (fill(t, b, w->next, w->next_block, err) != 0) return -1;
  return 0;
}

// ---- figures alone -----------------------------------------------------------------------------

int eval_blocks_measure(struct eval_task *t, const struct eval_quantize *ways, uint32_t n,
                        uint64_t first, uint64_t end, const struct eval_watcher *watchers,
                        struct err *err) {
  eval_share_boxes(t->ev, t->root);
  struct eval_stripe_box *b = eval_box_for(t->ev, t->root);
  struct eval_block_box *h = eval_block_box_of(b);
  *h = (struct eval_block_box){.z = ways[0], .ways = ways, .n_ways = n, .to = ways[0].cells};
  const struct eval_filling f = eval_panel_filling(t, b);
  const uint64_t fit = f.room.rest_bytes / (n * sizeof *h->sums);
  b->count = 0; // not to be served from
  if (fit == 0)
    return err_set(err, ERR_RETRY, "%u quantizations at once do not fit into memory", n),
           err_because(err, REASON_TOO_MUCH);
  h->sums = (struct kernels_sums *)(void *)f.room.rest;
  for (h->first = first; h->first < end; h->first = h->last) {
    const uint64_t wide = min_u64(fit, end - h->first);
    h->last = h->first + wide;
    memset(h->sums, 0, n * wide * sizeof *h->sums);
    t->ev->depth++;
    b->busy = true;
    const int failed = fill_box(&f, err);
    b->busy = false;
    t->ev->depth--;
    if (failed) return -1;
    for (uint32_t i = 0; i < n; i++)
      for (uint64_t k = 0; k < wide; k++) {
        const struct figures of = eval_tell_figures(&h->z, &h->sums[i * wide + k]);
        watchers[i].told(watchers[i].ctx, h->first + k, &of);
      }
  }
  return 0;
}
