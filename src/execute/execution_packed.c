// The size of the output after gzip -9, about, before any of it is written: samples of the planned bytes are compressed
// (gzip_guess.h).
//
// A sample of a copied segment is read from its source; a sample of a computed one is evaluated, and only that range. An
// evaluation may read more than its range: a scale needs all of its weight. Three bounds hold the reading down:
//
//   LEAVES_MOST   bytes of sources under one recipe; larger weights, and codes found by second moments (GPTQ, AWQ), give
//                 no sample
//   READ_MOST     bytes read in all; after that no further sample is made
//   BUDGET        memory of the evaluator. A run with less --memory reads more for a sample, so its estimate may differ;
//                 it depends on no other option of the run
//
// gzip_guess makes an estimate of the samples that there are, or none if they are too few.
#include "execute/execution.h"

#include "squeeze/gzip_guess.h"
#include "stream/eval/eval.h"

enum {
  BUDGET = 8 << 20,
  BUDGET_LEAST = 1 << 20,
  LEAVES_MOST = 64 << 20,
  READ_MOST = 128 << 20,
  ROWS_MOST = 1024
};

struct packed {
  struct execution *exec;
  struct io *io;
  struct eval *ev;
  uint64_t copied;
};

static bool takes_long(const struct recipes *r, uint32_t id) {
  return r->rows[id].kind == RECIPE_AWQ || r->rows[id].kind == RECIPE_QUANTIZE_BY;
}

// Bytes of sources that a recipe reads. UINT64_MAX: it has too many rows to count, or takes long.
static uint64_t leaves_of(const struct recipes *r, uint32_t id) {
  uint32_t rows[ROWS_MOST], n = 1;
  uint64_t bytes = 0;
  rows[0] = id;
  for (uint32_t i = 0; i < n; i++) {
    const struct recipe *row = &r->rows[rows[i]];
    if (takes_long(r, rows[i])) return UINT64_MAX;
    if (row->kind == RECIPE_EXTENT) bytes += row->bytes;
    if (row->n_args > ROWS_MOST - n) return UINT64_MAX;
    for (uint32_t k = 0; k < row->n_args; k++)
      rows[n++] = r->args[row->args + k];
  }
  return bytes;
}

// Bytes [from, from + n) of a segment.
static bool fill(struct packed *p, const struct segment *s, uint64_t from, uint8_t *buf, size_t n) {
  const struct execution *exec = p->exec;
  struct err unimportant = {0};
  if (p->copied + io_source_bytes_read(p->io) > READ_MOST) return false;
  switch ((enum segment_kind)s->kind) {
  case SEGMENT_ZERO: memset(buf, 0, n); return true;
  case SEGMENT_LITERAL: memcpy(buf, exec->plan.literals + s->at + from, n); return true;
  case SEGMENT_EXTENT:
    p->copied += n;
    return sources_read(exec->sources, s->ref, s->at + from, buf, n, &unimportant) == 0;
  case SEGMENT_RECIPE:
    return leaves_of(&exec->recipes, s->ref) <= LEAVES_MOST &&
           recipe_read(p->ev, s->ref, s->at + from, buf, n, &unimportant) == 0;
  }
  return false;
}

// Offsets count through all outputs, in the order of the plan.
static bool read_plan(void *ctx, uint64_t off, uint8_t *buf, size_t n) {
  struct packed *p = ctx;
  const struct plan *plan = &p->exec->plan;
  for (uint32_t k = 0; k < plan->n_outputs && n > 0; k++) {
    const struct plan_output *o = &plan->outputs[k];
    while (n > 0 && off < o->size) {
      const struct segment *s = &plan->segments[plan_segment_at(plan, k, off)];
      const uint64_t from = off - s->off;
      const size_t here = (size_t)min_u64(n, s->len - from);
      if (!fill(p, s, from, buf, here)) return false;
      buf += here;
      n -= here;
      off += here;
    }
    off -= o->size;
  }
  return n == 0;
}

bool execution_is_for_packing(const struct execution *exec) {
  const struct recipes *r = &exec->recipes;
  for (uint32_t i = 0; i < r->n_rows; i++)
    if (r->rows[i].kind == RECIPE_QUANTIZE && recipe_quantization_of(r, i).format == FORMAT_LEVELS)
      return true;
  return false;
}

void execution_guess_packed(struct execution *exec) {
  const struct io_options options = {.mode = IO_SYNC, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  const size_t budget = (size_t)max_u64(BUDGET_LEAST, min_u64(BUDGET, exec->memory / 4));
  struct packed p = {.exec = exec};
  struct gzip_guess guess;
  struct err unimportant = {0};
  int rc = io_open(&p.io, &options, exec->sources, &unimportant);
  if (rc == 0) rc = eval_open(&p.ev, &exec->recipes, p.io, budget, &unimportant);
  if (rc == 0 && gzip_guess(plan_total_bytes(&exec->plan), read_plan, &p, &guess))
    exec->reported.cost.packed = guess.bytes;
  if (p.ev) eval_close(p.ev);
  if (p.io) io_close(p.io);
}
