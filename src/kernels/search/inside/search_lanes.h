// Inside search_<isa>.c: the rules beyond MLAS for sixteen blocks at a time. Every block has a lane
// of its own, so that no lane needs another, and each does what search_portable.c does with one
// block, operation by operation: the bytes are those whatever the width of a vector.
//
//   rows: sixteen blocks, one behind the other          columns: sixteen blocks, row by row of W
//     ──widened──▶ q as [block][k] ──transposed──┐        ──widened, row by row──┐
//                                                ▼                               ▼
//                                         v [k][block]
//            extremes ──▶ grids (search.h) ──▶ codes q [k][block] ──▶ dwords of packed codes ──▶ out
//            or a search: k_quant, hqq                     └──▶ error figures, block by block
//
// Lanes that have no block hold zeros. Short last blocks go together with those of other columns.
// Blocks that are too long for a group (GATHER alone has them) go to the reference.
//
// Arithmetic is written with the vector types of GCC and Clang. Before including this a file says
// LANES_TARGET, a function attribute; SEARCH_LANES (search.h) of its vectors' bytes; and gives, as
// functions, what those types have no operator for:
//
//   lanes_f most_f(a, b)    a > b ? a : b, and least_f, most_d, least_d likewise: b where they do
//                           not compare
//   lanes_i most_i(a, b)    of integers
//   lanes_f half_f(x)       rounded to float16
//   LANES_ISA(name)         the variants of transpose and cast to use
#ifndef WEIR_SEARCH_LANES_H
#define WEIR_SEARCH_LANES_H

#include "kernels/search/inside/search.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline)) LANES_TARGET

enum { GROUP = 16, BLOCK_MAX = BLOCKS_NBITS_MAX, WORDS_MAX = BLOCK_MAX / 4 };

struct group {
  const struct kernels_panel *p;
  const struct kernels_block_format *f;
  bool columns;
  size_t used;   // elements of a block that are the weight's
  size_t blocks; // lanes that hold one, and where it begins:
  size_t j[GROUP], k[GROUP];
  _Alignas(64) float v[BLOCK_MAX][GROUP]; // elements
  _Alignas(64) float q[BLOCK_MAX][GROUP]; // codes
  _Alignas(64) float w[BLOCK_MAX][GROUP]; // k_quant: weights
  // What is found: numbers that make codes, and what is stored.
  _Alignas(64) double scale[GROUP], zero[GROUP];
  _Alignas(64) float stored_scale[GROUP], stored_zero[GROUP];
};

// ---- vectors -----------------------------------------------------------------------------------

LANES_INLINE lanes_f load_f(const float *at) {
  lanes_f x;
  memcpy(&x, at, sizeof x);
  return x;
}

LANES_INLINE void store_f(float *at, lanes_f x) {
  memcpy(at, &x, sizeof x);
}

LANES_INLINE lanes_d load_d(const double *at) {
  lanes_d x;
  memcpy(&x, at, sizeof x);
  return x;
}

LANES_INLINE void store_d(double *at, lanes_d x) {
  memcpy(at, &x, sizeof x);
}

// Floats from and to doubles.
LANES_INLINE lanes_d load_as_d(const float *at) {
  lanes_h x;
  memcpy(&x, at, sizeof x);
  return __builtin_convertvector(x, lanes_d);
}

LANES_INLINE void store_as_f(float *at, lanes_d x) {
  lanes_h y = __builtin_convertvector(x, lanes_h);
  memcpy(at, &y, sizeof y);
}

LANES_INLINE lanes_f all_f(float x) {
  return x - (lanes_f){0};
}

LANES_INLINE lanes_d all_d(double x) {
  return x - (lanes_d){0};
}

LANES_INLINE lanes_f pick_f(lanes_i where, lanes_f a, lanes_f b) {
  return (lanes_f)(((lanes_i)a & where) | ((lanes_i)b & ~where));
}

LANES_INLINE lanes_d pick_d(lanes_l where, lanes_d a, lanes_d b) {
  return (lanes_d)(((lanes_l)a & where) | ((lanes_l)b & ~where));
}

