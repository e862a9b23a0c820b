// Room: the kinds of recipes that quantize: functions for tasks, and for the table of kinds (eval.c). eval_quantize.c
// says in which files.
#ifndef WEIR_EVAL_QUANTIZE_H
#define WEIR_EVAL_QUANTIZE_H

#include "kernels/kernels.h"
#include "stream/eval/core/eval_parts.h"
#include "stream/eval/shared/eval_cache.h"

// What a QUANTIZE row means, in the words of the kernels. The operand is [outer, k, inner], cut
// along k: one of outer and inner is 1 for a matrix. A column of W is one (outer, inner) pair.
struct eval_quantize {
  uint32_t of;
  struct recipe_statistics by; // gram NO_ID: there are none
  struct recipe_quantization q;
  enum recipe_part part;
  struct kernels_block_format f;
  uint64_t outer, k, inner;
  uint64_t block;  // elements, at most k but for NBITS formats
  uint64_t blocks; // of a column
  uint32_t width;  // bytes of an operand's element
  enum dtype type; // of the operand's elements
  bool direct;     // the operand is nothing but source bytes:
  struct extent at;
  // Its layout (eval_layout.c): codes are packed; units are columns, not lines.
  bool packs, by_column;
  uint64_t units, cells; // the cells of a unit
  uint64_t group;        // cells whose codes end on a byte together
  struct eval_cache_key key;
};
void eval_layout_of(const struct recipes *r, uint32_t id, struct eval_quantize *z);
// Boxes of a recipe whose format has blocks: what they hold is made again.
void eval_layout_forget(struct eval *ev, uint32_t id);

eval_elements_fn eval_awq_elements; // scales for rows of weights
eval_elements_fn eval_quantize_elements;
eval_elements_fn eval_linear_elements; // rows of QUANTIZE_LINEAR (eval_linear.c)
uint32_t eval_linear_boxes(const struct eval *ev, uint32_t id, uint32_t *left);
// Bytes of a box in which all elements stay that such codes look at together; 0: they look at none.
uint64_t eval_linear_wanted(const struct recipes *r, uint32_t id);
// Of such codes that may be made column by column: the elements of a line; else 0 (struct eval_chunks).
uint64_t eval_linear_line(const struct recipes *r, uint32_t id);

// What eval_begin and eval_end do for figures by column.
void eval_quantize_begin(struct eval_task *t);
int eval_quantize_end(struct eval_task *t, struct err *err);

// Codes that are moved about behind, which are made in their own order all the same (eval_once.c).
// eval_begin asks whether codes below `id`, which is no RESHAPE, are wanted in another order than their own: t->once.
void eval_once_begin(struct eval_task *t, uint32_t id);
// Elements of t->once, from what is kept for all workers.
eval_elements_fn eval_once_elements;
// Tells of the chunks that are wanted, from the next one on, as far as their figures are kept.
int eval_once_end(struct eval_task *t, struct err *err);

// Figures of columns [first, end) by each of n NBITS quantizations of one operand, in one read of it,
// codes thrown away; t: a task of one of them (eval_blocks.c).
int eval_blocks_measure(struct eval_task *t, const struct eval_quantize *ways, uint32_t n,
                        uint64_t first, uint64_t end, const struct eval_watcher *watchers,
                        struct err *err);

#endif
