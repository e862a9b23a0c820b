// Two arrays side by side, a chunk at a time (compare_parts.h).
//
// What lies in memory is used where it is; of files, a stretch of each is read. Elements become doubles by
// the arithmetic of Cast, which is exact for every type but 64-bit integers: the differences of those are
// taken of the integers.
#include "verify/compare/inside/compare_parts.h"

#include "kernels/convert/kernels_convert.h"

#include <float.h>
#include <math.h>

enum { STRETCH_BYTES = 1 << 20, ROOM = COMPARE_CHUNK + 8 };

struct compare_reader {
  const volatile int *stop;
  bool masks;
  uint8_t *stretch[2]; // NULL until one is needed
  uint8_t wide[2][COMPARE_CHUNK];
  double v[2][ROOM];
  struct compare_chunk c;
  struct arena *a;
};

struct compare_reader *compare_chunks_open(struct arena *a, bool masks, const volatile int *stop) {
  struct compare_reader *r = arena_zalloc(a, sizeof *r);
  r->stop = stop;
  r->masks = masks;
  r->a = a;
  return r;
}

// Elements below a byte, of which the first begins at a byte; low bits first.
static void unpack(uint8_t *out, const uint8_t *in, size_t n, uint32_t bits) {
  const uint32_t mask = (1u << bits) - 1;
  uint32_t held = 0, n_held = 0;
  for (size_t i = 0; i < n; i++) {
    if (n_held < bits) {
      held |= (uint32_t)*in++ << n_held;
      n_held += 8;
    }
    out[i] = (uint8_t)(held & mask);
    held >>= bits;
    n_held -= bits;
  }
}

static void normalise(uint8_t *out, const uint8_t *in, size_t n) {
  for (size_t i = 0; i < n; i++)
    out[i] = in[i] != 0;
}

static bool all_finite(const double *x, size_t n) {
  uint64_t bad[4] = {0};
  for (size_t i = 0; i < n; i += 4)
    for (unsigned j = 0; j < 4; j++)
      bad[j] += !(fabs(x[i + j]) <= DBL_MAX);
  return !(bad[0] | bad[1] | bad[2] | bad[3]);
}

static void clear_behind(double *x, size_t n) {
  for (size_t i = n; i < round_up(n, 8); i++)
    x[i] = 0;
}

static uint64_t distance(uint64_t x, uint64_t y) {
  return x > y ? x - y : y - x;
}

static void integer_differences(struct compare_chunk *c, enum dtype t) {
  const uint64_t flip = t == DTYPE_INT64 ? UINT64_C(1) << 63 : 0; // puts negative ones below
  for (size_t i = 0; i < c->n; i++) {
    uint64_t x[2];
    memcpy(&x[0], c->wide[0] + i * 8, 8);
    memcpy(&x[1], c->wide[1] + i * 8, 8);
    c->d[i] = (double)distance(x[0] ^ flip, x[1] ^ flip);
  }
}

static void differences(struct compare_chunk *c, enum dtype t) {
  if (c->same) {
    memset(c->d, 0, round_up(c->n, 8) * sizeof *c->d);
    return;
  }
  if (t == DTYPE_INT64 || t == DTYPE_UINT64)
    integer_differences(c, t);
  else
    for (size_t i = 0; i < c->n; i++)
      c->d[i] = fabs(c->v[1][i] - c->v[0][i]);
  for (size_t i = 0; !c->finite && i < c->n; i++)
    if (!isfinite(c->v[0][i]) || !isfinite(c->v[1][i])) c->d[i] = 0;
  clear_behind(c->d, c->n);
}

static void to_doubles(struct compare_reader *r, unsigned s, const uint8_t *wide, size_t n,
                       enum dtype t) {
  const struct kernels_cast to_double = {.from = (uint8_t)t, .to = DTYPE_DOUBLE};
  kernels_convert(r->v[s], wide, n, &to_double);
  clear_behind(r->v[s], n);
}

// One byte or more an element.
static const uint8_t *widened(struct compare_reader *r, unsigned s, const uint8_t *raw, size_t n,
                              enum dtype t) {
  const uint32_t bits = dtype_bits(t);
  if (bits < 8) unpack(r->wide[s], raw, n, bits);
  if (t == DTYPE_BOOL) normalise(r->wide[s], raw, n);
  return bits < 8 || t == DTYPE_BOOL ? r->wide[s] : raw;
}