LANES_INLINE bool any_d(lanes_l where) {
  int64_t all = 0;
  for (size_t i = 0; i < HALF; i++)
    all |= where[i];
  return all != 0;
}

LANES_INLINE lanes_f size_f(lanes_f x) {
  return (lanes_f)((lanes_i)x & INT32_MAX);
}

LANES_INLINE lanes_d size_d(lanes_d x) {
  return (lanes_d)((lanes_l)x & INT64_MAX);
}

// Cut to least .. most, whole numbers of codes, NaN to least; then to the nearest, half to even.
LANES_INLINE lanes_f code_f(lanes_f x, lanes_f least, lanes_f most) {
  const lanes_f shift = all_f(0x1.8p23f);
  return (least_f(most_f(x, least), most) + shift) - shift;
}

LANES_INLINE lanes_d code_d(lanes_d x, lanes_d most) {
  const lanes_d shift = all_d(0x1.8p52);
  return (least_d(most_d(x, (lanes_d){0}), most) + shift) - shift;
}

// ---- elements ----------------------------------------------------------------------------------

LANES_INLINE void widen(float *out, const uint8_t *in, size_t n, enum kernels_float type) {
  if (type == KERNELS_F32)
    memcpy(out, in, n * sizeof *out);
  else if (type == KERNELS_F16)
    LANES_ISA(cast_f16_f32)(out, in, n);
  else
    LANES_ISA(cast_bf16_f32)(out, in, n);
}

LANES_TARGET static void load_rows(struct group *g, enum kernels_float type) {
  float *lines = &g->q[0][0]; // free until there are codes
  for (size_t b = 0; b < g->blocks; b++) {
    const struct blocks_run run = blocks_row_run(g->p, type, g->j[b], g->k[b], g->used);
    widen(lines + b * g->used, run.at, g->used, type);
  }
  memset(lines + g->blocks * g->used, 0, (GROUP - g->blocks) * g->used * sizeof *lines);
  const struct transpose_shape shape = {GROUP, g->used, GROUP, g->used, sizeof *lines};
  LANES_ISA(transpose)(g->v, lines, &shape);
}

// The end of the lanes from b on whose elements lie side by side: columns of the same rows.
static size_t neighbours_end(const struct group *g, size_t b) {
  size_t end = b + 1;
  while (end < g->blocks && g->k[end] == g->k[b])
    end++;
  return end;
}

LANES_TARGET static void load_columns(struct group *g, enum kernels_float type) {
  if (g->blocks < GROUP) memset(g->v, 0, g->used * sizeof *g->v);
  for (size_t b = 0, end; b < g->blocks; b = end) {
    const struct blocks_run run = blocks_column_run(g->p, type, g->j[b], g->k[b], g->used);
    end = neighbours_end(g, b);
    for (size_t k = 0; k < g->used; k++) {
      const uint8_t *at = run.at + k * run.step;
      if (end - b == GROUP && type == KERNELS_F32)
        memcpy(g->v[k], at, sizeof g->v[k]);
      else
        widen(g->v[k] + b, at, end - b, type);
    }
  }
}

// Smallest and largest of the first n elements of every block, NaN passed over.
LANES_INLINE void extremes(const struct group *g, size_t n, float *lo, float *hi) {
  for (size_t b = 0; b < GROUP; b += LANES) {
    lanes_f least = all_f(FLT_MAX), most = all_f(-FLT_MAX);
    for (size_t k = 0; k < n; k++) {
      const lanes_f v = load_f(g->v[k] + b);
      least = least_f(v, least);
      most = most_f(v, most);
    }
    store_f(lo + b, least);
    store_f(hi + b, most);
  }
}

LANES_INLINE int most_code(const struct group *g) {
  return (1 << g->f->bits) - 1;
}

// Codes in double: of v / scale + zero, or of v * scale + zero.
LANES_INLINE void codes_d(struct group *g, bool divide) {
  const lanes_d most = all_d(most_code(g));
  for (size_t b = 0; b < GROUP; b += HALF) {
    const lanes_d scale = load_d(g->scale + b), zero = load_d(g->zero + b);
    for (size_t k = 0; k < g->f->block; k++) {
      const lanes_d x = load_as_d(g->v[k] + b);
      store_as_f(g->q[k] + b, code_d((divide ? x / scale : x * scale) + zero, most));
    }
  }
}

