// Operand elements for the kernels of quantization: what a box that is being filled needs comes by in
// panels (eval_panel_each), which are opened one by one. Where the operand is a stretch of source bytes,
// the kernel reads a mapped window of the file; where it is computed, or where stretches of many rows
// are wanted, the elements are brought into a tile that stays in the cache of the core.
//
//   a stretch    ────────────────────────   one view, no copy
//   a stripe     ──  ·  ──  ·  ──  ·  ──    a read for each row: a view of the rows would read (and
//                                           count) the bytes between them too
//   a stripe of  ─·─·─·─·─·─·─·─·─·─·─·─    many rows with one read: reading the bytes between two rows costs
//   short rows                              less than another read, and they are in the same page anyway
#include "stream/eval/quantize/inside/eval_panel.h"

#include <assert.h>
#include <string.h>

enum { TILE_MOST = 1 << 20, TILE_ROOM = 64 << 10 };
enum { VIEW_MOST = 4 << 20, VIEW_LEAST = 128 << 10, SHORT_ROW = 1 << 10, READ_BYTES = 8 << 10 };

static struct eval_room room_of(struct eval *ev, struct eval_stripe_box *b) {
  struct eval_room room = {.tile = eval_scratch(ev),
                           .tile_bytes = EVAL_SCRATCH_BYTES,
                           .rest = b->data,
                           .rest_bytes = ev->box_bytes};
  if (ev->box_bytes < TILE_ROOM) return room;
  room.tile = b->data;
  room.tile_bytes = (size_t)min_u64(ev->box_bytes / 4, TILE_MOST) / 64 * 64;
  room.rest += room.tile_bytes;
  room.rest_bytes -= room.tile_bytes;
  return room;
}

struct eval_filling eval_panel_filling(struct eval_task *t, struct eval_stripe_box *b) {
  struct eval_block_box *h = eval_block_box_of(b);
  struct eval_filling f = {.t = t, .h = h, .z = &h->z, .room = room_of(t->ev, b)};
  uint64_t bytes = f.room.tile_bytes;
  // A view counts towards the memory budget, so a small budget has small views.
  if (h->z.direct) bytes = max_u64(min_u64(t->ev->budget_bytes / 4, VIEW_MOST), VIEW_LEAST);
  f.most = bytes / h->z.width;
  return f;
}

// ---- panels ------------------------------------------------------------------------------------

// n elements in the stretch that is held, or NULL.
static const uint8_t *held(const struct eval *ev, const struct eval_quantize *z, uint64_t first,
                           uint64_t n) {
  const struct eval_hold *h = &ev->hold;
  if (h->count == 0 || h->of != z->of || first < h->first) return NULL;
  return range_fits(first - h->first, n, h->count) ? h->at + (first - h->first) * z->width : NULL;
}

static int open_dense(const struct eval_filling *f, uint64_t first, size_t count,
                      struct eval_panel *p, struct err *err) {
  struct eval_task *t = f->t;
  const struct eval_quantize *z = f->z;
  assert(count <= f->most);
  *p = (struct eval_panel){.at = held(t->ev, z, first, count)};
  if (p->at) return 0;
  p->at = f->room.tile;
  if (!z->direct) return eval_elements(t, z->of, first, count, f->room.tile, err);
  const uint64_t off = z->at.off + first * z->width;
  const uint64_t n = (uint64_t)count * z->width, end = z->at.off + z->at.len;
  if (io_view(t->ev->io, z->at.file, off, (size_t)n, &p->view, err) != 0) return -1;
  io_will_need(t->ev->io, z->at.file, off + n, min_u64(n, end - off - n));
  p->viewed = true;
  p->at = p->view.at;
  return 0;
}

static int read_elements(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t n, uint8_t *to, struct err *err) {
  if (!z->direct) return eval_elements(t, z->of, first, n, to, err);
  const size_t bytes = (size_t)n * z->width;
  return io_read(t->ev->io, z->at.file, z->at.off + first * z->width, to, bytes, err);
}

// Copies `line` bytes of each row, so that they are contiguous. One or two elements take no call.
static uint8_t *pick(uint8_t *to, const uint8_t *from, size_t step, size_t line, size_t rows) {
  for (size_t k = 0; k < rows; k++, to += line, from += step)
    if (line == 4)
      memcpy(to, from, 4);
    else if (line == 8)
      memcpy(to, from, 8);
    else if (line == 2)
      memcpy(to, from, 2);
    else
      memcpy(to, from, line);
  return to;
}

// The parts of short rows, with the bytes between them.
static int open_short_rows(struct eval_task *t, const struct eval_quantize *z,
                           const struct eval_stretch *s, uint8_t *to, struct err *err) {
  uint8_t some[READ_BYTES];
  const size_t line = s->n * z->width, step = (size_t)s->step * z->width;
  const size_t most = (READ_BYTES - line) / step + 1;
  for (size_t i = 0; i < s->rows; i += most) {
    const size_t rows = (size_t)min_u64(most, s->rows - i);
    const uint64_t first = s->first + i * s->step;
    if (read_elements(t, z, first, (rows - 1) * s->step + s->n, some, err) != 0) return -1;
    to = pick(to, some, step, line, rows);
  }
  return 0;
}

