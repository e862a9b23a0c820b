// Room: second moments: sums of products in double, one fused multiply-add after the other.
//
// fma() rounds once, by hand where the processor has no such instruction, so the bytes are those of the vectors. It
// is a call for each step: what runs here runs on machines without AVX2 alone.
//
// The order of the steps of an element is that of k. No other order is needed by anybody: rows and columns of the
// sums can be cut freely, and are, by whoever has less memory than the matrices take.
#include "kernels/kernels_table.h"

#include <math.h>

static double element(const struct kernels_factor *f, size_t i, size_t k) {
  const size_t at = i * f->along + k * f->deep;
  return f->is_double ? ((const double *)f->at)[at] : (double)((const float *)f->at)[at];
}

void gram_products_portable(double *c, size_t stride, const struct kernels_products *p,
                            void *scratch) {
  (void)scratch;
  for (size_t i = 0; i < p->rows; i++)
    for (size_t k = 0; k < p->depth; k++) {
      const double x = element(&p->a, i, k), a = p->subtract ? -x : x;
      for (size_t j = 0; j < p->columns; j++)
        c[i * stride + j] = fma(a, element(&p->b, j, k), c[i * stride + j]);
    }
}

void gram_add_scaled_portable(double *y, const double *x, double a, size_t n) {
  for (size_t i = 0; i < n; i++)
    y[i] = fma(a, x[i], y[i]);
}
