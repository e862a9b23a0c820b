// SHA-256 of several streams that come piece by piece, side by side (kernels_sha256_lanes).
//
//   lanes_add ──▶ lane_room, lane_put … lane_end ──▶ lanes_take
//                      └──── lanes_hash ────┘
//
// Lanes in use are the first `n`; one that goes is replaced by the last. One thread's.
#ifndef WEIR_LANES_H
#define WEIR_LANES_H

#include "arena.h"
#include "digest.h"

// All buffers of a thread together stay within the second level of its cache.
enum { LANES_MAX = 4, LANE_BYTES = 128 << 10 };

struct lane {
  uint8_t *bytes;  // LANE_BYTES, and room for the end of a stream
  size_t from, to; // those that are not hashed yet
  uint64_t length; // of the stream so far
  bool ended;
};
struct lanes {
  struct lane lane[LANES_MAX];
  uint32_t state[LANES_MAX][8];
  size_t n;
};

// How many are worth it on this machine. 1: digest.h is as fast, or faster.
size_t lanes_width(void);
// Buffers for so many lanes.
void lanes_init(struct lanes *l, size_t width, struct arena *arena);
struct lane *lanes_add(struct lanes *l);

// Is there less than a block to hash, though the stream goes on?
bool lane_is_hungry(const struct lane *lane);
// Where the next bytes of a hungry lane go, and how many there may be; then how many came.
uint8_t *lane_room(struct lane *lane, size_t *n);
void lane_put(struct lane *lane, size_t n);
// No more bytes come: asked of a hungry lane.
void lane_end(struct lane *lane);

// As many blocks of each lane as every lane has.
void lanes_hash(struct lanes *l);
// Has all of lane i been hashed? Then lanes_take gives its digest.
bool lanes_is_done(const struct lanes *l, size_t i);
void lanes_take(struct lanes *l, size_t i, uint8_t out[DIGEST_BYTES]);
void lanes_drop(struct lanes *l, size_t i);

#endif
