// Scales and zero points of FORMAT_LINEAR by tensor or channel: those of the channels' ranges, or (float8) of
// their deviations.
//
// The operand is [outer, channels, inner] around the axis. Ranges are found for as many channels as the box has room
// for: those of a window, all of which takes one read of what belongs to them, in runs:
//
//   outer 0   │ ····│▓▓▓▓▓▓│···· │      the window's channels lie together, `inner` elements each
//   outer 1   │ ····│▓▓▓▓▓▓│···· │      (a matrix with a scale a column: a part of every row)
//
// So all windows together read the operand once, whatever the memory. What is found is kept for the run
// (eval_cache.h) and found by one worker while others wait: codes and zero points ask for it again.
//
//   │ lo │ hi │ pairs │ tile │ of the box
#include "eval_cache.h"
#include "eval_figures.h"
#include "eval_linear.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { CHUNK = EVAL_PAIRS, TILE_MOST = 512 << 10, SMALL_BOX = 16 << 10 };

// lo and hi; of float8 the mean and the deviation.
struct pair {
  float lo, hi;
};

// Channels [at, at + have) in the state of the box.
struct window {
  uint64_t at, have;
};

struct ranges {
  struct eval_task *t;
  uint32_t of;
  struct recipe_quantization q;
  enum recipe_part part;
  enum dtype type; // of the operand
  uint32_t width;
  uint64_t count, outer, channels, inner;
  struct extent at; // of an operand that is nothing but source bytes
  bool direct;
  struct eval_cache_key key; // units: channels
  struct window *window;
  float *lo, *hi; // `room` channels
  struct pair *pairs;
  uint64_t room;
  uint8_t *tile;
  uint64_t tile_elements;
  uint64_t first, end; // channels that are being found
  uint64_t bad;        // elements of them that are NaN or infinite
  struct eval_linear_sum sum;
  struct err *err;
};

static void ranges_of(struct eval_task *t, uint32_t id, struct ranges *z) {
  const struct recipes *r = t->r;
  z->t = t;
  z->of = r->args[r->rows[id].args];
  z->q = recipe_quantization_of(r, id);
  z->part = recipe_part_of(r, id);
  const struct recipe *x = &r->rows[z->of];
  const int64_t *dims = recipe_dims(r, z->of);
  z->type = (enum dtype)x->dtype;
  z->width = dtype_bits(z->type) / 8;
  z->count = x->count;
  z->outer = z->channels = z->inner = 1;
  z->direct = recipe_is_copy(r, z->of, &z->at);
  if (z->q.axis == RECIPE_PER_TENSOR) z->inner = x->count;
  for (uint32_t i = 0; i < x->rank && z->q.axis != RECIPE_PER_TENSOR; i++) {
    if (i < z->q.axis) z->outer *= (uint64_t)dims[i];
    if (i == z->q.axis) z->channels = (uint64_t)dims[i];
    if (i > z->q.axis) z->inner *= (uint64_t)dims[i];
  }
  z->key = (struct eval_cache_key){
      .of = z->of, .q = z->q, .units = z->channels, .bytes = {sizeof(struct pair)}};
}

static bool is_deviation(const struct ranges *z) {
  return z->q.type == DTYPE_FLOAT8E4M3FN;
}

// Three quarters of a box are for channels, if there are so many. Where it is small the tile is scratch.
static void share_box(struct ranges *z, struct eval_stripe_box *b) {
  const uint64_t all = z->t->ev->box_bytes, each = 2 * sizeof(float) + sizeof(struct pair);
  const bool small = all < SMALL_BOX;
  z->room = min_u64((small ? all : all / 4 * 3) / each, round_up(max_u64(z->channels, 1), 4));
  assert(z->room > 0);
  z->lo = (float *)(void *)b->data;
  z->hi = z->lo + z->room;
  z->pairs = (struct pair *)(void *)(z->hi + z->room);
  z->tile = small ? eval_scratch(z->t->ev) : (uint8_t *)(z->pairs + z->room);
  const uint64_t rest = small ? EVAL_SCRATCH_BYTES : min_u64(all - z->room * each, TILE_MOST);
  z->tile_elements = rest / z->width;
  z->window = (struct window *)(void *)b->state;
  if (b->count == 0) *z->window = (struct window){0};
  b->count = 1;
}

// ---- elements ----------------------------------------------------------------------------------

static int read_elements(struct ranges *z, uint64_t first, uint64_t n) {
  struct eval *ev = z->t->ev;
  if (eval_may_go_on(ev, z->err) != 0) return -1;
  const uint64_t off = first * z->width, bytes = n * z->width;
  if (!z->direct) {
    if (eval_elements(z->t, z->of, first, n, z->tile, z->err) != 0) return -1;
  } else {
    const uint64_t rest = z->at.len - off - bytes;
    if (io_read(ev->io, z->at.file, z->at.off + off, z->tile, (size_t)bytes, z->err) != 0)
      return -1;
    io_will_need(ev->io, z->at.file, z->at.off + off + bytes, min_u64(TILE_MOST, rest));
  }
  eval_looked(ev, z->of, bytes);
  return 0;
}

// What is done with n <= CHUNK elements of the window's channels, the first of them number `at` among those
// of its outer position.
typedef void (*chunk_fn)(struct ranges *z, const float *v, uint64_t at, size_t n);

static int each_chunk(struct ranges *z, chunk_fn fn) {
  float room[CHUNK];
  const uint64_t run = (z->end - z->first) * z->inner;
  for (uint64_t o = 0; o < z->outer; o++)
    for (uint64_t at = 0, n; at < run; at += n) {
      n = min_u64(run - at, z->tile_elements);
      if (read_elements(z, (o * z->channels + z->first) * z->inner + at, n) != 0) return -1;
      for (uint64_t i = 0, m; i < n; i += m) {
        const void *in = z->tile + i * z->width;
        m = min_u64(n - i, CHUNK);
        if (z->type != DTYPE_FLOAT) eval_figures_floats(z->type, in, (size_t)m, room);
        fn(z, z->type == DTYPE_FLOAT ? in : room, at + i, (size_t)m);
      }
    }
  return 0;
}

