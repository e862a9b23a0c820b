// Room: quantization rules beyond MLAS: those of ONNX Runtime's Python code (GATHER, RTN, k_quant)
// and a half-quadratic search (HQQ). The numbers of k_quant are those of numpy's arithmetic. Here
// one block at a time.
//
//   run ──widened, filled up with zeros──▶ v[] ──rule──▶ scale, zero, codes[] ──▶ panel, error figures
//
// numpy computes float32 arrays in float32 and float16 arrays by rounding every operation; a sum
// along contiguous memory keeps eight accumulators over at most 128 elements and halves longer
// runs. Rounding is to nearest even: adding and taking away 1.5 * 2^52 does it for every double a
// code can come from.
//
// HQQ needs |e|^-0.3. Libraries differ in the last bits of a power, and these codes must not: the
// tenth root is found by Newton's method from additions and multiplications, which IEEE defines. It
// is needed for large errors alone: those below SEARCH_WHOLLY_CUT the norm takes for noise in every
// turn. While a block has no others, a turn depends on its zero point and nothing else, so that the
// search is over when the zero point stays.
//
// This is the reference, a block at a time; search_lanes.h does the same, operation by operation,
// for sixteen.
#include "kernels/search/inside/search.h"

#include "kernels/float_bits.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK_MAX = BLOCKS_NBITS_MAX };

struct found {
  float scale, zero; // scale as it is stored
  int codes[BLOCK_MAX];
};

static inline double round_even(double x) {
  const double shift = 0x1.8p52;
  if (!(fabs(x) < 0x1p51)) return x;
  return (x + shift) - shift;
}

static inline double clip(double x, double least, double most) {
  return x > most ? most : x > least ? x : least; // NaN: least
}

static float round_even_float(float x) {
  return (float)round_even((double)x); // whole, or unchanged: exact
}

float search_stored(double x, enum kernels_float type) {
  uint16_t half;
  float y = (float)x;
  if (type == KERNELS_F16) {
    cast_f64_f16_portable(&half, &x, 1);
    cast_f16_f32_portable(&y, &half, 1);
  } else if (type == KERNELS_BF16) {
    cast_f64_bf16_portable(&half, &x, 1);
    cast_bf16_f32_portable(&y, &half, 1);
  }
  return y;
}

static void extremes(const float *v, size_t n, float *lo, float *hi) {
  *lo = FLT_MAX;
  *hi = -FLT_MAX;
  for (size_t k = 0; k < n; k++) {
    if (v[k] < *lo) *lo = v[k];
    if (v[k] > *hi) *hi = v[k];
  }
}

// ---- RTN ---------------------------------------------------------------------------------------

static void codes_in_double(struct found *x, const float *v, size_t n, double scale, double zero,
                            int most) {
  for (size_t k = 0; k < n; k++)
    x->codes[k] = (int)clip(round_even((double)v[k] / scale + zero), 0, most);
}

struct search_rtn search_rtn_of(const struct kernels_block_format *f, float lo, float hi) {
  const enum kernels_float type = (enum kernels_float)f->in_type;
  const int most = (1 << f->bits) - 1;
  struct search_rtn g = {1, 1 << (f->bits - 1)};
  if (f->symmetric) {
    float m = fabsf(lo) > fabsf(hi) ? fabsf(lo) : fabsf(hi);
    if (m > 0) g.scale = (double)blocks_stored(m * 2, type) / most;
  } else {
    if (lo != hi) g.scale = (double)blocks_stored(hi - lo, type) / most;
    g.zero = clip(round_even((0 - (double)lo) / g.scale), 0, most);
  }
  return g;
}

static void rtn_between(struct found *x, const float *v, const struct kernels_block_format *f,
                        float lo, float hi) {
  struct search_rtn g = search_rtn_of(f, lo, hi);
  codes_in_double(x, v, f->block, g.scale, g.zero, (1 << f->bits) - 1);
  x->scale = search_stored(g.scale, (enum kernels_float)f->scale_type);
  x->zero = (float)g.zero;
}

static void rtn(struct found *x, const float *v, const struct kernels_block_format *f) {
  float lo, hi;
  extremes(v, f->block, &lo, &hi);
  rtn_between(x, v, f, lo, hi);
}

// ---- k_quant -----------------------------------------------------------------------------------

// n <= 128, a multiple of 8.
static float sum_of_half(const float *x, size_t n) {
  float r[8];
  memcpy(r, x, sizeof r);
  for (size_t i = 8; i < n; i += 8)
    for (size_t j = 0; j < 8; j++)
      r[j] += x[i + j];
  return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
}

