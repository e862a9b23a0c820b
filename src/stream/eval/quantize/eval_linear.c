// Codes by scales and zero points that are given: rows of QUANTIZE_LINEAR.
//
//   operand ──▶ tile ──▶ floats ──▶ runs ──▶ │ kernel │ ──▶ codes, a byte or more each
//                                                ▲
//   scales, zero points ──▶ window (floats) ─────┘
//
// The operand lies as [outer, n, inner] around the axis. Neighbours share a scale, or have scales that lie
// one behind the other, so elements are cut into runs of which only the first scale's number is asked:
//
//   per tensor                 one run
//   inner > 1, a scale an index of the axis    a run of `inner`, one scale
//   inner = 1, a scale an index of the axis    a run of n, a scale each
//   blocks, inner = 1                          a run of `block`, one scale
//   blocks, inner > 1                          a run of `inner`, a scale each
//
// The window in the box holds all scales and zero points, or as many as there is room for. Behind it lies the tile.
//
//   │ scales │ zeros │ tile │
//
// Elements and scales become float32; codes of int32 are found in double. An element that is not finite and
// a scale that divides nothing are errors: there is no code for them.
#include "eval_linear.h"

#include "eval_figures.h"
#include "eval_once.h"
#include "eval_quantize.h"
#include "kernels_convert.h"

#include <assert.h>
#include <math.h>

enum { CHUNK = 1024, TILE_MOST = 512 << 10, SMALL_BOX = 16 << 10 };

// Scales and zero points [at, at + have) in the state of the box.
struct window {
  uint64_t at, have;
};

struct linear {
  struct eval_task *t;
  uint32_t id, of;
  struct recipe_linear q;
  enum dtype type; // of the operand
  uint32_t width, out_width;
  struct extent at; // of an operand that is nothing but source bytes
  bool direct;
  uint64_t n, inner, scales_n; // of the axis; scales
  bool each;                   // scales of neighbours lie one behind the other
  double lo, hi;               // the codes there are
  struct window *window;
  float *scales, *zeros;
  uint64_t room; // scales that the window has room for
  uint8_t *tile;
  size_t tile_bytes;
  struct err *err;
};

static void linear_of(struct eval_task *t, uint32_t id, struct linear *z) {
  const struct recipes *r = t->r;
  *z = (struct linear){.t = t,
                       .id = id,
                       .of = r->args[r->rows[id].args],
                       .q = recipe_quantize_linear_of(r, id),
                       .n = 1,
                       .inner = 1};
  const struct recipe *x = &r->rows[z->of];
  z->type = (enum dtype)x->dtype;
  z->width = dtype_bits(z->type) / 8;
  z->out_width = eval_width(r, id);
  z->direct = recipe_is_copy(r, z->of, &z->at);
  z->scales_n = r->rows[z->q.scales].count;
  if (dtype_is_integer(z->q.type)) eval_linear_range_of(z->q.type, &z->lo, &z->hi);
  if (z->q.axis == RECIPE_PER_TENSOR) {
    z->inner = max_u64(x->count, 1);
    return;
  }
  z->n = (uint64_t)recipe_dims(r, z->of)[z->q.axis];
  for (uint32_t i = z->q.axis + 1; i < x->rank; i++)
    z->inner *= (uint64_t)recipe_dims(r, z->of)[i];
  z->each = z->q.block ? z->inner > 1 : z->inner == 1;
}

// Of element `first`: the number of its scale, and how many elements the run has from there on.
static uint64_t run_at(const struct linear *z, uint64_t first, uint64_t *n) {
  const uint64_t i = first % z->inner, k = first / z->inner % z->n;
  if (z->q.block == 0) {
    *n = z->inner > 1 || !z->each ? z->inner - i : z->n - k;
    return z->inner > 1 || !z->each ? k : k + i;
  }
  const uint64_t blocks = (z->n - 1) / z->q.block + 1, outer = first / z->inner / z->n;
  *n = z->inner > 1 ? z->inner - i : min_u64(z->q.block - k % z->q.block, z->n - k);
  return (outer * blocks + k / z->q.block) * z->inner + i;
}

// ---- the box -----------------------------------------------------------------------------------

