// The kernel takes the same number of blocks of each stream, so a turn hashes what the stream with the
// least has. What does not fill a block is kept in the lane, in front of the bytes that come next; a
// stream's end (FIPS 180-4, 5.1.1: a bit, zeros, the length) is hashed behind it.
#include "stream/sys/lanes.h"

#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

enum { BLOCK = 64, END = 9 };

size_t lanes_width(void) {
  const size_t width = kernels_sha256_width();
  return width < LANES_MAX ? width : LANES_MAX;
}

void lane_start(struct lane *l) {
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(l->state, initial, sizeof initial);
  l->length = 0;
}

static void compress(struct lane *const lane[], const uint8_t *const at[], size_t n,
                     size_t blocks) {
  uint32_t state[LANES_MAX][8];
  for (size_t i = 0; i < n; i++)
    memcpy(state[i], lane[i]->state, sizeof state[i]);
  kernels_sha256_lanes(state, at, n, blocks);
  for (size_t i = 0; i < n; i++)
    memcpy(lane[i]->state, state[i], sizeof state[i]);
}

static void skip(struct span *from, size_t n) {
  *from = span_of(from->at + n, from->n - n);
}

// Bytes behind what is kept already, to the end of a block at most.
static void keep(struct lane *l, struct span *from) {
  const size_t has = l->length % BLOCK, n = (size_t)min_u64(BLOCK - has, from->n);
  memcpy(l->rest + has, from->at, n);
  skip(from, n);
  l->length += n;
  if (has + n == BLOCK) compress(&l, (const uint8_t *[]){l->rest}, 1, 1);
}

void lanes_add(struct lane *const lane[], struct span from[], size_t n) {
  const uint8_t *at[LANES_MAX];
  size_t blocks = SIZE_MAX;
  bool spent = false;
  assert(n > 0 && n <= LANES_MAX);
  for (size_t i = 0; i < n; i++) {
    assert(from[i].n > 0);
    if (lane[i]->length % BLOCK > 0 || from[i].n < BLOCK) keep(lane[i], &from[i]);
    spent = spent || from[i].n == 0;
    at[i] = from[i].at;
    blocks = (size_t)min_u64(blocks, from[i].n / BLOCK);
  }
  if (spent) return;
  if (blocks > 0) compress(lane, at, n, blocks);
  for (size_t i = 0; i < n; i++) {
    skip(&from[i], blocks * BLOCK);
    lane[i]->length += blocks * BLOCK;
    if (from[i].n > 0 && from[i].n < BLOCK) keep(lane[i], &from[i]);
  }
}

void lane_end(struct lane *l, uint8_t out[DIGEST_BYTES]) {
  const size_t has = l->length % BLOCK, whole = has + END > BLOCK ? 2 * BLOCK : BLOCK;
  uint8_t last[2 * BLOCK] = {0};
  memcpy(last, l->rest, has);
  last[has] = 0x80;
  for (size_t i = 0; i < 8; i++)
    last[whole - 1 - i] = (uint8_t)(l->length * 8 >> 8 * i);
  compress(&l, (const uint8_t *[]){last}, 1, whole / BLOCK);
  for (size_t k = 0; k < DIGEST_BYTES; k++)
    out[k] = (uint8_t)(l->state[k / 4] >> (24 - k % 4 * 8));
}
