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
#ifndef WEIR_SECOND_MOMENTS_H
#define WEIR_SECOND_MOMENTS_H

#include <stdint.h>

enum {
  SECOND_MOMENTS_SIDE = 512,   // of a tile
  SECOND_MOMENTS_MOST = 16384, // the largest K: 1 GiB of tiles
  SECOND_MOMENTS_ALIGN = 64,   // of where a value's tiles begin in a file
};

// How many tiles a row or column of them has.
static inline uint64_t second_moments_tiles(uint64_t k) {
  return (k + SECOND_MOMENTS_SIDE - 1) / SECOND_MOMENTS_SIDE;
}

// Rows of the tiles of row r, which are the columns of those of column r.
static inline uint64_t second_moments_side(uint64_t k, uint64_t r) {
  const uint64_t left = k - r * SECOND_MOMENTS_SIDE;
  return left < SECOND_MOMENTS_SIDE ? left : SECOND_MOMENTS_SIDE;
}

// The number of elements before tile (r, c), c <= r < second_moments_tiles(k).
static inline uint64_t second_moments_at(uint64_t k, uint64_t r, uint64_t c) {
  return r * (r + 1) / 2 * SECOND_MOMENTS_SIDE * SECOND_MOMENTS_SIDE +
         second_moments_side(k, r) * c * SECOND_MOMENTS_SIDE;
}

// Elements of all tiles.
static inline uint64_t second_moments_elements(uint64_t k) {
  const uint64_t last = k == 0 ? 0 : second_moments_tiles(k) - 1;
  return k == 0 ? 0
                : second_moments_at(k, last, last) +
                      second_moments_side(k, last) * second_moments_side(k, last);
}

// What tile (r, c) of a factorization that begins with the last row of tiles takes, next to others; and all of them.
static inline uint64_t second_moments_steps(uint64_t k, uint64_t r, uint64_t c) {
  return second_moments_side(k, r) * second_moments_side(k, c) * (second_moments_tiles(k) - r);
}

static inline uint64_t second_moments_all_steps(uint64_t k) {
  uint64_t all = 0;
  for (uint64_t r = 0; r < second_moments_tiles(k); r++)
    for (uint64_t c = 0; c <= r; c++)
      all += second_moments_steps(k, r, c);
  return all;
}

#endif
