// Columns of an operand through the blockwise kernels: error figures of many quantizations at once.
#ifndef WEIR_MEASURE_PANELS_H
#define WEIR_MEASURE_PANELS_H

#include "kernels.h"
#include "measure_reader.h"

enum { MEASURE_PANELS_ROWS = 256 }; // what panels are cut to along k: blocks divide it

// A quantization of an operand.
struct measure_panels_way {
  struct kernels_block_format format;
  bool whole;   // one block: all of k
  uint32_t out; // the caller's
};

// An operand as [outer, k, inner], k being the axis that is cut into blocks. Its columns are
// numbered o * inner + j.
struct measure_panels_operand {
  uint32_t recipe;
  uint32_t width; // bytes of an element
  uint64_t outer, k, inner;
  const struct measure_panels_way *ways;
  uint32_t n_ways, n_whole;
};

// A worker's memory: a panel, and sums for up to most_ways ways. Belongs to the reader.
struct measure_panels;
struct measure_panels *measure_panels_new(struct measure_reader *rd, uint32_t most_ways);

// Figures of columns [first, end) by every way, put together by the tree of figures.h, into
// out[0..n_ways). Every element is read once; twice if there are whole ways. Tells of bytes. 1:
// told to stop.
int measure_panels_columns(struct measure_panels *w, const struct measure_panels_operand *x,
                           uint64_t first, uint64_t end, struct figures *out, struct err *err);

#endif
