// Which kind of recipe makes elements, and the memory they do it in. All of it is one block of the
// budget's size, shared out beforehand, so that the budget holds by construction; what is never used is
// never touched:
//
//   │ scratch, a level of depth each │ streams │ cursors │ boxes of strided recipes … │
//
// How many boxes are needed at once is counted over the recipe asked for: a transpose of a
// transpose (with something in between) needs two, a concatenation along an inner axis one for each
// of its parts, along the outermost axis only one, since its parts are finished one after the
// other.
//
// The recursion here is as deep as recipes lie within each other, which is bounded.
#include "stream/eval/core/eval_parts.h"

#include <assert.h>

enum {
  SCRATCH_ALL = EVAL_DEPTH * EVAL_SCRATCH_BYTES,
  STREAMS_ALL = EVAL_STREAMS * EVAL_STREAM_BYTES,
  CURSORS_ALL = EVAL_CURSORS * EVAL_CURSOR_BYTES,
  FIXED_ALL = SCRATCH_ALL + STREAMS_ALL + CURSORS_ALL,
};

const size_t eval_fixed_bytes = FIXED_ALL;

void eval_share_memory(struct eval *ev) {
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

static int interrupted(struct err *err) {
  return err_set(err, ERR_RETRY, "interrupted while reading the range of a weight");
}

int eval_may_go_on(struct eval *ev, struct err *err) {
  if (!ev->go_on.ask || ev->go_on.ask(ev->go_on.ctx)) return 0;
  return interrupted(err);
}

void eval_looked(struct eval *ev, uint32_t of, uint64_t bytes) {
  if (ev->go_on.looked) ev->go_on.looked(ev->go_on.ctx, of, bytes);
}

int eval_find_once(struct eval_task *t, const struct eval_cache_key *key, uint64_t unit,
                   bool (*know)(void *ctx), int (*find)(void *ctx, struct err *err), void *ctx,
                   struct err *err) {
  const enum eval_turns_next turn = eval_turns_wait(t->ev->cache, key, unit, t->ev->go_on);
  if (turn == EVAL_TURNS_STOPPED) return interrupted(err);
  if (turn == EVAL_TURNS_LOOK && know(ctx)) return 0;
  const int failed = find(ctx, err);
  if (turn == EVAL_TURNS_MINE) eval_turns_done(t->ev->cache, key, unit);
  return failed;
}

uint8_t *eval_scratch(struct eval *ev) {
  return ev->scratch + (size_t)ev->depth * EVAL_SCRATCH_BYTES;
}

// ---- boxes -------------------------------------------------------------------------------------

uint32_t eval_boxes_of_operands(const struct eval *ev, uint32_t id, uint32_t *left) {
  const struct recipe *x = &ev->r->rows[id];
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->n_args; i++)
    n += eval_boxes_at_once(ev, ev->r->args[x->args + i], left);
  return n;
}

uint32_t eval_boxes_at_once(const struct eval *ev, uint32_t id, uint32_t *left) {
  const struct eval_kind *kind = &ev->kinds[ev->r->rows[id].kind];
  if (*left == 0) return 0;
  --*left;
  return kind->boxes ? kind->boxes(ev, id, left) : kind->own + eval_boxes_of_operands(ev, id, left);
}

void eval_share_boxes(struct eval *ev, uint32_t root) {
  if (ev->root == root) return;
  uint32_t left = EVAL_WALK_MOST, n = eval_boxes_at_once(ev, root, &left);
  if (n == 0) n = 1;
  if (n > EVAL_BOXES) n = EVAL_BOXES;
  ev->n_boxes = n;
  ev->box_bytes = ev->box_memory_bytes / n / EVAL_BOX_LINE * EVAL_BOX_LINE;
  assert(ev->box_bytes * n <= ev->box_memory_bytes);
  for (uint32_t i = 0; i < n; i++) {
    struct eval_stripe_box *b = &ev->boxes[i];
    b->id = NO_ID;
    b->busy = false;
    b->used = 0;
    b->count = 0;
    b->data = ev->box_memory + i * ev->box_bytes;
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
  return err_set(err, ERR_MODEL, "recipes are nested more than %d deep", EVAL_DEPTH - 1);
}

int eval_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count, uint8_t *out,
                  struct err *err) {
  const enum recipe_kind kind = (enum recipe_kind)t->r->rows[id].kind;
  if (count == 0) return 0;
  assert(range_fits(first, count, t->r->rows[id].count));
  if (t->ev->depth + 1 == EVAL_DEPTH) return eval_too_deep(err);
  t->ev->depth++;
  const int failed = t->ev->kinds[kind].elements(t, id, first, count, out, err);
  t->ev->depth--;
  return failed;
}
