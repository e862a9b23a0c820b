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
// The window in the box holds all scales and zero points, or as many as there is room for. Behind it lie the tile
// and what is kept.
//
//   │ scales │ zeros │ tile │ kept … │
//
// Scales that come of a look at the operand itself (FORMAT_LINEAR by tensor or channel) are not asked for, but found
// here, so that what is looked at can be kept (eval_kept.h); scales that are made of such ones, element by element, are
// asked for with these at hand. Where channels lie one behind the other the window is as
// many of them as can be kept, so that all is read once, whatever its size:
//
//   operand   │ channel │ channel │ channel │ channel │ …
//             └────── look, codes ──────────┘└─ look, codes …
//
// Else all are looked at together, and elements are kept from the first one on whose code is asked for: a weight that
// fits is read once. Of a larger one, a matrix with a scale a column, codes of a panel of columns after the other
// are made, and kept for the run (eval_cache.h), with their figures piece by piece (eval_figures.h):
//
//   strips    0  │  1  │  2  │  3      EVAL_PIECE columns each: a unit of the cache is those of a row
//   row 0   ▓▓▓▓▓▓▓▓▓▓▓│     │
//   row 1   ▓▓▓▓▓▓▓▓▓▓▓│     │         panel: as many strips as can be kept
//
// Where that cannot be (a column is too long; codes are no bytes) what is not kept is read once more.
//
// Scales of blocks are asked for as given ones are, but whole lines of blocks (eval_linear_blocks.c) are kept before,
// as many as there is room for, and held for who looks at them:
//
//   operand   │ line │ line │ line │ …
//             └── kept, look, codes ┘
//
// Elements and scales become float32; codes of int32 are found in double. An element that is not finite and
// a scale that divides nothing are errors: there is no code for them. Beside a scale of 0, codes of int32 are 0 for what is below the
// smallest normal number, as channels of a bias are whose weights are next to nothing: products of their scales are no float32.
#include "stream/eval/quantize/inside/eval_linear.h"

#include "kernels/convert/kernels_convert.h"
#include "stream/eval/core/eval_figures.h"
#include "stream/eval/quantize/eval_quantize.h"

#include <assert.h>
#include <float.h>
#include <math.h>

enum { CHUNK = 1024, SMALL_BOX = 16 << 10 };

// Scales and zero points [at, at + have) in the state of the box.
struct window {
  uint64_t at, have;
  struct eval_kept_held held;
  uint64_t lines_end; // of lines that are kept: the last one's scale + 1
  bool no_panels;     // they were tried
  bool lost;          // a scale was 0, and is FLT_MAX here
};

struct linear {
  struct eval_task *t;
  uint32_t id, of;
  struct recipe_linear q;
  enum dtype type; // of the operand
  uint32_t out_width;
  uint64_t n, inner, scales_n; // of the axis; scales
  bool each;                   // scales of neighbours lie one behind the other
  double lo, hi;               // the codes there are
  struct window *window;
  float *scales, *zeros;
  uint64_t room; // scales that the window has room for
  struct eval_kept *k;
  struct eval_kept given;           // elements, where scales are given,
  struct eval_linear_ranges ranges; // else what is found with them
  bool found, zeros_found;
  uint32_t source; // the scales that are found, or NO_ID
  bool in_lines;   // those of blocks are
  uint64_t next;   // element whose code comes next
  struct err *err;
};

// Are these zero points those of a quantization of the operand?
static bool are_found(const struct recipes *r, uint32_t zeros, uint32_t of,
                      const struct recipe_quantization *q) {
  zeros = recipe_unmoved(r, zeros);
  if (r->rows[zeros].kind != RECIPE_QUANTIZE) return false;
  if (recipe_part_of(r, zeros) != PART_ZEROS) return false;
  const struct eval_cache_key these = {.of = r->args[r->rows[zeros].args],
                                       .q = recipe_quantization_of(r, zeros)};
  return eval_cache_same(&these, &(struct eval_cache_key){.of = of, .q = *q});
}

// Are these zero points 0, all of them?
static bool are_nothing(const struct recipes *r, uint32_t zeros) {
  const struct recipe *x = &r->rows[recipe_unmoved(r, zeros)];
  const uint32_t width = dtype_bits((enum dtype)x->dtype) > 8 ? 2 : 1;
  return x->kind == RECIPE_FILL && r->bytes[x->at] == 0 && r->bytes[x->at + width - 1] == 0;
}

