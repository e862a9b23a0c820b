// Scales and zero points that a quantized model has, or a table, as a file for `weir static --override`.
#ifndef WEIR_CALIBRATE_SCALES_H
#define WEIR_CALIBRATE_SCALES_H

#include "base/observer.h"

struct calibrate_scales {
  const char *model; // path; with `table` not looked at
  const char *table; // a file of scales; NULL: those of the model
  const char *out;   // NULL: nobody said (ERR_USAGE)
  bool allow_links, replace;
  struct observer *observer;
};
// How many it has, and how many scales could not be written.
struct calibrate_scaled {
  uint64_t values, weights, left;
};
// Writes the file. ERR_FAIL: there is no scale; ERR_INPUT for a table that is none.
int calibrate_scales_write(const struct calibrate_scales *q, struct calibrate_scaled *made,
                           struct err *err);

#endif
