// Inside the room: the vectors of figure_pairs_lanes.h.
#ifndef WEIR_FIGURE_PAIRS_H
#define WEIR_FIGURE_PAIRS_H

#include "kernels_table.h"

// Of so many bytes (types that only a typedef can name): doubles, and as many floats.
#define FIGURE_PAIRS_LANES(bytes)                                                                  \
  enum { STEP = (bytes) / 8, VECTORS = KERNELS_LANES / STEP };                                     \
  typedef double lanes __attribute__((vector_size(bytes)));                                        \
  typedef float narrow_lanes __attribute__((vector_size((bytes) / 2)))

#endif
