// What an error of a weight costs the output of the node that multiplies with it.
#ifndef WEIR_OUTPUT_ERROR_H
#define WEIR_OUTPUT_ERROR_H

#include <math.h>
#include <stdint.h>

// W is the weight, E what its stored form is off by, G the second moments of the value that W is multiplied with.
struct output_error {
  double signal; // tr(WᵀGW): the squared output
  double error;  // tr(EᵀGE): its squared error
  double plain;  // tr(WᵀW)
  // Elements of W, or of what is stored, that are NaN or infinite: counted as 0 in the sums.
  uint64_t nonfinite;
};

// 10 log10(signal / error). INFINITY without an error; NaN where elements are not finite.
static inline double output_error_db(double signal, double error, uint64_t nonfinite) {
  if (nonfinite > 0) return (double)NAN;
  return error > 0 ? 10 * log10(signal / error) : (double)INFINITY;
}

#endif
