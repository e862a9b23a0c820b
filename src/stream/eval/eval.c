// Any byte range of a recipe, alone, in bounded memory. A recipe asks its operands for the elements
// it needs, through scratch or straight into its caller's buffer; the leaves read files
// (eval_leaf.c).
//
//   bytes ──▶ wide elements ──▶ reshape, cast, fill           (here)
//   (packed)                    concat, pad                   (eval_join.c)
//                               transpose, slice: strided     (eval_view.c)
//                               quantize                      (eval_quantize.c)
//                               extent                        (eval_leaf.c, eval_varint.c)
//
// All memory is one block of the budget's size, shared out beforehand, so that the budget holds by
// construction; what is never used is never touched:
//
//   │ scratch, a level of depth each │ streams │ cursors │ boxes of strided recipes … │
//
// How many boxes are needed at once is counted over the recipe asked for: a transpose of a
// transpose (with something in between) needs two, a concatenation along an inner axis one for each
// of its parts, along the outermost axis only one, since its parts are finished one after the
// other.
//
// The depth of recipes is ours (passes build them), small and asserted; so is the recursion here.
#include "eval.h"

#include "eval_figures.h"
#include "eval_quantize.h"
#include "kernels.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum {
  SCRATCH_ALL = EVAL_DEPTH * EVAL_SCRATCH_BYTES,
  STREAMS_ALL = EVAL_STREAMS * EVAL_STREAM_BYTES,
  CURSORS_ALL = EVAL_CURSORS * EVAL_CURSOR_BYTES,
  FIXED_ALL = SCRATCH_ALL + STREAMS_ALL + CURSORS_ALL,
  WALK_MAX = 256, // recipes looked at to count boxes
  LINE = 64,
};

static void share_fixed(struct eval *ev) {
  uint8_t *at = ev->memory;
  ev->scratch = at;
  at += SCRATCH_ALL;
  for (uint32_t i = 0; i < EVAL_STREAMS; i++, at += EVAL_STREAM_BYTES)
    ev->streams[i].buf = at;
  for (uint32_t i = 0; i < EVAL_CURSORS; i++, at += EVAL_CURSOR_BYTES)
    ev->cursors[i] = (struct eval_cursor){.buf = at, .piece = NO_ID};
  ev->box_memory = at;
  ev->box_memory_bytes = ev->budget_bytes - FIXED_ALL;
  assert(ev->box_memory + ev->box_memory_bytes == ev->memory + ev->budget_bytes);
}

// Boxes as large as the largest operand that is not read in order. Touched at once, so that the peak
// of a run does not depend on which of its workers happen to meet such tensors at the same time.
void eval_touch(struct eval *ev, const uint32_t *ids, uint32_t n) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct recipe *x = &ev->r->rows[ids ? ids[i] : i];
    if (x->kind == RECIPE_TRANSPOSE || x->kind == RECIPE_SLICE)
      most = max_u64(most, ev->r->rows[ev->r->args[x->args]].bytes);
    if (x->kind == RECIPE_QUANTIZE) most = max_u64(most, 4 * x->bytes);
  }
  if (most) memset(ev->memory, 0, (size_t)min_u64(FIXED_ALL + most, ev->budget_bytes));
}

int eval_open(struct eval **out, const struct recipes *r, struct io *io, size_t budget_bytes,
              struct err *err) {
  assert(budget_bytes >= EVAL_BUDGET_MIN);
  struct eval *ev = calloc(1, sizeof *ev);
  uint8_t *memory = malloc(budget_bytes);
  struct eval_stripe_box *boxes = calloc(EVAL_BOXES, sizeof *boxes);
  struct eval_block_box *held = calloc(EVAL_BOXES, sizeof *held);
  if (!ev || !memory || !boxes || !held) {
    free(ev);
    free(held);
    free(memory);
    free(boxes);
    err_errno(err, ENOMEM, ERR_RETRY, "cannot have %zu bytes to compute tensors in", budget_bytes);
    return err_hint(err, "a smaller --memory needs less");
  }
  *ev = (struct eval){.r = r, .io = io, .budget_bytes = budget_bytes, .root = NO_ID};
  ev->memory = memory;
  ev->boxes = boxes;
  ev->held = held;
  ev->wanted.id = NO_ID;
  ev->chunks.id = NO_ID;
  ev->turned.id = NO_ID;
  share_fixed(ev);
  *out = ev;
  return 0;
}