int eval_panel_open(const struct eval_filling *f, const struct eval_stretch *s,
                    struct eval_panel *p, struct err *err) {
  struct eval_task *t = f->t;
  const struct eval_quantize *z = f->z;
  const size_t line = s->n * z->width;
  uint64_t first = s->first;
  if (s->n == s->step || s->rows == 1) return open_dense(f, first, s->rows * s->n, p, err);
  assert(s->rows * line <= f->room.tile_bytes);
  *p = (struct eval_panel){.at = f->room.tile};
  if (s->step * z->width <= SHORT_ROW && !held(t->ev, z, first, s->n))
    return open_short_rows(t, z, s, f->room.tile, err);
  for (size_t i = 0; i < s->rows; i++, first += s->step) {
    uint8_t *to = f->room.tile + i * line;
    const uint8_t *from = held(t->ev, z, first, s->n);
    int failed = 0;
    if (from)
      memcpy(to, from, line);
    else
      failed = read_elements(t, z, first, s->n, to, err);
    if (failed) return -1;
  }
  return 0;
}

int eval_panel_close(const struct eval_filling *f, struct eval_panel *p, int failed,
                     struct err *err) {
  struct err second = {0};
  if (!p->viewed) return failed;
  p->viewed = false;
  return io_view_done(f->t->ev->io, &p->view, failed ? &second : err) != 0 ? -1 : failed;
}

// ---- windows -----------------------------------------------------------------------------------

struct eval_window eval_panel_window(const struct eval_filling *f, uint64_t line) {
  const struct eval_quantize *z = f->z;
  const struct eval_block_box *h = f->h;
  if (z->by_column)
    return (struct eval_window){.c0 = h->first,
                                .c1 = h->last,
                                .k0 = h->from * z->block,
                                .k1 = min_u64(h->to * z->block, z->k)};
  return (struct eval_window){
      .line = line, .c0 = h->from, .c1 = h->to, .k1 = eval_layout_line_rows(z, line)};
}

static int do_panel(const struct eval_filling *f, const struct eval_window *s, uint64_t c,
                    uint64_t k, uint64_t n, uint64_t rows, eval_panel_fn *fn, void *ctx,
                    struct err *err) {
  const struct eval_quantize *z = f->z;
  struct eval_stretch lines = {
      .first = c * z->k + k, .step = z->k, .rows = (size_t)n, .n = (size_t)rows};
  if (z->inner > 1)
    lines = (struct eval_stretch){
        .first = k * z->inner + c, .step = z->inner, .rows = (size_t)rows, .n = (size_t)n};
  if (!z->by_column) lines.first += eval_layout_line_start(z, s->line);
  struct eval_panel panel;
  if (eval_panel_open(f, &lines, &panel, err) != 0) return -1;
  const struct eval_cut at = {
      .p = {.in = panel.at, .in_stride = lines.n, .n = (size_t)n, .k = (size_t)rows},
      .line = s->line,
      .c = c,
      .k = k,
      .element = lines.first};
  return eval_panel_close(f, &panel, fn(f, &at, ctx, err), err);
}

// A column lies as a row: as many whole ones as a panel takes, or pieces of one.
static int each_rows(const struct eval_filling *f, const struct eval_window *s, uint64_t group,
                     eval_panel_fn *fn, void *ctx, struct err *err) {
  const uint64_t all = f->z->k;
  const bool whole = s->k1 - s->k0 == all && all <= f->most;
  const uint64_t columns = whole ? f->most / all : 1, step = whole ? all : f->most / group * group;
  assert(step > 0);
  for (uint64_t c = s->c0; c < s->c1; c += columns)
    for (uint64_t k = s->k0; k < s->k1; k += step)
      if (do_panel(f, s, c, k, min_u64(columns, s->c1 - c), min_u64(step, s->k1 - k), fn, ctx,
                   err) != 0)
        return -1;
  return 0;
}

// Rows as they lie where the stretch has all columns, as many as a panel takes; else stripes of them,
// brought into the tile row by row.
static int each_across(const struct eval_filling *f, const struct eval_window *s, uint64_t group,
                       eval_panel_fn *fn, void *ctx, struct err *err) {
  const struct eval_quantize *z = f->z;
  const uint64_t most = f->most / z->inner;
  uint64_t n = s->c1 - s->c0, rows = most / group * group;
  // Only the end of a short block asks where its group begins: whole ones may be cut from it, which
  // is better than lines picked one by one.
  if (rows == 0 && f->h->n_ways == 0 && z->k % z->block == 0) rows = most / z->block * z->block;
  if (n < z->inner || rows == 0) {
    const uint64_t elements = f->room.tile_bytes / z->width;
    assert(elements >= group);
    const uint64_t stripes = (n - 1) / (elements / group) + 1;
    n = (n - 1) / stripes + 1;
    rows = elements / n / group * group;
  }
  for (uint64_t k = s->k0; k < s->k1; k += rows)
    for (uint64_t c = s->c0; c < s->c1; c += n)
      if (do_panel(f, s, c, k, min_u64(n, s->c1 - c), min_u64(rows, s->k1 - k), fn, ctx, err) != 0)
        return -1;
  return 0;
}

int eval_panel_each(const struct eval_filling *f, const struct eval_window *s, uint64_t group,
                    eval_panel_fn *fn, void *ctx, struct err *err) {
  return f->z->inner == 1 ? each_rows(f, s, group, fn, ctx, err)
                          : each_across(f, s, group, fn, ctx, err);
}