// ---- RTN and GATHER ----------------------------------------------------------------------------

LANES_TARGET static void rtn_between(struct group *g, const struct kernels_block_format *f,
                                     const float *lo, const float *hi) {
  for (size_t b = 0; b < GROUP; b++) {
    const struct search_rtn x = search_rtn_of(f, lo[b], hi[b]);
    g->scale[b] = x.scale;
    g->zero[b] = x.zero;
    g->stored_scale[b] = search_stored(x.scale, (enum kernels_float)f->scale_type);
    g->stored_zero[b] = (float)x.zero;
  }
  codes_d(g, true);
}

LANES_TARGET static void rtn(struct group *g) {
  float lo[GROUP], hi[GROUP];
  extremes(g, g->f->block, lo, hi);
  rtn_between(g, g->f, lo, hi);
}

LANES_INLINE lanes_f stored_f(lanes_f x, enum kernels_float type) {
  if (type == KERNELS_F32) return x;
  if (type == KERNELS_F16) return half_f(x);
  const lanes_u bits = (lanes_u)x, rounded = bits + 0x7fff + (bits >> 16 & 1);
  return (lanes_f)(rounded & 0xffff0000); // NaNs come from bfloat16: rounding adds nothing to them
}

LANES_INLINE void gather_codes(struct group *g, float least, float most, enum kernels_float type) {
  for (size_t b = 0; b < GROUP; b += LANES) {
    const lanes_f scale = load_f(g->stored_scale + b), zero = load_f(g->stored_zero + b);
    const lanes_i nothing = scale == (lanes_f){0};
    for (size_t k = 0; k < g->used; k++) {
      lanes_f x = stored_f(load_f(g->v[k] + b) / scale, type);
      x = code_f(stored_f(x + zero, type), all_f(least), all_f(most));
      store_f(g->q[k] + b, pick_f(nothing, zero, x));
    }
  }
}

LANES_TARGET static void gather(struct group *g) {
  float lo[GROUP], hi[GROUP];
  struct search_gather x;
  extremes(g, g->used, lo, hi);
  for (size_t b = 0; b < GROUP; b++) {
    x = search_gather_of(g->f, lo[b], hi[b]);
    g->stored_scale[b] = x.scale;
    g->stored_zero[b] = x.zero;
  }
  if (g->f->in_type == KERNELS_F32)
    gather_codes(g, x.least, x.most, KERNELS_F32);
  else if (g->f->in_type == KERNELS_F16)
    gather_codes(g, x.least, x.most, KERNELS_F16);
  else
    gather_codes(g, x.least, x.most, KERNELS_BF16);
}

// ---- k_quant -----------------------------------------------------------------------------------

// A search in the lanes from b on.
struct quest {
  struct group *g;
  size_t b;
  lanes_f sum_w, sum_x, lo, hi, scale, best, most; // sum_x: of weight * element
};

// Codes of one candidate, or scale and offset to look at.
struct candidate {
  lanes_f scale, lo; // scale: of CODES the inverse
};

// What is summed, up to three figures at a time.
enum kind { SQUARES, WEIGHTS, CODES, ERRORS };
struct figures3 {
  lanes_f a, b, c;
};

LANES_INLINE struct figures3 add3(struct figures3 x, struct figures3 y) {
  return (struct figures3){x.a + y.a, x.b + y.b, x.c + y.c};
}

LANES_INLINE struct figures3 term_of(const struct quest *s, enum kind kind, size_t k,
                                     struct candidate x) {
  struct group *g = s->g;
  const lanes_f v = load_f(g->v[k] + s->b), none = {0};
  if (kind == SQUARES) return (struct figures3){v * v, none, none};
  const lanes_f w = load_f(g->w[k] + s->b);
  if (kind == WEIGHTS) return (struct figures3){w, w * v, none};
  if (kind == ERRORS) {
    const lanes_f d = x.scale * load_f(g->q[k] + s->b) + x.lo - v;
    return (struct figures3){w * (d * d), none, none};
  }
  const lanes_f q = code_f(x.scale * (v - x.lo), none, s->most), l = w * q;
  store_f(g->q[k] + s->b, q);
  return (struct figures3){l, l * q, l * v};
}

