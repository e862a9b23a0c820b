// Scales and zero points of FORMAT_LINEAR by tensor or channel: those of the channels' ranges, or (float8) of
// their deviations.
//
// The operand is [outer, channels, inner] around the axis. Ranges are found for as many channels as there is room
// for: those of a window, all of which takes one read of what belongs to them, in runs:
//
//   outer 0   │ ····│▓▓▓▓▓▓│···· │      the window's channels lie together, `inner` elements each
//   outer 1   │ ····│▓▓▓▓▓▓│···· │      (a matrix with a scale a column: a part of every row)
//
// So all windows together read the operand once, whatever the memory. What is found is kept for the run
// (eval_cache.h) and found by one worker while others wait. It is the codes that look first, since they need the
// elements again (eval_linear.c); who asks for scales and zero points behind them finds all there.
//
//   │ lo │ hi │ pairs │ tile │ of the box
#include "stream/eval/core/eval_figures.h"
#include "stream/eval/quantize/inside/eval_linear.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { CHUNK = EVAL_PAIRS, SMALL_BOX = 16 << 10 };

void eval_linear_ranges_of(struct eval_linear_ranges *z, struct eval_task *t, uint32_t of,
                           const struct recipe_quantization *q) {
  const struct recipe *x = &t->r->rows[of];
  const struct recipe_around a = q->axis == RECIPE_PER_TENSOR
                                     ? (struct recipe_around){1, 1, x->count}
                                     : recipe_around(t->r, of, q->axis);
  *z = (struct eval_linear_ranges){.t = t,
                                   .q = *q,
                                   .type = (enum dtype)x->dtype,
                                   .count = x->count,
                                   .outer = a.outer,
                                   .channels = a.n,
                                   .inner = a.inner};
  z->key = (struct eval_cache_key){
      .of = of, .q = *q, .units = z->channels, .bytes = {sizeof(struct eval_linear_pair)}};
  eval_kept_of(&z->k, t, of);
}

void eval_linear_ranges_share(struct eval_linear_ranges *z, uint8_t *at, uint64_t room) {
  z->lo = (float *)(void *)at;
  z->hi = z->lo + room;
  z->pairs = (struct eval_linear_pair *)(void *)(z->hi + room);
}

static bool is_deviation(const struct eval_linear_ranges *z) {
  return z->q.type == DTYPE_FLOAT8E4M3FN;
}

// ---- elements ----------------------------------------------------------------------------------

// What is done with n <= CHUNK elements of the window's channels, the first of them number `at` among those
// of its outer position.
typedef void (*chunk_fn)(struct eval_linear_ranges *z, const float *v, uint64_t at, size_t n);

// n elements that lie together, the first of them number `at` among those of the window.
static void cut_tile(struct eval_linear_ranges *z, const uint8_t *in, uint64_t at, size_t n,
                     chunk_fn fn) {
  float room[CHUNK];
  const uint64_t run = (z->end - z->first) * z->inner;
  for (size_t i = 0, m; i < n; i += m, in += m * z->k.width) {
    const uint64_t in_run = (at + i) % run;
    m = (size_t)min_u64(min_u64(n - i, run - in_run), CHUNK);
    const void *v = in;
    if (z->type != DTYPE_FLOAT) eval_figures_floats(z->type, in, m, room);
    fn(z, z->type == DTYPE_FLOAT ? v : room, in_run, m);
  }
}

static int each_chunk(struct eval_linear_ranges *z, chunk_fn fn, struct err *err) {
  const uint64_t count = z->outer * (z->end - z->first) * z->inner;
  const uint64_t from = z->k.stripe.run ? 0 : z->first * z->inner;
  struct eval *ev = z->t->ev;
  for (uint64_t at = 0, told = 0; at < count;) {
    size_t n = (size_t)min_u64(count - at, z->k.tile_elements);
    const uint8_t *in;
    if (told == at && eval_may_go_on(ev, err) != 0) return -1;
    if (eval_kept_find(&z->k, from + at, &n, &in, err) != 0) return -1;
    cut_tile(z, in, at, n, fn);
    at += n;
    if (at - told < z->k.tile_elements && at < count) continue; // lines of a stripe are short
    eval_looked(ev, z->k.of, (at - told) * z->k.width);
    told = at;
  }
  return 0;
}

// ---- what is found -----------------------------------------------------------------------------

