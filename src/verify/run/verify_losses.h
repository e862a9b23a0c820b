// What one whole model has lost compared with another, as far as the two models show it.
#ifndef WEIR_VERIFY_LOSSES_H
#define WEIR_VERIFY_LOSSES_H

#include "infer/infer.h"
#include "model/model.h"

struct verify_losses {
  bool quantized;   // the result alone has quantized weights or activations
  bool halved;      // nodes compute, or weights are stored, in 16 bits that did not before
  bool half;        // either computes or stores in 16 bits
  bool half_before; // the source does
  // Both are quantized, and the result more so: why, in words in *a; NULL: it is not.
  const char *more;
};

// `source` and `result` are inferred in `in`, in that order.
struct verify_losses verify_losses_of(const struct model *source, const struct model *result,
                                      struct infer *const in[2], struct arena *a);

#endif
