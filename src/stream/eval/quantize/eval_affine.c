// Quantization by tensor or channel: codes, scales and zero points of FORMAT_SHRINK, LEVELS and
// AFFINE.
//
//   operand ──tile──chunks──▶ range of every channel ──▶ grid ──▶ │ box │      once
//   operand ──tile──chunks──▶ codes                                            for what is asked for
//
// Which code an element gets depends on the smallest and largest element of its tensor (channel),
// so the operand is read once before the first code can be made. Ranges are a few bytes: those
// found are told to the run's cache, where other workers, and the scales and offsets that are asked
// for elsewhere, find them. Workers that need them while one is at it wait for it: none of them
// could do anything else.
//
// The channel of element i is (i / inner) % channels. Chunks are cut into runs of one channel; of a
// tensor's only one the run is the chunk.
//
// The box of the recipe holds a grid a channel, or (where that many do not fit) just the ranges,
// and grids are made as they are needed. Behind them lie the tile and, as far as the box goes, elements
// of the operand that are kept while its ranges are found (eval_kept.h): from the first one on whose
// code is asked for, they need no second read.
//
//   │ ranges │ grids │ tile │ kept: elements from..to …
#include "stream/eval/quantize/inside/eval_affine.h"

#include "stream/eval/core/eval_figures.h"
#include "stream/eval/quantize/inside/eval_kept.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { CHUNK = 1024, ASK_ELEMENTS = 1 << 18 };

struct range {
  double lo, hi;
};

struct affine {
  struct eval_task *t;
  uint32_t id, of;
  struct recipe_quantization q;
  enum recipe_part part;
  enum dtype type; // of the operand
  uint32_t width;
  uint64_t count, channels, inner;
  // in the box
  struct range *ranges;           // a channel each
  struct eval_affine_grid *grids; // NULL: no room
  struct eval_kept k;             // elements of the operand, in whole chunks
  bool looks;                     // they come for their range
  uint64_t bad;                   // elements that are NaN or infinite
  uint8_t *out;                   // where codes go next
  uint64_t next;                  // the element they are of
  int failed;                     // telling of error figures did, with *err
  struct err *err;
};

static void affine_of(struct eval_task *t, struct eval_stripe_box *b, struct affine *z) {
  const struct recipes *r = t->r;
  *z = (struct affine){.t = t,
                       .id = b->id,
                       .of = r->args[r->rows[b->id].args],
                       .q = recipe_quantization_of(r, b->id),
                       .part = recipe_part_of(r, b->id),
                       .channels = 1,
                       .inner = 1};
  const struct recipe *x = &r->rows[z->of];
  z->type = (enum dtype)x->dtype;
  z->width = dtype_bits(z->type) / 8;
  z->count = x->count;
  eval_kept_of(&z->k, t, z->of);
  if (z->q.axis == RECIPE_PER_TENSOR) {
    z->inner = max_u64(x->count, 1);
    return;
  }
  const struct recipe_around a = recipe_around(r, z->of, z->q.axis);
  z->channels = a.n;
  z->inner = a.inner;
}

// ---- chunks ------------------------------------------------------------------------------------

// Elements as the arithmetic takes them, the other pointer NULL: floats, or doubles for double.
struct wide {
  const float *f;
  const double *d;
};

static void widen(const struct affine *z, const uint8_t *in, size_t n, float *room,
                  struct wide *w) {
  const void *from = in; // of a tile: elements lie at multiples of their size
  *w = (struct wide){.f = room};
  if (z->type == DTYPE_DOUBLE)
    *w = (struct wide){.d = from};
  else if (z->type == DTYPE_FLOAT)
    w->f = from;
  else if (z->type == DTYPE_FLOAT16)
    kernels_f16_to_f32(room, from, n);
  else
    kernels_bf16_to_f32(room, from, n);
}

// What is done with a run of elements [from, from + n) of a chunk, all of one channel.
typedef void (*run_fn)(struct affine *z, const struct wide *w, size_t from, size_t n,
                       uint64_t channel);