// numpy's sum of at most SEARCH_NUMPY_SUM elements: eight accumulators, joined in pairs.
LANES_INLINE struct figures3 sums_of_half(const struct quest *s, enum kind kind, size_t from,
                                          size_t end, struct candidate x) {
  struct figures3 r[8];
  for (size_t i = 0; i < 8; i++) {
    struct figures3 sum = term_of(s, kind, from + i, x);
    for (size_t k = from + i + 8; k < end; k += 8)
      sum = add3(sum, term_of(s, kind, k, x));
    r[i] = sum;
  }
  return add3(add3(add3(r[0], r[1]), add3(r[2], r[3])), add3(add3(r[4], r[5]), add3(r[6], r[7])));
}

LANES_INLINE struct figures3 sums_of(const struct quest *s, enum kind kind, struct candidate x) {
  const size_t n = s->g->f->block, half = n / 2;
  if (n <= SEARCH_NUMPY_SUM) return sums_of_half(s, kind, 0, n, x);
  struct figures3 sum = {{0}, {0}, {0}};
  for (size_t from = 0; from < n; from += half) {
    const struct figures3 next = sums_of_half(s, kind, from, from + half, x);
    sum = from ? add3(sum, next) : next;
  }
  return sum;
}

// The inverse scale of `levels` steps between the extremes.
LANES_INLINE lanes_f inverse_of(const struct quest *s, float levels) {
  return pick_f(s->lo != s->hi, all_f(levels) / (s->hi - s->lo), all_f(1));
}

LANES_INLINE void weigh(struct quest *s) {
  struct group *g = s->g;
  const struct candidate none = {{0}, {0}};
  float mean[LANES];
  store_f(mean, sums_of(s, SQUARES, none).a / all_f((float)g->f->block));
  for (size_t i = 0; i < LANES; i++)
    mean[i] = sqrtf(mean[i]);
  for (size_t k = 0; k < g->f->block; k++)
    store_f(g->w[k] + s->b, load_f(mean) + size_f(load_f(g->v[k] + s->b)));
  const struct figures3 sums = sums_of(s, WEIGHTS, none);
  s->sum_w = sums.a;
  s->sum_x = sums.b;
}

LANES_INLINE void begin_search(struct quest *s, const float *lo, const float *hi) {
  s->lo = load_f(lo + s->b);
  s->hi = load_f(hi + s->b);
  const lanes_f inverse = inverse_of(s, (float)most_code(s->g));
  s->scale = all_f(1) / inverse;
  sums_of(s, CODES, (struct candidate){inverse, s->lo});
  s->best = sums_of(s, ERRORS, (struct candidate){s->scale, s->lo}).a;
}

// The least-squares scale and offset for the codes of one candidate, kept where better.
LANES_INLINE void search_step(struct quest *s, float levels) {
  const struct candidate tried = {inverse_of(s, levels), s->lo};
  const struct figures3 sum = sums_of(s, CODES, tried); // of l, l2, xl
  const lanes_f d = s->sum_w * sum.b - sum.a * sum.a;
  const struct candidate x = {(s->sum_w * sum.c - s->sum_x * sum.a) / d,
                              (sum.b * s->sum_x - sum.a * sum.c) / d};
  const lanes_f error = sums_of(s, ERRORS, x).a;
  const lanes_i better = error < s->best;
  s->best = pick_f(better, error, s->best);
  s->scale = pick_f(better, x.scale, s->scale);
  s->lo = pick_f(better, x.lo, s->lo);
}

LANES_TARGET static void k_quant_lanes(struct group *g, size_t b, const float *lo,
                                       const float *hi) {
  struct quest s = {.g = g, .b = b, .most = all_f((float)most_code(g))};
  weigh(&s);
  begin_search(&s, lo, hi);
  for (int step = 0; step < SEARCH_STEPS; step++)
    search_step(&s, search_levels(step, most_code(g)));
  store_f(g->stored_scale + b, s.scale);
  store_f(g->stored_zero + b, code_f(-s.lo / s.scale, (lanes_f){0}, s.most));
}

