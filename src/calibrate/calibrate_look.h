// Elements of an array as floats, a piece at a time.
#ifndef WEIR_CALIBRATE_LOOK_H
#define WEIR_CALIBRATE_LOOK_H

#include "kernels/tally/kernels_tally.h"
#include "verify/arrays/array.h"

struct calibrate_piece {
  const float *at; // n of them
  size_t n;
  uint64_t first; // which element is the first
};
// Calls `each` for all elements in order, until it returns other than 0, which is passed on.
int calibrate_look(const struct array *x,
                   int (*each)(void *ctx, const struct calibrate_piece *piece, struct err *err),
                   void *ctx, struct err *err);

// Adds to *out, and of each channel along the axis (as calibrate_along has them) the least and the largest; `least` NULL: not
// wanted.
int calibrate_look_extremes(const struct array *x, int32_t axis, struct kernels_extremes *out,
                            float *least, float *most, struct err *err);

// An array along an axis (below 0: from the end): outer x channels x inner.
struct calibrate_along {
  uint64_t outer, inner;
  uint32_t channels;
};
// False: it has no such axis, or too many channels.
bool calibrate_along(const struct array *x, int32_t axis, struct calibrate_along *out);

#endif
