// Recipe evaluation: any byte range of a recipe's elements, alone, in bounded memory.
//
// One evaluator per worker. It keeps a scratch budget: strided sources (transposes) are produced in
// stripes; the stripe last made is kept, so that ranges asked for in order read each source byte
// about once (within 2.1 × the tensor when the budget is too small for the shape).
#ifndef WEIR_EVAL_H
#define WEIR_EVAL_H

#include "eval_cache.h"
#include "figures.h"
#include "io.h"
#include "kernels.h"
#include "recipe.h"

struct eval;

// budget_bytes: what it may hold beyond fixed structures (≥ 1 MiB).
int eval_open(struct eval **out, const struct recipes *r, struct io *io, size_t budget_bytes,
              struct err *err);
void eval_close(struct eval *ev);
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

// The caller will read bytes [off, off+len) of recipe `id` in order, and nothing of it behind them.
// No promise: it only says how much to compute at once. Until the next call.
void eval_expect(struct eval *ev, uint32_t id, uint64_t off, uint64_t len);

// How the kernels quantize what a QUANTIZE row of a blockwise format is made of.
struct kernels_block_format eval_block_format(const struct recipes *r, uint32_t id);

// From now on tells error figures of what is expected, as it is made: of codes, and of casts of
// anything but scales, also behind reshapes and transposes. Figures come leaf by leaf: of the
// leaves (numbered from the codes' first byte) whose first byte lies in the range last expected,
// each once, in order. A leaf is
//
//   a column                            codes of the NBITS formats
//   4096 elements in the codes' order   all others; behind a transpose a leaf's first byte is where it
//                                       would be without it
//
// A weight to be quantized that is not finite is then an error. A finite element that is stored as
// an infinity is counted, and no error here.
struct eval_watcher {
  void (*told)(void *ctx, uint64_t leaf, const struct figures *f);
  void *ctx;
};
void eval_watch(struct eval *ev, struct eval_watcher watcher);
// To be called when the range last expected was read: a leaf that goes on behind it is computed
// to its end.
int eval_finish(struct eval *ev, struct err *err);

// Bytes [off, off+n) of recipe `id` into buf. The range lies inside the recipe's bytes.
int recipe_read(struct eval *ev, uint32_t id, uint64_t off, void *buf, size_t n, struct err *err);

#endif