static void cut_chunk(struct affine *z, uint64_t first, size_t n, const uint8_t *in, run_fn fn) {
  float room[CHUNK];
  struct wide w;
  widen(z, in, n, room, &w);
  for (size_t from = 0; from < n;) {
    const uint64_t at = first + from;
    const size_t m = (size_t)min_u64(n - from, z->inner - at % z->inner);
    fn(z, &w, from, m, at / z->inner % z->channels);
    from += m;
  }
}

static int each_run(struct affine *z, uint64_t first, uint64_t count, run_fn fn, struct err *err) {
  for (uint64_t unasked = 0; count > 0;) {
    size_t n = (size_t)min_u64(count, z->k.tile_elements);
    const uint8_t *at;
    if (unasked >= ASK_ELEMENTS) {
      if (z->looks) eval_looked(z->t->ev, z->of, unasked * z->width);
      if (eval_may_go_on(z->t->ev, err) != 0) return -1;
      unasked = 0;
    }
    if (eval_kept_find(&z->k, first, &n, &at, err) != 0) return -1;
    for (size_t i = 0; i < n; i += CHUNK)
      cut_chunk(z, first + i, (size_t)min_u64(CHUNK, n - i), at + i * z->width, fn);
    first += n;
    count -= n;
    unasked += n;
    if (count == 0 && z->looks) eval_looked(z->t->ev, z->of, unasked * z->width);
  }
  return 0;
}

// ---- ranges ------------------------------------------------------------------------------------

static void join_range(struct affine *z, const struct wide *w, size_t from, size_t n,
                       uint64_t channel) {
  struct range *r = &z->ranges[channel];
  if (z->type == DTYPE_DOUBLE) {
    z->bad += kernels_affine_range_f64(w->d + from, n, &r->lo, &r->hi);
    return;
  }
  float lo = (float)fmin(r->lo, FLT_MAX), hi = (float)fmax(r->hi, -FLT_MAX);
  z->bad += kernels_affine_range_f32(w->f + from, n, &lo, &hi);
  r->lo = fmin(r->lo, lo);
  r->hi = fmax(r->hi, hi);
}

static struct eval_cache_key key_of(const struct affine *z) {
  return (struct eval_cache_key){
      .of = z->of, .q = z->q, .units = z->channels, .bytes = {sizeof(struct range)}};
}

static bool know_ranges(void *ctx) {
  struct affine *z = ctx;
  const struct eval_cache_key key = key_of(z);
  for (uint64_t c = 0; c < z->channels; c++)
    if (!eval_cache_get(z->t->ev->cache, &key, c, 0, 0, (uint8_t *)&z->ranges[c],
                        sizeof z->ranges[c]))
      return false;
  return true;
}

// Reads all of the operand, and keeps what it can.
static int join_ranges(struct affine *z, struct err *err) {
  eval_kept_begin(&z->k, z->next / z->k.tile_elements * z->k.tile_elements); // tiles are read whole
  z->k.keeps = z->part == PART_CODES;
  z->looks = true;
  const int failed = each_run(z, 0, z->count, join_range, err);
  z->k.keeps = z->looks = false;
  return failed;
}

static int find_ranges(void *ctx, struct err *err) {
  struct affine *z = ctx;
  const struct eval_cache_key key = key_of(z);
  for (uint64_t c = 0; c < z->channels; c++)
    z->ranges[c] = (struct range){DBL_MAX, -DBL_MAX};
  if (join_ranges(z, err) != 0) return -1;
  if (z->bad > 0) return eval_kept_refuse(z->count, z->bad, err);
  for (uint64_t c = 0; c < z->channels; c++)
    eval_cache_put(z->t->ev->cache, &key, c, (const uint8_t *)&z->ranges[c], NULL);
  return 0;
}

// ---- grids -------------------------------------------------------------------------------------

static bool grid_of(const struct affine *z, uint64_t channel, struct eval_affine_grid *g) {
  const struct range *r = &z->ranges[channel];
  return eval_affine_grid_of(&z->q, z->type, r->lo, r->hi, g);
}

