// What a scale per channel would cost, for each axis that could be the channels': error figures of
// the SHRINK format, in the arithmetic by which ONNX Shrink Ray 0.0.11 compares axes.
#ifndef WEIR_MEASURE_AXES_H
#define WEIR_MEASURE_AXES_H

#include "measure.h"

// Codes of FORMAT_SHRINK with an axis (also behind what only moves codes)?
bool measure_axes_can(const struct recipes *r, uint32_t codes);

// As measure_run, for such codes; stats are added to. Every operand is read twice: for the ranges
// of all channels, and for the errors. Works are shared by operand. Beside --memory it holds the
// ranges: two doubles a channel and axis.
int measure_axes_run(const struct recipes *r, struct sources *s, const uint32_t *codes, uint32_t n,
                     const struct work_options *options, struct figures *out,
                     struct measure_stats *stats, struct err *err);

#endif