// ---- what is found -----------------------------------------------------------------------------

static void join(struct ranges *z, const float *v, uint64_t at, size_t n) {
  if (z->inner == 1) {
    z->bad += kernels_linear_ranges(v, n, z->lo + at, z->hi + at);
    return;
  }
  for (size_t i = 0, m; i < n; i += m) {
    const uint64_t c = (at + i) / z->inner;
    m = (size_t)min_u64(n - i, z->inner - (at + i) % z->inner);
    z->bad += kernels_affine_range_f32(v + i, m, &z->lo[c], &z->hi[c]);
  }
}

static int find_least_and_most(struct ranges *z) {
  for (uint64_t c = 0; c < z->end - z->first; c++) {
    z->lo[c] = FLT_MAX;
    z->hi[c] = -FLT_MAX;
  }
  return each_chunk(z, join);
}

// Sums of a channel's elements, one channel behind the other (outer is 1): to the mean, and to the deviation.
static void add_to_sum(struct ranges *z, const float *v, uint64_t at, size_t n, float *out,
                       bool ends_in_root) {
  for (size_t i = 0, m; i < n; i += m) {
    const uint64_t c = (at + i) / z->inner, in = (at + i) % z->inner;
    m = (size_t)min_u64(n - i, z->inner - in);
    if (in == 0) eval_linear_sum_begin(&z->sum, z->inner);
    eval_linear_sum_add(&z->sum, v + i, m);
    if (in + m < z->inner) continue;
    out[c] = (float)((double)z->sum.sum / (double)z->inner);
    if (ends_in_root) out[c] = sqrtf(out[c]);
  }
}

static void add_elements(struct ranges *z, const float *v, uint64_t at, size_t n) {
  for (size_t i = 0; i < n; i++)
    z->bad += v[i] - v[i] != 0;
  add_to_sum(z, v, at, n, z->lo, false);
}

static void add_squares(struct ranges *z, const float *v, uint64_t at, size_t n) {
  float squares[CHUNK];
  for (size_t i = 0; i < n; i++) {
    const float off = v[i] - z->lo[(at + i) / z->inner];
    squares[i] = off * off;
  }
  add_to_sum(z, squares, at, n, z->hi, true);
}

static int find_deviations(struct ranges *z) {
  assert(z->outer == 1); // recipe_quantize.c brings channels together
  for (uint64_t c = 0; c < z->end - z->first; c++)
    z->lo[c] = 0, z->hi[c] = -1; // no elements
  if (each_chunk(z, add_elements) != 0) return -1;
  return z->bad ? 0 : each_chunk(z, add_squares);
}

static int find(void *ctx, struct err *err) {
  struct ranges *z = ctx;
  const uint64_t n = z->end - z->first;
  z->bad = 0;
  if ((is_deviation(z) ? find_deviations : find_least_and_most)(z) != 0) return -1;
  if (z->bad > 0) {
    err_fill(err, ERR_FAIL,
             "a weight of %llu elements has %llu that are NaN or infinite and cannot be quantized",
             (unsigned long long)z->count, (unsigned long long)z->bad);
    return err_because(err, REASON_NOT_SHRUNK);
  }
  for (uint64_t c = 0; c < n; c++)
    z->pairs[c] = (struct pair){z->lo[c], z->hi[c]};
  eval_cache_put_units(z->t->ev->cache, &z->key, z->first, n, (const uint8_t *)z->pairs, NULL);
  return 0;
}

static bool know(void *ctx) {
  struct ranges *z = ctx;
  const uint64_t n = z->end - z->first;
  return eval_cache_get_units(z->t->ev->cache, &z->key, z->first, n, 0, (uint8_t *)z->pairs) == n;
}

// The window that has a channel. They begin where they do for everybody with as much room, so that workers meet.
static int move_window(struct ranges *z, uint64_t channel) {
  struct window *w = z->window;
  if (channel >= w->at && channel - w->at < w->have) return 0;
  z->first = channel / z->room * z->room;
  z->end = min_u64(z->first + z->room, z->channels);
  *w = (struct window){0};
  if (eval_find_once(z->t, &z->key, z->end - 1, know, find, z, z->err) != 0) return -1;
  *w = (struct window){.at = z->first, .have = z->end - z->first};
  return 0;
}

// ---- parts -------------------------------------------------------------------------------------

static int put(struct ranges *z, uint64_t channel, uint8_t **out) {
  struct eval_linear_grid g;
  const struct pair *p = &z->pairs[channel - z->window->at];
  const bool fits = is_deviation(z)
                        ? eval_linear_spread_of(z->type, (double)p->lo, (double)p->hi, &g)
                        : eval_linear_grid_of(&z->q, z->type, (double)p->lo, (double)p->hi, &g);
  if (!fits)
    return err_set(z->err, ERR_FAIL,
                   "a weight ranges from %g to %g, which is too wide for its type", (double)p->lo,
                   (double)p->hi);
  *out += eval_linear_put(&z->q, z->type, z->part, &g, *out);
  return 0;
}

int eval_linear_range_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                               uint64_t count, uint8_t *out, struct err *err) {
  struct ranges z = {.err = err};
  ranges_of(t, b->id, &z);
  share_box(&z, b);
  for (uint64_t c = first; c < first + count; c++)
    if (move_window(&z, c) != 0 || put(&z, c, &out) != 0) return -1;
  return 0;
}
