// Both that are asked for go their own ways, from the first pass on. A pass ends early for one whose
// candidates turn out to be equal: differences of integers and of coarse floats are often few different
// numbers.
#include "verify/compare/inside/quantiles.h"

#include "kernels/float_bits.h"

#include <assert.h>

enum { BITS = 63, STEP = 16, BINS = 1 << STEP, FEW = 1 << 17 };

static uint32_t step_bits(const struct quantile *p) {
  return BITS - p->known < STEP ? BITS - p->known : STEP;
}

static void begin_pass(struct quantile *p) {
  p->n_list = 0;
  p->mixed = 0;
  p->first = UINT64_MAX;
  if (p->among > FEW) memset(p->bins, 0, BINS * sizeof *p->bins);
}

void quantiles_open(struct quantiles *q, uint64_t n, const uint64_t ranks[QUANTILES],
                    struct arena *a) {
  for (unsigned i = 0; i < QUANTILES; i++) {
    assert(ranks[i] >= 1 && ranks[i] <= n);
    struct quantile *p = &q->of[i];
    *p = (struct quantile){.rank = ranks[i], .among = n};
    p->list = arena_alloc(a, (size_t)min_u64(n, FEW) * sizeof *p->list);
    if (n > FEW) p->bins = arena_alloc(a, BINS * sizeof *p->bins);
    begin_pass(p);
  }
}

// All numbers count: the loop of the first pass over many.
static void count_all(struct quantile *p, const double *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    p->bins[f64_bits(x[i]) >> (BITS - STEP)]++;
}

static void take_one(struct quantile *p, uint64_t bits, uint64_t times) {
  if (p->first == UINT64_MAX) p->first = bits;
  p->mixed |= p->first ^ bits;
  if (p->among > FEW) {
    const uint32_t step = step_bits(p);
    p->bins[bits >> (BITS - p->known - step) & ((1u << step) - 1)] += times;
    return;
  }
  double x;
  memcpy(&x, &bits, sizeof x);
  assert(times <= FEW - p->n_list);
  for (uint64_t i = 0; i < times; i++)
    p->list[p->n_list++] = x;
}

static void take(struct quantile *p, const double *x, size_t n) {
  const uint32_t shift = BITS - p->known;
  for (size_t i = 0; i < n; i++) {
    const uint64_t bits = f64_bits(x[i]);
    if (bits >> shift == p->prefix) take_one(p, bits, 1);
  }
}

void quantiles_take(struct quantiles *q, const double *x, size_t n) {
  for (unsigned i = 0; i < QUANTILES; i++) {
    struct quantile *p = &q->of[i];
    if (p->done) continue;
    if (p->known == 0 && p->among > FEW) {
      // The first bins are the same for all.
      if (i == 0) count_all(p, x, n);
    } else {
      take(p, x, n);
    }
  }
}

void quantiles_take_zeros(struct quantiles *q, size_t n) {
  for (unsigned i = 0; i < QUANTILES; i++) {
    struct quantile *p = &q->of[i];
    if (p->done) continue;
    if (p->known == 0 && p->among > FEW) {
      if (i == 0) p->bins[0] += n;
    } else if (p->prefix == 0) {
      take_one(p, 0, n);
    }
  }
}

// The rank-th least of a list, from 1 on: a byte at a time, of what is left. The list's order is lost.
static double select_from(double *list, size_t n, uint64_t rank) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    uint64_t bins[256] = {0};
    for (size_t i = 0; i < n; i++)
      bins[f64_bits(list[i]) >> shift & 255]++;
    unsigned bin = 0;
    for (; rank > bins[bin]; bin++)
      rank -= bins[bin];
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
      if ((f64_bits(list[i]) >> shift & 255) == bin) list[left++] = list[i];
    n = left;
  }
  return list[0];
}

static void found(struct quantile *p, double answer) {
  p->done = true;
  p->answer = answer;
}

static void found_bits(struct quantile *p, uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  found(p, x);
}

// The bin that it lies in says the next bits.
static void narrow(struct quantile *p) {
  const uint32_t step = step_bits(p);
  uint32_t bin = 0;
  for (; p->rank > p->bins[bin]; bin++)
    p->rank -= p->bins[bin];
  assert(bin < 1u << step);
  p->among = p->bins[bin];
  p->prefix = p->prefix << step | bin;
  p->known += step;
  if (p->known == BITS) found_bits(p, p->prefix);
}

static void end_pass(struct quantile *p) {
  if (p->among <= FEW) {
    assert(p->n_list == p->among);
    found(p, select_from(p->list, p->n_list, p->rank));
  } else if (p->known && p->mixed == 0) {
    found_bits(p, p->first);
  } else {
    narrow(p);
  }
}

bool quantiles_again(struct quantiles *q) {
  const bool shared = q->of[0].known == 0 && q->of[0].among > FEW;
  for (unsigned i = 1; shared && i < QUANTILES; i++)
    memcpy(q->of[i].bins, q->of[0].bins, BINS * sizeof *q->of[i].bins);
  bool again = false;
  for (unsigned i = 0; i < QUANTILES; i++) {
    struct quantile *p = &q->of[i];
    if (!p->done) end_pass(p);
    if (!p->done) begin_pass(p);
    again |= !p->done;
  }
  return again;
}
