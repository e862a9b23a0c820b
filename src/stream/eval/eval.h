// Room: evaluation of recipes: any byte range of a recipe's elements, alone, in bounded memory.
//
// One evaluator per worker, which makes what a task asks for. It keeps a scratch budget: strided
// sources (transposes) are produced in stripes; the stripe last made is kept, so that ranges asked
// for in order read each source byte about once (within 2.1 × the tensor when the budget is too
// small for the shape).
#ifndef WEIR_EVAL_H
#define WEIR_EVAL_H

#include "recipe/recipe.h"
#include "stream/eval/shared/eval_turns.h"
#include "stream/eval/shared/eval_watcher.h"
#include "stream/io/io_queue.h"

struct eval;

// budget_bytes: what it may hold beyond fixed structures (≥ 1 MiB).
int eval_open(struct eval **out, const struct recipes *r, struct io *io, size_t budget_bytes,
              struct err *err);
void eval_close(struct eval *ev);
// Of a budget of up to `most` bytes, what n recipes make use of, those of `ids` or the first ones (NULL): the largest
// operand for which there is room is looked at for its scales, and kept until its codes are made. 0: nothing is looked at.
uint64_t eval_wanted(const struct recipes *r, const uint32_t *ids, uint32_t n, uint64_t most);
// Touches the memory that evaluation of n recipes will come to use: those of `ids`, or the first ones
// (NULL). Once, before the first is read.
void eval_touch(struct eval *ev, const uint32_t *ids, uint32_t n);

// Scales and zero points that this evaluator finds out, and what others found: `cache` outlives it.
void eval_share(struct eval *ev, struct eval_cache *cache);

// From now on asked while a weight is read for its ranges, which makes no byte of output, and while
// another evaluator of the same cache does that. Where go_on says no, recipe_read fails with
// ERR_RETRY.
void eval_interrupt(struct eval *ev, struct eval_go_on go_on);

// From now on a conversion that makes an infinity of a finite element fails with ERR_MODEL, unless
// its figures are told, which count such elements; before, it is what conversions do (kernels.h).
void eval_refuse_overflow(struct eval *ev);

// ---- tasks -------------------------------------------------------------------------------------

// One range of one recipe, and what came of it so far.
struct eval_task;

// Bytes [off, off+len) of recipe `id` are wanted, in order, and nothing of it behind them. (No
// promise: it only says how much to compute at once.) Belongs to the evaluator, which has one task
// at a time: the one begun before is over.
struct eval_task *eval_begin(struct eval *ev, uint32_t id, uint64_t off, uint64_t len,
                             struct eval_watcher watcher);
// Bytes [off, off+n) of the task's recipe into buf. The range lies inside the recipe's bytes.
int eval_read(struct eval_task *t, uint64_t off, void *buf, size_t n, struct err *err);
// Makes figures whole: of what was not read, and of a leaf that goes on behind the range. Without a
// watcher it does nothing.
int eval_end(struct eval_task *t, struct err *err);

// Bytes [off, off+n) of recipe `id` into buf, by a task of their own of which nothing more is known.
int recipe_read(struct eval *ev, uint32_t id, uint64_t off, void *buf, size_t n, struct err *err);

// ---- figures alone -----------------------------------------------------------------------------

// Leaves of what codes (a QUANTIZE row of NBITS, QDQ or GATHER) are told as.
uint64_t eval_measure_leaves(const struct recipes *r, uint32_t codes);
// What quantizing would cost: n codes of one operand, all or none of the NBITS formats; which leaves
// of theirs; who is told of each; and memory to read a stretch into that several of them ask for.
struct eval_measurement {
  const uint32_t *codes;
  uint32_t n;
  uint64_t first, end;
  const struct eval_watcher *watchers;
  uint8_t *memory;
  size_t memory_bytes;
};
// Figures as if the codes were made and thrown away. Of the NBITS formats the operand is read once; of
// others once too as far as their lines fit the memory, else for each that asks (twice, where a
// block is all of a long axis). Elements that are not finite are counted.
int eval_measure(struct eval *ev, const struct eval_measurement *m, struct err *err);

#endif
