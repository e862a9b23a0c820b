// Inside the room: the vectors of figure_pairs_lanes.h, and where whole turns of the lanes lie.
#ifndef WEIR_FIGURE_PAIRS_H
#define WEIR_FIGURE_PAIRS_H

#include "kernels/kernels_table.h"

// Of so many bytes (types that only a typedef can name): doubles, and as many floats.
#define FIGURE_PAIRS_LANES(bytes)                                                                  \
  enum { STEP = (bytes) / 8, VECTORS = KERNELS_LANES / STEP };                                     \
  typedef double lanes __attribute__((vector_size(bytes)));                                        \
  typedef float narrow_lanes __attribute__((vector_size((bytes) / 2)))

struct figure_pairs_cut {
  size_t head, whole, behind; // pairs before, pairs in turns, number of the first one behind
};

// Of n pairs, the first of them number `first` of the chunk.
static inline struct figure_pairs_cut figure_pairs_cut(size_t first, size_t n) {
  const size_t to_turn = (KERNELS_LANES - first % KERNELS_LANES) % KERNELS_LANES;
  const size_t head = to_turn < n ? to_turn : n;
  const size_t whole = (n - head) / KERNELS_LANES * KERNELS_LANES;
  return (struct figure_pairs_cut){head, whole, head + whole};
}

// The same of codes that share scales: none are whole where a turn of the lanes would have several scales
// that do not lie side by side.
static inline struct figure_pairs_cut figure_pairs_cut_scaled(size_t first, size_t n,
                                                              const struct kernels_scaled *m) {
  const struct figure_pairs_cut c = figure_pairs_cut(first, n);
  if (m->share == 1 || (m->share % KERNELS_LANES == 0 && c.head == 0)) return c;
  return (struct figure_pairs_cut){n, 0, n};
}

// Of the codes from number i on, which begins a share.
static inline struct kernels_scaled figure_pairs_scaled_from(const struct kernels_scaled *m,
                                                             size_t i) {
  struct kernels_scaled from = *m;
  from.scales += i / m->share;
  if (m->zeros) from.zeros += i / m->share;
  return from;
}

#endif