static int make_grids(struct affine *z, struct err *err) {
  struct eval_affine_grid here;
  for (uint64_t c = 0; c < z->channels; c++) {
    struct eval_affine_grid *g = z->grids ? &z->grids[c] : &here;
    if (grid_of(z, c, g)) continue;
    return err_set(err, ERR_FAIL, "a weight ranges from %g to %g, which is too wide for its type",
                   z->ranges[c].lo, z->ranges[c].hi);
  }
  return 0;
}

// The memory of the box, shared out.
static int share_box(struct affine *z, struct eval_stripe_box *b, struct err *err) {
  const uint64_t room = z->t->ev->box_bytes, ranges = round_up(z->channels * sizeof *z->ranges, 64);
  if (z->channels > room / sizeof *z->ranges || ranges > room)
    return err_set(err, ERR_RETRY, "the ranges of %s channels do not fit into %s bytes of memory",
                   decimal(z->channels).s, decimal(room).s),
           err_because(err, REASON_TOO_MUCH);
  z->ranges = (struct range *)(void *)b->data;
  uint64_t used = ranges;
  if (z->channels <= (room - ranges) / sizeof *z->grids) {
    z->grids = (struct eval_affine_grid *)(void *)(b->data + ranges);
    used = min_u64(round_up(ranges + z->channels * sizeof *z->grids, 64), room);
  }
  z->k.held = (struct eval_kept_held *)(void *)b->state;
  eval_kept_share(&z->k, b->data + used, room - used, CHUNK, EVAL_SCRATCH_BYTES);
  return 0;
}

static int set_up(struct affine *z, struct eval_stripe_box *b, struct err *err) {
  if (share_box(z, b, err) != 0) return -1;
  if (b->count > 0) return 0;
  eval_kept_begin(&z->k, 0);
  assert(z->channels > 0); // or there would be no element to ask for
  // All of them are found together: who waits waits for the last one.
  const struct eval_cache_key key = key_of(z);
  if (eval_find_once(z->t, &key, z->channels - 1, know_ranges, find_ranges, z, err) != 0) return -1;
  if (make_grids(z, err) != 0) return -1;
  b->count = 1;
  return 0;
}

// ---- codes -------------------------------------------------------------------------------------

static void narrow(enum dtype type, const double *x, size_t n, uint8_t *out) {
  uint16_t half[CHUNK];
  float f[CHUNK];
  const void *from = half;
  if (type == DTYPE_DOUBLE)
    from = x;
  else if (type == DTYPE_FLOAT16)
    kernels_f64_to_f16(half, x, n);
  else if (type == DTYPE_BFLOAT16)
    kernels_f64_to_bf16(half, x, n);
  else
    kernels_f64_to_f32((from = f, f), x, n);
  memcpy(out, from, n * dtype_bits(type) / 8);
}

// The elements in the arithmetic of the grid's rule: halves and floats may need doubles.
static const double *as_doubles(const struct wide *w, size_t from, size_t n, double *room) {
  if (w->d) return w->d + from;
  kernels_f32_to_f64(room, w->f + from, n);
  return room;
}

static void make_codes(struct affine *z, const struct eval_affine_grid *g, const struct wide *w,
                       size_t from, size_t n) {
  double room[CHUNK];
  int8_t *out = (int8_t *)z->out;
  if (g->rule == EVAL_AFFINE_CONSTANT)
    memset(out, 0, n);
  else if (z->q.format == FORMAT_AFFINE)
    kernels_affine_divide(z->out, w->f + from, n, (float)g->scale, (float)g->k.zero, (float)g->k.lo,
                          (float)g->k.hi);
  else if (g->rule == EVAL_AFFINE_F32)
    kernels_affine_codes_f32(out, w->f + from, n, &g->k);
  else if (g->rule == EVAL_AFFINE_F16)
    kernels_affine_codes_f16(out, w->f + from, n, &g->k);
  else
    kernels_affine_codes_f64(out, as_doubles(w, from, n, room), n, &g->k);
}

