// Room: reductions: sums, products, extremes and sums of squares of many elements. Their order
// depends on nothing but the number of elements, so that every machine and every way of cutting the
// work give the same bytes.
//
// What is reduced is `columns` independent columns at once: rows of `columns` elements, one below
// the other. One column is a vector. A column of K elements is cut into chunks of 4096 (the last
// one shorter); element i of a chunk goes to lane i mod 8, in order of i; lanes are put together as
// ((0+4)+(2+6))+((1+5)+(3+7)), and so are two neighbouring chunks, two pairs of chunks, and so on;
// what is left at the end without a neighbour joins the tree to its left, smallest first:
//
//   elements ──rows──▶ 8 lanes ──close──▶ partial of a chunk ──push──▶ tree ──finish──▶ result
//
// So a column of a matrix and the same numbers as a vector give the same.
//
//   operation     floats (in double)                   integers (64 bits, wrapping)    of no elements
//   SUM           sums, from +0: never -0              sum                             0
//   PROD          products                             product                         1
//   LEAST MOST    NaN if any is; -0 is below +0        signed or unsigned, as the      infinities;
//                                                      type                            extremes of 64 bits
//   SUM_SQUARES   sums of squares                      sum of squares                  0
//
// Floats (every type of kernels_convert.h that is one) are widened to double exactly; a square is
// rounded to double. bool counts as uint8. A NaN in a partial or result is the positive quiet one.
// The caller turns results into its type (kernels_convert), and divides them for a mean.
//
// Partials and results are double, int64 or uint64, 8 bytes each, in arrays of `columns`; lanes are
// 8 such arrays. These are aligned to 8 bytes; elements need no alignment.
#ifndef WEIR_KERNELS_REDUCE_H
#define WEIR_KERNELS_REDUCE_H

#include "base/dtype.h"

enum kernels_reduce {
  KERNELS_SUM,
  KERNELS_PROD,
  KERNELS_LEAST,
  KERNELS_MOST,
  KERNELS_SUM_SQUARES,
  KERNELS_REDUCES
};
enum { KERNELS_REDUCE_CHUNK = 4096, KERNELS_REDUCE_LANES = 8 };

struct kernels_reduction {
  uint8_t op;   // enum kernels_reduce
  uint8_t type; // enum dtype of the elements: one that kernels_convert takes
  size_t columns;
};

// The type of partials and results: DTYPE_DOUBLE, DTYPE_INT64 or DTYPE_UINT64.
enum dtype kernels_reduce_type(enum dtype type);

// Sets lanes (8 * columns) to those of no elements.
void kernels_reduce_begin(const struct kernels_reduction *r, void *lanes);
// Adds `rows` rows, the first of them number `first` of the chunk; in_stride elements from one row
// to the next. A chunk may come in any pieces of rows; columns in any stripes (a reduction for
// each).
void kernels_reduce_rows(const struct kernels_reduction *r, void *lanes, size_t first,
                         const void *in, size_t in_stride, size_t rows);
// The partial of a chunk; leaves the lanes undefined.
void kernels_reduce_close(const struct kernels_reduction *r, void *partial, void *lanes);

// The tree: `levels` holds this many arrays of partials for chunks of so many elements a column.
unsigned kernels_reduce_levels(uint64_t elements);
// Puts the partial of chunk number `chunk` (0, 1, 2, …) into the tree: of the levels, those whose
// bit is set in chunk + 1 are in use afterwards: complete trees of 2^level chunks. Leaves the
// partial undefined.
void kernels_reduce_push(const struct kernels_reduction *r, void *levels, uint64_t chunk,
                         void *partial);
// The result of a tree of so many chunks.
void kernels_reduce_finish(const struct kernels_reduction *r, void *out, const void *levels,
                           uint64_t chunks);

#endif
