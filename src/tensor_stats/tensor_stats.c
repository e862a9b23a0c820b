// Facts of parts of a tensor are joined in any order: counts are added, extremes compared, and what
// holds of all must hold of each. So they do not depend on who read which part.
#include "tensor_stats/tensor_stats.h"

#include <math.h>

struct tensor_stats tensor_stats_none(bool square) {
  return (struct tensor_stats){.least = (double)INFINITY,
                        .most = -(double)INFINITY,
                        .finest = (double)INFINITY,
                        .alike = true,
                        .identity = square};
}

void tensor_stats_join(struct tensor_stats *to, const struct tensor_stats *more) {
  to->elements += more->elements;
  to->zeros += more->zeros;
  to->nans += more->nans;
  to->infinities += more->infinities;
  if (more->least < to->least) to->least = more->least;
  if (more->most > to->most) to->most = more->most;
  if (more->finest < to->finest) to->finest = more->finest;
  to->alike = to->alike && more->alike;
  to->identity = to->identity && more->identity;
}

bool tensor_stats_multiple(double x, double u) {
  const double quotient = x / u, whole = nearbyint(quotient), size = fabs(whole);
  return size <= 1 << 24 && fabs(quotient - whole) <= fmin(1e-6 * size, 0.125);
}