void eval_close(struct eval *ev) {
  if (!ev) return;
  free(ev->memory);
  free(ev->boxes);
  free(ev->held);
  free(ev);
}

void eval_share(struct eval *ev, struct eval_cache *cache) {
  ev->cache = cache;
}

void eval_interrupt(struct eval *ev, struct eval_go_on go_on) {
  ev->go_on = go_on;
}

int eval_interrupted(struct err *err) {
  return err_set(err, ERR_RETRY, "interrupted while a weight was read for its ranges");
}

int eval_may_go_on(struct eval *ev, struct err *err) {
  if (!ev->go_on.ask || ev->go_on.ask(ev->go_on.ctx)) return 0;
  return eval_interrupted(err);
}

void eval_refuse_overflow(struct eval *ev) {
  ev->refuses_overflow = true;
}

uint8_t *eval_scratch(struct eval *ev) {
  return ev->scratch + (size_t)ev->depth * EVAL_SCRATCH_BYTES;
}

// ---- sharing out the boxes ---------------------------------------------------------------------

static uint32_t boxes_at_once(const struct recipes *r, uint32_t id, uint32_t *left);

static uint32_t boxes_of_concat(const struct recipes *r, const struct recipe *x, uint32_t *left) {
  uint64_t outer;
  bool fits = dims_product(r->longs + x->dims, x->n, &outer);
  assert(fits);
  uint32_t sum = 0, most = 0;
  for (uint32_t i = 0; i < x->n_args; i++) {
    uint32_t n = boxes_at_once(r, r->args[x->args + i], left);
    sum += n;
    if (n > most) most = n;
  }
  return outer == 1 ? most : sum;
}

// `left` bounds the walk: parts that many recipes share are met once for every way to them. A count
// that is too small costs repeated reads, nothing else.
static uint32_t boxes_at_once(const struct recipes *r, uint32_t id, uint32_t *left) {
  const struct recipe *x = &r->rows[id];
  if (*left == 0) return 0;
  --*left;
  switch ((enum recipe_kind)x->kind) {
  case RECIPE_EXTENT:
  case RECIPE_BYTES:
  case RECIPE_FILL: return 0;
  case RECIPE_TRANSPOSE:
  case RECIPE_SLICE: return 1 + boxes_at_once(r, eval_view_operand(r, id), left);
  case RECIPE_CONCAT: return boxes_of_concat(r, x, left);
  case RECIPE_RESHAPE:
  case RECIPE_PAD:
  case RECIPE_CAST: return boxes_at_once(r, r->args[x->args], left);
  case RECIPE_QUANTIZE: return 1 + boxes_at_once(r, r->args[x->args], left);
  default: break;
  }
  return 0;
}

static void share_boxes(struct eval *ev, uint32_t root) {
  uint32_t left = WALK_MAX, n = boxes_at_once(ev->r, root, &left);
  if (n == 0) n = 1;
  if (n > EVAL_BOXES) n = EVAL_BOXES;
  ev->n_boxes = n;
  ev->box_bytes = ev->box_memory_bytes / n / LINE * LINE;
  assert(ev->box_bytes * n <= ev->box_memory_bytes);
  for (uint32_t i = 0; i < n; i++) {
    struct eval_stripe_box *b = &ev->boxes[i];
    b->id = NO_ID;
    b->busy = false;
    b->used = 0;
    b->count = 0;
    b->data = ev->box_memory + i * ev->box_bytes;
    b->held = &ev->held[i];
  }
  ev->root = root;
}

struct eval_stripe_box *eval_box_for(struct eval *ev, uint32_t id) {
  struct eval_stripe_box *oldest = NULL;
  for (uint32_t i = 0; i < ev->n_boxes; i++) {
    struct eval_stripe_box *b = &ev->boxes[i];
    if (b->busy) continue;
    if (b->id == id) {
      b->used = ++ev->stamp;
      return b;
    }
    if (!oldest || b->used < oldest->used) oldest = b;
  }
  if (!oldest) return NULL;
  oldest->id = id;
  oldest->count = 0;
  oldest->used = ++ev->stamp;
  return oldest;
}

// ---- elements ----------------------------------------------------------------------------------