static void make_levels(struct affine *z, const struct eval_affine_grid *g, const struct wide *w,
                        size_t from, size_t n) {
  double level[CHUNK], room[CHUNK];
  if (g->rule == EVAL_AFFINE_F32)
    kernels_affine_levels_f32(level, w->f + from, n, &g->k);
  else if (g->rule == EVAL_AFFINE_F16)
    kernels_affine_levels_f16(level, w->f + from, n, &g->k);
  else if (g->rule == EVAL_AFFINE_F64)
    kernels_affine_levels_f64(level, as_doubles(w, from, n, room), n, &g->k);
  for (size_t i = 0; g->rule == EVAL_AFFINE_CONSTANT && i < n; i++)
    level[i] = g->zero;
  narrow(z->type, level, n, z->out);
}

// What codes are told as: with scale and offset as they are in the file.
static struct kernels_stored stored_of(const struct affine *z, const struct eval_affine_grid *g) {
  return (struct kernels_stored){.is_unsigned = z->q.format == FORMAT_AFFINE && !z->q.symmetric,
                                 .scale = g->scale,
                                 .zero = g->zero};
}

// What n elements are stored as, the stored form at `stored`.
static void decode(const struct affine *z, const struct eval_affine_grid *g, const uint8_t *stored,
                   size_t n, double *out) {
  const struct kernels_stored s = stored_of(z, g);
  if (z->q.format == FORMAT_LEVELS)
    eval_figures_widen(z->type, stored, n, out);
  else
    kernels_codes_values(out, stored, n, &s);
}

// Floats and codes as they are. False: this is not such a weight, or an element is not finite.
static bool tell_codes(struct affine *z, const struct eval_affine_grid *g, const struct wide *w,
                       size_t from, size_t n) {
  const struct kernels_stored s = stored_of(z, g);
  return w->f && z->q.format != FORMAT_LEVELS &&
         eval_figures_add_codes(z->t, z->next, w->f + from, z->out, n, &s);
}

static void tell_figures(struct affine *z, const struct eval_affine_grid *g, const struct wide *w,
                         size_t from, size_t n) {
  double room[EVAL_PAIRS], stored[EVAL_PAIRS];
  const uint32_t width = z->q.format == FORMAT_LEVELS ? z->width : 1;
  for (size_t i = 0; i < n && !z->failed; i += EVAL_PAIRS) {
    const size_t m = n - i < EVAL_PAIRS ? n - i : EVAL_PAIRS;
    if (!eval_figures_wants(z->t, z->id, z->next + i, m)) continue;
    const double *v = as_doubles(w, from + i, m, room);
    decode(z, g, z->out + i * width, m, stored);
    z->failed = eval_figures_add(z->t, z->next + i, v, stored, m, z->err);
  }
}

static void put_run(struct affine *z, const struct wide *w, size_t from, size_t n,
                    uint64_t channel) {
  struct eval_affine_grid here;
  const struct eval_affine_grid *g = z->grids ? &z->grids[channel] : &here;
  if (!z->grids) grid_of(z, channel, &here);
  const bool levels = z->q.format == FORMAT_LEVELS;
  if (levels)
    make_levels(z, g, w, from, n);
  else
    make_codes(z, g, w, from, n);
  if (eval_figures_wants(z->t, z->id, z->next, n) && !tell_codes(z, g, w, from, n))
    tell_figures(z, g, w, from, n);
  z->out += n * (levels ? z->width : 1);
  z->next += n;
}

static void put_scales(struct affine *z, uint64_t first, uint64_t count, uint8_t *out) {
  for (uint64_t c = first; c < first + count; c++) {
    struct eval_affine_grid g;
    grid_of(z, c, &g);
    if (z->part == PART_ZEROS && z->q.format == FORMAT_AFFINE) {
      *out++ = (uint8_t)(int32_t)g.zero;
      continue;
    }
    narrow(z->type, z->part == PART_SCALES ? &g.scale : &g.zero, 1, out);
    out += z->width;
  }
}

int eval_affine_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                         uint64_t count, uint8_t *out, struct err *err) {
  struct affine z;
  affine_of(t, b, &z);
  z.out = out;
  z.next = first;
  z.err = err;
  if (set_up(&z, b, err) != 0) return -1;
  if (z.part == PART_CODES) return each_run(&z, first, count, put_run, err) != 0 ? -1 : z.failed;
  put_scales(&z, first, count, out);
  return 0;
}
