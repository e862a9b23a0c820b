// Error figures of pairs: elements and what their stored forms stand for.
//
// A chunk's sums are eight lanes of double; pair number i adds in lane i mod 8, lanes add in order. So
// a chunk may come in any pieces, and by any variant, and gives the same bytes:
//
//   pairs  0 1 2 3 4 5 6 7 │ 8 9 …     first = 3: the piece begins in lane 3
//   lanes  0 1 2 3 4 5 6 7 │ 0 1 …
//
// The largest error is compared, not added: a NaN would get lost there. Pieces with a pair that is not finite
// are refused as a whole, and whoever asked looks what to make of them.
#include "kernels_table.h"

#include <math.h>

static bool add_one(struct kernels_lanes *s, size_t lane, double v, double w) {
  const double e = v - w, size = fabs(e);
  s->vv[lane] += v * v;
  s->ee[lane] += e * e;
  s->ve[lane] += v * e;
  if (size > s->max_error[lane]) s->max_error[lane] = size;
  return e - e == 0;
}

bool pairs_portable(struct kernels_lanes *sums, size_t first, const double *v, const double *w,
                    size_t n) {
  struct kernels_lanes s = *sums;
  bool finite = true;
  for (size_t i = 0; i < n; i++)
    finite &= add_one(&s, (first + i) % KERNELS_LANES, v[i], w[i]);
  if (finite) *sums = s;
  return finite;
}
