// Error figures of blockwise quantizations, each operand read once for all of them.
#ifndef WEIR_MEASURE_BLOCKS_H
#define WEIR_MEASURE_BLOCKS_H

#include "measure.h"

// Codes of the NBITS formats, GATHER or QDQ, in blocks of a power of two up to 256 or (QDQ) of all
// of the axis?
bool measure_blocks_can(const struct recipes *r, uint32_t codes);

// As measure_run, for such codes; stats are added to. Twice is read what has blocks of all of a
// longer axis.
int measure_blocks_run(const struct recipes *r, struct sources *s, const uint32_t *codes,
                       uint32_t n, const struct work_options *options, struct figures *out,
                       struct measure_stats *stats, struct err *err);

#endif
