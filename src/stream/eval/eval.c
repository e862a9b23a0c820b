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
//                               quantize, quantize_by         (eval_quantize.c)
//                               awq                           (eval_awq.c)
//                               quantize_linear               (eval_linear.c)
//                               extent, bytes                 (eval_leaf.c, eval_varint.c)
//
// Here the kinds of recipes meet: what makes the elements of each is a row of the table, and no room
// below knows another one. The memory is shared out in eval_box.c.
#include "stream/eval/eval.h"

#include "resources/resources.h"
#include "stream/eval/core/eval_parts.h"
#include "stream/eval/math/eval_math.h"
#include "stream/eval/quantize/eval_quantize.h"

#include <assert.h>
#include <errno.h>

enum { HELD_MOST = 2 << 20 }; // of a box of a recipe that computes

// ---- kinds of recipes --------------------------------------------------------------------------

static int reshape_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                            uint8_t *out, struct err *err) {
  return eval_elements(t, t->r->args[t->r->rows[id].args], first, count, out, err);
}

static const struct eval_kind kinds[RECIPE_KINDS] = {
    [RECIPE_EXTENT] = {.elements = eval_leaf_elements},
    [RECIPE_BYTES] = {.elements = eval_leaf_elements},
    [RECIPE_FILL] = {.elements = eval_join_fill_elements},
    [RECIPE_RESHAPE] = {.elements = reshape_elements},
    [RECIPE_TRANSPOSE] = {.elements = eval_view_elements, .boxes = eval_view_boxes},
    [RECIPE_SLICE] = {.elements = eval_view_elements, .boxes = eval_view_boxes},
    [RECIPE_CONCAT] = {.elements = eval_join_concat, .boxes = eval_join_concat_boxes},
    [RECIPE_PAD] = {.elements = eval_join_pad},
    [RECIPE_CAST] = {.elements = eval_cast_elements},
    [RECIPE_QUANTIZE] = {.elements = eval_quantize_elements, .own = 1},
    [RECIPE_QUANTIZE_BY] = {.elements = eval_quantize_elements, .own = 1},
    [RECIPE_AWQ] = {.elements = eval_awq_elements, .own = 1},
    [RECIPE_QUANTIZE_LINEAR] = {.elements = eval_linear_elements, .boxes = eval_linear_boxes},
    [RECIPE_REDUCE] = {.elements = eval_reduce_elements, .own = 1},
    [RECIPE_DEQUANTIZE] = {.elements = eval_dequantize_elements, .own = 1},
    [RECIPE_GATHER] = {.elements = eval_pick_elements, .own = 1},
    [RECIPE_MAP] = {.elements = eval_map_elements,
                    .boxes = eval_map_boxes,
                    .gathers = eval_map_gathers,
                    .gather = eval_map_gather},
};

static_assert((int)EVAL_DEPTH > (int)RECIPE_MAX_DEPTH, "every edit that a log can contain is "
                                                       "evaluated");

// ---- opening and closing ----------------------------------------------------------------------

// The largest box that a recipe or anything below it makes use of; `left` as in eval_boxes_at_once.
static uint64_t largest_box(const struct recipes *r, uint32_t id, uint32_t *left) {
  const struct recipe *x = &r->rows[id];
  if (*left == 0) return 0;
  --*left;
  uint64_t most = eval_linear_wanted(r, id);
  for (uint32_t i = 0; i < x->n_args; i++)
    most = max_u64(most, largest_box(r, r->args[x->args + i], left));
  return most;
}

// Boxes are of one size.
uint64_t eval_wanted(const struct recipes *r, const uint32_t *ids, uint32_t n, uint64_t most) {
  const struct eval ev = {.kinds = kinds, .r = r};
  uint64_t wanted = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t id = ids ? ids[i] : i;
    uint32_t left = EVAL_WALK_MOST;
    const uint64_t box = round_up(largest_box(r, id, &left), EVAL_BOX_LINE);
    if (box == 0) continue;
    left = EVAL_WALK_MOST;
    const uint64_t bytes =
        eval_fixed_bytes + box * min_u64(eval_boxes_at_once(&ev, id, &left), EVAL_BOXES);
    if (bytes <= most) wanted = max_u64(wanted, bytes);
  }
  return wanted;
}

// Boxes as large as the largest operand that is not read in order. Touched at once, so that the peak
// of a run does not depend on which of its workers happen to meet such tensors at the same time.
void eval_touch(struct eval *ev, const uint32_t *ids, uint32_t n) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct recipe *x = &ev->r->rows[ids ? ids[i] : i];
    if (x->kind == RECIPE_TRANSPOSE || x->kind == RECIPE_SLICE)
      most = max_u64(most, ev->r->rows[ev->r->args[x->args]].bytes);
    if (recipe_quantizes(ev->r, ids ? ids[i] : i) || x->kind == RECIPE_QUANTIZE_LINEAR)
      most = max_u64(most, 4 * x->bytes);
    const bool computes = x->kind == RECIPE_MAP || x->kind == RECIPE_REDUCE ||
                          x->kind == RECIPE_GATHER || x->kind == RECIPE_DEQUANTIZE;
    for (uint32_t k = 0; k < x->n_args && computes; k++)
      most = max_u64(most, min_u64(ev->r->rows[ev->r->args[x->args + k]].bytes, HELD_MOST));
  }
  if (most) memset(ev->memory, 0, (size_t)min_u64(eval_fixed_bytes + most, ev->budget_bytes));
}

