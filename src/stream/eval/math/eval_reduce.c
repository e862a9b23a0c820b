// Reductions along axes. Every output is a column of operand elements, in the operand's order, reduced
// by lanes, chunks and a tree (kernels_reduce.h), so that it does not show how the work was cut. Axes
// that lie side by side and both stay or both go are one; what is then innermost makes the layout:
//
//   … r0 k1      columns lie side by side: a stripe of a line of k1 is read row by row, and all its
//                columns are reduced at once
//   … r0 k1 r1   r1 elements of a column lie together. Short ones: a block of some columns is read and
//                transposed, then as above. Long ones: a column at a time
//
// Memory: what a stripe needs for its lanes and its tree; the operand streams by. A stripe is as wide as
// that memory allows.
//
// Outputs are made in units of 8192 at most, which a box holds, because they are asked for again and
// again (a mean that is taken from every element). A unit that took a long read is kept for all workers
// too, and only one of them computes it.
#include "kernels/convert/kernels_convert.h"
#include "kernels/reduce/kernels_reduce.h"
#include "stream/eval/math/eval_math.h"

#include <assert.h>

enum {
  UNIT = 8192,                       // outputs
  WORK_MOST = 2 << 20,               // bytes of a box beside the outputs
  WORK_LEAST = 8 << 10,              //
  LARGE = 64 << 10,                  // elements that are a long read
  PARTIAL = 8,                       // bytes of a partial, or of a lane of it
  STATES = KERNELS_REDUCE_LANES + 2, // of a column beside its tree: lanes, a partial, the result
  LINE = 64,
};

struct reduce {
  uint32_t of, width;
  enum dtype type, to;
  uint8_t op;
  uint64_t column; // elements
  uint64_t inner;  // r1 above, or 1
  uint64_t line;   // k1 above, or 1
  // Axes outside of these.
  uint32_t rank;
  uint64_t dims[RECIPE_MAX_RANK], strides[RECIPE_MAX_RANK];
  bool reduced[RECIPE_MAX_RANK];
};

static void reduce_of(const struct recipes *r, uint32_t id, struct reduce *q) {
  const struct recipe_reduction by = recipe_reduction_of(r, id);
  const uint32_t of = r->args[r->rows[id].args];
  const int64_t *dims = recipe_dims(r, of);
  *q = (struct reduce){.of = of,
                       .width = eval_width(r, of),
                       .type = (enum dtype)r->rows[of].dtype,
                       .to = (enum dtype)r->rows[id].dtype,
                       .op = (uint8_t)by.op,
                       .column = r->rows[of].count / r->rows[id].count,
                       .inner = 1,
                       .line = 1};
  for (uint32_t i = 0; i < r->rows[of].rank; i++) {
    const bool reduced = by.axes >> i & 1;
    if (dims[i] == 1) continue;
    if (q->rank == 0 || q->reduced[q->rank - 1] != reduced) {
      q->reduced[q->rank] = reduced;
      q->dims[q->rank++] = 1;
    }
    q->dims[q->rank - 1] *= (uint64_t)dims[i];
  }
  uint64_t stride = 1;
  for (uint32_t i = q->rank; i-- > 0; stride *= q->dims[i])
    q->strides[i] = stride;
  if (q->rank && q->reduced[q->rank - 1]) q->inner = q->dims[--q->rank];
  if (q->rank && !q->reduced[q->rank - 1]) q->line = q->dims[--q->rank];
}

// A stripe: some columns of a line.
struct stripe {
  const struct reduce *q;
  struct kernels_reduction k; // how many columns
  uint8_t *lanes, *partial, *levels, *results;
  uint8_t *rows, *turned; // for elements: as they are read, and transposed
  size_t rows_bytes;
  uint64_t done; // elements of every column
};

static void feed(struct stripe *s, const uint8_t *in, uint64_t rows) {
  while (rows > 0) {
    const uint64_t at = s->done % KERNELS_REDUCE_CHUNK;
    const uint64_t n = min_u64(rows, KERNELS_REDUCE_CHUNK - at);
    if (at == 0) kernels_reduce_begin(&s->k, s->lanes);
    kernels_reduce_rows(&s->k, s->lanes, (size_t)at, in, s->k.columns, (size_t)n);
    s->done += n;
    in += n * s->k.columns * s->q->width;
    rows -= n;
    if (s->done % KERNELS_REDUCE_CHUNK != 0 && s->done != s->q->column) continue;
    kernels_reduce_close(&s->k, s->partial, s->lanes);
    kernels_reduce_push(&s->k, s->levels, (s->done - 1) / KERNELS_REDUCE_CHUNK, s->partial);
  }
}