// The scales that come of a look at the operand as it is: those of the codes, or what these are made of. NO_ID: there
// are none.
static uint32_t found_scales(const struct recipes *r, uint32_t id, struct recipe_quantization *q) {
  const struct recipe_linear to = recipe_quantize_linear_of(r, id);
  const uint32_t found = recipe_quantize_linear_scales(r, id);
  if (found == NO_ID || to.block > 0) return NO_ID;
  *q = recipe_quantization_of(r, found);
  const bool same = r->args[r->rows[found].args] == r->args[r->rows[id].args];
  return same && q->axis == to.axis && q->block == 0 ? found : NO_ID;
}

// Do the scales come of a look at blocks of the operand, as the codes have them?
static bool are_of_blocks(const struct recipes *r, uint32_t id) {
  const struct recipe_linear to = recipe_quantize_linear_of(r, id);
  const uint32_t found = recipe_quantize_linear_scales(r, id);
  if (found == NO_ID || to.block == 0 || found != to.scales) return false;
  const struct recipe_quantization q = recipe_quantization_of(r, found);
  return r->args[r->rows[found].args] == r->args[r->rows[id].args] && q.axis == to.axis &&
         q.block == to.block;
}

// Boxes of scales that are made of found ones, which need none while they are at hand.
static uint32_t boxes_of_scales(const struct eval *ev, uint32_t id, uint32_t found,
                                uint32_t *left) {
  const struct recipe *x = &ev->r->rows[id];
  uint32_t n = 0;
  if (id == found || *left == 0) return 0;
  if (x->kind != RECIPE_MAP && x->kind != RECIPE_CAST && x->kind != RECIPE_RESHAPE)
    return eval_boxes_at_once(ev, id, left);
  --*left;
  for (uint32_t i = 0; i < x->n_args; i++)
    n += boxes_of_scales(ev, ev->r->args[x->args + i], found, left);
  return n;
}

uint32_t eval_linear_boxes(const struct eval *ev, uint32_t id, uint32_t *left) {
  const struct recipes *r = ev->r;
  const uint32_t of = r->args[r->rows[id].args], zeros = recipe_quantize_linear_of(r, id).zeros;
  struct recipe_quantization q;
  const uint32_t found = found_scales(r, id, &q);
  if (found == NO_ID) return 1 + eval_boxes_of_operands(ev, id, left);
  uint32_t n = 1 + eval_boxes_at_once(ev, of, left);
  n += boxes_of_scales(ev, recipe_quantize_linear_of(r, id).scales, found, left);
  if (zeros != NO_ID && !are_found(r, zeros, of, &q)) n += eval_boxes_at_once(ev, zeros, left);
  return n;
}

