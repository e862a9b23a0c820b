// Any byte range of a recipe, alone, in bounded memory. A recipe asks its operands for the elements
// it needs, through scratch or straight into its caller's buffer; the leaves read files
// (eval_leaf.c).
//
//   bytes ──▶ wide elements ──▶ reshape                       (here)
//   (packed)                    fill, concat, pad             (eval_join.c)
//                               cast                          (eval_cast.c)
//                               map: elementwise              (eval_map.c)
//                               reduce                        (eval_reduce.c)
//                               dequantize                    (eval_dequantize.c)
//                               gather                        (eval_pick.c)
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
// The recursion here is as deep as recipes lie within each other, which is bounded.
#include "eval.h"

#include "eval_figures.h"
#include "eval_once.h"
#include "eval_quantize.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
  SCRATCH_ALL = EVAL_DEPTH * EVAL_SCRATCH_BYTES,
  STREAMS_ALL = EVAL_STREAMS * EVAL_STREAM_BYTES,
  CURSORS_ALL = EVAL_CURSORS * EVAL_CURSOR_BYTES,
  FIXED_ALL = SCRATCH_ALL + STREAMS_ALL + CURSORS_ALL,
  WALK_MAX = 256, // recipes looked at to count boxes
  LINE = 64,
  HELD_MOST = 2 << 20, // of a box of a recipe that computes
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
    const bool computes = x->kind == RECIPE_MAP || x->kind == RECIPE_REDUCE ||
                          x->kind == RECIPE_GATHER || x->kind == RECIPE_DEQUANTIZE;
    for (uint32_t k = 0; k < x->n_args && computes; k++)
      most = max_u64(most, min_u64(ev->r->rows[ev->r->args[x->args + k]].bytes, HELD_MOST));
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
    return err_because(err, REASON_NO_MEMORY);
  }
  *ev = (struct eval){.r = r, .io = io, .budget_bytes = budget_bytes, .root = NO_ID};
  ev->memory = memory;
  ev->boxes = boxes;
  ev->held = held;
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

// ---- kinds of recipes --------------------------------------------------------------------------

// How many boxes a recipe needs at once. `left` bounds the walk: parts that many recipes share are met
// once for every way to them. A count that is too small costs repeated reads, nothing else.
static uint32_t boxes_at_once(const struct recipes *r, uint32_t id, uint32_t *left);

static uint32_t boxes_of_view(const struct recipes *r, uint32_t id, uint32_t *left) {
  return 1 + boxes_at_once(r, eval_view_operand(r, id), left);
}

// Along the outermost axis one part is finished after the other.
static uint32_t boxes_of_concat(const struct recipes *r, uint32_t id, uint32_t *left) {
  const struct recipe *x = &r->rows[id];
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

static int reshape_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                            uint8_t *out, struct err *err) {
  return eval_elements(t, t->r->args[t->r->rows[id].args], first, count, out, err);
}

static uint32_t boxes_of_map(const struct recipes *r, uint32_t id, uint32_t *left) {
  const struct recipe *x = &r->rows[id];
  uint32_t n = eval_map_holds(r, id);
  for (uint32_t i = 0; i < x->n_args; i++)
    n += boxes_at_once(r, r->args[x->args + i], left);
  return n;
}

// What evaluation knows of a kind of recipe. `boxes`: how many boxes it and its operands need at once,
// or NULL: `own`, and those of its operands.
static const struct kind {
  eval_elements_fn *elements;
  uint32_t own;
  uint32_t (*boxes)(const struct recipes *r, uint32_t id, uint32_t *left);
} kinds[RECIPE_KINDS] = {
    [RECIPE_EXTENT] = {.elements = eval_leaf_elements},
    [RECIPE_BYTES] = {.elements = eval_leaf_elements},
    [RECIPE_FILL] = {.elements = eval_join_fill_elements},
    [RECIPE_RESHAPE] = {.elements = reshape_elements},
    [RECIPE_TRANSPOSE] = {.elements = eval_view_elements, .boxes = boxes_of_view},
    [RECIPE_SLICE] = {.elements = eval_view_elements, .boxes = boxes_of_view},
    [RECIPE_CONCAT] = {.elements = eval_join_concat, .boxes = boxes_of_concat},
    [RECIPE_PAD] = {.elements = eval_join_pad},
    [RECIPE_CAST] = {.elements = eval_cast_elements},
    [RECIPE_QUANTIZE] = {.elements = eval_quantize_elements, .own = 1},
    [RECIPE_REDUCE] = {.elements = eval_reduce_elements, .own = 1},
    [RECIPE_DEQUANTIZE] = {.elements = eval_dequantize_elements, .own = 1},
    [RECIPE_GATHER] = {.elements = eval_pick_elements, .own = 1},
    [RECIPE_MAP] = {.elements = eval_map_elements, .boxes = boxes_of_map},
};