LANES_TARGET static void k_quant(struct group *g) {
  float lo[GROUP], hi[GROUP];
  extremes(g, g->f->block, lo, hi);
  for (size_t b = 0; b < GROUP; b += LANES)
    k_quant_lanes(g, b, lo, hi);
  for (size_t b = 0; b < GROUP; b++) {
    g->scale[b] = (double)g->stored_scale[b];
    g->zero[b] = (double)g->stored_zero[b];
    g->stored_scale[b] = blocks_stored(g->stored_scale[b], (enum kernels_float)g->f->scale_type);
  }
  codes_d(g, true);
}

LANES_INLINE void squared_errors(const struct group *g, double *out) {
  for (size_t b = 0; b < GROUP; b += HALF) {
    const lanes_d scale = load_as_d(g->stored_scale + b), zero = load_as_d(g->stored_zero + b);
    lanes_d sum = {0};
    for (size_t k = 0; k < g->used; k++) {
      const lanes_d d = load_as_d(g->v[k] + b) - (load_as_d(g->q[k] + b) - zero) * scale;
      sum += d * d;
    }
    store_d(out + b, sum);
  }
}

// What a rule found, and its error.
struct kept {
  double scale[GROUP], zero[GROUP], error[GROUP];
  float stored_scale[GROUP], stored_zero[GROUP];
};

static void keep_lane(struct kept *x, const struct kept *from, size_t b) {
  x->scale[b] = from->scale[b];
  x->zero[b] = from->zero[b];
  x->error[b] = from->error[b];
  x->stored_scale[b] = from->stored_scale[b];
  x->stored_zero[b] = from->stored_zero[b];
}

LANES_TARGET static void keep(const struct group *g, struct kept *x) {
  memcpy(x->scale, g->scale, sizeof x->scale);
  memcpy(x->zero, g->zero, sizeof x->zero);
  memcpy(x->stored_scale, g->stored_scale, sizeof x->stored_scale);
  memcpy(x->stored_zero, g->stored_zero, sizeof x->stored_zero);
  squared_errors(g, x->error);
}

// Codes are made again of what was kept: all three make them alike.
LANES_TARGET static void k_quant_best(struct group *g) {
  struct kernels_block_format plain = *g->f;
  struct kept best, next;
  float lo[GROUP], hi[GROUP];
  plain.symmetric = false;
  extremes(g, g->f->block, lo, hi);
  rtn_between(g, &plain, lo, hi);
  keep(g, &best);
  for (size_t b = 0; b < GROUP; b++) {
    lo[b] = lo[b] < 0 ? lo[b] : 0;
    hi[b] = hi[b] > 0 ? hi[b] : 0;
  }
  rtn_between(g, &plain, lo, hi);
  keep(g, &next);
  for (size_t b = 0; b < GROUP; b++)
    if (next.error[b] < best.error[b]) keep_lane(&best, &next, b);
  k_quant(g);
  keep(g, &next);
  for (size_t b = 0; b < GROUP; b++)
    if (!(best.error[b] < next.error[b])) keep_lane(&best, &next, b);
  memcpy(g->scale, best.scale, sizeof g->scale);
  memcpy(g->zero, best.zero, sizeof g->zero);
  memcpy(g->stored_scale, best.stored_scale, sizeof g->stored_scale);
  memcpy(g->stored_zero, best.stored_zero, sizeof g->stored_zero);
  codes_d(g, true);
}

// ---- HQQ ---------------------------------------------------------------------------------------

LANES_INLINE lanes_d power_minus_three_tenths(lanes_d x) {
  const lanes_d upper = (lanes_d)((lanes_w)x >> 32 | SEARCH_SHIFT_BITS) - SEARCH_SHIFT;
  const lanes_d first = (SEARCH_SHIFT + SEARCH_TENTH_ROOT) - upper * 0.1, tenth = x * 0.1;
  lanes_d r = (lanes_d)((lanes_w)first << 32);
  for (int i = 0; i < SEARCH_NEWTON; i++) {
    const lanes_d r2 = r * r, r4 = r2 * r2;
    r *= 1.1 - tenth * (r4 * r4 * r2);
  }
  return r * r * r;
}