uint64_t eval_linear_wanted(const struct recipes *r, uint32_t id) {
  struct recipe_quantization q;
  if (r->rows[id].kind != RECIPE_QUANTIZE_LINEAR || found_scales(r, id, &q) == NO_ID) return 0;
  const uint32_t of = r->args[r->rows[id].args], scales = recipe_quantize_linear_of(r, id).scales;
  const bool together = q.axis == RECIPE_PER_TENSOR || q.axis > 0;
  const uint64_t channels = max_u64(r->rows[scales].count, 1);
  const uint64_t kept = r->rows[of].count / (together ? 1 : channels) * eval_width(r, of);
  return round_up(round_up(channels, 16) * EVAL_LINEAR_CHANNEL, 64) + EVAL_KEPT_TILE_MOST + kept;
}

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
  z->out_width = eval_width(r, id);
  struct recipe_quantization q;
  if (z->q.zeros != NO_ID && are_nothing(r, z->q.zeros)) z->q.zeros = NO_ID;
  z->source = found_scales(r, id, &q);
  z->found = z->source != NO_ID;
  z->in_lines = !z->found && are_of_blocks(r, id);
  z->zeros_found = z->found && z->q.zeros != NO_ID && are_found(r, z->q.zeros, z->of, &q);
  z->k = z->found ? &z->ranges.k : &z->given;
  if (z->found)
    eval_linear_ranges_of(&z->ranges, t, z->of, &q);
  else
    eval_kept_of(&z->given, t, z->of);
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
// first half of scratch; what the window is filled from is the second one in any case. Ranges lie where their scales
// will.
static void share_box(struct linear *z, struct eval_stripe_box *b) {
  static_assert(EVAL_LINEAR_CHANNEL == 4 * sizeof(float),
                "pairs follow the scales and zero points");
  const uint64_t all = z->t->ev->box_bytes;
  const uint64_t each = z->found              ? EVAL_LINEAR_CHANNEL
                        : z->q.zeros == NO_ID ? sizeof(float)
                                              : 2 * sizeof(float);
  const bool small = all < SMALL_BOX;
  z->room = min_u64((small ? all : all / 2) / each, round_up(z->scales_n, 16));
  const uint64_t used = round_up(z->room * each, 64);
  z->window = (struct window *)(void *)b->state;
  z->scales = (float *)(void *)b->data;
  z->zeros = z->scales + z->room;
  if (z->found) eval_linear_ranges_share(&z->ranges, b->data, z->room);
  eval_kept_share(z->k, b->data + used, small ? 0 : all - used, CHUNK, EVAL_SCRATCH_BYTES / 2);
  z->k->held = &z->window->held;
  assert(z->room > 0 && z->k->tile_elements > 0);
  if (b->count == 0) *z->window = (struct window){0};
  b->count = 1;
}

static void widen_zeros(enum dtype type, const uint8_t *in, size_t n, float *out) {
  const struct kernels_cast c = {.from = (uint8_t)type, .to = DTYPE_FLOAT};
  kernels_convert(out, in, n, &c);
}

static int divides_nothing(const struct linear *z, uint64_t scale, double is) {
  err_fill(z->err, ERR_FAIL, "scale %s of a weight is %g, which cannot be used to quantize",
           decimal(scale).s, is);
  return err_because(z->err, REASON_NOT_SHRUNK);
}

static int check_scales(const struct linear *z, uint64_t at, size_t n) {
  float *s = z->scales + (at - z->window->at);
  for (size_t i = 0; i < n; i++) {
    if (isfinite(s[i]) && s[i] != 0) continue;
    if (z->q.type != DTYPE_INT32 || s[i] != 0) return divides_nothing(z, at + i, (double)s[i]);
    s[i] = FLT_MAX;
    z->window->lost = true;
  }
  return 0;
}

