// Elements picked along an axis by a list of indices (GATHER). Seen from its axis the operand is
// [outer, n, inner]; the result [outer, m, inner] is made of runs:
//
//   result   ├ of index 0 ─┼ of index 1 ─┼ … m of them ─┤ for each place outside of the axis
//   operand  row of n * inner elements: run i begins at index[i] * inner
//
// Indices that follow each other make one run. Runs that are long, or few of those there are, are read
// one by one straight into the result. Where they are short and the operand's rows fit a box, the box
// takes a stretch of rows at once.
//
// The list is looked at through scratch, a piece at a time: it is known, or a recipe of its own. What is
// known lies in its range (recipe.h), the rest is checked here as it is read.
#include "stream/eval/core/eval_parts.h"

enum { LIST = EVAL_SCRATCH_BYTES / 8, SHORT_RUN_BYTES = 4096, SPARSE = 8, STRETCH = 1 << 18 };

struct pick {
  uint32_t of, by;
  uint32_t width; // bytes of an element
  uint64_t n, m, inner;
  int64_t *list; // indices [at, at + have)
  uint64_t at, have;
};

static void pick_of(struct eval_task *t, uint32_t id, struct pick *p) {
  const struct recipes *r = t->r;
  const uint32_t *of = r->args + r->rows[id].args, axis = recipe_axis_of(r, id);
  const struct recipe_around x = recipe_around(r, of[0], axis);
  *p = (struct pick){.of = of[0],
                     .by = of[1],
                     .width = eval_width(r, id),
                     .n = x.n,
                     .m = r->rows[of[1]].count,
                     .inner = x.inner,
                     .list = (int64_t *)(void *)eval_scratch(t->ev)};
}

static int read_list(struct eval_task *t, struct pick *p, uint64_t i, struct err *err) {
  const uint64_t have = min_u64(LIST, p->m - i);
  const bool narrow = t->r->rows[p->by].dtype == DTYPE_INT32;
  // int32 lie in the second half, so that widening them never writes over one that is still to come.
  uint8_t *to = (uint8_t *)(void *)p->list + (narrow ? EVAL_SCRATCH_BYTES / 2 : 0);
  p->have = 0;
  if (eval_elements(t, p->by, i, have, to, err) != 0) return -1;
  for (uint64_t k = 0; k < have; k++) {
    int32_t small;
    memcpy(&small, to + k * 4, sizeof small);
    const int64_t index = narrow ? small : p->list[k];
    if (index >= (int64_t)p->n || index < -(int64_t)p->n)
      return err_set(err, ERR_MODEL, "Gather index %s is outside its axis of %s", integer(index).s,
                     decimal(p->n).s);
    p->list[k] = index < 0 ? index + (int64_t)p->n : index;
  }
  p->at = i;
  p->have = have;
  return 0;
}

// The index of run i, and in *runs how many from there on follow each other, as far as is known.
static int index_of(struct eval_task *t, struct pick *p, uint64_t i, uint64_t *index,
                    uint64_t *runs, struct err *err) {
  if ((i < p->at || i - p->at >= p->have) && read_list(t, p, i, err) != 0) return -1;
  const int64_t *list = p->list + (i - p->at);
  const uint64_t left = p->have - (i - p->at);
  *index = (uint64_t)list[0];
  *runs = 1;
  while (*runs < left && list[*runs] == list[*runs - 1] + 1)
    ++*runs;
  return 0;
}

// Elements [at, at + n) of the operand by way of the box, which has whole rows.
static int from_box(struct eval_task *t, const struct pick *p, struct eval_stripe_box *b,
                    uint64_t at, uint64_t n, uint8_t *out, struct err *err) {
  if (at < b->first || at - b->first >= b->count) {
    const uint64_t row = p->n * p->inner, first = at / row * row;
    const uint64_t room = min_u64(t->ev->box_bytes, STRETCH) / p->width / row;
    const uint64_t count = min_u64((room ? room : 1) * row, t->r->rows[p->of].count - first);
    b->count = 0;
    if (eval_elements(t, p->of, first, count, b->data, err) != 0) return -1;
    b->first = first;
    b->count = count;
  }
  memcpy(out, b->data + (at - b->first) * p->width, (size_t)(n * p->width));
  return 0;
}

int eval_pick_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out, struct err *err) {
  struct pick p;
  pick_of(t, id, &p);
  const uint64_t row = p.n * p.inner;
  const bool is_short = p.inner * p.width < SHORT_RUN_BYTES && p.m >= p.n / SPARSE;
  struct eval_stripe_box *b = is_short ? eval_box_for(t->ev, id) : NULL;
  if (b && row > t->ev->box_bytes / p.width) b = NULL;
  if (b) b->busy = true;
  int failed = 0;
  while (count > 0 && !failed) {
    const uint64_t run = first / p.inner, skip = first % p.inner;
    uint64_t index = 0, runs = 0;
    failed = index_of(t, &p, run % p.m, &index, &runs, err) != 0;
    if (failed) break;
    const uint64_t at = run / p.m * row + index * p.inner + skip;
    const uint64_t n = min_u64(count, runs * p.inner - skip);
    failed = b ? from_box(t, &p, b, at, n, out, err) : eval_elements(t, p.of, at, n, out, err);
    first += n;
    count -= n;
    out += n * p.width;
  }
  if (b) b->busy = false;
  return failed ? -1 : 0;
}
