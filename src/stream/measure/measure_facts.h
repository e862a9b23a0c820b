// What can be said of all elements of a tensor.
#ifndef WEIR_MEASURE_FACTS_H
#define WEIR_MEASURE_FACTS_H

#include "stream/measure/measure.h"
#include "tensor_stats/tensor_stats.h"

// Can this recipe be asked about?
bool measure_facts_can(const struct recipes *r, uint32_t recipe);

// Facts of n recipes into out[0..n), in their order, each read once. `multiples`: those of finite
// floats are read once more, up to the first element that is no multiple, to tell `multiples` (else
// false). `options` as for measure_run; a worker holds a buffer of 192 KiB besides. Afterwards the
// sources are checked to be unchanged. ERR_RETRY after a stop.
int measure_facts_run(const struct recipes *r, struct sources *s, const uint32_t *of, uint32_t n,
                      bool multiples, const struct work_options *options, struct tensor_stats *out,
                      struct measure_stats *stats, struct err *err);

#endif
