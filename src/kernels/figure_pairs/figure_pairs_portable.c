// Room: error figures of pairs: elements, and the values that their stored forms stand for.
//
// A chunk's sums are eight lanes of double; pair number i adds in lane i mod 8, lanes add in order.
// So a chunk may come in any pieces, and by any variant, and gives the same bytes:
//
//   pairs  0 1 2 3 4 5 6 7 │ 8 9 …     first = 3: the piece begins in lane 3
//   lanes  0 1 2 3 4 5 6 7 │ 0 1 …
//
// Where codes come instead of doubles, what they stand for is computed here: the same pairs,
// without a turn through memory.
//
// The largest error is compared, not added: a NaN would get lost there. Pieces with a pair that is
// not finite are refused as a whole, and whoever asked looks what to make of them.
#include "kernels/kernels_table.h"

#include <math.h>

static bool add_one(struct kernels_lanes *s, size_t lane, double v, double w) {
  const double e = v - w, size = fabs(e);
  s->vv[lane] += v * v;
  s->ee[lane] += e * e;
  s->ve[lane] += v * e;
  if (size > s->max_error[lane]) s->max_error[lane] = size;
  return e - e == 0;
}

bool figure_pairs_portable(struct kernels_lanes *sums, size_t first, const double *v,
                           const double *w, size_t n) {
  struct kernels_lanes s = *sums;
  bool finite = true;
  for (size_t i = 0; i < n; i++)
    finite &= add_one(&s, (first + i) % KERNELS_LANES, v[i], w[i]);
  if (finite) *sums = s;
  return finite;
}

static double value_of(uint8_t code, const struct kernels_stored *m) {
  return m->is_unsigned ? ((double)code - m->zero) * m->scale
                        : (double)(int8_t)code * m->scale + m->zero;
}

bool figure_pairs_codes_portable(struct kernels_lanes *sums, size_t first, const float *v,
                                 const uint8_t *codes, size_t n, const struct kernels_stored *m) {
  struct kernels_lanes s = *sums;
  bool finite = true;
  for (size_t i = 0; i < n; i++)
    finite &= add_one(&s, (first + i) % KERNELS_LANES, (double)v[i], value_of(codes[i], m));
  if (finite) *sums = s;
  return finite;
}

void kernels_codes_values(double *out, const uint8_t *codes, size_t n,
                          const struct kernels_stored *m) {
  for (size_t i = 0; i < n; i++)
    out[i] = value_of(codes[i], m);
}

// ---- codes with scales of their own ------------------------------------------------------------

static double value_of_scaled(uint8_t code, size_t i, const struct kernels_scaled *m) {
  const int sign = m->is_signed ? 1 << (m->bits - 1) : 0, mask = (1 << m->bits) - 1;
  const int zero = m->zeros ? m->zeros[i / m->share] : 0;
  return (double)((float)(((code & mask) ^ sign) - sign - zero) * m->scales[i / m->share]);
}

bool figure_pairs_scaled_portable(struct kernels_lanes *sums, size_t first, const float *v,
                                  const uint8_t *codes, size_t n, const struct kernels_scaled *m) {
  struct kernels_lanes s = *sums;
  bool finite = true;
  for (size_t i = 0; i < n; i++)
    finite &=
        add_one(&s, (first + i) % KERNELS_LANES, (double)v[i], value_of_scaled(codes[i], i, m));
  if (finite) *sums = s;
  return finite;
}

void kernels_scaled_values(double *out, const uint8_t *codes, size_t n,
                           const struct kernels_scaled *m) {
  for (size_t i = 0; i < n; i++)
    out[i] = value_of_scaled(codes[i], i, m);
}