static void join(struct eval_linear_ranges *z, const float *v, uint64_t at, size_t n) {
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

static int find_least_and_most(struct eval_linear_ranges *z, struct err *err) {
  for (uint64_t c = 0; c < z->end - z->first; c++) {
    z->lo[c] = FLT_MAX;
    z->hi[c] = -FLT_MAX;
  }
  return each_chunk(z, join, err);
}

// Sums of a channel's elements, one channel behind the other (outer is 1): to the mean, and to the deviation.
static void add_to_sum(struct eval_linear_ranges *z, const float *v, uint64_t at, size_t n,
                       float *out, bool ends_in_root) {
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

static void add_elements(struct eval_linear_ranges *z, const float *v, uint64_t at, size_t n) {
  for (size_t i = 0; i < n; i++)
    z->bad += v[i] - v[i] != 0;
  add_to_sum(z, v, at, n, z->lo, false);
}

static void add_squares(struct eval_linear_ranges *z, const float *v, uint64_t at, size_t n) {
  float squares[CHUNK];
  for (size_t i = 0; i < n; i++) {
    const float off = v[i] - z->lo[(at + i) / z->inner];
    squares[i] = off * off;
  }
  add_to_sum(z, squares, at, n, z->hi, true);
}

static int find_deviations(struct eval_linear_ranges *z, struct err *err) {
  assert(z->outer == 1); // recipe_quantize.c brings channels together
  for (uint64_t c = 0; c < z->end - z->first; c++)
    z->lo[c] = 0, z->hi[c] = -1; // no elements
  if (each_chunk(z, add_elements, err) != 0) return -1;
  return z->bad ? 0 : each_chunk(z, add_squares, err);
}

static int find(void *ctx, struct err *err) {
  struct eval_linear_ranges *z = ctx;
  const uint64_t n = z->end - z->first;
  z->bad = 0;
  if ((is_deviation(z) ? find_deviations : find_least_and_most)(z, err) != 0) return -1;
  if (z->bad > 0) return eval_kept_refuse(z->count, z->bad, err);
  for (uint64_t c = 0; c < n; c++)
    z->pairs[c] = (struct eval_linear_pair){z->lo[c], z->hi[c]};
  eval_cache_put_units(z->t->ev->cache, &z->key, z->first, n, (const uint8_t *)z->pairs, NULL);
  return 0;
}

// Codes, scales, zero points and scales of biases may ask for them: they are never used up.
static bool know(void *ctx) {
  struct eval_linear_ranges *z = ctx;
  const uint64_t n = z->end - z->first;
  return eval_cache_look_units(z->t->ev->cache, &z->key, z->first, n, 0, (uint8_t *)z->pairs) == n;
}

int eval_linear_ranges_find(struct eval_linear_ranges *z, uint64_t first, uint64_t end,
                            uint64_t keep, struct err *err) {
  const uint64_t run = (end - first) * z->inner, step = z->channels * z->inner;
  z->first = first;
  z->end = end;
  z->k.stripe = z->outer > 1 && run < step
                    ? (struct eval_kept_stripe){.base = first * z->inner, .run = run, .step = step}
                    : (struct eval_kept_stripe){0};
  eval_kept_begin(&z->k, keep);
  z->k.keeps = keep != EVAL_LINEAR_KEEP_NONE;
  const int failed = eval_find_once(z->t, &z->key, end - 1, know, find, z, err);
  z->k.keeps = false;
  return failed;
}

int eval_linear_ranges_grid(const struct eval_linear_ranges *z, uint64_t channel,
                            struct eval_linear_grid *g, struct err *err) {
  const struct eval_linear_pair *p = &z->pairs[channel - z->first];
  if (is_deviation(z) ? eval_linear_spread_of(z->type, (double)p->lo, (double)p->hi, g)
                      : eval_linear_grid_of(&z->q, z->type, (double)p->lo, (double)p->hi, g))
    return 0;
  return err_set(err, ERR_FAIL, "a weight ranges from %g to %g, which is too wide for its type",
                 (double)p->lo, (double)p->hi);
}

// ---- parts -------------------------------------------------------------------------------------

// Channels [at, at + have) in the state of the box.
struct window {
  struct eval_kept_held held;
  uint64_t at, have;
};

// Three quarters of a box are for channels, if there are so many. Gives how many there is room for.
static uint64_t share_box(struct eval_linear_ranges *z, struct eval_stripe_box *b) {
  const uint64_t all = z->t->ev->box_bytes, most = all < SMALL_BOX ? all : all / 4 * 3;
  const uint64_t room = min_u64(most / EVAL_LINEAR_CHANNEL, round_up(max_u64(z->channels, 1), 4));
  const uint64_t used = min_u64(round_up(room * EVAL_LINEAR_CHANNEL, 64), all);
  struct window *w = (struct window *)(void *)b->state;
  assert(room > 0);
  eval_linear_ranges_share(z, b->data, room);
  eval_kept_share(&z->k, b->data + used, all - used, CHUNK, EVAL_SCRATCH_BYTES);
  z->k.held = &w->held;
  if (b->count == 0) *w = (struct window){0};
  b->count = 1;
  return room;
}

// Windows begin where they do for everybody with as much room, so that workers meet.
int eval_linear_range_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                               uint64_t count, uint8_t *out, struct err *err) {
  const struct recipe_quantization q = recipe_quantization_of(t->r, b->id);
  const enum recipe_part part = recipe_part_of(t->r, b->id);
  struct eval_linear_ranges z;
  struct eval_linear_grid g;
  eval_linear_ranges_of(&z, t, t->r->args[t->r->rows[b->id].args], &q);
  const uint64_t room = share_box(&z, b);
  struct window *w = (struct window *)(void *)b->state;
  z.first = w->at;
  for (uint64_t c = first; c < first + count; c++) {
    if (c < w->at || c - w->at >= w->have) {
      const uint64_t at = c / room * room, end = min_u64(at + room, z.channels);
      w->have = 0;
      if (eval_linear_ranges_find(&z, at, end, EVAL_LINEAR_KEEP_NONE, err) != 0) return -1;
      w->at = at;
      w->have = end - at;
    }
    if (eval_linear_ranges_grid(&z, c, &g, err) != 0) return -1;
    out += eval_linear_put(&q, z.type, part, &g, out);
  }
  return 0;
}
