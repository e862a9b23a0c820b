// Figures that a task tells: which elements they are of is said when it begins, and what was not read of
// them, or goes on behind its range, is made when it ends. Columns of the NBITS formats are told by
// eval_tell.c, chunks of all others through eval_figures.c.
#include "eval_told.h"

#include "eval_quantize.h"

#include <assert.h>

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

void eval_told_begin(struct eval_task *t) {
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

int eval_told_end(struct eval_task *t, struct err *err) {
  return t->chunks.id != NO_ID ? end_chunks(t, err) : eval_quantize_end(t, err);
}
