// The standard deviation of elements in the order in which NumPy sums floats: by halves, each a multiple of
// 8 (but for the last), down to 128 elements, which are added in eight lanes:
//
//   sum(n) = n > 128 ? sum(first half) + sum(the rest) : ((0+1)+(2+3))+((4+5)+(6+7)) + what is left
//
// Elements come once for the mean and once more for the squares of what they are off it. The halves
// that are not done are a list, which is as long as the tree is deep.
#include "stream/eval/quantize/inside/eval_linear.h"

#include <assert.h>
#include <math.h>

enum { LANES = 8 };

// Begins with the first leaf of a subtree of n elements.
static void descend(struct eval_linear_sum *s, uint64_t n) {
  while (n > EVAL_LINEAR_LEAF) {
    s->halves[s->n_halves++] = (struct eval_linear_half){.n = n};
    n = n / 2 - n / 2 % LANES;
  }
  s->wanted = (uint32_t)n;
  s->have = 0;
}

void eval_linear_sum_begin(struct eval_linear_sum *s, uint64_t n) {
  s->n_halves = 0;
  s->sum = 0;
  descend(s, n);
}

static float sum_leaf(const float *v, uint32_t n) {
  float r[LANES], sum = 0;
  uint32_t i = 0;
  if (n >= LANES) {
    memcpy(r, v, sizeof r);
    for (i = LANES; i + LANES <= n; i += LANES)
      for (uint32_t k = 0; k < LANES; k++)
        r[k] += v[i + k];
    sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  }
  for (; i < n; i++)
    sum += v[i];
  return sum;
}

static void end_leaf(struct eval_linear_sum *s) {
  s->sum = sum_leaf(s->leaf, s->wanted);
  while (s->n_halves > 0) {
    struct eval_linear_half *h = &s->halves[s->n_halves - 1];
    if (!h->is_second) {
      const uint64_t first = h->n / 2 - h->n / 2 % LANES;
      h->is_second = true;
      h->sum = s->sum;
      descend(s, h->n - first);
      return;
    }
    s->sum = h->sum + s->sum;
    s->n_halves--;
  }
  s->wanted = 0;
}

void eval_linear_sum_add(struct eval_linear_sum *s, const float *v, size_t n) {
  while (n > 0) {
    assert(s->wanted > s->have);
    const size_t m = (size_t)min_u64(n, s->wanted - s->have);
    memcpy(s->leaf + s->have, v, m * sizeof *v);
    s->have += (uint32_t)m;
    if (s->have == s->wanted) end_leaf(s);
    v += m;
    n -= m;
  }
}

bool eval_linear_spread_of(enum dtype type, double mean, double deviation,
                           struct eval_linear_grid *g) {
  const float unit = 100.057724f, largest = 448; // of the numbers that there are in float8e4m3fn
  float s = (float)deviation / unit;
  if (deviation < 0) s = 1; // there are no elements
  if (s == 0) s = (float)fabs(mean) / largest;
  *g = (struct eval_linear_grid){.scale = eval_linear_round(type, s == 0 ? 1 : (double)s)};
  return g->scale > 0 && isfinite(g->scale);
}
