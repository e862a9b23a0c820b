// Arrays from one file's content in memory, by the readers of array_files.h: feed_of and space_of are what they
// are given.
#ifndef WEIR_FUZZED_ARRAY_H
#define WEIR_FUZZED_ARRAY_H

#include "verify/arrays/inside/array_formats.h"

static inline struct feed feed_of(const uint8_t *data, size_t size) {
  return (struct feed){.path = "content", .at = data ? data : (const uint8_t *)"", .len = size};
}

static inline struct space space_of(uint64_t most, struct arena *a) {
  return (struct space){.a = a, .most = most, .left = most, .memory = FEED_MEMORY};
}

#endif