int eval_open(struct eval **out, const struct recipes *r, struct io *io, size_t budget_bytes,
              struct err *err) {
  assert(budget_bytes >= EVAL_BUDGET_MIN);
  struct eval *ev = resources_zalloc(1, sizeof *ev);
  uint8_t *memory = resources_alloc(budget_bytes);
  struct eval_stripe_box *boxes = resources_zalloc(EVAL_BOXES, sizeof *boxes);
  if (!ev || !memory || !boxes) {
    resources_free(ev);
    resources_free(memory);
    resources_free(boxes);
    err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: computing tensors needs %zu bytes",
              budget_bytes);
    return err_because(err, REASON_NO_MEMORY);
  }
  *ev =
      (struct eval){.kinds = kinds, .r = r, .io = io, .budget_bytes = budget_bytes, .root = NO_ID};
  ev->memory = memory;
  ev->boxes = boxes;
  eval_share_memory(ev);
  *out = ev;
  return 0;
}

void eval_close(struct eval *ev) {
  if (!ev) return;
  resources_free(ev->memory);
  resources_free(ev->boxes);
  resources_free(ev);
}

void eval_share(struct eval *ev, struct eval_cache *cache) {
  ev->cache = cache;
}

void eval_interrupt(struct eval *ev, struct eval_go_on go_on) {
  ev->go_on = go_on;
}

void eval_refuse_overflow(struct eval *ev) {
  ev->refuses_overflow = true;
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

// ---- figures -------------------------------------------------------------------------------------

// Figures that a task tells: which elements they are of is said when it begins, and what was not read of
// them, or goes on behind its range, is made when it ends. Columns of the NBITS formats are told by
// eval_tell.c, chunks of all others through eval_figures.c.
//
// The recipe whose elements are told of when this one is read, or NO_ID.
static uint32_t told_of(const struct recipes *r, uint32_t id, bool *in_order) {
  *in_order = true;
  for (; r->rows[id].kind == RECIPE_RESHAPE || r->rows[id].kind == RECIPE_TRANSPOSE;
       id = r->args[r->rows[id].args])
    if (r->rows[id].kind == RECIPE_TRANSPOSE) *in_order = false;
  const struct recipe *x = &r->rows[id];
  if (x->count == 0) return NO_ID;
  if (recipe_quantizes(r, id)) {
    const bool by_column = recipe_is_nbits(recipe_quantization_of(r, id).format);
    return recipe_part_of(r, id) == PART_CODES && !by_column ? id : NO_ID;
  }
  if (x->kind == RECIPE_QUANTIZE_LINEAR) return id;
  if (x->kind != RECIPE_CAST) return NO_ID;
  uint32_t of = r->args[x->args];
  if (!recipe_can_cast((enum dtype)r->rows[of].dtype, (enum dtype)x->dtype)) return NO_ID;
  of = recipe_unmoved(r, of);
  return recipe_quantizes(r, of) ? NO_ID : id; // scales are no weights
}

static void begin_chunks(struct eval_task *t) {
  struct eval_chunks *c = &t->chunks;
  bool in_order;
  const uint32_t told = told_of(t->r, t->wanted.id, &in_order);
  if (told == NO_ID) return;
  const struct recipe *x = &t->r->rows[told];
  const uint64_t chunk = (uint64_t)EVAL_CHUNK / 8 * dtype_bits((enum dtype)x->dtype);
  const uint64_t off = t->wanted.off, end = off + t->wanted.len;
  c->id = told;
  c->open = in_order;
  c->line = eval_linear_line(t->r, told);
  c->next = min_u64((off + chunk - 1) / chunk * EVAL_CHUNK, x->count);
  c->end = min_u64((end + chunk - 1) / chunk * EVAL_CHUNK, x->count);
  eval_layout_forget(t->ev, told); // what a box holds was told to somebody else
}

static void begin_figures(struct eval_task *t) {
  t->chunks.id = NO_ID;
  if (!t->watcher.told) return;
  begin_chunks(t);
  if (t->chunks.id == NO_ID) eval_quantize_begin(t);
}

static int end_chunks(struct eval_task *t, struct err *err) {
  struct eval_chunks *c = &t->chunks;
  uint8_t *elements = eval_scratch(t->ev);
  if (eval_once_end(t, err) != 0) return -1;
  if (c->id == NO_ID || c->next == c->end) return 0;
  const uint32_t bits = dtype_bits((enum dtype)t->r->rows[c->id].dtype);
  // Boxes are filled for what is wanted now; those that were filled before told nothing.
  t->wanted.id = c->id;
  t->wanted.off = c->next * bits / 8;
  t->wanted.len = ((c->end - c->next) * bits + 7) / 8;
  eval_layout_forget(t->ev, c->id);
  c->open = true;
  while (c->next < c->end) {
    const uint64_t before = c->next;
    const uint64_t n = min_u64(c->end - before, EVAL_SCRATCH_BYTES / eval_width(t->r, c->id));
    if (eval_elements(t, c->id, before, n, elements, err) != 0) return -1;
    assert(c->next > before);
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
  begin_figures(t);
  return t;
}

int eval_end(struct eval_task *t, struct err *err) {
  eval_share_boxes(t->ev, t->root);
  return t->chunks.id != NO_ID ? end_chunks(t, err) : eval_quantize_end(t, err);
}

int recipe_read(struct eval *ev, uint32_t id, uint64_t off, void *buf, size_t n, struct err *err) {
  struct eval_task t = task_of(ev, id);
  return eval_read(&t, off, buf, n, err);
}