LANES_INLINE lanes_d shrunk(lanes_d e, double noise) {
  const lanes_d size = size_d(e), none = {0};
  const lanes_d cut = size - power_minus_three_tenths(size + 1e-8) * noise;
  return pick_d(cut > none, pick_d(e < none, -cut, cut), none); // noise: cut is negative
}

// A search in half as many lanes.
struct turns {
  const struct group *g;
  size_t b;
  lanes_d inverse, step, zero, most;
};

struct turn {
  lanes_d error, zero, largest;
};

// noise 0: no error is large enough to be more than that. (Otherwise x - 0 is x: the same.)
LANES_INLINE struct turn turn_of(const struct turns *s, double noise) {
  const struct group *g = s->g;
  const size_t n = g->f->block;
  lanes_d sum = {0};
  struct turn t = {{0}, {0}, {0}};
  for (size_t k = 0; k < n; k++) {
    const lanes_d x = load_as_d(g->v[k] + s->b), at = x * s->inverse;
    const lanes_d q = code_d(at + s->zero, s->most), e = x - (q - s->zero) * s->step;
    const lanes_d size = size_d(e);
    if (k < g->used) t.error += size;
    t.largest = most_d(size, t.largest);
    sum += q - (noise > 0 ? (x - shrunk(e, noise)) * s->inverse : at);
  }
  t.zero = sum / all_d((double)n);
  return t;
}

// A turn for small errors unless there were large ones; once more if there are.
LANES_INLINE struct turn next_turn(const struct turns *s, double beta, bool *large) {
  struct turn t;
  if (!*large) t = turn_of(s, 0);
  if (!*large && !any_d(t.largest >= SEARCH_WHOLLY_CUT)) return t;
  t = turn_of(s, 1 / beta);
  *large = any_d(t.largest >= SEARCH_WHOLLY_CUT);
  return t;
}

LANES_TARGET static void hqq_lanes(struct group *g, size_t b) {
  struct turns s = {g, b, load_d(g->scale + b), {0}, load_d(g->zero + b), all_d(most_code(g))};
  s.step = 1 / s.inverse;
  lanes_d best_zero = s.zero, best = all_d(INFINITY);
  double beta = SEARCH_BETA;
  bool large = false;
  for (int turn = 0; turn <= SEARCH_STEPS; turn++) {
    const struct turn t = next_turn(&s, beta, &large);
    const lanes_l better = t.error < best;
    best = pick_d(better, t.error, best);
    best_zero = pick_d(better, s.zero, best_zero);
    if (!any_d((t.zero != s.zero) | (t.largest >= SEARCH_WHOLLY_CUT))) break;
    s.zero = t.zero;
    beta *= SEARCH_BETA_GROWTH;
  }
  store_d(g->zero + b, best_zero);
}

LANES_TARGET static void hqq(struct group *g) {
  const enum kernels_float type = (enum kernels_float)g->f->scale_type;
  float lo[GROUP], hi[GROUP];
  extremes(g, g->f->block, lo, hi);
  for (size_t b = 0; b < GROUP; b++) {
    const struct search_hqq x = search_hqq_of(g->f, lo[b], hi[b]);
    g->scale[b] = x.inverse;
    g->zero[b] = x.zero;
    g->stored_scale[b] = search_stored(x.step, type);
  }
  for (size_t b = 0; b < GROUP; b += HALF)
    hqq_lanes(g, b);
  for (size_t b = 0; b < GROUP; b++)
    g->stored_zero[b] = search_stored(g->zero[b], type);
  codes_d(g, false);
}

// ---- error figures -----------------------------------------------------------------------------

// Of one block to a lane.
struct block_figures {
  float vv[GROUP], ee[GROUP], ve[GROUP];
  uint32_t largest[GROUP]; // bits of |e|
};