// Half of the box is for scales and zero points, if there are so many. Where it is small all is, and the tile is the
// first half of scratch; what the window is filled from is the second one in any case.
static void share_box(struct linear *z, struct eval_stripe_box *b) {
  const uint64_t all = z->t->ev->box_bytes;
  const uint64_t each = (z->q.zeros == NO_ID ? 1 : 2) * sizeof(float);
  const bool small = all < SMALL_BOX;
  z->room = min_u64((small ? all : all / 2) / each, round_up(z->scales_n, 16));
  const uint64_t used = round_up(z->room * each, 64);
  z->window = (struct window *)(void *)b->state;
  z->scales = (float *)(void *)b->data;
  z->zeros = z->scales + z->room;
  z->tile = small ? eval_scratch(z->t->ev) : b->data + used;
  const uint64_t rest = small ? EVAL_SCRATCH_BYTES / 2 : all - used;
  const size_t chunk = CHUNK * z->width;
  z->tile_bytes = (size_t)min_u64(rest, TILE_MOST) / chunk * chunk;
  assert(z->room > 0 && z->tile_bytes > 0);
  if (b->count == 0) *z->window = (struct window){0};
  b->count = 1;
}

static void widen_zeros(enum dtype type, const uint8_t *in, size_t n, float *out) {
  const struct kernels_cast c = {.from = (uint8_t)type, .to = DTYPE_FLOAT};
  kernels_convert(out, in, n, &c);
}

static int check_scales(const struct linear *z, uint64_t at, size_t n) {
  const float *s = z->scales + (at - z->window->at);
  for (size_t i = 0; i < n; i++) {
    if (isfinite(s[i]) && s[i] != 0) continue;
    err_fill(z->err, ERR_FAIL, "scale %llu of a weight is %g: nothing can be quantized by it",
             (unsigned long long)(at + i), (double)s[i]);
    return err_because(z->err, REASON_NOT_SHRUNK);
  }
  return 0;
}

// n scales from number `at` on to the window's place `i`, at most `EVAL_PAIRS` at a time of those that are no
// float32.
static int read_scales(struct linear *z, uint64_t at, uint64_t i, uint64_t n) {
  uint8_t *scratch = eval_scratch(z->t->ev) + EVAL_SCRATCH_BYTES / 2;
  const enum dtype type = (enum dtype)z->t->r->rows[z->q.scales].dtype;
  if (type == DTYPE_FLOAT)
    return eval_elements(z->t, z->q.scales, at, n, (uint8_t *)(z->scales + i), z->err);
  for (uint64_t m; n > 0; n -= m, at += m, i += m) {
    m = min_u64(n, EVAL_PAIRS);
    if (eval_elements(z->t, z->q.scales, at, m, scratch, z->err) != 0) return -1;
    eval_figures_floats(type, scratch, (size_t)m, z->scales + i);
  }
  return 0;
}

static int read_zeros(struct linear *z, uint64_t at, uint64_t n) {
  uint8_t *scratch = eval_scratch(z->t->ev) + EVAL_SCRATCH_BYTES / 2;
  for (uint64_t i = 0, m; i < n; i += m) {
    m = min_u64(n - i, EVAL_SCRATCH_BYTES / 4); // of two bytes at most
    if (eval_elements(z->t, z->q.zeros, at + i, m, scratch, z->err) != 0) return -1;
    widen_zeros(z->q.type, scratch, (size_t)m, z->zeros + i);
  }
  return 0;
}

// Fills the window from scale `at` on.
static int fill_window(struct linear *z, uint64_t at) {
  struct window *w = z->window;
  const uint64_t n = min_u64(z->room, z->scales_n - at);
  *w = (struct window){.at = at};
  if (read_scales(z, at, 0, n) != 0 || check_scales(z, at, (size_t)n) != 0) return -1;
  if (z->q.zeros != NO_ID && read_zeros(z, at, n) != 0) return -1;
  w->have = n;
  return 0;
}

