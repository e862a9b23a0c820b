// Quantization by tensor or channel: codes, scales and zero points of FORMAT_SHRINK, LEVELS and AFFINE.
//
//   operand ──chunks──▶ range of every channel ──▶ grid ──▶ │ box │      once
//   operand ──chunks──▶ codes                                            for what is asked for
//
// Which code an element gets depends on the smallest and largest element of its tensor (channel), so the
// operand is read once before the first code can be made. Ranges are a few bytes: those found are told to
// the run's cache, where other workers, and the scales and offsets that are asked for elsewhere, find them.
// Workers that need them while one is at it wait for it: none of them could do anything else.
//
// The channel of element i is (i / inner) % channels. Chunks are cut into runs of one channel; of a
// tensor's only one the run is the chunk.
//
// The box of the recipe holds a grid a channel, or (where that many do not fit) just the ranges, and grids
// are made as they are needed.
#include "eval_affine.h"

#include "eval_cache.h"
#include "eval_figures.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { CHUNK = 1024, VIEW_MOST = 1 << 20, VIEW_LEAST = 128 << 10, ASK_ELEMENTS = 1 << 18 };

struct range {
  double lo, hi;
};

struct affine {
  struct eval *ev;
  uint32_t id, of;
  struct recipe_quantization q;
  enum recipe_part part;
  enum dtype type; // of the operand
  uint32_t width;
  uint64_t count, channels, inner;
  struct extent at; // of an operand that is nothing but source bytes
  bool direct;
  // in the box
  struct range *ranges;           // a channel each
  struct eval_affine_grid *grids; // NULL: no room
  uint64_t bad;                   // elements that are NaN or infinite
  uint8_t *out;                   // where codes go next
  uint64_t next;                  // the element they are of
  int failed;                     // telling of error figures did, with *err
  struct err *err;
};

static void affine_of(struct eval *ev, const struct eval_box *b, struct affine *z) {
  const struct recipes *r = ev->r;
  *z = (struct affine){.ev = ev,
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
  z->direct = recipe_is_copy(r, z->of, &z->at);
  if (z->q.axis == RECIPE_PER_TENSOR) {
    z->inner = max_u64(x->count, 1);
    return;
  }
  z->channels = (uint64_t)recipe_dims(r, z->of)[z->q.axis];
  for (uint32_t i = z->q.axis + 1; i < x->rank; i++)
    z->inner *= (uint64_t)recipe_dims(r, z->of)[i];
}

// ---- chunks ------------------------------------------------------------------------------------

// Elements as the arithmetic takes them: floats, or doubles for double.
union wide {
  float f[CHUNK];
  double d[CHUNK];
};

static void widen(const struct affine *z, const uint8_t *in, size_t n, union wide *w) {
  uint16_t half[CHUNK];
  if (z->type == DTYPE_FLOAT || z->type == DTYPE_DOUBLE) {
    memcpy(w, in, n * z->width);
    return;
  }
  memcpy(half, in, n * sizeof *half);
  if (z->type == DTYPE_FLOAT16)
    kernels_f16_to_f32(w->f, half, n);
  else
    kernels_bf16_to_f32(w->f, half, n);
}

// What is done with a run of elements [from, from + n) of a chunk, all of one channel.
typedef void (*run_fn)(struct affine *z, const union wide *w, size_t from, size_t n,
                       uint64_t channel);

static void cut_chunk(struct affine *z, uint64_t first, size_t n, const uint8_t *in, run_fn fn) {
  union wide w;
  widen(z, in, n, &w);
  for (size_t from = 0; from < n;) {
    const uint64_t at = first + from;
    const size_t m = (size_t)min_u64(n - from, z->inner - at % z->inner);
    fn(z, &w, from, m, at / z->inner % z->channels);
    from += m;
  }
}

// A view counts as memory of ours too: a small budget takes small ones.
static uint64_t view_bytes(const struct eval *ev) {
  return max_u64(min_u64(ev->budget_bytes / 4, VIEW_MOST), VIEW_LEAST);
}

static int view_chunks(struct affine *z, uint64_t first, uint64_t count, run_fn fn,
                       struct err *err) {
  const uint64_t off = z->at.off + first * z->width, end = z->at.off + z->at.len;
  struct io_view view;
  if (io_view(z->ev->io, z->at.file, off, (size_t)(count * z->width), &view, err) != 0) return -1;
  const uint64_t next = off + count * z->width;
  io_will_need(z->ev->io, z->at.file, next, min_u64(view_bytes(z->ev), end - next));
  for (uint64_t i = 0; i < count; i += CHUNK)
    cut_chunk(z, first + i, (size_t)min_u64(CHUNK, count - i), view.at + i * z->width, fn);
  return io_view_done(z->ev->io, &view, err);
}

static int each_run(struct affine *z, uint64_t first, uint64_t count, run_fn fn, struct err *err) {
  uint8_t *scratch = eval_scratch(z->ev);
  static_assert(CHUNK * sizeof(double) <= EVAL_SCRATCH_BYTES, "a chunk fits a level's scratch");
  for (uint64_t unasked = 0; count > 0;) {
    const uint64_t n = min_u64(count, z->direct ? view_bytes(z->ev) / z->width : CHUNK);
    if (unasked >= ASK_ELEMENTS) {
      if (eval_may_go_on(z->ev, err) != 0) return -1;
      unasked = 0;
    }
    if (z->direct) {
      if (view_chunks(z, first, n, fn, err) != 0) return -1;
    } else {
      if (eval_elements(z->ev, z->of, first, n, scratch, err) != 0) return -1;
      cut_chunk(z, first, (size_t)n, scratch, fn);
    }
    first += n;
    count -= n;
    unasked += n;
  }
  return 0;
}

// ---- ranges ------------------------------------------------------------------------------------

static void join_range(struct affine *z, const union wide *w, size_t from, size_t n,
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
      .of = z->of, .q = z->q, .units = z->channels, .scale_bytes = sizeof(struct range)};
}