// Sub-byte elements of an extent or of literal bytes.
static int unpack_leaf(struct eval *ev, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                       struct err *err) {
  const struct recipe *x = &ev->r->rows[id];
  uint32_t bits = dtype_bits((enum dtype)x->dtype);
  if (x->kind == RECIPE_BYTES) {
    eval_bits_unpack(out, ev->r->bytes + x->at, first * bits, (size_t)count, bits);
    return 0;
  }
  uint8_t *packed = eval_scratch(ev);
  while (count > 0) {
    uint64_t n = min_u64(count, EVAL_SCRATCH_BYTES / 2), from = first * bits / 8;
    uint64_t end = ((first + n) * bits + 7) / 8;
    if (eval_leaf_bytes(ev, x, from, packed, (size_t)(end - from), err) != 0) return -1;
    eval_bits_unpack(out, packed, first * bits - from * 8, (size_t)n, bits);
    first += n;
    count -= n;
    out += n;
  }
  return 0;
}

static int leaf_elements(struct eval *ev, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                         struct err *err) {
  const struct recipe *x = &ev->r->rows[id];
  uint32_t bits = dtype_bits((enum dtype)x->dtype), width = eval_width(ev->r, id);
  if (bits == 6 && x->kind == RECIPE_EXTENT && x->encoding == ENCODING_VARINT) {
    if (eval_varint_entries(ev, x, first, count, out, err) != 0) return -1;
    for (uint64_t i = 0; i < count; i++)
      out[i] &= 63;
    return 0;
  }
  if (bits < 8) return unpack_leaf(ev, id, first, count, out, err);
  if (x->kind == RECIPE_EXTENT)
    return eval_leaf_bytes(ev, x, first * width, out, (size_t)(count * width), err);
  memcpy(out, ev->r->bytes + x->at + first * width, (size_t)(count * width));
  return 0;
}

// One stretch of a conversion; `in` has the elements as they were. What has no kernel of its own
// widens first, exactly.
static void convert(uint8_t *out, uint8_t *in, size_t n, enum dtype from, enum dtype to) {
  void *y = out, *x = in;
  float wide[EVAL_SCRATCH_BYTES / 2];
  if ((from == DTYPE_FLOAT16 || from == DTYPE_BFLOAT16) && to != DTYPE_FLOAT) {
    assert(n <= sizeof wide / sizeof *wide);
    if (from == DTYPE_FLOAT16)
      kernels_f16_to_f32(wide, x, n);
    else
      kernels_bf16_to_f32(wide, x, n);
    x = wide;
    from = DTYPE_FLOAT;
  }
  if (from == DTYPE_FLOAT16)
    kernels_f16_to_f32(y, x, n);
  else if (from == DTYPE_BFLOAT16)
    kernels_bf16_to_f32(y, x, n);
  else if (from == DTYPE_FLOAT && to == DTYPE_FLOAT16)
    kernels_f32_to_f16(y, x, n);
  else if (from == DTYPE_FLOAT && to == DTYPE_BFLOAT16)
    kernels_f32_to_bf16(y, x, n);
  else if (from == DTYPE_FLOAT)
    kernels_f32_to_f64(y, x, n);
  else if (to == DTYPE_FLOAT)
    kernels_f64_to_f32(y, x, n);
  else if (to == DTYPE_FLOAT16)
    kernels_f64_to_f16(y, x, n);
  else
    kernels_f64_to_bf16(y, x, n);
}

static double element_of(enum dtype type, const uint8_t *at) {
  double d;
  float f;
  uint16_t half;
  if (type == DTYPE_DOUBLE) return memcpy(&d, at, sizeof d), d;
  if (type == DTYPE_FLOAT) return memcpy(&f, at, sizeof f), (double)f;
  memcpy(&half, at, sizeof half);
  if (type == DTYPE_FLOAT16)
    kernels_f16_to_f32(&f, &half, 1);
  else
    kernels_bf16_to_f32(&f, &half, 1);
  return f;
}

static bool is_infinite_half(const uint8_t *at, enum dtype type) {
  uint16_t half;
  memcpy(&half, at, sizeof half);
  return (half & 0x7fff) == (type == DTYPE_FLOAT16 ? 0x7c00 : 0x7f80);
}