// Scales from number `at` on: how many of *n there are in the window, and where.
static int find_scales(struct linear *z, uint64_t at, uint64_t *n, struct kernels_linear *k) {
  struct window *w = z->window;
  if ((at < w->at || at - w->at >= w->have) && fill_window(z, at) != 0) return -1;
  const uint64_t i = at - w->at;
  if (z->each) *n = min_u64(*n, w->have - i);
  k->scales = z->scales + i;
  k->zeros = z->q.zeros == NO_ID ? NULL : z->zeros + i;
  return 0;
}

// ---- elements ----------------------------------------------------------------------------------

static int read_elements(struct linear *z, uint64_t first, size_t n) {
  if (!z->direct) return eval_elements(z->t, z->of, first, n, z->tile, z->err);
  const uint64_t off = first * z->width, bytes = n * z->width, rest = z->at.len - off - bytes;
  struct io *io = z->t->ev->io;
  if (io_read(io, z->at.file, z->at.off + off, z->tile, bytes, z->err) != 0) return -1;
  io_will_need(io, z->at.file, z->at.off + off + bytes, min_u64(z->tile_bytes, rest));
  return 0;
}

// CHUNK elements at most of a tile, as floats.
static const float *widen(const struct linear *z, const uint8_t *in, size_t n, float *room) {
  const void *from = in;
  if (z->type == DTYPE_FLOAT) return from; // tiles begin at multiples of an element's size
  if (z->type == DTYPE_FLOAT16)
    kernels_f16_to_f32(room, from, n);
  else
    kernels_bf16_to_f32(room, from, n);
  return room;
}

static int not_finite(const struct linear *z, uint64_t first, const float *v, size_t n) {
  int64_t place[RECIPE_MAX_RANK];
  const uint32_t rank = z->t->r->rows[z->of].rank;
  const int64_t *dims = recipe_dims(z->t->r, z->of);
  size_t i = 0;
  while (i + 1 < n && isfinite(v[i]))
    i++;
  uint64_t at = first + i;
  for (uint32_t k = rank; k-- > 0; at /= (uint64_t)dims[k])
    place[k] = (int64_t)(at % (uint64_t)dims[k]);
  err_fill(z->err, ERR_FAIL, "element %s of the weight is not finite (%g)",
           quote_dims(place, rank).s, (double)v[i]);
  return err_because(z->err, REASON_NOT_SHRUNK);
}

// ---- codes -------------------------------------------------------------------------------------

// Codes below 8 bits are a byte with its sign, until they were told of.
static bool make_codes(const struct linear *z, const struct kernels_linear *k, const float *v,
                       size_t n, uint8_t *out) {
  float quotients[CHUNK];
  if (z->q.type == DTYPE_INT32) return kernels_linear_int32(out, v, n, k);
  if (dtype_is_integer(z->q.type)) return kernels_linear_codes(out, v, n, k);
  const bool finite = kernels_linear_quotients(quotients, v, n, k);
  const struct kernels_cast c = {.from = DTYPE_FLOAT, .to = (uint8_t)z->q.type, .saturate = true};
  kernels_convert(out, quotients, n, &c);
  return finite;
}

// What codes stand for, in double.
static void decode(const struct linear *z, const struct kernels_linear *k, const uint8_t *codes,
                   size_t n, double *out) {
  const enum dtype type = z->q.type == DTYPE_INT4    ? DTYPE_INT8
                          : z->q.type == DTYPE_UINT4 ? DTYPE_UINT8
                          : z->q.type == DTYPE_INT2  ? DTYPE_INT8
                          : z->q.type == DTYPE_UINT2 ? DTYPE_UINT8
                                                     : z->q.type;
  const struct kernels_cast c = {.from = (uint8_t)type, .to = DTYPE_DOUBLE};
  kernels_convert(out, codes, n, &c);
  for (size_t i = 0; i < n; i++) {
    const size_t s = z->each ? i : 0;
    out[i] = (out[i] - (k->zeros ? (double)k->zeros[s] : 0)) * (double)k->scales[s];
  }
}

