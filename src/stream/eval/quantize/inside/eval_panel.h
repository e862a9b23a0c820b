// Inside quantization: a box that is being filled, and the operand in memory, a panel at a time.
#ifndef WEIR_EVAL_PANEL_H
#define WEIR_EVAL_PANEL_H

#include "stream/eval/quantize/inside/eval_layout.h"

// The memory of a box, shared out.
struct eval_room {
  uint8_t *tile; // for elements of the operand; at least EVAL_SCRATCH_BYTES
  size_t tile_bytes;
  uint8_t *rest;
  size_t rest_bytes;
};
// A box that is being filled.
struct eval_filling {
  struct eval_task *t;
  struct eval_block_box *h;
  const struct eval_quantize *z; // of h
  struct eval_room room;
  // Elements of a panel where lines lie one behind the other: mapped ones, or what the tile holds.
  uint64_t most;
};
struct eval_filling eval_panel_filling(struct eval_task *t, struct eval_stripe_box *b);

// A panel of operand elements in memory, to be closed again.
struct eval_panel {
  const uint8_t *at;
  struct io_view view;
  bool viewed;
};
// Lines of n elements, `step` elements apart: they lie one behind the other where n is step.
struct eval_stretch {
  uint64_t first, step;
  size_t rows, n;
};
// At most f->most of them where they lie one behind the other, else what the tile holds: dense.
int eval_panel_open(const struct eval_filling *f, const struct eval_stretch *s,
                    struct eval_panel *p, struct err *err);
// Closes it whether what was done with it `failed` or not, and says which.
int eval_panel_close(const struct eval_filling *f, struct eval_panel *p, int failed,
                     struct err *err);

// Columns [c0, c1) of rows [k0, k1); where units are lines: rows of that line.
struct eval_window {
  uint64_t line, c0, c1, k0, k1;
};
// What the box has; of lines: of this one.
struct eval_window eval_panel_window(const struct eval_filling *f, uint64_t line);
// A panel of it, p->n columns and p->k rows, the first element row k of column c.
struct eval_cut {
  struct kernels_panel p;
  uint64_t line, c, k;
  uint64_t element; // of the operand
};
typedef int eval_panel_fn(const struct eval_filling *f, const struct eval_cut *at, void *ctx,
                          struct err *err);
// Goes over a window by panels, of whole groups of rows but for the last ones.
int eval_panel_each(const struct eval_filling *f, const struct eval_window *s, uint64_t group,
                    eval_panel_fn *fn, void *ctx, struct err *err);

// ---- scales and zero points that the run knows, by whole units (eval_known.c) ----

// Does the cache of the run keep the units of a box? Gives it those that the box has with all of their cells, through the
// tile.
bool eval_known_keeps(const struct eval_filling *f);
void eval_known_publish(const struct eval_filling *f);
// All cells of the box's first unit, if the cache has them.
bool eval_known_unit(const struct eval_filling *f);
// The first unit in (unit, end) that it has, or end: another worker found it out.
uint64_t eval_known_next(struct eval_task *t, const struct eval_quantize *z, uint64_t unit,
                         uint64_t end);
// Scales or zeros [first, first + *n) as their part holds them, as far as it has them (*n is then less): of units that
// are short many at a time, of others to the end of one at most. False: not even the first.
bool eval_known_elements(struct eval_task *t, const struct eval_quantize *z, uint64_t first,
                         uint64_t *n, uint8_t *out);

#endif