static bool know_ranges(struct affine *z) {
  const struct eval_cache_key key = key_of(z);
  for (uint64_t c = 0; c < z->channels; c++)
    if (!eval_cache_scales(z->ev->cache, &key, c, 0, (uint8_t *)&z->ranges[c], sizeof z->ranges[c]))
      return false;
  return true;
}

static int find_ranges(struct affine *z, struct err *err) {
  const struct eval_cache_key key = key_of(z);
  for (uint64_t c = 0; c < z->channels; c++)
    z->ranges[c] = (struct range){DBL_MAX, -DBL_MAX};
  if (each_run(z, 0, z->count, join_range, err) != 0) return -1;
  if (z->bad > 0) {
    err_fill(err, ERR_MODEL,
             "a weight of %llu elements has %llu that are NaN or infinite, which no scale can hold",
             (unsigned long long)z->count, (unsigned long long)z->bad);
    return err_hint(err, "leave it out by name, or repair the model");
  }
  for (uint64_t c = 0; c < z->channels; c++)
    eval_cache_put(z->ev->cache, &key, c, (const uint8_t *)&z->ranges[c], NULL);
  return 0;
}

// Found here or elsewhere. All of them are found together: who waits waits for the last one.
static int learn_ranges(struct affine *z, struct err *err) {
  assert(z->channels > 0); // or there would be no element to ask for
  const struct eval_cache_key key = key_of(z);
  const uint64_t last = z->channels - 1;
  const enum eval_cache_turn turn = eval_cache_wait(z->ev->cache, &key, last, z->ev->go_on);
  if (turn == EVAL_CACHE_STOPPED) return eval_interrupted(err);
  if (turn == EVAL_CACHE_LOOK) return know_ranges(z) ? 0 : find_ranges(z, err);
  const int failed = find_ranges(z, err);
  eval_cache_done(z->ev->cache, &key, last);
  return failed;
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
    return err_set(err, ERR_MODEL,
                   "a weight reaches from %g to %g: its type cannot hold that range",
                   z->ranges[c].lo, z->ranges[c].hi);
  }
  return 0;
}

