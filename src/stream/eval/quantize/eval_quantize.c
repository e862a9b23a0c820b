// Quantized tensors: codes, scales and zero points of an operand, any range of any of them.
//
// All three come of the same arithmetic over whole blocks, so a box (eval_parts.h) holds the
// *outputs* of a stretch of columns or blocks: codes, scales and zeros, made in one go while the
// operand streams by in small panels. The operand itself, many times as large, is never held.
//
//   operand ──panel──▶ kernel ──▶ │ codes │ scales │ zeros │  box ──▶ the range that was asked for
//                                            └────────┴──▶ statistics of the run (eval_cache.c)
//
// How far a box reaches depends on what the caller is going to want (eval_begin): computing
// columns that another worker's unit holds would read them twice.
//
// Kept for the run: scales and zero points that were found with the codes (in memory, the rest in a file without a name
// next to the outputs), and codes that are stored transposed. Kept as far as a box goes: elements that were read for a
// range, so codes come before their scales in a file. Larger matrices with a scale a column are made in panels of
// columns. One worker finds what takes a long read while the others wait (eval_find_once). Error figures go to the
// watcher of the task and through unit records (figure_sums.h), by column or by chunks of 4096 elements, so that no
// figure depends on which worker made a unit.
//
// The files of this folder, from the top; each calls files below it alone, and its operands by eval_elements:
//
//   eval_quantize.c        rows of QUANTIZE: which of the files below makes them, by format
//   eval_linear.c          rows of QUANTIZE_LINEAR: codes by scales that are given
//   eval_once.c            codes of both that are wanted in another order than their own
//   eval_blocks.c          formats in blocks
//   eval_gptq.c, eval_clipped.c, eval_awq.c        columns made whole, and scales of rows, by second moments
//   eval_factor.c, eval_whole.c, eval_moments.c    what these three need
//   eval_tell.c            error figures of a box
//   eval_known.c           scales and zero points that the cache of the run has
//   eval_panel.c           the operand in memory, a panel at a time
//   eval_layout.c          what a row means to the kernels, and where in a box and in the parts things lie
//   eval_affine.c, eval_affine_grid.c              by tensor or channel: SHRINK, LEVELS, AFFINE
//   eval_linear_ranges.c, eval_linear_blocks.c     scales and zero points of LINEAR
//   eval_linear_deviation.c, eval_linear_grid.c    what a deviation or a range becomes
//   eval_kept.c            elements that are looked at for a range, and kept for codes
#include "stream/eval/quantize/inside/eval_affine.h"
#include "stream/eval/quantize/inside/eval_layout.h"
#include "stream/eval/quantize/inside/eval_linear.h"

// Scales that are at hand for who makes others of them.
static bool copy_found(const struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out) {
  const struct eval_hold *h = &t->ev->found;
  const uint32_t width = eval_width(t->r, id);
  if (id != h->of || first < h->first || !range_fits(first - h->first, count, h->count))
    return false;
  memcpy(out, h->at + (first - h->first) * width, (size_t)(count * width));
  return true;
}

int eval_quantize_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                           uint8_t *out, struct err *err) {
  if (id == t->once) return eval_once_elements(t, id, first, count, out, err);
  if (copy_found(t, id, first, count, out)) return 0;
  struct eval_stripe_box *b = eval_box_for(t->ev, id);
  if (!b)
    return err_set(err, ERR_INTERNAL, "a quantized tensor is nested below more than %u others",
                   t->ev->n_boxes);
  const struct recipe_quantization q = recipe_quantization_of(t->r, id);
  b->busy = true;
  const int failed = (eval_in_blocks(q.format)    ? eval_blocks_elements
                      : q.format != FORMAT_LINEAR ? eval_affine_elements
                      : q.block > 0               ? eval_linear_block_elements
                                    : eval_linear_range_elements)(t, b, first, count, out, err);
  b->busy = false;
  return failed;
}

// ---- figures by column -------------------------------------------------------------------------

// Are figures told of this recipe's columns?
static bool has_columns(const struct recipes *r, uint32_t id) {
  return recipe_quantizes(r, id) && recipe_part_of(r, id) == PART_CODES && r->rows[id].count > 0 &&
         recipe_is_nbits(recipe_quantization_of(r, id).format);
}

void eval_quantize_begin(struct eval_task *t) {
  struct eval_quantize z;
  if (!has_columns(t->r, t->wanted.id)) return;
  eval_layout_forget(t->ev, t->wanted.id); // what a box holds was told to somebody else
  eval_layout_of(t->r, t->wanted.id, &z);
  t->columns = eval_tell_columns_of(&z, t->wanted.off, t->wanted.len);
}

int eval_quantize_end(struct eval_task *t, struct err *err) {
  struct eval *ev = t->ev;
  if (t->columns.next >= t->columns.end) return 0;
  struct eval_stripe_box *b = eval_box_for(ev, t->wanted.id);
  assert(b && b->count); // the range was read, by this box
  ev->depth++;
  b->busy = true;
  const int failed = eval_blocks_end(t, b, err);
  b->busy = false;
  ev->depth--;
  return failed;
}
