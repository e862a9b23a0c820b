// Inside quantization: elements of the operand in memory, a panel at a time.
#ifndef WEIR_EVAL_PANEL_H
#define WEIR_EVAL_PANEL_H

#include "eval_quantize.h"

// The memory of a box, shared out.
struct eval_room {
  uint8_t *tile; // for elements of the operand; at least EVAL_SCRATCH_BYTES
  size_t tile_bytes;
  uint8_t *rest;
  size_t rest_bytes;
};
struct eval_room eval_panel_room(struct eval *ev, struct eval_stripe_box *b);

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
// Elements that a panel can hold where lines lie one behind the other, mapped if they are source
// bytes; of others: what the tile holds.
size_t eval_panel_most(const struct eval *ev, const struct eval_quantize *z,
                       const struct eval_room *room);
// At most as many, dense.
int eval_panel_open(struct eval_task *t, const struct eval_quantize *z,
                    const struct eval_room *room, const struct eval_stretch *s,
                    struct eval_panel *p, struct err *err);
// Closes it whether what was done with it `failed` or not, and says which.
int eval_panel_close(struct eval_task *t, struct eval_panel *p, int failed, struct err *err);

#endif
