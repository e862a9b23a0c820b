// Which stretch of a histogram keeps most when it is quantized: TensorRT's rule, as onnxruntime computes it.
//
//   bins   0 ····· start [ p p p p p p p p p p ] end ····· n      p: counts, with all that lies outside at the ends
//                        [ q   q   q   q   q q ]                  q: the stretch merged into few bins, each spread evenly
//                                                                    over those of its bins that are not 0 in p
//
// For every stretch around the middle, from the quantized bins' number up to all: both made distributions without zeros
// (smooth), then Σ p ln(p / q). The least one is taken, the first of several. All of it is float32, and sums and logarithms
// are NumPy's, since of neighbouring stretches the divergences are close to one another.
//
// q is whole numbers: what a quantized bin has is divided among its bins, and the rest of the division is lost. So it is
// there, and so it is here. Where so many bins are empty that smoothing would take all of the others, it fails there, and here the
// stretch is passed over.
#include "ranges/inside/range_entropy.h"

#include "base/arena.h"
#include "ranges/inside/range_numpy.h"
#include "ranges/inside/ranges_in.h"

#include <math.h>

struct search {
  const uint64_t *counts;
  uint32_t n, quantized;
  uint64_t *below; // below[i]: of the bins before i
  uint64_t *p, *q; // n each
  double *ps, *qs, *terms;
};

static uint64_t between(const struct search *s, uint32_t from, uint32_t to) {
  return s->below[to] - s->below[from];
}

static void make_p(const struct search *s, uint32_t start, uint32_t end) {
  memcpy(s->p, s->counts + start, (end - start) * sizeof *s->p);
  s->p[0] += s->below[start];
  s->p[end - start - 1] += between(s, end, s->n);
}

// The last quantized bin takes what the division of the length leaves over, but spreads it over its own bins alone.
static void make_q(const struct search *s, uint32_t start, uint32_t end) {
  const uint32_t n = end - start, merged = n / s->quantized;
  memset(s->q, 0, n * sizeof *s->q);
  for (uint32_t i = 0; i < s->quantized; i++) {
    const uint32_t from = i * merged, to = from + merged;
    const uint32_t all_to = i + 1 == s->quantized ? n : to;
    const uint64_t sum = between(s, start + from, start + all_to);
    uint32_t used = 0;
    for (uint32_t k = from; k < to; k++)
      used += s->p[k] != 0;
    const uint64_t each = used ? (uint64_t)((double)sum / (double)used) : 0;
    for (uint32_t k = from; k < to; k++)
      s->q[k] = each;
  }
}

// Counts to a distribution whose sum is 1, without zeros, in float32. False: there is none.
static bool smooth(double *out, const uint64_t *in, uint32_t n) {
  static const double eps = 0.0001;
  uint32_t zeros = 0;
  for (uint32_t i = 0; i < n; i++)
    zeros += in[i] == 0;
  if (zeros == n) return false;
  const double eps1 = eps * (double)zeros / (double)(n - zeros);
  if (eps1 >= 1.0) return false;
  const float least = (float)eps, less = (float)-eps1;
  for (uint32_t i = 0; i < n; i++)
    out[i] = (double)(in[i] ? (float)in[i] + less : least);
  const float sum = (float)range_numpy_sum(out, n, true);
  for (uint32_t i = 0; i < n; i++)
    out[i] = (double)((float)out[i] / sum);
  return true;
}

static double divergence(const struct search *s, uint32_t start, uint32_t end, enum dtype type) {
  const uint32_t n = end - start;
  make_p(s, start, end);
  make_q(s, start, end);
  if (!smooth(s->ps, s->p, n) || !smooth(s->qs, s->q, n)) return (double)INFINITY;
  for (uint32_t i = 0; i < n; i++) {
    const float p = (float)s->ps[i], q = (float)s->qs[i];
    s->terms[i] = (double)(p * range_numpy_log(p / q));
  }
  return ranges_in_rounded(range_numpy_sum(s->terms, n, true), type);
}

void range_entropy_find(const uint64_t *counts, uint32_t n, uint32_t quantized, enum dtype type,
                        uint32_t *first, uint32_t *last) {
  struct arena room = {0};
  struct search s = {.counts = counts, .n = n, .quantized = quantized};
  const uint32_t middle = n / 2;
  double least = (double)INFINITY;
  s.below = arena_alloc(&room, (n + (size_t)1) * sizeof *s.below);
  s.p = arena_alloc(&room, n * sizeof *s.p);
  s.q = arena_alloc(&room, n * sizeof *s.q);
  s.ps = arena_alloc(&room, n * sizeof *s.ps);
  s.qs = arena_alloc(&room, n * sizeof *s.qs);
  s.terms = arena_alloc(&room, n * sizeof *s.terms);
  s.below[0] = 0;
  for (uint32_t i = 0; i < n; i++)
    s.below[i + 1] = s.below[i] + counts[i];
  for (uint32_t i = quantized / 2; i <= middle; i++) {
    const uint32_t start = middle - i, end = middle + i + 1 < n ? middle + i + 1 : n;
    const double now = divergence(&s, start, end, type);
    if (i > quantized / 2 && !(now < least)) continue;
    least = now;
    *first = start;
    *last = end;
  }
  arena_free(&room);
}