// The memory of the box, shared out.
static int set_up(struct affine *z, struct eval_box *b, struct err *err) {
  const uint64_t room = z->ev->box_bytes, ranges = round_up(z->channels * sizeof *z->ranges, 64);
  if (z->channels > room / sizeof *z->ranges || ranges > room)
    return err_set(err, ERR_RETRY, "the ranges of %llu channels do not fit %llu bytes of memory",
                   (unsigned long long)z->channels, (unsigned long long)room),
           err_hint(err, "--memory gives more");
  z->ranges = (struct range *)(void *)b->data;
  if (z->channels <= (room - ranges) / sizeof *z->grids)
    z->grids = (struct eval_affine_grid *)(void *)(b->data + ranges);
  if (b->count > 0) return 0;
  if (learn_ranges(z, err) != 0) return -1;
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
static const double *as_doubles(const struct affine *z, const union wide *w, size_t from, size_t n,
                                double *room) {
  if (z->type == DTYPE_DOUBLE) return w->d + from;
  kernels_f32_to_f64(room, w->f + from, n);
  return room;
}

static void make_codes(struct affine *z, const struct eval_affine_grid *g, const union wide *w,
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
    kernels_affine_codes_f64(out, as_doubles(z, w, from, n, room), n, &g->k);
}

static void make_levels(struct affine *z, const struct eval_affine_grid *g, const union wide *w,
                        size_t from, size_t n) {
  double level[CHUNK], room[CHUNK];
  if (g->rule == EVAL_AFFINE_F32)
    kernels_affine_levels_f32(level, w->f + from, n, &g->k);
  else if (g->rule == EVAL_AFFINE_F16)
    kernels_affine_levels_f16(level, w->f + from, n, &g->k);
  else if (g->rule == EVAL_AFFINE_F64)
    kernels_affine_levels_f64(level, as_doubles(z, w, from, n, room), n, &g->k);
  for (size_t i = 0; g->rule == EVAL_AFFINE_CONSTANT && i < n; i++)
    level[i] = g->zero;
  narrow(z->type, level, n, z->out);
}

// What n elements are stored as, the stored form at `stored`: scale and offset as they are in the file.
static void decode(const struct affine *z, const struct eval_affine_grid *g, const uint8_t *stored,
                   size_t n, double *out) {
  const bool divided = z->q.format == FORMAT_AFFINE, is_signed = !divided || z->q.symmetric;
  if (z->q.format == FORMAT_LEVELS) {
    eval_figures_widen(z->type, stored, n, out);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const double code = is_signed ? (double)(int8_t)stored[i] : (double)stored[i];
    out[i] = divided ? (code - g->zero) * g->scale : code * g->scale + g->zero;
  }
}

static void tell(struct affine *z, const struct eval_affine_grid *g, const union wide *w,
                 size_t from, size_t n) {
  double v[EVAL_PAIRS], stored[EVAL_PAIRS];
  const uint32_t width = z->q.format == FORMAT_LEVELS ? z->width : 1;
  for (size_t i = 0; i < n && !z->failed; i += EVAL_PAIRS) {
    const size_t m = n - i < EVAL_PAIRS ? n - i : EVAL_PAIRS;
    if (!eval_figures_wants(z->ev, z->id, z->next + i, m)) continue;
    if (z->type == DTYPE_DOUBLE)
      memcpy(v, w->d + from + i, m * sizeof *v);
    else
      kernels_f32_to_f64(v, w->f + from + i, m);
    decode(z, g, z->out + i * width, m, stored);
    z->failed = eval_figures_add(z->ev, z->next + i, v, stored, m, z->err);
  }
}

static void put_run(struct affine *z, const union wide *w, size_t from, size_t n,
                    uint64_t channel) {
  struct eval_affine_grid here;
  const struct eval_affine_grid *g = z->grids ? &z->grids[channel] : &here;
  if (!z->grids) grid_of(z, channel, &here);
  const bool levels = z->q.format == FORMAT_LEVELS;
  if (levels)
    make_levels(z, g, w, from, n);
  else
    make_codes(z, g, w, from, n);
  if (eval_figures_wants(z->ev, z->id, z->next, n)) tell(z, g, w, from, n);
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

int eval_affine_elements(struct eval *ev, struct eval_box *b, uint64_t first, uint64_t count,
                         uint8_t *out, struct err *err) {
  struct affine z;
  affine_of(ev, b, &z);
  if (set_up(&z, b, err) != 0) return -1;
  z.out = out;
  z.next = first;
  z.err = err;
  if (z.part == PART_CODES) return each_run(&z, first, count, put_run, err) != 0 ? -1 : z.failed;
  put_scales(&z, first, count, out);
  return 0;
}
