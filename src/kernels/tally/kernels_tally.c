// Elements come as float32, a block at a time, which stays in the first cache:
//
//   extremes   lanes of their own, put together in the end: no lane waits for another, and the compiler makes vectors
//              of them (one running minimum it must not cut up: what if a zero had a sign?)
//   bins       estimate, then put right by the edges, in vectors; then counted, one by one, in four tables that
//              take turns: neighbours are often of the same bin, and a counter that was just written is slow to read
//
// The estimate (x - first edge) * n / width is off by less than one bin, since its error is some 2^-22 of the index and there
// are 2^20 bins at most. So looking at the edges to both sides decides: the edges alone say where x belongs. Where the
// edges follow no formula (half precision, widths past the largest float), or are not all different, they are searched from
#include "kernels/tally/kernels_tally.h"

#include "kernels/kernels.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { BLOCK = 1024, LANES = 16, TABLES = 4, TABLE_BINS = 4096 };

// A block of at most BLOCK elements as float32: where it lies, if it is that already and aligned.
static const float *widened(enum dtype type, const void *in, size_t n, float room[BLOCK]) {
  switch (type) {
  case DTYPE_FLOAT16: kernels_f16_to_f32(room, in, n); break;
  case DTYPE_BFLOAT16: kernels_bf16_to_f32(room, in, n); break;
  case DTYPE_DOUBLE: kernels_f64_to_f32(room, in, n); break;
  default:
    assert(type == DTYPE_FLOAT);
    if ((uintptr_t)in % sizeof(float) == 0) return in;
    memcpy(room, in, n * sizeof *room);
  }
  return room;
}

static const uint8_t *element(enum dtype type, const void *in, size_t i) {
  return (const uint8_t *)in + i * (dtype_bits(type) / 8);
}

// ---- extremes ----------------------------------------------------------------------------------

struct lanes {
  float least[LANES], most[LANES], magnitude[LANES];
  uint32_t nans[LANES], infinities[LANES];
};

struct kernels_extremes kernels_tally_nothing(void) {
  return (struct kernels_extremes){
      .least = INFINITY, .most = -INFINITY, .magnitude = INFINITY, .numbers = 0};
}

void kernels_tally_join(struct kernels_extremes *x, const struct kernels_extremes *other) {
  if (other->least < x->least) x->least = other->least;
  if (other->most > x->most) x->most = other->most;
  if (other->magnitude < x->magnitude) x->magnitude = other->magnitude;
  x->numbers += other->numbers;
  x->nans += other->nans;
  x->infinities += other->infinities;
}

// LANES elements. Comparisons with NaN are false: nothing takes one. An infinity is looked at as the
// NaN that it makes less itself.
static inline void see(struct lanes *l, const float *x) {
  for (unsigned j = 0; j < LANES; j++) {
    const float v = x[j] + (x[j] - x[j]), m = fabsf(v);
    l->least[j] = v < l->least[j] ? v : l->least[j];
    l->most[j] = v > l->most[j] ? v : l->most[j];
    l->magnitude[j] = m < l->magnitude[j] ? m : l->magnitude[j];
    l->nans[j] += x[j] != x[j];
    l->infinities[j] += fabsf(x[j]) > FLT_MAX;
  }
}

static void see_block(struct kernels_extremes *x, const float *at, size_t n) {
  struct lanes l;
  float rest[LANES];
  for (unsigned j = 0; j < LANES; j++) {
    l.least[j] = l.magnitude[j] = INFINITY;
    l.most[j] = -INFINITY;
    l.nans[j] = l.infinities[j] = 0;
    rest[j] = NAN;
  }
  const size_t whole = n - n % LANES;
  for (size_t i = 0; i < whole; i += LANES)
    see(&l, at + i);
  for (size_t i = whole; i < n; i++)
    rest[i - whole] = at[i];
  see(&l, rest);
  uint64_t nans = 0, infinities = 0;
  for (unsigned j = 0; j < LANES; j++) {
    const struct kernels_extremes one = {
        .least = l.least[j], .most = l.most[j], .magnitude = l.magnitude[j]};
    kernels_tally_join(x, &one);
    nans += l.nans[j];
    infinities += l.infinities[j];
  }
  nans -= LANES - n % LANES; // what filled the rest
  x->nans += nans;
  x->infinities += infinities;
  x->numbers += n - nans - infinities;
}