// Codes of a byte and their elements, as the kernels of figures take them. False: these are not such.
static bool tell_bytes(struct linear *z, const struct kernels_linear *k, uint64_t first,
                       const float *v, const uint8_t *codes, size_t n) {
  uint8_t zeros[CHUNK];
  const bool is_signed = dtype_is_signed(z->q.type);
  if (z->out_width != 1 || !dtype_is_integer(z->q.type)) return false;
  if (!z->each) {
    const double scale = (double)k->scales[0], zero = k->zeros ? (double)k->zeros[0] : 0;
    const struct kernels_stored s = {
        .is_unsigned = !is_signed, .scale = scale, .zero = is_signed ? -zero * scale : zero};
    return eval_figures_add_codes(z->t, first, v, codes, n, &s);
  }
  if (is_signed && k->zeros) return false;
  for (size_t i = 0; k->zeros && i < n; i++)
    zeros[i] = (uint8_t)k->zeros[i];
  const struct kernels_scaled s = {.bits = 8,
                                   .is_signed = is_signed,
                                   .share = 1,
                                   .scales = k->scales,
                                   .zeros = k->zeros ? zeros : NULL};
  return eval_figures_add_scaled(z->t, first, v, codes, n, &s);
}

static int tell(struct linear *z, const struct kernels_linear *k, uint64_t first, const float *v,
                const uint8_t *codes, size_t n) {
  double values[EVAL_PAIRS], stored[EVAL_PAIRS];
  if (!eval_figures_wants(z->t, z->id, first, n)) return 0;
  if (tell_bytes(z, k, first, v, codes, n)) return 0;
  for (size_t i = 0, m; i < n; i += m) {
    m = n - i < EVAL_PAIRS ? n - i : EVAL_PAIRS;
    if (!eval_figures_wants(z->t, z->id, first + i, m)) continue;
    struct kernels_linear here = *k;
    if (z->each) here.scales += i;
    if (z->each && here.zeros) here.zeros += i;
    kernels_f32_to_f64(values, v + i, m);
    decode(z, &here, codes + i * z->out_width, m, stored);
    if (eval_figures_add(z->t, first + i, values, stored, m, z->err) != 0) return -1;
  }
  return 0;
}

// Elements of a tile, n <= CHUNK.
static int make_chunk(struct linear *z, uint64_t first, const uint8_t *in, size_t n, uint8_t *out) {
  float room[CHUNK];
  const float *v = widen(z, in, n, room);
  struct kernels_linear k = {
      .each = z->each, .lo = (float)z->lo, .hi = (float)z->hi, .width = (uint8_t)z->out_width};
  const uint32_t bits = dtype_bits(z->q.type);
  for (size_t i = 0; i < n;) {
    uint64_t most;
    const uint64_t scale = run_at(z, first + i, &most);
    most = min_u64(most, n - i);
    if (find_scales(z, scale, &most, &k) != 0) return -1;
    const size_t m = (size_t)most;
    uint8_t *to = out + i * z->out_width;
    if (!make_codes(z, &k, v + i, m, to)) return not_finite(z, first + i, v + i, m);
    if (tell(z, &k, first + i, v + i, to, m) != 0) return -1;
    for (size_t j = 0; bits < 8 && j < m; j++)
      to[j] &= (uint8_t)((1u << bits) - 1);
    i += m;
  }
  return 0;
}

static int make(struct linear *z, uint64_t first, uint64_t count, uint8_t *out) {
  while (count > 0) {
    const size_t n = (size_t)min_u64(count, z->tile_bytes / z->width);
    if (eval_may_go_on(z->t->ev, z->err) != 0 || read_elements(z, first, n) != 0) return -1;
    for (size_t i = 0; i < n; i += CHUNK) {
      const size_t m = (size_t)min_u64(CHUNK, n - i);
      if (make_chunk(z, first + i, z->tile + i * z->width, m, out + i * z->out_width) != 0)
        return -1;
    }
    first += n;
    count -= n;
    out += n * z->out_width;
  }
  return 0;
}

int eval_linear_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                         uint8_t *out, struct err *err) {
  struct linear z;
  if (id == t->once) return eval_once_elements(t, id, first, count, out, err);
  struct eval_stripe_box *b = eval_box_for(t->ev, id);
  if (!b)
    return err_set(err, ERR_INTERNAL, "a quantized tensor lies below more than %u others",
                   t->ev->n_boxes);
  b->busy = true;
  linear_of(t, id, &z);
  z.err = err;
  share_box(&z, b);
  const int failed = make(&z, first, count, out);
  b->busy = false;
  return failed;
}
