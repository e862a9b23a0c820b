// Sums and logarithms with NumPy's bits, where those of the C library, or another order, would be others.
#ifndef WEIR_RANGE_NUMPY_H
#define WEIR_RANGE_NUMPY_H

#include <stdbool.h>
#include <stdint.h>

// The sum of n numbers along a contiguous axis; `single`: they are float32, and so is every step.
double range_numpy_sum(const double *x, uint32_t n, bool single);
// The natural logarithm of a normal float32 above 0.
float range_numpy_log(float x);

#endif