void kernels_tally_extremes(struct kernels_extremes *x, enum dtype type, const void *in, size_t n) {
  float room[BLOCK];
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t some = n - i < BLOCK ? n - i : BLOCK;
    see_block(x, widened(type, element(type, in, i), some, room), some);
  }
  x->least += 0.0f; // -0 becomes +0
  x->most += 0.0f;
}

// ---- bins --------------------------------------------------------------------------------------

// Which bin each of some elements belongs to; b->n: none. Edges by their formula. Written so that nothing in the loop is
// a branch: comparisons are 0 or 1, and masks.
static void find_regular(const struct kernels_bins *b, const float *x, uint32_t *bin, size_t n) {
  const float from = b->edges[0], to = b->edges[b->n], step = b->step;
  const float scale = (float)((double)b->n / ((double)to - (double)from));
  const float last = (float)(b->n - 1);
  const int32_t none = (int32_t)b->n, final = none - 1;
  const uint32_t keep = b->magnitudes ? 0x7fffffffu : 0xffffffffu;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    float v;
    memcpy(&bits, &x[i], sizeof bits);
    bits &= keep;
    memcpy(&v, &bits, sizeof v);
    float t = (v - from) * scale;
    t = t > 0 ? t : 0; // NaN too
    t = t < last ? t : last;
    int32_t at = (int32_t)t;
    at -= (v < (float)at * step + from) & (at > 0);
    at += (v >= (float)(at + 1) * step + from) & (at < final);
    const int32_t inside = -((v >= from) & (v <= to));
    bin[i] = (uint32_t)((at & inside) | (none & ~inside));
  }
}

// Edges that follow no formula, or are not all different: from the estimate on, step by step.
static void find_any(const struct kernels_bins *b, const float *x, uint32_t *bin, size_t n) {
  const float from = b->edges[0], to = b->edges[b->n];
  const double scale = (double)b->n / ((double)to - (double)from);
  for (size_t i = 0; i < n; i++) {
    const float v = b->magnitudes ? fabsf(x[i]) : x[i];
    bin[i] = b->n;
    if (!(v >= from && v <= to)) continue;
    const double t = ((double)v - (double)from) * scale;
    uint32_t at = t < (double)(b->n - 1) ? (uint32_t)t : b->n - 1;
    while (at > 0 && v < b->edges[at])
      at--;
    while (at + 1 < b->n && v >= b->edges[at + 1])
      at++;
    bin[i] = at;
  }
}

static void find(const struct kernels_bins *b, const float *x, uint32_t *bin, size_t n) {
  if (b->step > 0)
    find_regular(b, x, bin, n);
  else
    find_any(b, x, bin, n);
}

// Few bins: tables that take turns, which hold what one call counts.
static void count_few(uint64_t *counts, const struct kernels_bins *b, enum dtype type,
                      const void *in, size_t n) {
  uint32_t tables[TABLES][TABLE_BINS + 1] = {{0}}, bin[BLOCK];
  float room[BLOCK];
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t some = n - i < BLOCK ? n - i : BLOCK;
    find(b, widened(type, element(type, in, i), some, room), bin, some);
    size_t k = 0;
    for (; k + TABLES <= some; k += TABLES)
      for (unsigned t = 0; t < TABLES; t++)
        tables[t][bin[k + t]]++;
    for (; k < some; k++)
      tables[0][bin[k]]++;
  }
  for (uint32_t i = 0; i < b->n; i++)
    for (unsigned t = 0; t < TABLES; t++)
      counts[i] += tables[t][i];
}

static void count_many(uint64_t *counts, const struct kernels_bins *b, enum dtype type,
                       const void *in, size_t n) {
  uint32_t bin[BLOCK];
  float room[BLOCK];
  for (size_t i = 0; i < n; i += BLOCK) {
    const size_t some = n - i < BLOCK ? n - i : BLOCK;
    find(b, widened(type, element(type, in, i), some, room), bin, some);
    for (size_t k = 0; k < some; k++)
      if (bin[k] < b->n) counts[bin[k]]++;
  }
}

void kernels_tally_bins(uint64_t *counts, const struct kernels_bins *b, enum dtype type,
                        const void *in, size_t n) {
  enum { TURN = 1 << 30 }; // elements whose counts fit a table's numbers
  if (b->n > TABLE_BINS || n < TABLE_BINS) {
    count_many(counts, b, type, in, n);
    return;
  }
  for (size_t i = 0; i < n; i += TURN)
    count_few(counts, b, type, element(type, in, i), n - i < TURN ? n - i : TURN);
}