// `rows` rows of the stripe that lie one behind the other from element `at` of the operand on.
static int feed_rows(struct eval_task *t, struct stripe *s, uint64_t at, uint64_t rows,
                     struct err *err) {
  const uint64_t most = s->rows_bytes / s->q->width / s->k.columns;
  while (rows > 0) {
    const uint64_t n = min_u64(rows, most);
    if (eval_may_go_on(t->ev, err) != 0 ||
        eval_elements(t, s->q->of, at, n * s->k.columns, s->rows, err) != 0)
      return -1;
    feed(s, s->rows, n);
    at += n * s->k.columns;
    rows -= n;
  }
  return 0;
}

// `inner` elements of each column, column by column.
static int feed_block(struct eval_task *t, struct stripe *s, uint64_t at, struct err *err) {
  const size_t columns = s->k.columns, inner = (size_t)s->q->inner;
  if (columns == 1) return feed_rows(t, s, at, inner, err);
  if (eval_may_go_on(t->ev, err) != 0 ||
      eval_elements(t, s->q->of, at, columns * inner, s->rows, err) != 0)
    return -1;
  kernels_transpose(s->turned, columns, s->rows, inner, columns, inner, s->q->width);
  feed(s, s->turned, inner);
  return 0;
}

// As many columns, of `left`, as the memory allows, and the memory shared out.
static void share(struct stripe *s, uint64_t left, uint8_t *work, size_t bytes) {
  const struct reduce *q = s->q;
  const uint64_t levels = kernels_reduce_levels(q->column);
  const uint64_t state = PARTIAL * (STATES + levels);
  uint64_t n = min_u64(left, bytes / 2 / state);
  if (q->inner > 1) n = min_u64(n, bytes / 4 / q->width / q->inner);
  if (n == 0) n = 1;
  s->k = (struct kernels_reduction){.op = q->op, .type = (uint8_t)q->type, .columns = (size_t)n};
  s->lanes = work;
  s->partial = s->lanes + n * PARTIAL * KERNELS_REDUCE_LANES;
  s->levels = s->partial + n * PARTIAL;
  s->results = s->levels + n * PARTIAL * levels;
  s->rows = s->results + n * PARTIAL;
  const bool turns = q->inner > 1 && n > 1;
  const size_t rest = bytes - (size_t)(n * state);
  s->rows_bytes = rest / (turns ? 2 : 1) / PARTIAL * PARTIAL;
  s->turned = s->rows + s->rows_bytes;
  assert(s->rows_bytes >= n * q->width * (turns ? q->inner : 1));
}

// Outputs from `first` on, at most n; returns how many in *made.
static int make_stripe(struct eval_task *t, const struct reduce *q, uint64_t first, uint64_t n,
                       uint8_t *work, size_t bytes, uint64_t *made, uint8_t *out, struct err *err) {
  struct stripe s = {.q = q};
  share(&s, min_u64(n, q->line - first % q->line), work, bytes);
  uint64_t at = first % q->line * q->inner, rest = first / q->line, c[RECIPE_MAX_RANK] = {0};
  for (uint32_t i = q->rank; i-- > 0;) {
    if (q->reduced[i]) continue;
    at += rest % q->dims[i] * q->strides[i];
    rest /= q->dims[i];
  }
  // Whole lines one below the other are one piece.
  uint32_t rank = q->rank;
  const bool whole = q->inner == 1 && s.k.columns == q->line && rank > 0;
  const uint64_t rows = whole ? q->dims[--rank] : 1;
  for (;;) {
    if ((q->inner > 1 ? feed_block(t, &s, at, err) : feed_rows(t, &s, at, rows, err)) != 0)
      return -1;
    uint32_t i = rank;
    for (; i > 0; i--) {
      if (!q->reduced[i - 1]) continue;
      at += q->strides[i - 1];
      if (++c[i - 1] < q->dims[i - 1]) break;
      at -= q->dims[i - 1] * q->strides[i - 1];
      c[i - 1] = 0;
    }
    if (i == 0) break;
  }
  assert(s.done == q->column);
  const struct kernels_cast cast = {.from = (uint8_t)kernels_reduce_type(q->type),
                                    .to = (uint8_t)q->to};
  kernels_reduce_finish(&s.k, s.results, s.levels, (q->column - 1) / KERNELS_REDUCE_CHUNK + 1);
  const uint64_t open = kernels_convert(out, s.results, s.k.columns, &cast);
  assert(open == 0);
  *made = s.k.columns;
  return 0;
}

