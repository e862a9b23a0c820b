// Inside gram_<isa>.c: sums of products for any width of vectors. A block of the sums, ROWS by WIDE vectors, stays in
// registers while all of a depth goes by:
//
//            k ─▶                         strips of b: STRIP columns, as they come for each k
//          ┌───────┐                        k=0 b b b b │ k=1 b b b b │ …
//     ROWS │ a     │  ×  b  ─▶ c          strips of a: ROWS rows, the same
//          └───────┘
//
// Both matrices are first copied into strips, as doubles (a with its sign turned, to subtract): DEPTH steps and
// ALONG rows of a, DEPTH steps and ACROSS columns of b at a time, which stay in the caches of the core. Rows and
// columns that are missing are zeros there, and their sums are thrown away.
//
// Before including this a file says LANES_TARGET, a function attribute; ROWS, WIDE; and gives the type `lanes` of
// STEP doubles and, as functions, lanes load(at), void store(at, x), lanes all(x), lanes fused(a, b, c): a * b + c,
// rounded once.
#ifndef WEIR_GRAM_LANES_H
#define WEIR_GRAM_LANES_H

#include "kernels/kernels_table.h"

#include <assert.h>
#include <string.h>

enum { DEPTH = 256, ALONG = 120, ACROSS = 528, STRIP = WIDE * STEP };
static_assert(ALONG % ROWS == 0 && ACROSS % STRIP == 0, "whole strips");
static_assert(8 * DEPTH * (ALONG + ACROSS) <= KERNELS_PRODUCTS_SCRATCH, "strips fit");

#define LANES_INLINE static inline __attribute__((always_inline)) LANES_TARGET

// Strips of `each` of n rows of f from row `first` on, steps [k, k + depth).
LANES_INLINE void pack_as(double *out, const struct kernels_factor *f, bool is_double, bool turned,
                          size_t first, size_t n, size_t k, size_t depth, size_t each) {
  const double sign = turned ? -1 : 1;
  for (size_t s = 0; s < n; s += each, out += each * depth) {
    const size_t some = n - s < each ? n - s : each;
    if (some < each) memset(out, 0, each * depth * sizeof *out);
    // Along what lies side by side, so that lines are read once.
    if (f->along == 1) {
      for (size_t d = 0; d < depth; d++) {
        const size_t at = first + s + (k + d) * f->deep;
        for (size_t i = 0; i < some; i++)
          out[d * each + i] = sign * (is_double ? ((const double *)f->at)[at + i]
                                                : (double)((const float *)f->at)[at + i]);
      }
      continue;
    }
    for (size_t i = 0; i < some; i++) {
      const size_t at = (first + s + i) * f->along + k * f->deep;
      for (size_t d = 0; d < depth; d++)
        out[d * each + i] = sign * (is_double ? ((const double *)f->at)[at + d * f->deep]
                                              : (double)((const float *)f->at)[at + d * f->deep]);
    }
  }
}

LANES_INLINE void pack(double *out, const struct kernels_factor *f, bool turned, size_t first,
                       size_t n, size_t k, size_t depth, size_t each) {
  if (f->is_double)
    pack_as(out, f, true, turned, first, n, k, depth, each);
  else
    pack_as(out, f, false, turned, first, n, k, depth, each);
}

// ROWS by STRIP sums.
LANES_INLINE void block(double *c, size_t stride, const double *a, const double *b, size_t depth) {
  lanes sums[ROWS][WIDE];
#pragma GCC unroll 8
  for (size_t i = 0; i < ROWS; i++)
#pragma GCC unroll 8
    for (size_t j = 0; j < WIDE; j++)
      sums[i][j] = load(c + i * stride + j * STEP);
  for (size_t k = 0; k < depth; k++, a += ROWS, b += STRIP) {
    lanes x[WIDE];
#pragma GCC unroll 8
    for (size_t j = 0; j < WIDE; j++)
      x[j] = load(b + j * STEP);
#pragma GCC unroll 8
    for (size_t i = 0; i < ROWS; i++) {
      const lanes y = all(a[i]);
#pragma GCC unroll 8
      for (size_t j = 0; j < WIDE; j++)
        sums[i][j] = fused(y, x[j], sums[i][j]);
    }
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < ROWS; i++)
#pragma GCC unroll 8
    for (size_t j = 0; j < WIDE; j++)
      store(c + i * stride + j * STEP, sums[i][j]);
}

// The same of a block that is cut short: `rows` by `columns` of it are there.
LANES_INLINE void edge(double *c, size_t stride, const double *a, const double *b, size_t depth,
                       size_t rows, size_t columns) {
  double some[ROWS * STRIP] = {0};
  for (size_t i = 0; i < rows; i++)
    memcpy(some + i * STRIP, c + i * stride, columns * sizeof *c);
  block(some, STRIP, a, b, depth);
  for (size_t i = 0; i < rows; i++)
    memcpy(c + i * stride, some + i * STRIP, columns * sizeof *c);
}

LANES_INLINE size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

// All blocks of `rows` rows and `columns` columns that strips hold.
LANES_INLINE void blocks(double *c, size_t stride, const double *a, const double *b, size_t depth,
                         size_t rows, size_t columns) {
  for (size_t j = 0; j < columns; j += STRIP)
    for (size_t i = 0; i < rows; i += ROWS) {
      const size_t n = least(STRIP, columns - j), m = least(ROWS, rows - i);
      double *at = c + i * stride + j;
      if (m == ROWS && n == STRIP)
        block(at, stride, a + i * depth, b + j * depth, depth);
      else
        edge(at, stride, a + i * depth, b + j * depth, depth, m, n);
    }
}

LANES_INLINE void products(double *c, size_t stride, const struct kernels_products *p,
                           double *scratch) {
  double *a = scratch, *b = scratch + DEPTH * ALONG;
  for (size_t j = 0; j < p->columns; j += ACROSS)
    for (size_t k = 0; k < p->depth; k += DEPTH) {
      const size_t columns = least(ACROSS, p->columns - j), depth = least(DEPTH, p->depth - k);
      pack(b, &p->b, false, j, columns, k, depth, STRIP);
      for (size_t i = 0; i < p->rows; i += ALONG) {
        const size_t rows = least(ALONG, p->rows - i);
        pack(a, &p->a, p->subtract, i, rows, k, depth, ROWS);
        blocks(c + i * stride + j, stride, a, b, depth, rows, columns);
      }
    }
}

LANES_INLINE void add_scaled(double *y, const double *x, double a, size_t n) {
  const lanes by = all(a);
  size_t i = 0;
  for (; i + STEP <= n; i += STEP)
    store(y + i, fused(by, load(x + i), load(y + i)));
  if (i == n) return;
  double some[2][STEP] = {{0}};
  memcpy(some[0], x + i, (n - i) * sizeof *x);
  memcpy(some[1], y + i, (n - i) * sizeof *y);
  store(some[1], fused(by, load(some[0]), load(some[1])));
  memcpy(y + i, some[1], (n - i) * sizeof *y);
}

// The functions of a variant.
#define GRAM(isa)                                                                                  \
  LANES_TARGET void gram_products_##isa(double *c, size_t stride,                                  \
                                        const struct kernels_products *p, void *scratch) {         \
    products(c, stride, p, scratch);                                                               \
  }                                                                                                \
  LANES_TARGET void gram_add_scaled_##isa(double *y, const double *x, double a, size_t n) {        \
    add_scaled(y, x, a, n);                                                                        \
  }

#endif