// The largest finite value in place of infinities that finite elements became, with their sign.
static void clip_to_finite(uint8_t *out, const uint8_t *in, size_t n, enum dtype from,
                           enum dtype to) {
  const uint32_t width = dtype_bits(to) / 8, wide = dtype_bits(from) / 8;
  const float most = FLT_MAX;
  for (size_t i = 0; i < n && width < 8; i++) {
    uint8_t *y = out + i * width;
    const double x = element_of(from, in + i * wide);
    if (width == 2 ? !is_infinite_half(y, to) : !isinf(element_of(to, y))) continue;
    if (!isfinite(x)) continue;
    const float signed_most = x < 0 ? -most : most;
    const uint16_t half =
        (uint16_t)((to == DTYPE_FLOAT16 ? 0x7bff : 0x7f7f) | (x < 0 ? 0x8000 : 0));
    memcpy(y, width == 2 ? (const void *)&half : &signed_most, width);
  }
}

// `first`: which element of the tensor the stretch begins with.
static int check_overflow(const uint8_t *out, const uint8_t *in, size_t n, enum dtype from,
                          enum dtype to, uint64_t first, struct err *err) {
  const uint32_t width = dtype_bits(to) / 8, wide = dtype_bits(from) / 8;
  if (to == DTYPE_DOUBLE) return 0;
  for (size_t i = 0; i < n; i++) {
    if (width == 2 ? !is_infinite_half(out + i * width, to)
                   : !isinf(element_of(to, out + i * width)))
      continue;
    const double x = element_of(from, in + i * wide);
    if (!isfinite(x)) continue;
    err_fill(err, ERR_MODEL, "element %llu is %g, which %s cannot hold: it would become infinite",
             (unsigned long long)(first + i), x, dtype_name(to));
    return err_hint(err, "leave the tensor as it is (--exclude)%s",
                    to == DTYPE_FLOAT16 ? ", or take bfloat16, which reaches as far as float32"
                                        : "");
  }
  return 0;
}

