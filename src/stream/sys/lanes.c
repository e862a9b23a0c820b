// SHA-256 of several streams side by side.
//
// The kernel takes the same number of blocks of each stream, so every turn hashes what the lane with the
// least has. What does not fill a block stays in front of the next bytes; a stream's end (FIPS 180-4,
// 5.1.1: a bit, zeros, the length) is written behind its last bytes and is hashed like them.
#include "lanes.h"

#include "kernels.h"

#include <assert.h>
#include <string.h>

enum { BLOCK = 64, END = 9, PADDED = 2 * BLOCK }; // a rest of less than a block, and its end

size_t lanes_width(void) {
  const size_t width = kernels_sha256_width();
  return width < LANES_MAX ? width : LANES_MAX;
}

void lanes_init(struct lanes *l, size_t width, struct arena *arena) {
  assert(width <= LANES_MAX);
  l->n = 0;
  for (size_t i = 0; i < width; i++)
    l->lane[i].bytes = arena_alloc(arena, LANE_BYTES + PADDED);
}

struct lane *lanes_add(struct lanes *l) {
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  assert(l->n < LANES_MAX);
  struct lane *lane = &l->lane[l->n];
  memcpy(l->state[l->n++], initial, sizeof initial);
  *lane = (struct lane){.bytes = lane->bytes};
  return lane;
}

bool lane_is_hungry(const struct lane *lane) {
  return !lane->ended && lane->to - lane->from < BLOCK;
}

uint8_t *lane_room(struct lane *lane, size_t *n) {
  assert(lane_is_hungry(lane));
  lane->to -= lane->from;
  memmove(lane->bytes, lane->bytes + lane->from, lane->to);
  lane->from = 0;
  *n = LANE_BYTES - lane->to;
  return lane->bytes + lane->to;
}

void lane_put(struct lane *lane, size_t n) {
  assert(n <= LANE_BYTES - lane->to);
  lane->to += n;
  lane->length += n;
}

void lane_end(struct lane *lane) {
  size_t n;
  uint8_t *at = lane_room(lane, &n);
  const size_t whole = (lane->to + END + BLOCK - 1) / BLOCK * BLOCK;
  memset(at, 0, whole - lane->to);
  at[0] = 0x80;
  for (size_t i = 0; i < 8; i++)
    lane->bytes[whole - 1 - i] = (uint8_t)(lane->length * 8 >> 8 * i);
  lane->to = whole;
  lane->ended = true;
}

void lanes_hash(struct lanes *l) {
  const uint8_t *at[LANES_MAX];
  size_t blocks = SIZE_MAX;
  for (size_t i = 0; i < l->n; i++) {
    const struct lane *lane = &l->lane[i];
    const size_t has = (lane->to - lane->from) / BLOCK;
    at[i] = lane->bytes + lane->from;
    if (has < blocks) blocks = has;
  }
  if (l->n == 0 || blocks == 0) return;
  kernels_sha256_lanes(l->state, at, l->n, blocks);
  for (size_t i = 0; i < l->n; i++)
    l->lane[i].from += blocks * BLOCK;
}

bool lanes_is_done(const struct lanes *l, size_t i) {
  return l->lane[i].ended && l->lane[i].from == l->lane[i].to;
}

void lanes_take(struct lanes *l, size_t i, uint8_t out[DIGEST_BYTES]) {
  assert(lanes_is_done(l, i));
  for (size_t k = 0; k < DIGEST_BYTES; k++)
    out[k] = (uint8_t)(l->state[i][k / 4] >> (24 - k % 4 * 8));
  lanes_drop(l, i);
}

void lanes_drop(struct lanes *l, size_t i) {
  const struct lane gone = l->lane[i];
  l->n--;
  l->lane[i] = l->lane[l->n];
  l->lane[l->n] = gone; // for its buffer
  memcpy(l->state[i], l->state[l->n], sizeof l->state[i]);
}
