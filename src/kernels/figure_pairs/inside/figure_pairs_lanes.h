// Inside figure_pairs_<isa>.c: error figures of pairs, for vectors narrower than the eight lanes of a
// chunk, which are VECTORS vectors of doubles. What comes before the first whole turn of the lanes and
// behind the last one goes through the portable code:
//
//   first = 3, n = 23    │ . . . 0 1 2 3 4 │ 5 … 12 │ 13 … 20 │ 21 22 . . . . . . │
//                          head              whole turns        behind
//
// Nothing is fused, so that every lane gets the bytes of the portable reference.
//
// That a pair is not finite shows in the sums: e * e is then no number either. Sums can get there
// with pairs that are finite, too, so it is left to the portable code to find out which it was. So
// the maximum need not pass over NaN, as the portable comparison does.
//
// Before including this a file says LANES_TARGET, a function attribute, and FIGURE_PAIRS_LANES of
// its vectors' bytes; and gives, as functions, what the vector types of GCC and Clang have no
// operator for:
//
//   lanes farther(e, most)                the larger of |e| and most
//   void widen(out, codes, is_unsigned)   eight codes as VECTORS vectors of doubles
#ifndef WEIR_FIGURE_PAIRS_LANES_H
#define WEIR_FIGURE_PAIRS_LANES_H

#include "kernels/figure_pairs/inside/figure_pairs.h"

#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline)) LANES_TARGET

struct sums {
  lanes vv, ee, ve, most;
};

LANES_INLINE lanes load(const double *at) {
  lanes x;
  memcpy(&x, at, sizeof x);
  return x;
}

LANES_INLINE narrow_lanes load_floats(const float *at) {
  narrow_lanes x;
  memcpy(&x, at, sizeof x);
  return x;
}

LANES_INLINE void load_sums(struct sums *s, const struct kernels_lanes *from) {
#pragma GCC unroll 4
  for (size_t k = 0, at = 0; k < VECTORS; k++, at += STEP)
    s[k] = (struct sums){load(from->vv + at), load(from->ee + at), load(from->ve + at),
                         load(from->max_error + at)};
}

// False if sums are not finite.
LANES_INLINE bool store_sums(struct kernels_lanes *to, const struct sums *s) {
  bool finite = true;
#pragma GCC unroll 4
  for (size_t k = 0, at = 0; k < VECTORS; k++, at += STEP) {
    memcpy(to->vv + at, &s[k].vv, sizeof(lanes));
    memcpy(to->ee + at, &s[k].ee, sizeof(lanes));
    memcpy(to->ve + at, &s[k].ve, sizeof(lanes));
    memcpy(to->max_error + at, &s[k].most, sizeof(lanes));
  }
  for (size_t i = 0; i < KERNELS_LANES; i++)
    finite &= to->ee[i] - to->ee[i] == 0;
  return finite;
}

LANES_INLINE void add(struct sums *s, lanes v, lanes w) {
  const lanes e = v - w;
  s->vv += v * v;
  s->ee += e * e;
  s->ve += v * e;
  s->most = farther(e, s->most);
}

LANES_INLINE bool turns(struct kernels_lanes *sums, const double *v, const double *w, size_t n) {
  struct sums s[VECTORS];
  load_sums(s, sums);
  for (size_t i = 0; i < n; i += KERNELS_LANES)
#pragma GCC unroll 4
    for (size_t k = 0; k < VECTORS; k++)
      add(&s[k], load(v + i + k * STEP), load(w + i + k * STEP));
  return store_sums(sums, s);
}

LANES_INLINE bool turns_of_codes(struct kernels_lanes *sums, const float *v, const uint8_t *codes,
                                 size_t n, const struct kernels_stored *m, bool is_unsigned) {
  struct sums s[VECTORS];
  lanes scale, zero;
  for (size_t i = 0; i < STEP; i++) {
    scale[i] = m->scale;
    zero[i] = m->zero;
  }
  load_sums(s, sums);
  for (size_t i = 0; i < n; i += KERNELS_LANES) {
    lanes code[VECTORS];
    widen(code, codes + i, is_unsigned);
#pragma GCC unroll 4
    for (size_t k = 0; k < VECTORS; k++) {
      add(&s[k], __builtin_convertvector(load_floats(v + i + k * STEP), lanes),
          is_unsigned ? (code[k] - zero) * scale : code[k] * scale + zero);
    }
  }
  return store_sums(sums, s);
}

