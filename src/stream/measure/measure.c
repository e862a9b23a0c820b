// Questions sorted by their operands, operands cut into items, items worked off by a team
// (measure_team.c).
//
//   codes ──▶ operand ──▶ ways (its quantizations)
//                   └───▶ items: runs of 2^n leaves that begin at a multiple of 2^n
//
// What is measured is what a run would find of the codes that it writes: the evaluator makes them
// for their figures alone (eval_measure.c). An item leaves a root of the tree of figures.h for every
// way; those roots are joined by the same tree, so nothing depends on who made which item, nor on
// how large items are. Choosing an axis is another question, of the whole operand at once
// (measure_axes.c).
#include "stream/measure/measure.h"

#include "stream/measure/inside/measure_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum {
  ROWS_BYTES = 8 << 20,   // of an operand whose columns lie one behind the other: an item, about
  WHOLE_BYTES = 32 << 20, // of others: they are read best whole
  STRIPE_COLUMNS = 2048,  // if they must be cut: items are not narrower
  HOLD_BYTES = 8 << 20,   // most that is read for several quantizations at once
  BLOCK_MOST = 256,
};

enum kind { COLUMNS, CHUNKS, AXES };

struct request {
  uint32_t row, of, axis, out;
  enum kind kind;
};

struct operand {
  const struct request *ways;
  uint32_t *codes, n_ways;
  uint64_t leaves, item_leaves, first_item, n_items, bytes;
  struct figures *parts; // [item][way]
};

struct measuring {
  struct measure_team team;
  struct operand *operands;
  uint32_t n_operands, most_ways;
};

// ---- what can be measured ----------------------------------------------------------------------

// The row of the quantization whose codes these are, also behind what only moves them.
static bool row_of(const struct recipes *r, uint32_t id, uint32_t *row) {
  while (r->rows[id].kind == RECIPE_TRANSPOSE || r->rows[id].kind == RECIPE_RESHAPE)
    id = r->args[r->rows[id].args];
  *row = id;
  return recipe_quantizes(r, id) && recipe_part_of(r, id) == PART_CODES;
}

static enum kind kind_of(const struct recipe_quantization *q) {
  if (q->format == FORMAT_SHRINK) return AXES;
  return recipe_is_nbits(q->format) ? COLUMNS : CHUNKS;
}

bool measure_can(const struct recipes *r, uint32_t codes) {
  uint32_t row;
  if (!row_of(r, codes, &row)) return false;
  const struct recipe_quantization q = recipe_quantization_of(r, row);
  const uint32_t of = r->args[r->rows[row].args];
  if (recipe_takes_gram(q.format)) return false; // what it finds is worth keeping
  if (q.format == FORMAT_SHRINK) return q.axis != RECIPE_PER_TENSOR;
  if (q.format == FORMAT_QDQ && q.block == 0) return true;
  // A table's block has no turn of its own for its scale: it lies in one panel.
  if (q.format == FORMAT_GATHER && q.block == 0) return recipe_dims(r, of)[q.axis] <= BLOCK_MOST;
  const bool known =
      q.format == FORMAT_QDQ || q.format == FORMAT_GATHER || recipe_is_nbits(q.format);
  return known && q.block > 0 && BLOCK_MOST % q.block == 0;
}

bool measure_is_by_column(const struct recipes *r, uint32_t codes) {
  uint32_t row;
  if (!row_of(r, codes, &row)) return false;
  const struct recipe_quantization q = recipe_quantization_of(r, row);
  return kind_of(&q) != CHUNKS;
}

// ---- items -------------------------------------------------------------------------------------

static uint64_t pow2_below(uint64_t x) {
  uint64_t p = 1;
  while (p <= x / 2)
    p *= 2;
  return p;
}

// Leaves of an item. Columns that lie one behind the other are taken by bytes, whatever there are.
static uint64_t item_leaves(const struct recipes *r, const struct operand *x) {
  const struct request *way = &x->ways[0];
  if (way->kind == AXES || x->leaves == 0) return 1;
  const bool columns = way->kind == COLUMNS, lines = way->axis + 1 == r->rows[way->of].rank;
  const uint64_t fit = pow2_below(max_u64(ROWS_BYTES / max_u64(x->bytes / x->leaves, 1), 1));
  if (columns && lines) return fit;
  if (x->bytes <= WHOLE_BYTES) return 2 * pow2_below(x->leaves);
  if (columns) return max_u64(fit, STRIPE_COLUMNS);
  return pow2_below(WHOLE_BYTES / (x->bytes / x->leaves));
}

static void cut_items(struct measuring *m, struct operand *x, struct arena *a) {
  const struct recipes *r = m->team.r;
  const enum kind kind = x->ways[0].kind;
  x->bytes = r->rows[x->ways[0].of].bytes;
  x->leaves = kind == AXES ? 1 : eval_measure_leaves(r, x->codes[0]);
  x->item_leaves = item_leaves(r, x);
  x->first_item = m->team.n_items;
  x->n_items = x->leaves / x->item_leaves + (x->leaves % x->item_leaves != 0);
  x->parts = arena_zalloc(a, (size_t)x->n_items * x->n_ways * sizeof *x->parts);
  m->team.n_items += x->n_items;
  m->team.bytes_total += x->bytes * (kind == AXES ? 2 : 1);
  if (x->n_ways > m->most_ways) m->most_ways = x->n_ways;
}