// What float16 cannot hold is taken for its largest number, which is what stands for it there: masks add the lowest number of
// a type.
static void clip(double *x, size_t n, enum dtype other) {
  const double largest = dtype_largest(DTYPE_FLOAT16);
  for (size_t i = 0; other == DTYPE_FLOAT16 && i < n; i++)
    if (isfinite(x[i])) x[i] = x[i] > largest ? largest : x[i] < -largest ? -largest : x[i];
}

// What both take for minus (or plus) infinity becomes 0 in both: it is no error, and hides none of the others by its size.
static void level(double *x, double *y, size_t n) {
  const double limit = 5000;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i]) || !isfinite(y[i])) continue;
    if ((x[i] < -limit && y[i] < -limit) || (x[i] > limit && y[i] > limit)) x[i] = y[i] = 0;
  }
}

// The chunk of n elements at these bytes.
static void fill(struct compare_reader *r, const uint8_t *const raw[2], size_t n,
                 const enum dtype t[2]) {
  struct compare_chunk *c = &r->c;
  const uint32_t bits = dtype_bits(t[0]);
  c->n = n;
  c->width = bits < 8 ? 1 : bits / 8;
  for (unsigned s = 0; s < 2; s++) {
    c->wide[s] = widened(r, s, raw[s], n, t[s]);
    if (t[0] == t[1]) continue;
    to_doubles(r, s, c->wide[s], n, t[s]);
    clip(r->v[s], n, t[!s]);
    c->wide[s] = (const uint8_t *)r->v[s];
    c->width = sizeof *r->v[s];
  }
  if (r->masks && t[0] != t[1]) level(r->v[0], r->v[1], n);
  c->same = memcmp(c->wide[0], c->wide[1], n * c->width) == 0;
  c->finite = true;
  for (unsigned s = 0; s < 2; s++) {
    c->v[s] = r->v[c->same ? 0 : s];
    if (s && c->same) break;
    if (t[0] == t[1]) to_doubles(r, s, c->wide[s], n, t[s]);
    c->finite &= all_finite(r->v[s], round_up(n, 8));
  }
  differences(c, t[0] == t[1] ? t[0] : DTYPE_DOUBLE);
}

// Elements from `first` on, of both: in memory, or read.
static int stretch(struct compare_reader *r, const struct compare_pair *p, uint64_t first,
                   uint64_t elements, const uint8_t *at[2], struct err *err) {
  if (r->stop && *r->stop) return err_set(err, ERR_RETRY, "interrupted while comparing arrays");
  for (unsigned s = 0; s < 2; s++) {
    const struct array *x = p->of[s];
    const uint64_t bits = dtype_bits(p->dtype[s]), off = first * bits / 8;
    at[s] = x->at ? x->at + off : NULL;
    if (at[s]) continue;
    if (!r->stretch[s]) r->stretch[s] = arena_alloc(r->a, STRETCH_BYTES);
    if (array_read(x, off, r->stretch[s], (size_t)((elements * bits + 7) / 8), err) != 0) return -1;
    at[s] = r->stretch[s];
  }
  return 0;
}

int compare_chunks(struct compare_reader *r, const struct compare_pair *p,
                   void (*use)(void *ctx, const struct compare_chunk *c), void *ctx,
                   struct err *err) {
  const uint64_t bits[2] = {dtype_bits(p->dtype[0]), dtype_bits(p->dtype[1])};
  const uint64_t wider = bits[0] > bits[1] ? bits[0] : bits[1];
  const uint64_t elements = STRETCH_BYTES / (COMPARE_CHUNK * wider / 8) * COMPARE_CHUNK;
  for (uint64_t first = 0; first < p->count; first += elements) {
    const uint64_t n = min_u64(elements, p->count - first);
    const uint8_t *at[2];
    if (stretch(r, p, first, n, at, err) != 0) return -1;
    for (uint64_t i = 0; i < n; i += COMPARE_CHUNK) {
      const uint8_t *const raw[2] = {at[0] + i * bits[0] / 8, at[1] + i * bits[1] / 8};
      r->c.first = first + i;
      fill(r, raw, (size_t)min_u64(COMPARE_CHUNK, n - i), p->dtype);
      use(ctx, &r->c);
    }
  }
  return 0;
}
