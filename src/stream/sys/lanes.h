// SHA-256 of several streams side by side (kernels_sha256_lanes). Bytes are hashed where they lie.
#ifndef WEIR_LANES_H
#define WEIR_LANES_H

#include "base/digest.h"

enum { LANES_MAX = 4 };

struct lane {
  uint32_t state[8];
  uint64_t length; // of the stream so far
  uint8_t rest[64]; // what does not fill a block yet, from its front on
};

// How many are worth it on this machine. 1: digest.h is as fast, or faster.
size_t lanes_width(void);

void lane_start(struct lane *l);
// Takes bytes for lane[i] from the front of from[i], none of which is empty, for `n` lanes, until at
// least one of these is.
void lanes_add(struct lane *const lane[], struct span from[], size_t n);
void lane_end(struct lane *l, uint8_t out[DIGEST_BYTES]);

#endif
