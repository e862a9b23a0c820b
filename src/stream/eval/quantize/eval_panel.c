// Operand elements for the kernels of quantization. Where the operand is a stretch of source bytes,
// the kernel reads a mapped window of the file; where it is computed, or where stretches of many rows
// are wanted, the elements are brought into a tile that stays in the cache of the core.
//
//   a stretch    ────────────────────────   one view, no copy
//   a stripe     ──  ·  ──  ·  ──  ·  ──    a read for each row: a view of the rows would read (and
//                                           count) the bytes between them too
//   a stripe of  ─·─·─·─·─·─·─·─·─·─·─·─    many rows with one read: reading the bytes between two rows costs
//   short rows                              less than another read, and they are in the same page anyway
#include "eval_panel.h"

#include <assert.h>
#include <string.h>

enum { TILE_MOST = 1 << 20, TILE_ROOM = 64 << 10 };
enum { VIEW_MOST = 4 << 20, VIEW_LEAST = 128 << 10, SHORT_ROW = 1 << 10, READ_BYTES = 8 << 10 };

struct eval_room eval_panel_room(struct eval *ev, struct eval_stripe_box *b) {
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

// n elements in the stretch that is held, or NULL.
static const uint8_t *held(const struct eval *ev, const struct eval_quantize *z, uint64_t first,
                           uint64_t n) {
  const struct eval_hold *h = &ev->hold;
  if (h->count == 0 || h->of != z->of || first < h->first) return NULL;
  return range_fits(first - h->first, n, h->count) ? h->at + (first - h->first) * z->width : NULL;
}

// A view counts towards the memory budget, so a small budget has small views.
size_t eval_panel_most(const struct eval *ev, const struct eval_quantize *z,
                       const struct eval_room *room) {
  uint64_t bytes = room->tile_bytes;
  if (z->direct) bytes = max_u64(min_u64(ev->budget_bytes / 4, VIEW_MOST), VIEW_LEAST);
  return (size_t)(bytes / z->width);
}

static int open_dense(struct eval_task *t, const struct eval_quantize *z,
                      const struct eval_room *room, uint64_t first, size_t count,
                      struct eval_panel *p, struct err *err) {
  assert(count <= eval_panel_most(t->ev, z, room));
  *p = (struct eval_panel){.at = held(t->ev, z, first, count)};
  if (p->at) return 0;
  p->at = room->tile;
  if (!z->direct) return eval_elements(t, z->of, first, count, room->tile, err);
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

int eval_panel_open(struct eval_task *t, const struct eval_quantize *z,
                    const struct eval_room *room, const struct eval_stretch *s,
                    struct eval_panel *p, struct err *err) {
  const size_t line = s->n * z->width;
  uint64_t first = s->first;
  if (s->n == s->step || s->rows == 1) return open_dense(t, z, room, first, s->rows * s->n, p, err);
  assert(s->rows * line <= room->tile_bytes);
  *p = (struct eval_panel){.at = room->tile};
  if (s->step * z->width <= SHORT_ROW && !held(t->ev, z, first, s->n))
    return open_short_rows(t, z, s, room->tile, err);
  for (size_t i = 0; i < s->rows; i++, first += s->step) {
    uint8_t *to = room->tile + i * line;
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

int eval_panel_close(struct eval_task *t, struct eval_panel *p, int failed, struct err *err) {
  struct err second = {0};
  if (!p->viewed) return failed;
  p->viewed = false;
  return io_view_done(t->ev->io, &p->view, failed ? &second : err) != 0 ? -1 : failed;
}