static int make(struct eval_task *t, const struct reduce *q, uint64_t first, uint64_t n,
                uint8_t *work, size_t bytes, uint8_t *out, struct err *err) {
  uint64_t made = 0;
  for (; n > 0; first += made, n -= made, out += made * q->width)
    if (make_stripe(t, q, first, n, work, bytes, &made, out, err) != 0) return -1;
  return 0;
}

// ---- units -------------------------------------------------------------------------------------

static struct eval_cache_key key_of(const struct recipes *r, uint32_t id, const struct reduce *q) {
  const uint64_t count = r->rows[id].count, unit = min_u64(count, UNIT);
  return (struct eval_cache_key){.kind = EVAL_CACHE_REDUCED,
                                 .of = id,
                                 .units = (count + unit - 1) / unit,
                                 .bytes = {(uint32_t)(unit * q->width)}};
}

// A unit of outputs that the box is to hold.
struct filling {
  struct eval_task *t;
  const struct reduce *q;
  struct eval_stripe_box *b;
  struct eval_cache_key key;
  uint64_t unit, first, n;
};

static bool know_unit(void *ctx) {
  const struct filling *f = ctx;
  return eval_cache_look(f->t->ev->cache, &f->key, f->unit, EVAL_CACHE_FIRST, f->b->data);
}

static int make_unit(void *ctx, struct err *err) {
  const struct filling *f = ctx;
  const size_t held = (size_t)round_up(f->key.bytes[EVAL_CACHE_FIRST], LINE);
  const size_t bytes = (size_t)min_u64(f->t->ev->box_bytes - held, WORK_MOST);
  uint8_t *data = f->b->data;
  memset(data, 0, held);
  return make(f->t, f->q, f->first, f->n, data + held, bytes, data, err);
}

static int find_unit(void *ctx, struct err *err) {
  const struct filling *f = ctx;
  if (make_unit(ctx, err) != 0) return -1;
  eval_cache_put(f->t->ev->cache, &f->key, f->unit, f->b->data, NULL);
  return 0;
}

// Outputs of a unit into the box: from other workers, or computed.
static int fill_box(struct eval_task *t, uint32_t id, const struct reduce *q,
                    struct eval_stripe_box *b, uint64_t unit, struct err *err) {
  struct filling f = {
      .t = t, .q = q, .b = b, .key = key_of(t->r, id, q), .unit = unit, .first = unit * UNIT};
  f.n = min_u64(UNIT, t->r->rows[id].count - f.first);
  b->count = 0;
  const bool large = t->ev->cache && f.n * q->column >= LARGE;
  const int failed =
      large ? eval_find_once(t, &f.key, unit, know_unit, find_unit, &f, err) : make_unit(&f, err);
  if (failed) return -1;
  b->first = f.first;
  b->count = f.n;
  return 0;
}

int eval_reduce_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                         uint8_t *out, struct err *err) {
  struct reduce q;
  reduce_of(t->r, id, &q);
  const uint64_t unit_bytes = round_up(min_u64(t->r->rows[id].count, UNIT) * q.width, LINE);
  struct eval_stripe_box *b = eval_box_for(t->ev, id);
  if (!b || t->ev->box_bytes < unit_bytes + WORK_LEAST)
    return make(t, &q, first, count, eval_scratch(t->ev), EVAL_SCRATCH_BYTES, out, err);
  b->busy = true;
  int failed = 0;
  while (count > 0 && !failed) {
    if (first < b->first || first - b->first >= b->count)
      failed = fill_box(t, id, &q, b, first / UNIT, err) != 0;
    if (failed) break;
    const uint64_t n = min_u64(count, b->count - (first - b->first));
    memcpy(out, b->data + (first - b->first) * q.width, (size_t)(n * q.width));
    first += n;
    count -= n;
    out += n * q.width;
  }
  b->busy = false;
  return failed ? -1 : 0;
}