static int cast_elements(struct eval *ev, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                         struct err *err) {
  uint32_t of = ev->r->args[ev->r->rows[id].args];
  enum dtype from = (enum dtype)ev->r->rows[of].dtype, to = (enum dtype)ev->r->rows[id].dtype;
  uint32_t width = eval_width(ev->r, id);
  uint64_t step = EVAL_SCRATCH_BYTES / eval_width(ev->r, of);
  uint8_t *scratch = eval_scratch(ev);
  const bool clips = recipe_cast_clips(ev->r, id);
  while (count > 0) {
    uint64_t n = min_u64(count, step);
    if (eval_elements(ev, of, first, n, scratch, err) != 0) return -1;
    convert(out, scratch, (size_t)n, from, to);
    if (clips) clip_to_finite(out, scratch, (size_t)n, from, to);
    if (eval_figures_watches(ev, id)) {
      if (eval_figures_cast(ev, id, first, scratch, out, (size_t)n, err) != 0) return -1;
    } else if (ev->refuses_overflow &&
               check_overflow(out, scratch, (size_t)n, from, to, first, err) != 0) {
      return -1;
    }
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}

static int elements_of_kind(struct eval *ev, uint32_t id, uint64_t first, uint64_t count,
                            uint8_t *out, struct err *err) {
  const struct recipe *x = &ev->r->rows[id];
  switch ((enum recipe_kind)x->kind) {
  case RECIPE_EXTENT:
  case RECIPE_BYTES: return leaf_elements(ev, id, first, count, out, err);
  case RECIPE_FILL:
    eval_join_fill(out, ev->r->bytes + x->at, eval_width(ev->r, id), count);
    return 0;
  case RECIPE_RESHAPE: return eval_elements(ev, ev->r->args[x->args], first, count, out, err);
  case RECIPE_TRANSPOSE:
  case RECIPE_SLICE: return eval_view_elements(ev, id, first, count, out, err);
  case RECIPE_CONCAT: return eval_join_concat(ev, id, first, count, out, err);
  case RECIPE_PAD: return eval_join_pad(ev, id, first, count, out, err);
  case RECIPE_CAST:
    if (recipe_can_cast((enum dtype)ev->r->rows[ev->r->args[x->args]].dtype, (enum dtype)x->dtype))
      return cast_elements(ev, id, first, count, out, err);
    break;
  case RECIPE_QUANTIZE: return eval_quantize_elements(ev, id, first, count, out, err);
  default: break;
  }
  return err_set(err, ERR_INTERNAL, "a recipe of kind '%s' cannot be computed yet",
                 recipe_kind_name((enum recipe_kind)x->kind));
}

int eval_elements(struct eval *ev, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                  struct err *err) {
  if (count == 0) return 0;
  assert(range_fits(first, count, ev->r->rows[id].count));
  ev->depth++;
  assert(ev->depth < EVAL_DEPTH);
  int failed = elements_of_kind(ev, id, first, count, out, err);
  ev->depth--;
  return failed;
}

// ---- bytes -------------------------------------------------------------------------------------

// Literals and extents whose bytes are at hand as they stand, padding bits included: NULL for
// others.
static const struct recipe *plain_leaf(const struct recipes *r, uint32_t id) {
  while (r->rows[id].kind == RECIPE_RESHAPE)
    id = r->args[r->rows[id].args];
  const struct recipe *x = &r->rows[id];
  if (x->kind == RECIPE_BYTES) return x;
  bool packed = x->encoding != ENCODING_VARINT || dtype_bits((enum dtype)x->dtype) != 6;
  return x->kind == RECIPE_EXTENT && packed ? x : NULL;
}

// Groups of 8 elements are whole bytes at any width, so packing may start at any of them.
static int read_packed(struct eval *ev, uint32_t id, uint64_t off, uint8_t *buf, size_t n,
                       struct err *err) {
  const struct recipe *x = &ev->r->rows[id];
  uint32_t bits = dtype_bits((enum dtype)x->dtype);
  uint8_t *elements = eval_scratch(ev), *packed = elements + EVAL_SCRATCH_BYTES / 2;
  while (n > 0) {
    uint64_t first = off / bits * 8, skip = off % bits; // `bits` bytes a group
    uint64_t count = min_u64(x->count - first, EVAL_SCRATCH_BYTES / 2);
    count = min_u64(count, (n + skip + bits - 1) / bits * 8);
    if (eval_elements(ev, id, first, count, elements, err) != 0) return -1;
    eval_bits_pack(packed, elements, (size_t)count, bits);
    size_t m = (size_t)min_u64((count * bits + 7) / 8 - skip, n);
    memcpy(buf, packed + skip, m);
    off += m;
    buf += m;
    n -= m;
  }
  return 0;
}

// Part of one element: `skip` of its bytes are left out, at most n given. Returns how many in
// *given.
static int read_part(struct eval *ev, uint32_t id, uint64_t off, struct span *given, uint8_t *buf,
                     struct err *err) {
  uint8_t one[16];
  uint32_t width = eval_width(ev->r, id);
  uint64_t skip = off % width;
  if (eval_elements(ev, id, off / width, 1, one, err) != 0) return -1;
  given->n = (size_t)min_u64(width - skip, given->n);
  memcpy(buf, one + skip, given->n);
  return 0;
}

int recipe_read(struct eval *ev, uint32_t id, uint64_t off, void *buf, size_t n, struct err *err) {
  const struct recipe *x = &ev->r->rows[id];
  assert(range_fits(off, n, x->bytes));
  assert(ev->depth == 0);
  const struct recipe *leaf = plain_leaf(ev->r, id);
  if (leaf && leaf->kind == RECIPE_EXTENT) return eval_leaf_bytes(ev, leaf, off, buf, n, err);
  if (leaf) {
    if (n) memcpy(buf, ev->r->bytes + leaf->at + off, n);
    return 0;
  }
  if (ev->root != id) share_boxes(ev, id);
  if (dtype_bits((enum dtype)x->dtype) < 8) return read_packed(ev, id, off, buf, n, err);
  uint32_t width = eval_width(ev->r, id);
  for (uint8_t *to = buf; n > 0;) {
    struct span part = {NULL, n};
    if (off % width == 0 && n >= width) {
      part.n = n / width * width;
      if (eval_elements(ev, id, off / width, part.n / width, to, err) != 0) return -1;
    } else if (read_part(ev, id, off, &part, to, err) != 0) {
      return -1;
    }
    to += part.n;
    off += part.n;
    n -= part.n;
  }
  return 0;
}