// Codes with scales of their own: `share` is 1, or n codes begin with a share. A code less its zero
// point is found in double and multiplied in float, where both are exact.
LANES_INLINE bool turns_of_scaled(struct kernels_lanes *sums, const float *v, const uint8_t *codes,
                                  size_t n, const struct kernels_scaled *m, bool each) {
  const uint64_t every = 0x0101010101010101, sign = m->is_signed ? 1u << (m->bits - 1) : 0;
  const uint64_t mask = ((1u << m->bits) - 1) * every, flip = sign * every;
  struct sums s[VECTORS];
  load_sums(s, sums);
  for (size_t i = 0; i < n; i += KERNELS_LANES) {
    const size_t at = each ? i : i / m->share;
    lanes code[VECTORS], less[VECTORS] = {0};
    uint64_t eight;
    memcpy(&eight, codes + i, sizeof eight);
    eight = (eight & mask) ^ flip; // the sign bit is taken away again below
    widen(code, (const uint8_t *)&eight, true);
    if (each && m->zeros) widen(less, m->zeros + i, true);
    const double all = (double)sign + (each || !m->zeros ? 0 : m->zeros[at]);
#pragma GCC unroll 4
    for (size_t k = 0; k < VECTORS; k++) {
      const narrow_lanes x = __builtin_convertvector(code[k] - less[k] - all, narrow_lanes);
      const narrow_lanes w = each ? x * load_floats(m->scales + i + k * STEP) : x * m->scales[at];
      add(&s[k], __builtin_convertvector(load_floats(v + i + k * STEP), lanes),
          __builtin_convertvector(w, lanes));
    }
  }
  return store_sums(sums, s);
}

LANES_INLINE bool pairs(struct kernels_lanes *sums, size_t first, const double *v, const double *w,
                        size_t n) {
  struct kernels_lanes s = *sums;
  const struct figure_pairs_cut c = figure_pairs_cut(first, n);
  if (!figure_pairs_portable(&s, first, v, w, c.head)) return false;
  if (!turns(&s, v + c.head, w + c.head, c.whole))
    return figure_pairs_portable(sums, first, v, w, n);
  if (!figure_pairs_portable(&s, first + c.behind, v + c.behind, w + c.behind, n - c.behind))
    return false;
  *sums = s;
  return true;
}

LANES_INLINE bool pairs_of_codes(struct kernels_lanes *sums, size_t first, const float *v,
                                 const uint8_t *codes, size_t n, const struct kernels_stored *m) {
  struct kernels_lanes s = *sums;
  const struct figure_pairs_cut c = figure_pairs_cut(first, n);
  if (!figure_pairs_codes_portable(&s, first, v, codes, c.head, m)) return false;
  if (!(m->is_unsigned ? turns_of_codes(&s, v + c.head, codes + c.head, c.whole, m, true)
                       : turns_of_codes(&s, v + c.head, codes + c.head, c.whole, m, false)))
    return figure_pairs_codes_portable(sums, first, v, codes, n, m);
  if (!figure_pairs_codes_portable(&s, first + c.behind, v + c.behind, codes + c.behind,
                                   n - c.behind, m))
    return false;
  *sums = s;
  return true;
}

LANES_INLINE bool pairs_of_scaled(struct kernels_lanes *sums, size_t first, const float *v,
                                  const uint8_t *codes, size_t n, const struct kernels_scaled *m) {
  const struct figure_pairs_cut c = figure_pairs_cut_scaled(first, n, m);
  const struct kernels_scaled whole = figure_pairs_scaled_from(m, c.head),
                              behind = figure_pairs_scaled_from(m, c.behind);
  struct kernels_lanes s = *sums;
  if (!figure_pairs_scaled_portable(&s, first, v, codes, c.head, m)) return false;
  if (!(m->share == 1 ? turns_of_scaled(&s, v + c.head, codes + c.head, c.whole, &whole, true)
                      : turns_of_scaled(&s, v + c.head, codes + c.head, c.whole, &whole, false)))
    return figure_pairs_scaled_portable(sums, first, v, codes, n, m);
  if (!figure_pairs_scaled_portable(&s, first + c.behind, v + c.behind, codes + c.behind,
                                    n - c.behind, &behind))
    return false;
  *sums = s;
  return true;
}

// The three functions of a variant.
#define FIGURE_PAIRS(isa)                                                                          \
  LANES_TARGET bool figure_pairs_##isa(struct kernels_lanes *sums, size_t first, const double *v,  \
                                       const double *w, size_t n) {                                \
    return pairs(sums, first, v, w, n);                                                            \
  }                                                                                                \
  LANES_TARGET bool figure_pairs_codes_##isa(struct kernels_lanes *sums, size_t first,             \
                                             const float *v, const uint8_t *codes, size_t n,       \
                                             const struct kernels_stored *m) {                     \
    return pairs_of_codes(sums, first, v, codes, n, m);                                            \
  }                                                                                                \
  LANES_TARGET bool figure_pairs_scaled_##isa(struct kernels_lanes *sums, size_t first,            \
                                              const float *v, const uint8_t *codes, size_t n,      \
                                              const struct kernels_scaled *m) {                    \
    return pairs_of_scaled(sums, first, v, codes, n, m);                                           \
  }

#endif
