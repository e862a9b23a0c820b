// Which recipes have the same elements: digests of a sample of each, and of all of those whose samples
// agree.
#ifndef WEIR_MEASURE_EQUAL_H
#define WEIR_MEASURE_EQUAL_H

#include "stream/measure/measure.h"
#include "tensor_stats/content_hash.h"

// Likenesses of n recipes into out[0..n), in their order. A sample of each is read
// (CONTENT_HASH_SAMPLE_BYTES, or all if there are no more), and all of those that have dtype, dims and
// sample of another. `options` as for measure_run; a worker holds a buffer of 64 KiB besides.
// Afterwards the sources are checked to be unchanged. ERR_RETRY after a stop.
int measure_equal_run(const struct recipes *r, struct sources *s, const uint32_t *of, uint32_t n,
                      const struct work_options *options, struct content_hash *out,
                      struct measure_stats *stats, struct err *err);

#endif