static float sum_of(const float *x, size_t n) {
  return n <= SEARCH_NUMPY_SUM ? sum_of_half(x, n)
                               : sum_of_half(x, n / 2) + sum_of_half(x + n / 2, n / 2);
}

struct search {
  const float *v;
  size_t n;
  float weights[BLOCK_MAX], sum_w, sum_x; // sum_x: of weight * element
  float lo, hi, scale, best;
};

// Codes of one candidate: inverse scale and offset.
static void candidate_codes(float *q, const struct search *s, float inverse, float most) {
  for (size_t k = 0; k < s->n; k++)
    q[k] = (float)clip((double)round_even_float(inverse * (s->v[k] - s->lo)), 0, (double)most);
}

static float weighted_error(const struct search *s, const float *q, float scale, float lo) {
  float terms[BLOCK_MAX];
  for (size_t k = 0; k < s->n; k++) {
    float d = scale * q[k] + lo - s->v[k];
    terms[k] = s->weights[k] * (d * d);
  }
  return sum_of(terms, s->n);
}

static void begin_search(struct search *s, float most) {
  float terms[BLOCK_MAX], q[BLOCK_MAX];
  for (size_t k = 0; k < s->n; k++)
    terms[k] = s->v[k] * s->v[k];
  float mean = sqrtf(sum_of(terms, s->n) / (float)s->n);
  for (size_t k = 0; k < s->n; k++) {
    s->weights[k] = mean + fabsf(s->v[k]);
    terms[k] = s->weights[k] * s->v[k];
  }
  s->sum_w = sum_of(s->weights, s->n);
  s->sum_x = sum_of(terms, s->n);
  extremes(s->v, s->n, &s->lo, &s->hi);
  float inverse = s->lo != s->hi ? most / (s->hi - s->lo) : 1;
  s->scale = 1 / inverse;
  candidate_codes(q, s, inverse, most);
  s->best = weighted_error(s, q, s->scale, s->lo);
}

float search_levels(int step, int most) {
  return (float)(-1 + 0.1 * step + most);
}

// The least-squares scale and offset for the codes of one candidate, kept if better.
static void search_step(struct search *s, float levels, float most) {
  float q[BLOCK_MAX], l[BLOCK_MAX], l2[BLOCK_MAX], xl[BLOCK_MAX];
  candidate_codes(q, s, s->lo != s->hi ? levels / (s->hi - s->lo) : 1, most);
  for (size_t k = 0; k < s->n; k++) {
    l[k] = s->weights[k] * q[k];
    l2[k] = l[k] * q[k];
    xl[k] = l[k] * s->v[k];
  }
  float sum_l = sum_of(l, s->n), sum_l2 = sum_of(l2, s->n), sum_xl = sum_of(xl, s->n);
  float d = s->sum_w * sum_l2 - sum_l * sum_l;
  float scale = (s->sum_w * sum_xl - s->sum_x * sum_l) / d;
  float lo = (sum_l2 * s->sum_x - sum_l * sum_xl) / d;
  float error = weighted_error(s, q, scale, lo);
  if (!(error < s->best)) return;
  s->best = error;
  s->scale = scale;
  s->lo = lo;
}

static void k_quant(struct found *x, const float *v, const struct kernels_block_format *f) {
  struct search s = {.v = v, .n = f->block};
  int most = (1 << f->bits) - 1;
  begin_search(&s, (float)most);
  for (int step = 0; step < SEARCH_STEPS; step++)
    search_step(&s, search_levels(step, most), (float)most);
  x->zero = (float)clip((double)round_even_float(-s.lo / s.scale), 0, most);
  codes_in_double(x, v, f->block, (double)s.scale, (double)x->zero, most);
  x->scale = blocks_stored(s.scale, (enum kernels_float)f->scale_type);
}

static double squared_error(const struct found *x, const float *v, size_t used) {
  double sum = 0;
  for (size_t k = 0; k < used; k++) {
    const double d = (double)v[k] - ((double)x->codes[k] - (double)x->zero) * (double)x->scale;
    sum += d * d;
  }
  return sum;
}