// Are elements beside scales that were 0, from number `scale` on, as small as they must be?
static int check_lost(const struct linear *z, const struct kernels_linear *k, uint64_t scale,
                      const float *v, size_t n) {
  for (size_t i = 0; z->window->lost && i < n; i++) {
    const size_t of = z->each ? i : 0;
    if (k->scales[of] == FLT_MAX && fabsf(v[i]) >= FLT_MIN)
      return divides_nothing(z, scale + of, 0);
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

// Finds scales and zero points of n channels from `at` on; what is kept: eval_linear_ranges_find.
static int look_at(struct linear *z, uint64_t at, uint64_t n, uint64_t keep) {
  struct window *w = z->window;
  struct eval_linear_ranges *x = &z->ranges;
  w->have = 0;
  if (eval_linear_ranges_find(x, at, at + n, keep, z->err) != 0) return -1;
  uint8_t *found = (uint8_t *)x->pairs,
          *next = found; // a scale takes the place of its pair, or one before
  for (uint64_t i = 0; i < n; i++) {
    struct eval_linear_grid g;
    if (eval_linear_ranges_grid(x, at + i, &g, z->err) != 0) return -1;
    z->scales[i] = (float)g.scale;
    z->zeros[i] = (float)g.zero;
    next += eval_linear_put(&x->q, x->type, PART_SCALES, &g, next);
  }
  w->at = at;
  if (recipe_unmoved(z->t->r, z->q.scales) != z->source) {
    const struct eval_hold before = z->t->ev->found;
    z->t->ev->found = (struct eval_hold){.of = z->source, .first = at, .count = n, .at = found};
    const int failed = read_scales(z, at, 0, n);
    z->t->ev->found = before;
    if (failed || check_scales(z, at, (size_t)n) != 0) return -1;
  }
  if (z->q.zeros != NO_ID && !z->zeros_found && read_zeros(z, at, n) != 0) return -1;
  w->have = n;
  return 0;
}

// Looks at channels from `at` on for their scales. Elements are kept from the next one on, but tiles are read whole.
static int look(struct linear *z, uint64_t at) {
  struct eval_linear_ranges *x = &z->ranges;
  const uint64_t start = x->outer == 1 ? at * z->inner : 0, tile = z->k->tile_elements;
  uint64_t n = min_u64(z->room, z->scales_n - at), keep = start;
  if (x->outer == 1) n = min_u64(n, max_u64(z->k->room / z->inner, 1));
  if (n * z->inner > z->k->room / x->outer) keep += (z->next - start) / tile * tile;
  if (x->outer > 1 && n < z->n) keep = EVAL_LINEAR_KEEP_NONE;
  const int failed = look_at(z, at, n, keep);
  x->k.stripe = (struct eval_kept_stripe){0};
  return failed;
}

// Fills the window from scale `at` on.
static int fill_window(struct linear *z, uint64_t at) {
  struct window *w = z->window;
  const struct eval_hold before = z->t->ev->hold;
  const bool kept = at < w->lines_end;
  const uint64_t n = min_u64(z->room, (kept ? w->lines_end : z->scales_n) - at);
  assert(!z->found); // elements of others are not there
  w->at = at;
  w->have = 0;
  if (kept)
    z->t->ev->hold = (struct eval_hold){
        .of = z->of, .first = w->held.from, .count = w->held.to - w->held.from, .at = z->k->kept};
  int failed = read_scales(z, at, 0, n);
  if (!failed && z->q.zeros != NO_ID) failed = read_zeros(z, at, n);
  z->t->ev->hold = before;
  if (failed || check_scales(z, at, (size_t)n) != 0) return -1;
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

// Keeps lines of blocks from that of element `first` on, as far as [first, first + count) goes and there is room.
static int keep_lines(struct linear *z, uint64_t first, uint64_t count) {
  struct window *w = z->window;
  const uint64_t slab = z->n * z->inner, blocks = (z->n - 1) / z->q.block + 1;
  const uint64_t line = z->q.block * z->inner;
  uint64_t from = first / slab * slab + first % slab / line * line, to = from, lines = 0;
  w->lines_end = 0;
  for (uint64_t next; to < first + count; to = next, lines++) {
    next = min_u64(to + line, (to / slab + 1) * slab); // the last line of a slab may be short
    if (next - from > z->k->room) break;
  }
  if (lines == 0) return 0;
  w->have = 0;
  eval_kept_begin(z->k, from);
  z->k->keeps = true;
  for (uint64_t at = from; at < to;) {
    const uint8_t *in;
    size_t n = (size_t)(to - at);
    if (eval_may_go_on(z->t->ev, z->err) != 0 || eval_kept_find(z->k, at, &n, &in, z->err) != 0)
      return -1;
    at += n;
  }
  z->k->keeps = false;
  w->lines_end = (from / slab * blocks + from % slab / line + lines) * z->inner;
  return 0;
}

// At most *n elements from `first` on, those of channels whose ranges are known.
static int find_elements(struct linear *z, uint64_t first, size_t *n, const uint8_t **in) {
  const struct window *w = z->window;
  const uint64_t channel = first / z->inner % z->n;
  z->next = first;
  if (z->found && (channel < w->at || channel - w->at >= w->have) && look(z, channel) != 0)
    return -1;
  if (z->found && w->have < z->n)
    *n = (size_t)min_u64(*n, (w->at + w->have) * z->inner - first % (z->n * z->inner));
  const bool is_kept = first >= w->held.from && first < w->held.to;
  if (z->in_lines && !is_kept && keep_lines(z, first, *n) != 0) return -1;
  return eval_kept_find(z->k, first, n, in, z->err);
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

static int tell_figures(struct linear *z, const struct kernels_linear *k, uint64_t first,
                        const float *v, const uint8_t *codes, size_t n) {
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
    if (check_lost(z, &k, scale, v + i, m) != 0) return -1;
    if (!make_codes(z, &k, v + i, m, to)) return not_finite(z, first + i, v + i, m);
    if (tell_figures(z, &k, first + i, v + i, to, m) != 0) return -1;
    for (size_t j = 0; bits < 8 && j < m; j++)
      to[j] &= (uint8_t)((1u << bits) - 1);
    i += m;
  }
  return 0;
}

// ---- panels ------------------------------------------------------------------------------------

// Units of codes and sums are made and taken so many at a time.
enum { STRIPS = 16 };

static uint64_t strips_of(const struct linear *z) {
  return (z->n - 1) / EVAL_PIECE + 1;
}

// A chunk may end within a strip of a row.
static uint32_t pieces_of(const struct linear *z) {
  return z->n % EVAL_PIECE ? 2 : 1;
}

static struct eval_cache_key panels_key(const struct linear *z) {
  return (struct eval_cache_key){.kind = EVAL_CACHE_PANELS,
                                 .of = z->id,
                                 .units = z->ranges.outer * strips_of(z),
                                 .bytes = {EVAL_PIECE}};
}

static struct eval_cache_key pieces_key(const struct linear *z) {
  struct eval_cache_key key = panels_key(z);
  key.kind = EVAL_CACHE_PIECES;
  key.bytes[0] = pieces_of(z) * (uint32_t)sizeof(struct eval_piece);
  return key;
}

// Columns of a panel, panels as equal as strips allow; 0: there are none.
static uint64_t panel_columns(const struct linear *z) {
  uint64_t most = min_u64(z->k->room / z->ranges.outer, z->room);
  if (most < EVAL_PIECE) return 0;
  most -= most % EVAL_PIECE;
  const uint64_t panels = (z->n - 1) / most + 1;
  return round_up((z->n - 1) / panels + 1, EVAL_PIECE);
}

uint64_t eval_linear_line(const struct recipes *r, uint32_t id) {
  struct recipe_quantization q;
  const struct recipe *x = &r->rows[id];
  if (x->kind != RECIPE_QUANTIZE_LINEAR || found_scales(r, id, &q) == NO_ID) return 0;
  if (q.axis == RECIPE_PER_TENSOR || q.axis + 1 < x->rank) return 0;
  const uint64_t columns = (uint64_t)recipe_dims(r, id)[q.axis];
  return columns >= EVAL_PIECE && columns < x->count ? columns : 0;
}

// Is this a matrix with a scale a column that cannot be kept whole, but in panels?
static bool takes_panels(const struct linear *z) {
  if (z->window->no_panels || eval_linear_line(z->t->r, z->id) == 0) return false;
  if (z->out_width > 1 || !dtype_is_integer(z->q.type)) return false;
  if (dtype_is_signed(z->q.type) && z->q.zeros != NO_ID)
    return false; // there is no kernel for sums
  const struct eval_cache_key panels = panels_key(z), sums = pieces_key(z);
  return z->ranges.count > z->k->room && panel_columns(z) > 0 &&
         eval_cache_fits(z->t->ev->cache, &panels) &&
         (!z->t->watcher.told || eval_cache_fits(z->t->ev->cache, &sums));
}

// What is made of a row of a panel before it is kept.
struct strips {
  uint8_t codes[STRIPS * EVAL_PIECE];
  struct eval_piece pieces[2 * STRIPS];
};

// Codes and sums of n <= EVAL_PIECE elements from `first` on, column `i` of the window and those behind it. False: they
// have no finite sums.
static bool make_strip(const struct linear *z, uint64_t first, uint64_t i, const float *v, size_t n,
                       uint8_t *codes, struct eval_piece *pieces) {
  const struct kernels_linear k = {.each = true,
                                   .lo = (float)z->lo,
                                   .hi = (float)z->hi,
                                   .width = 1,
                                   .scales = z->scales + i,
                                   .zeros = z->q.zeros == NO_ID ? NULL : z->zeros + i};
  uint8_t zeros[EVAL_PIECE];
  struct kernels_scaled s = {.bits = 8,
                             .is_signed = dtype_is_signed(z->q.type),
                             .share = 1,
                             .zeros = k.zeros ? zeros : NULL};
  for (size_t j = 0; k.zeros && j < n; j++)
    zeros[j] = (uint8_t)k.zeros[j];
  if (!make_codes(z, &k, v, n, codes)) return false;
  for (size_t at = 0, m; z->t->watcher.told && at < n; at += m, pieces++) {
    struct kernels_lanes lanes = {0};
    m = (size_t)(min_u64(eval_figures_piece_end(z->n, first + at), first + n) - first - at);
    s.scales = k.scales + at;
    if (s.zeros) s.zeros = zeros + at;
    if (!kernels_figure_pairs_scaled(&lanes, (first + at) % EVAL_CHUNK, v + at, codes + at, m, &s))
      return false;
    eval_figures_end_piece(&lanes, pieces);
  }
  const uint32_t bits = dtype_bits(z->q.type);
  for (size_t j = 0; bits < 8 && j < n; j++)
    codes[j] &= (uint8_t)((1u << bits) - 1);
  return true;
}

// Codes of some columns of a row, the window's from `i` on.
static int make_row(struct linear *z, uint64_t row, uint64_t i, uint64_t n, struct strips *s) {
  const struct window *w = z->window;
  const struct eval_cache_key panels = panels_key(z), sums = pieces_key(z);
  for (uint64_t at = 0, m; at < n; at += m) {
    float room[EVAL_PIECE];
    const uint8_t *in;
    size_t have = m = min_u64(n - at, EVAL_PIECE);
    if (eval_kept_find(z->k, row * w->have + i + at, &have, &in, z->err) != 0) return -1;
    assert(have == m); // tiles have whole strips
    const float *v = widen(z, in, have, room);
    if (!make_strip(z, row * z->n + w->at + i + at, i + at, v, have, s->codes + at,
                    s->pieces + at / EVAL_PIECE * pieces_of(z)))
      return z->window->no_panels = true, 0;
  }
  const uint64_t unit = row * strips_of(z) + (w->at + i) / EVAL_PIECE;
  const uint64_t units = (n - 1) / EVAL_PIECE + 1;
  if (z->t->watcher.told)
    eval_cache_put_units(z->t->ev->cache, &sums, unit, units, (uint8_t *)s->pieces, NULL);
  eval_cache_put_units(z->t->ev->cache, &panels, unit, units, s->codes, NULL);
  return 0;
}

struct panel {
  struct linear *z;
  uint64_t at, n; // columns
  uint64_t last;  // unit
};

static bool know_panel(void *ctx) {
  const struct panel *p = ctx;
  const struct eval_cache_key key = panels_key(p->z);
  return eval_cache_has(p->z->t->ev->cache, &key, p->last);
}

static int find_panel(void *ctx, struct err *err) {
  const struct panel *p = ctx;
  struct linear *z = p->z;
  struct strips s = {0};
  (void)err; // z->err
  int failed = look_at(z, p->at, p->n, 0);
  for (uint64_t row = 0; row < z->ranges.outer && !failed && !z->window->no_panels; row++)
    for (uint64_t i = 0, m; i < p->n && !failed && !z->window->no_panels; i += m) {
      m = min_u64(p->n - i, STRIPS * EVAL_PIECE);
      failed = make_row(z, row, i, m, &s);
    }
  z->k->stripe = (struct eval_kept_stripe){0};
  eval_kept_begin(z->k, 0);
  z->window->have = 0; // elements of what comes next are others
  return failed;
}

static int make_panel(struct linear *z, uint64_t column) {
  const struct eval_cache_key key = panels_key(z);
  const uint64_t columns = panel_columns(z);
  struct panel p = {.z = z, .at = column / columns * columns};
  p.n = min_u64(columns, z->n - p.at);
  p.last = (z->ranges.outer - 1) * strips_of(z) + (p.at + p.n - 1) / EVAL_PIECE;
  return eval_find_once(z->t, &key, p.last, know_panel, find_panel, &p, z->err);
}

// Takes codes of at most n elements from `first` on: of how many, 0: they are not there.
static uint64_t take_codes(struct linear *z, uint64_t first, uint64_t n, uint8_t *out) {
  const struct eval_cache_key key = panels_key(z);
  const uint64_t row = first / z->n, column = first % z->n, at = column % EVAL_PIECE;
  const uint64_t unit = row * strips_of(z) + column / EVAL_PIECE;
  const uint64_t short_one = z->n % EVAL_PIECE, whole = short_one ? z->n - short_one - column : n;
  const uint64_t units = column + EVAL_PIECE <= z->n ? min_u64(n, whole) / EVAL_PIECE : 0;
  uint8_t strip[EVAL_PIECE];
  if (at == 0 && units > 0)
    return EVAL_PIECE *
           eval_cache_get_units(z->t->ev->cache, &key, unit, units, EVAL_CACHE_FIRST, out);
  n = min_u64(n, min_u64(EVAL_PIECE - at, z->n - column));
  const uint64_t end = column + n == z->n ? EVAL_PIECE : at + n; // with what fills the unit
  if (!eval_cache_get(z->t->ev->cache, &key, unit, EVAL_CACHE_FIRST, (size_t)at, strip,
                      (size_t)(end - at)))
    return 0;
  memcpy(out, strip, (size_t)n);
  return n;
}

// Tells of pieces from the next one on, as far as elements before `end` go. False: they are not there.
static bool tell_pieces(struct linear *z, uint64_t first, uint64_t end) {
  const struct eval_cache_key key = pieces_key(z);
  struct eval_chunks *c = &z->t->chunks;
  struct eval_piece pieces[2 * STRIPS];
  while (eval_figures_wants(z->t, z->id, first, end - first)) {
    const uint64_t row = c->next / z->n, unit = row * strips_of(z) + c->next % z->n / EVAL_PIECE;
    const uint64_t rest = min_u64(end, (row + 1) * z->n) - c->next;
    const uint64_t units = min_u64((rest - 1) / EVAL_PIECE + 1, STRIPS);
    const uint64_t start = row * z->n + c->next % z->n / EVAL_PIECE * EVAL_PIECE;
    const uint64_t got = eval_cache_get_units(z->t->ev->cache, &key, unit, units, EVAL_CACHE_FIRST,
                                              (uint8_t *)pieces);
    if (got == 0) return false;
    const uint64_t before = c->next;
    for (uint64_t i = 0; i < got * pieces_of(z) && c->next < c->end; i++) {
      const uint64_t strip = start + i / pieces_of(z) * EVAL_PIECE;
      const uint64_t strip_end = min_u64(strip + EVAL_PIECE, (row + 1) * z->n);
      const uint64_t at = i % pieces_of(z) ? eval_figures_piece_end(z->n, strip) : strip;
      if (at == c->next && at < strip_end) eval_figures_add_piece(z->t, &pieces[i]);
    }
    if (c->next == before) return false; // it was within a piece
  }
  return true;
}

// Gives codes of [first, first + count) from what is kept of panels, which it makes, as far as that can be.
static int from_panels(struct linear *z, uint64_t first, uint64_t count, uint8_t *out,
                       uint64_t *given) {
  for (*given = 0; *given < count && takes_panels(z);) {
    const uint64_t at = first + *given;
    uint64_t n = take_codes(z, at, count - *given, out + *given);
    if (n == 0) {
      if (make_panel(z, at % z->n) != 0) return -1;
      n = take_codes(z, at, count - *given, out + *given);
    }
    if (n == 0 || !tell_pieces(z, at, at + n)) {
      z->window->no_panels = true;
      return 0;
    }
    *given += n;
  }
  return 0;
}

// ---- all of them -------------------------------------------------------------------------------

static int make(struct linear *z, uint64_t first, uint64_t count, uint8_t *out) {
  uint64_t given;
  if (from_panels(z, first, count, out, &given) != 0) return -1;
  first += given;
  count -= given;
  out += given;
  while (count > 0) {
    size_t n = (size_t)min_u64(count, z->k->tile_elements);
    const uint8_t *in;
    if (eval_may_go_on(z->t->ev, z->err) != 0 || find_elements(z, first, &n, &in) != 0) return -1;
    for (size_t i = 0; i < n; i += CHUNK) {
      const size_t m = (size_t)min_u64(CHUNK, n - i);
      if (make_chunk(z, first + i, in + i * z->k->width, m, out + i * z->out_width) != 0) return -1;
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
    return err_set(err, ERR_INTERNAL, "a quantized tensor is nested below more than %u others",
                   t->ev->n_boxes);
  b->busy = true;
  linear_of(t, id, &z);
  z.err = err;
  share_box(&z, b);
  const int failed = make(&z, first, count, out);
  b->busy = false;
  return failed;
}