LANES_INLINE struct figures3 lane_figures(const struct group *g, size_t b, size_t from,
                                          lanes_i *largest) {
  const lanes_f scale = load_f(g->stored_scale + b), zero = load_f(g->stored_zero + b);
  struct figures3 sum = {{0}, {0}, {0}};
  for (size_t k = from; k < g->used; k += BLOCKS_LANES) {
    const lanes_f v = load_f(g->v[k] + b), e = v - (load_f(g->q[k] + b) - zero) * scale;
    sum = add3(sum, (struct figures3){v * v, e * e, v * e});
    *largest = most_i((lanes_i)size_f(e), *largest);
  }
  return sum;
}

LANES_INLINE void figures_of(const struct group *g, size_t b, struct block_figures *out) {
  struct figures3 x[BLOCKS_LANES];
  lanes_i largest = {0};
  for (size_t i = 0; i < BLOCKS_LANES; i++)
    x[i] = lane_figures(g, b, i, &largest);
  const struct figures3 sum =
      add3(add3(add3(x[0], x[4]), add3(x[2], x[6])), add3(add3(x[1], x[5]), add3(x[3], x[7])));
  store_f(out->vv + b, sum.a);
  store_f(out->ee + b, sum.b);
  store_f(out->ve + b, sum.c);
  memcpy(out->largest + b, &largest, sizeof largest);
}

// Those of block b by the reference: in double.
static void wide_figures(const struct group *g, size_t b, struct kernels_sums *sums) {
  float v[BLOCK_MAX];
  int codes[BLOCK_MAX];
  for (size_t k = 0; k < g->used; k++) {
    v[k] = g->v[k][b];
    codes[k] = (int)g->q[k][b];
  }
  blocks_figures(sums, v, codes, g->used, g->stored_scale[b], g->stored_zero[b]);
}

LANES_TARGET static void put_figures(const struct group *g) {
  struct block_figures x;
  for (size_t b = 0; b < GROUP; b += LANES)
    figures_of(g, b, &x);
  for (size_t b = 0; b < g->blocks; b++) {
    struct kernels_sums *sums = &g->p->sums[g->j[b]];
    if (!blocks_narrow(g->stored_scale[b])) {
      wide_figures(g, b, sums);
      continue;
    }
    sums->vv += (double)x.vv[b];
    sums->ee += (double)x.ee[b];
    sums->ve += (double)x.ve[b];
    blocks_plain_sums(sums, x.largest[b]);
    const struct blocks_run run = {(const uint8_t *)&g->v[0][b], sizeof *g->v, g->used,
                                   KERNELS_F32};
    if (!isfinite(x.vv[b])) blocks_count_nonfinite(sums, &run);
  }
}

// ---- codes to their places ---------------------------------------------------------------------

// Dwords of packed codes of n elements, of every block. bits: a code takes.
LANES_INLINE void pack(const struct group *g, size_t n, unsigned bits, uint32_t (*words)[GROUP]) {
  const size_t each = 32 / bits;
  const uint32_t mask = (1u << g->f->bits) - 1;
  for (size_t from = 0; from < n; from += each)
    for (size_t b = 0; b < GROUP; b += LANES) {
      lanes_u word = {0};
      for (size_t i = 0; i < each && from + i < n; i++) {
        const lanes_i code = __builtin_convertvector(load_f(g->q[from + i] + b), lanes_i);
        word |= ((lanes_u)code & mask) << (uint32_t)i * bits;
      }
      memcpy(words[from / each] + b, &word, sizeof word);
    }
}

LANES_INLINE void put_packed(const struct group *g, size_t n, unsigned bits) {
  uint32_t words[WORDS_MAX][GROUP];
  const size_t bytes = n * bits / 8;
  pack(g, n, bits, words);
  for (size_t b = 0; b < g->blocks; b++) {
    uint8_t *out = blocks_code_at(g->p, g->f, g->j[b], g->k[b], false);
    size_t at = 0;
    for (; at + sizeof **words <= bytes; at += sizeof **words)
      memcpy(out + at, &words[at / sizeof **words][b], sizeof **words);
    if (at < bytes) memcpy(out + at, &words[at / sizeof **words][b], bytes - at);
  }
}

