// Error figures as they are found: a task of the evaluator (eval.h) tells them to who began it.
#ifndef WEIR_EVAL_WATCHER_H
#define WEIR_EVAL_WATCHER_H

#include "tensor_stats/figures.h"

// Who is told error figures of what a task makes, as it is made; told NULL: nobody. They are of codes,
// and of casts (among float32, float16, bfloat16 and double) of anything but scales, also behind
// reshapes and transposes, leaf by leaf: of the leaves (numbered from the codes' first byte) whose
// first byte lies in the range of the task, each once, in order. A leaf is
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

#endif