// The search weighs errors by the size of elements, and its offset is rounded to a code afterwards: of
// heavy tails the plain grid is often the better one, and of elements of one sign far from 0, where
// either's zero point would lie beyond the codes, one whose range holds 0.
static void k_quant_best(struct found *x, const float *v, size_t used,
                         const struct kernels_block_format *f) {
  struct kernels_block_format plain = *f;
  struct found held, searched;
  float lo, hi;
  plain.symmetric = false;
  extremes(v, f->block, &lo, &hi);
  rtn_between(x, v, &plain, lo, hi);
  rtn_between(&held, v, &plain, lo < 0 ? lo : 0, hi > 0 ? hi : 0);
  k_quant(&searched, v, f);
  if (squared_error(&held, v, used) < squared_error(x, v, used)) *x = held;
  if (!(squared_error(x, v, used) < squared_error(&searched, v, used))) *x = searched;
}

// ---- HQQ ---------------------------------------------------------------------------------------

// x^-0.3, x >= SEARCH_WHOLLY_CUT, within 3 parts in 10^7 (all octaves of float were tried): r =
// x^-0.1 by r <- r (1.1 - x r^10 / 10), from a tenth of the bits of x, taken from 1.1 times those
// of 1, less a little. (A relative error d becomes 5.5 d^2; of r^3 it is 0.09 at first, then 0.015,
// 0.0004.)
static double power_minus_three_tenths(double x) {
  double r = (SEARCH_SHIFT + SEARCH_TENTH_ROOT) - (double)(f64_bits(x) >> 32) * 0.1;
  r = f64_of_bits(f64_bits(r) << 32);
  const double tenth = x * 0.1;
  for (int i = 0; i < SEARCH_NEWTON; i++) {
    double r2 = r * r, r4 = r2 * r2;
    r *= 1.1 - tenth * (r4 * r4 * r2);
  }
  return r * r * r;
}

// The part of an error that the norm of power 0.7 takes for noise is cut off; noise: 1 / beta.
static double shrunk(double e, double noise) {
  double size = fabs(e);
  if (!(size >= SEARCH_WHOLLY_CUT)) return 0; // NaN, too
  double cut = size - power_minus_three_tenths(size + 1e-8) * noise;
  return cut > 0 ? (e < 0 ? -cut : cut) : 0;
}

// A block whose first `used` elements are the weight's.
struct filled {
  const float *v;
  size_t n, used;
};

// One turn: the error of the weight's elements with a zero point, the zero point that all elements
// ask for, and the largest error.
struct turn {
  double error, zero, largest;
};

static struct turn hqq_turn(const struct filled *b, const struct search_hqq *h, double zero,
                            int most, double noise) {
  double sum = 0;
  struct turn t = {0};
  for (size_t k = 0; k < b->n; k++) {
    double x = (double)b->v[k], q = clip(round_even(x * h->inverse + zero), 0, most);
    double e = x - (q - zero) * h->step;
    if (k < b->used) t.error += fabs(e);
    if (fabs(e) > t.largest) t.largest = fabs(e);
    sum += q - (x - shrunk(e, noise)) * h->inverse;
  }
  t.zero = sum / (double)b->n;
  return t;
}

struct search_hqq search_hqq_of(const struct kernels_block_format *f, float lo, float hi) {
  double range = (double)hi - (double)lo, inverse = range != 0 ? ((1 << f->bits) - 1) / range : 1;
  if (inverse > 2e4) inverse = 2e4;
  return (struct search_hqq){inverse, 1 / inverse, round_even(-(double)lo * inverse)};
}

static void hqq(struct found *x, const struct filled *b, const struct kernels_block_format *f) {
  const int most = (1 << f->bits) - 1;
  float lo, hi;
  extremes(b->v, b->n, &lo, &hi);
  const struct search_hqq h = search_hqq_of(f, lo, hi);
  double zero = h.zero, best_zero = zero, best = INFINITY, beta = SEARCH_BETA;
  // The last turn is only to see what the one before led to.
  for (int turn = 0; turn <= SEARCH_STEPS; turn++) {
    struct turn t = hqq_turn(b, &h, zero, most, 1 / beta);
    if (t.error < best) {
      best = t.error;
      best_zero = zero;
    }
    if (t.zero == zero && t.largest < SEARCH_WHOLLY_CUT) break; // all others would be this one
    zero = t.zero;
    beta *= SEARCH_BETA_GROWTH;
  }
  for (size_t k = 0; k < b->n; k++)
    x->codes[k] = (int)clip(round_even((double)b->v[k] * h.inverse + best_zero), 0, most);
  x->scale = search_stored(h.step, (enum kernels_float)f->scale_type);
  x->zero = search_stored(best_zero, (enum kernels_float)f->scale_type);
}

// ---- places ------------------------------------------------------------------------------------

