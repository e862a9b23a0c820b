// A reduction of n elements that lie in memory, as kernels_reduce.h defines it: one column, chunk by
// chunk, for tests of what cuts the work otherwise.
#ifndef WEIR_TEST_REDUCE_REFERENCE_H
#define WEIR_TEST_REDUCE_REFERENCE_H

#include "kernels/convert/kernels_convert.h"
#include "kernels/reduce/kernels_reduce.h"

static inline void reduce_reference(void *out, const uint8_t *in, uint64_t n,
                                    enum kernels_reduce op, enum dtype type) {
  const struct kernels_reduction k = {.op = (uint8_t)op, .type = (uint8_t)type, .columns = 1};
  const struct kernels_cast c = {.from = (uint8_t)kernels_reduce_type(type), .to = (uint8_t)type};
  uint64_t lanes[KERNELS_REDUCE_LANES], partial, levels[64], result, chunk = 0;
  for (uint64_t at = 0; at < n; at += KERNELS_REDUCE_CHUNK, chunk++) {
    const uint64_t rows = min_u64(KERNELS_REDUCE_CHUNK, n - at);
    kernels_reduce_begin(&k, lanes);
    kernels_reduce_rows(&k, lanes, 0, in + at * (dtype_bits(type) / 8), 1, (size_t)rows);
    kernels_reduce_close(&k, &partial, lanes);
    kernels_reduce_push(&k, levels, chunk, &partial);
  }
  kernels_reduce_finish(&k, &result, levels, chunk);
  kernels_convert(out, &result, 1, &c);
}

#endif
