// How the second moments G = XᵀX of a value lie in a file: X has a row for each time the value was seen (tokens of
// all samples) and K columns, so G is symmetric, K by K. Doubles, little-endian; of the lower triangle alone, cut
// into tiles of 512 by 512, row of tiles by row:
//
//     ┌────┐
//     │ 0  │            tile (r, c), c <= r, is number r (r + 1) / 2 + c
//     ├────┼────┐       elements of a tile lie row by row: element (i, j) of G is (i % 512, j % 512) of it
//     │ 1  │ 2  │       a tile on the diagonal is complete: both of its halves are there, and equal
//     ├────┼────┼──┐    the last row and column of tiles have what is left of K and no more: no gaps
//     │ 3  │ 4  │5 │
//     └────┴────┴──┘
//
// RANGES says for each value where in RANGES.data its tiles begin, at a multiple of 64.
#ifndef WEIR_GRAM_H
#define WEIR_GRAM_H

#include <stdint.h>

enum {
  GRAM_SIDE = 512,   // of a tile
  GRAM_MOST = 16384, // the largest K: 1 GiB of tiles
  GRAM_ALIGN = 64,   // of where a value's tiles begin in a file
};

// How many tiles a row or column of them has.
static inline uint64_t gram_tiles(uint64_t k) {
  return (k + GRAM_SIDE - 1) / GRAM_SIDE;
}

// Rows of the tiles of row r, which are the columns of those of column r.
static inline uint64_t gram_side(uint64_t k, uint64_t r) {
  const uint64_t left = k - r * GRAM_SIDE;
  return left < GRAM_SIDE ? left : GRAM_SIDE;
}

// The number of elements before tile (r, c), c <= r < gram_tiles(k).
static inline uint64_t gram_at(uint64_t k, uint64_t r, uint64_t c) {
  return r * (r + 1) / 2 * GRAM_SIDE * GRAM_SIDE + gram_side(k, r) * c * GRAM_SIDE;
}

// Elements of all tiles.
static inline uint64_t gram_elements(uint64_t k) {
  const uint64_t last = k == 0 ? 0 : gram_tiles(k) - 1;
  return k == 0 ? 0 : gram_at(k, last, last) + gram_side(k, last) * gram_side(k, last);
}

// What tile (r, c) of a factorization that begins with the last row of tiles takes, next to others; and all of them.
static inline uint64_t gram_steps(uint64_t k, uint64_t r, uint64_t c) {
  return gram_side(k, r) * gram_side(k, c) * (gram_tiles(k) - r);
}

static inline uint64_t gram_all_steps(uint64_t k) {
  uint64_t all = 0;
  for (uint64_t r = 0; r < gram_tiles(k); r++)
    for (uint64_t c = 0; c <= r; c++)
      all += gram_steps(k, r, c);
  return all;
}

#endif