// GATHER, columns: codes lie as the elements do.
LANES_INLINE void put_lines(const struct group *g) {
  const uint32_t mask = (1u << g->f->bits) - 1;
  for (size_t k = 0; k < g->used; k++) {
    uint8_t line[GROUP];
    for (size_t b = 0; b < GROUP; b += LANES) {
      const lanes_i code = __builtin_convertvector(load_f(g->q[k] + b), lanes_i);
      const lanes_b bytes = __builtin_convertvector((lanes_u)code & mask, lanes_b);
      memcpy(line + b, &bytes, sizeof bytes);
    }
    for (size_t b = 0, end; b < g->blocks; b = end) {
      end = neighbours_end(g, b);
      memcpy(blocks_code_at(g->p, g->f, g->j[b], g->k[b] + k, true), line + b, end - b);
    }
  }
}

LANES_TARGET static void put_codes(const struct group *g) {
  if (g->f->rule != KERNELS_GATHER) switch (g->f->bits) {
    case 2: put_packed(g, g->f->block, 2); break;
    case 4: put_packed(g, g->f->block, 4); break;
    default: put_packed(g, g->f->block, 8); break;
    }
  else if (g->columns)
    put_lines(g);
  else
    put_packed(g, g->used, 8);
}

// ---- panels ------------------------------------------------------------------------------------

static void take(struct group *g) {
  const enum kernels_float type = (enum kernels_float)g->f->in_type;
  if (g->columns)
    load_columns(g, type);
  else
    load_rows(g, type);
  if (g->used < g->f->block) memset(g->v[g->used], 0, (g->f->block - g->used) * sizeof *g->v);
  switch (g->f->rule) {
  case KERNELS_GATHER: gather(g); break;
  case KERNELS_RTN: rtn(g); break;
  case KERNELS_K_QUANT: k_quant(g); break;
  case KERNELS_K_QUANT_BEST: k_quant_best(g); break;
  default: hqq(g); break;
  }
  for (size_t b = 0; b < g->blocks; b++)
    search_put(g->p, g->f, g->j[b], g->k[b], g->stored_scale[b], g->stored_zero[b]);
  if (g->p->sums) put_figures(g);
  if (g->p->codes) put_codes(g);
  g->blocks = 0;
}

static void add(struct group *g, size_t j, size_t k) {
  g->j[g->blocks] = j;
  g->k[g->blocks] = k;
  if (++g->blocks == GROUP) take(g);
}

static void rows(const struct kernels_panel *p, const struct kernels_block_format *f) {
  struct group g;
  const size_t left = p->k % f->block, whole = p->k - left;
  if (f->block > BLOCK_MAX) {
    search_rows_portable(p, f);
    return;
  }
  g.p = p;
  g.f = f;
  g.columns = false;
  g.blocks = 0;
  g.used = f->block;
  for (size_t j = 0; j < p->n; j++)
    for (size_t k = 0; k < whole; k += f->block)
      add(&g, j, k);
  if (g.blocks) take(&g);
  g.used = left;
  for (size_t j = 0; left && j < p->n; j++)
    add(&g, j, whole);
  if (g.blocks) take(&g);
}

static void columns(const struct kernels_panel *p, const struct kernels_block_format *f) {
  struct group g;
  if (f->block > BLOCK_MAX) {
    search_columns_portable(p, f);
    return;
  }
  g.p = p;
  g.f = f;
  g.columns = true;
  g.blocks = 0;
  for (size_t k = 0; k < p->k; k += f->block) {
    const size_t used = p->k - k < f->block ? p->k - k : f->block;
    if (g.blocks && used < f->block) take(&g);
    g.used = used;
    for (size_t j = 0; j < p->n; j++)
      add(&g, j, k);
  }
  if (g.blocks) take(&g);
}

// The two functions of a variant.
#define SEARCH(isa)                                                                                \
  void search_rows_##isa(const struct kernels_panel *p, const struct kernels_block_format *f) {    \
    rows(p, f);                                                                                    \
  }                                                                                                \
  void search_columns_##isa(const struct kernels_panel *p, const struct kernels_block_format *f) { \
    columns(p, f);                                                                                 \
  }

#endif
