// What codes, scales and zero points stand for. Codes come through scratch in the order of the result,
// a piece at a time; the scales and zero points that fall on the piece are spread over it
// (eval_spread.c):
//
//   per tensor             one for all
//   per axis               strides (0, 1, 0) around the axis
//   blocks along an axis   along it, `block` steps share one
//
// Small lists of scales and zero points are held in a box: codes are asked for in order, and the same
// scales again for every row.
#include "kernels/dequantize/kernels_dequantize.h"
#include "stream/eval/math/eval_math.h"
#include "stream/eval/math/inside/eval_spread.h"

enum { PIECE = 512, PIECE_BYTES = 4 * PIECE, LONG_RUN = 256 };

enum { SCALES, ZEROS, PARTS };

static void spread_of(const struct recipes *r, uint32_t id, uint32_t of,
                      const struct recipe_dequantization *q, struct eval_spread *s) {
  *s = (struct eval_spread){.of = of, .width = of == NO_ID ? 0 : eval_width(r, of)};
  if (of == NO_ID || q->axis == RECIPE_PER_TENSOR) return;
  const struct recipe_around x = recipe_around(r, id, q->axis);
  const uint64_t blocks = q->block ? (x.n + q->block - 1) / q->block : 0;
  eval_spread_axis(s, x.outer, 1, blocks * x.inner);
  eval_spread_axis(s, x.n, q->block ? q->block : 1, q->block ? x.inner : 1);
  eval_spread_axis(s, x.inner, 1, q->block ? 1 : 0);
}

// Sets *operand to what falls on elements [first, first + n).
static int spread(struct eval_task *t, struct eval_spread *s, uint64_t first, uint64_t n,
                  uint8_t *scratch, struct kernels_operand *operand, struct err *err) {
  const bool once = eval_spread_same(s, first) >= n;
  *operand = (struct kernels_operand){.at = scratch, .stride = !once};
  return eval_spread_elements(t, s, first, once ? 1 : n, scratch, err);
}

static int make(struct eval_task *t, uint32_t id, struct eval_spread *parts, uint64_t first,
                uint64_t count, uint8_t *out, struct err *err) {
  const struct recipe *x = &t->r->rows[id];
  const uint32_t codes = t->r->args[x->args];
  const struct kernels_dequantized d = {.codes = t->r->rows[codes].dtype,
                                        .scales = t->r->rows[parts[SCALES].of].dtype,
                                        .out = x->dtype};
  uint8_t *scratch = eval_scratch(t->ev), *at = scratch + PIECE_BYTES;
  struct kernels_operand operands[PARTS] = {{0}};
  for (uint32_t i = 0; i < PARTS; i++, at += PIECE_BYTES + EVAL_SPREAD_WINDOW)
    parts[i].window = at + PIECE_BYTES;
  while (count > 0) {
    uint64_t n = min_u64(count, PIECE);
    for (uint32_t i = 0; i < PARTS && parts[i].of != NO_ID; i++) {
      const uint64_t same = eval_spread_same(&parts[i], first);
      if (same >= LONG_RUN) n = min_u64(n, same);
    }
    if (eval_elements(t, codes, first, n, scratch, err) != 0) return -1;
    for (uint32_t i = 0; i < PARTS && parts[i].of != NO_ID; i++)
      if (spread(t, &parts[i], first, n, parts[i].window - PIECE_BYTES, &operands[i], err) != 0)
        return -1;
    kernels_dequantize(&d, out, scratch, operands[SCALES], operands[ZEROS], (size_t)n);
    first += n;
    count -= n;
    out += n * eval_width(t->r, id);
  }
  return 0;
}

int eval_dequantize_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                             uint8_t *out, struct err *err) {
  const struct recipe_dequantization q = recipe_dequantization_of(t->r, id);
  struct eval_spread parts[PARTS];
  spread_of(t->r, id, q.scales, &q, &parts[SCALES]);
  spread_of(t->r, id, q.zeros, &q, &parts[ZEROS]);
  struct eval_stripe_box *b = eval_box_for(t->ev, id);
  if (b) b->busy = true;
  const int failed = eval_spread_hold(t, b, parts, PARTS, err) != 0 ||
                     make(t, id, parts, first, count, out, err) != 0;
  if (b) b->busy = false;
  return failed ? -1 : 0;
}