static int by_operand(const void *a, const void *b) {
  const struct request *x = a, *y = b;
  if (x->of != y->of) return x->of < y->of ? -1 : 1;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  // Along another axis it is another look at the operand; axes themselves are compared in one.
  if (x->axis != y->axis && x->kind != AXES) return x->axis < y->axis ? -1 : 1;
  return x->out < y->out ? -1 : x->out > y->out;
}

static bool is_same_look(const struct request *x, const struct request *y) {
  return x->of == y->of && x->kind == y->kind && (x->axis == y->axis || x->kind == AXES);
}

// Requests in order of their operands, which is about that of the sources.
static struct request *sort_requests(const struct recipes *r, const uint32_t *codes, uint32_t n,
                                     struct arena *a) {
  struct request *list = arena_alloc(a, (n + (size_t)1) * sizeof *list);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t row = NO_ID;
    const bool can = measure_can(r, codes[i]) && row_of(r, codes[i], &row);
    assert(can);
    const struct recipe_quantization q = recipe_quantization_of(r, row);
    list[i] = (struct request){.row = row,
                               .of = r->args[r->rows[row].args],
                               .axis = q.axis,
                               .out = i,
                               .kind = kind_of(&q)};
  }
  if (n > 0) qsort(list, n, sizeof *list, by_operand);
  return list;
}

static void gather(struct measuring *m, const uint32_t *codes, uint32_t n, struct arena *a) {
  const struct request *list = sort_requests(m->team.r, codes, n, a);
  uint32_t *rows = arena_alloc(a, (n + (size_t)1) * sizeof *rows);
  m->operands = arena_alloc(a, (n + (size_t)1) * sizeof *m->operands);
  for (uint32_t i = 0; i < n; i++) {
    rows[i] = list[i].row;
    if (i == 0 || !is_same_look(&list[i], &list[i - 1]))
      m->operands[m->n_operands++] = (struct operand){.ways = &list[i], .codes = &rows[i]};
    m->operands[m->n_operands - 1].n_ways++;
  }
}

// ---- workers -----------------------------------------------------------------------------------

static void add_leaf(void *tree, uint64_t leaf, const struct figures *f) {
  (void)leaf; // they come in order
  figures_push(tree, f);
}

static struct operand *operand_of(const struct measuring *m, uint64_t item) {
  uint32_t behind;
  BISECT(behind, m->n_operands, m->operands[behind].first_item <= item);
  return &m->operands[behind - 1];
}

static int measure_items(struct measure_worker *w, struct err *err) {
  const struct measuring *m = w->team->ctx;
  // Tiles and windows of a run are not needed here: their room is for what is held.
  const size_t hold_bytes = (size_t)min_u64(2 * w->team->budget.window_bytes, HOLD_BYTES);
  struct figures_tree *trees = arena_alloc(&w->arena, m->most_ways * sizeof *trees);
  struct eval_watcher *watchers = arena_alloc(&w->arena, m->most_ways * sizeof *watchers);
  uint8_t *memory = arena_alloc(&w->arena, hold_bytes);
  for (uint32_t i = 0; i < m->most_ways; i++)
    watchers[i] = (struct eval_watcher){add_leaf, &trees[i]};
  for (uint64_t item; measure_next(w, &item);) {
    const struct operand *x = operand_of(m, item);
    const uint64_t its = item - x->first_item, first = its * x->item_leaves;
    const struct eval_measurement of_item = {.codes = x->codes,
                                             .n = x->n_ways,
                                             .first = first,
                                             .end = min_u64(first + x->item_leaves, x->leaves),
                                             .watchers = watchers,
                                             .memory = memory,
                                             .memory_bytes = hold_bytes};
    struct figures *out = &x->parts[its * x->n_ways];
    if (x->ways[0].kind == AXES) {
      if (measure_axes(w, x->codes, x->n_ways, out, err)) return -1;
      continue;
    }
    memset(trees, 0, x->n_ways * sizeof *trees);
    if (eval_measure(w->ev, &of_item, err)) return -1;
    for (uint32_t i = 0; i < x->n_ways; i++)
      out[i] = figures_root(&trees[i]);
    measure_tell(w, x->bytes / x->leaves * (of_item.end - first));
  }
  return 0;
}

// ---- all of it ---------------------------------------------------------------------------------

static void conclude(const struct measuring *m, struct figures *out) {
  for (const struct operand *x = m->operands; x < m->operands + m->n_operands; x++)
    for (uint32_t i = 0; i < x->n_ways; i++) {
      struct figures_tree tree = {0};
      for (uint64_t item = 0; item < x->n_items; item++)
        figures_push(&tree, &x->parts[item * x->n_ways + i]);
      struct figures *f = &out[x->ways[i].out];
      *f = x->ways[i].kind == AXES ? x->parts[i] : figures_root(&tree);
      // Chunks leave such elements out of their sums, which then mean nothing.
      if (x->ways[i].kind == CHUNKS && f->nonfinite > 0) f->vv = f->ee = f->ve = f->max_error = NAN;
    }
}

int measure_run(const struct recipes *r, struct sources *s, const uint32_t *codes, uint32_t n,
                const struct work_options *options, struct figures *out,
                struct measure_stats *stats, struct err *err) {
  struct arena arena = {0};
  struct measuring m = {
      .team = {.r = r, .sources = s, .o = options, .stats = stats, .work = measure_items}};
  memset(stats, 0, sizeof *stats);
  gather(&m, codes, n, &arena);
  for (uint32_t i = 0; i < m.n_operands; i++)
    cut_items(&m, &m.operands[i], &arena);
  m.team.ctx = &m;
  const int rc = measure_team_run(&m.team, err);
  if (rc == 0) conclude(&m, out);
  arena_free(&arena);
  return rc;
}
