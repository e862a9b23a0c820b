// What was seen of a tensor's elements to tell whether others are equal: digests of a sample, and of
// all of them where the sample was like another's.
#ifndef WEIR_CONTENT_HASH_H
#define WEIR_CONTENT_HASH_H

#include "base/digest.h"

// Up to so many bytes the sample is the whole.
enum { CONTENT_HASH_SAMPLE_BYTES = 64 << 10 };

struct content_hash {
  uint8_t sample[DIGEST_BYTES];
  uint8_t all[DIGEST_BYTES];
  bool whole; // `all` is known; if not, no other one was like it
};

#endif