// The sign of the NaN that inf - inf makes depends on the machine; ours does not.
static float plain(float x) {
  return x == x ? x : NAN;
}

void search_put(const struct kernels_panel *p, const struct kernels_block_format *f, size_t j,
                size_t k, float scale, float zero) {
  const size_t at = j * p->blocks_stride + k / f->block;
  if (p->scales) p->scales[at] = plain(scale);
  if (f->rule == KERNELS_HQQ) {
    if (p->float_zeros) p->float_zeros[at] = plain(zero);
  } else if (p->zeros) {
    p->zeros[at] = (uint8_t)zero;
  }
}

// ---- GATHER ------------------------------------------------------------------------------------

struct search_gather search_gather_of(const struct kernels_block_format *f, float lo, float hi) {
  const enum kernels_float type = (enum kernels_float)f->in_type;
  float half = (float)(1 << (f->bits - 1)), most = half * 2 - 1;
  if (f->symmetric) {
    float m = fabsf(hi) > fabsf(lo) ? hi : lo;
    return (struct search_gather){blocks_stored(m / -half, type), 0, -half, half - 1};
  }
  lo = lo < 0 ? lo : 0;
  hi = hi > 0 ? hi : 0;
  struct search_gather g = {.zero = half, .least = 0, .most = most};
  g.scale = blocks_stored(blocks_stored(hi - lo, type) / most, type);
  if (g.scale != 0)
    g.zero =
        (float)clip((double)round_even_float(blocks_stored(-lo / g.scale, type)), 0, (double)most);
  return g;
}

static int gather_code(const struct search_gather *g, float v, enum kernels_float type) {
  if (g->scale == 0) return (int)g->zero;
  float x = blocks_stored(blocks_stored(v / g->scale, type) + g->zero, type);
  return (int)clip((double)round_even_float(x), (double)g->least, (double)g->most);
}

static void gather(const struct blocks_run *run, const struct kernels_panel *p,
                   const struct kernels_block_format *f, size_t j, size_t k, bool columns) {
  float lo = FLT_MAX, hi = -FLT_MAX, v[BLOCKS_PIECE];
  int codes[BLOCKS_PIECE];
  blocks_range(run, &lo, &hi);
  struct search_gather g = search_gather_of(f, lo, hi);
  search_put(p, f, j, k, g.scale, g.zero);
  for (size_t from = 0; from < run->n; from += BLOCKS_PIECE) {
    size_t n = run->n - from < BLOCKS_PIECE ? run->n - from : BLOCKS_PIECE;
    for (size_t i = 0; i < n; i++) {
      v[i] = blocks_value(run, from + i);
      codes[i] = gather_code(&g, v[i], run->type);
      uint8_t *out = blocks_code_at(p, f, j, k + from + i, columns);
      if (out) *out = (uint8_t)(codes[i] & ((1 << f->bits) - 1));
    }
    if (p->sums) blocks_figures(&p->sums[j], v, codes, n, g.scale, g.zero);
  }
}

// ---- a block -----------------------------------------------------------------------------------

static void search_block(const struct blocks_run *run, const struct kernels_panel *p,
                         const struct kernels_block_format *f, size_t j, size_t k, bool columns) {
  if (f->rule == KERNELS_GATHER) {
    gather(run, p, f, j, k, columns);
    return;
  }
  float v[BLOCK_MAX] = {0};
  struct found x;
  for (size_t i = 0; i < run->n; i++)
    v[i] = blocks_value(run, i);
  if (f->rule == KERNELS_RTN)
    rtn(&x, v, f);
  else if (f->rule == KERNELS_K_QUANT)
    k_quant(&x, v, f);
  else if (f->rule == KERNELS_K_QUANT_BEST)
    k_quant_best(&x, v, run->n, f);
  else
    hqq(&x, &(struct filled){v, f->block, run->n}, f);
  search_put(p, f, j, k, x.scale, x.zero);
  if (p->sums) blocks_figures(&p->sums[j], v, x.codes, run->n, x.scale, x.zero);
  uint8_t *out = blocks_code_at(p, f, j, k, columns), bytes[BLOCK_MAX];
  for (size_t i = 0; i < f->block; i++)
    bytes[i] = (uint8_t)x.codes[i];
  if (out) blocks_pack(out, bytes, f->block, f, true);
}

void search_rows_portable(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_each(p, f, false, search_block);
}

void search_columns_portable(const struct kernels_panel *p, const struct kernels_block_format *f) {
  blocks_each(p, f, true, search_block);
}
