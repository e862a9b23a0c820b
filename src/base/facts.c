// Facts of parts of a tensor are joined in any order: counts are added, extremes compared, and what
// holds of all must hold of each. So they do not depend on who read which part.
#include "facts.h"

#include <math.h>

struct facts facts_none(bool square) {
  return (struct facts){.least = (double)INFINITY,
                        .most = -(double)INFINITY,
                        .finest = (double)INFINITY,
                        .alike = true,
                        .identity = square};
}

void facts_join(struct facts *to, const struct facts *more) {
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

bool facts_multiple(double x, double u) {
  const double quotient = x / u, whole = nearbyint(quotient), size = fabs(whole);
  return size <= 1 << 24 && fabs(quotient - whole) <= fmin(1e-6 * size, 0.125);
}