static uint32_t boxes_at_once(const struct recipes *r, uint32_t id, uint32_t *left) {
  const struct recipe *x = &r->rows[id];
  const struct kind *kind = &kinds[x->kind];
  if (*left == 0) return 0;
  --*left;
  if (kind->boxes) return kind->boxes(r, id, left);
  uint32_t n = kind->own;
  for (uint32_t i = 0; i < x->n_args; i++)
    n += boxes_at_once(r, r->args[x->args + i], left);
  return n;
}

void eval_share_boxes(struct eval *ev, uint32_t root) {
  if (ev->root == root) return;
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

int eval_too_deep(struct err *err) {
  return err_set(err, ERR_MODEL, "more than %d recipes lie one within another", EVAL_DEPTH - 1);
}

int eval_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                  struct err *err) {
  const enum recipe_kind kind = (enum recipe_kind)t->r->rows[id].kind;
  if (count == 0) return 0;
  assert(range_fits(first, count, t->r->rows[id].count));
  if (t->ev->depth + 1 == EVAL_DEPTH) return eval_too_deep(err);
  t->ev->depth++;
  const int failed = kinds[kind].elements(t, id, first, count, out, err);
  t->ev->depth--;
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
static int read_packed(struct eval_task *t, uint32_t id, uint64_t off, uint8_t *buf, size_t n,
                       struct err *err) {
  const struct recipe *x = &t->r->rows[id];
  uint32_t bits = dtype_bits((enum dtype)x->dtype);
  uint8_t *elements = eval_scratch(t->ev), *packed = elements + EVAL_SCRATCH_BYTES / 2;
  while (n > 0) {
    uint64_t first = off / bits * 8, skip = off % bits; // `bits` bytes a group
    uint64_t count = min_u64(x->count - first, EVAL_SCRATCH_BYTES / 2);
    count = min_u64(count, (n + skip + bits - 1) / bits * 8);
    if (eval_elements(t, id, first, count, elements, err) != 0) return -1;
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
static int read_part(struct eval_task *t, uint32_t id, uint64_t off, struct span *given,
                     uint8_t *buf, struct err *err) {
  uint8_t one[16];
  uint32_t width = eval_width(t->r, id);
  uint64_t skip = off % width;
  if (eval_elements(t, id, off / width, 1, one, err) != 0) return -1;
  given->n = (size_t)min_u64(width - skip, given->n);
  memcpy(buf, one + skip, given->n);
  return 0;
}

int eval_read(struct eval_task *t, uint64_t off, void *buf, size_t n, struct err *err) {
  struct eval *ev = t->ev;
  const struct recipe *x = &t->r->rows[t->root];
  assert(range_fits(off, n, x->bytes));
  assert(ev->depth == 0);
  const struct recipe *leaf = plain_leaf(t->r, t->root);
  if (leaf && leaf->kind == RECIPE_EXTENT) return eval_leaf_bytes(ev, leaf, off, buf, n, err);
  if (leaf) {
    if (n) memcpy(buf, t->r->bytes + leaf->at + off, n);
    return 0;
  }
  eval_share_boxes(ev, t->root);
  if (dtype_bits((enum dtype)x->dtype) < 8) return read_packed(t, t->root, off, buf, n, err);
  uint32_t width = eval_width(t->r, t->root);
  for (uint8_t *to = buf; n > 0;) {
    struct span part = {NULL, n};
    if (off % width == 0 && n >= width) {
      part.n = n / width * width;
      if (eval_elements(t, t->root, off / width, part.n / width, to, err) != 0) return -1;
    } else if (read_part(t, t->root, off, &part, to, err) != 0) {
      return -1;
    }
    to += part.n;
    off += part.n;
    n -= part.n;
  }
  return 0;
}

// ---- tasks -------------------------------------------------------------------------------------

// A task of which nothing is known but its recipe.
static struct eval_task task_of(struct eval *ev, uint32_t id) {
  struct eval_task t = {.ev = ev, .r = ev->r, .root = id, .once = NO_ID, .chunks.id = NO_ID};
  t.wanted.id = NO_ID;
  return t;
}

struct eval_task *eval_begin(struct eval *ev, uint32_t id, uint64_t off, uint64_t len,
                             struct eval_watcher watcher) {
  struct eval_task *t = &ev->task;
  *t = task_of(ev, id);
  t->watcher = watcher;
  while (t->r->rows[id].kind == RECIPE_RESHAPE)
    id = t->r->args[t->r->rows[id].args];
  t->wanted.id = id;
  t->wanted.off = off;
  t->wanted.len = len;
  eval_once_begin(t, id);
  eval_figures_begin(t);
  eval_quantize_begin(t);
  return t;
}

int eval_end(struct eval_task *t, struct err *err) {
  eval_share_boxes(t->ev, t->root);
  return t->chunks.id != NO_ID ? eval_figures_end(t, err) : eval_quantize_end(t, err);
}

int recipe_read(struct eval *ev, uint32_t id, uint64_t off, void *buf, size_t n, struct err *err) {
  struct eval_task t = task_of(ev, id);
  return eval_read(&t, off, buf, n, err);
}
