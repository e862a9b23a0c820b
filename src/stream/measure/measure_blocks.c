// Blockwise quantizations: questions sorted by their operands, operands cut into items.
//
//   codes ──▶ operand ──▶ ways (its quantizations)
//                   └───▶ items: runs of 2^n columns that begin at a multiple of 2^n
//
// Workers take items, go over their columns with all ways at once (measure_panels.c), and leave a
// root of the tree of figures.h for each; those roots are joined by the same tree, so nothing
// depends on who made which item, nor on how large items are.
#include "measure_blocks.h"

#include "measure_panels.h"

#include <assert.h>
#include <stdlib.h>

enum {
  ITEM_BYTES = 8 << 20,  // of an operand, about
  STRIPE_COLUMNS = 2048, // items of stripes are not narrower
};

struct operand {
  struct measure_panels_operand is;
  uint64_t columns;
  uint64_t item_columns, first_item, n_items;
  struct figures *parts; // [item][way]
};

struct request {
  uint32_t row, operand, out;
};

struct measuring {
  const struct recipes *r;
  const struct request *requests;
  struct measure_panels_way *ways; // of all operands, in order of requests
  struct operand *operands;
  uint32_t n_operands, most_ways;
};

// ---- what is measured --------------------------------------------------------------------------

// Is one block all of an axis that a panel may have to cut? Its scale takes a turn of its own,
// which GATHER's arithmetic has not: a table's block is short, and lies in one panel.
static bool is_whole(const struct recipe_quantization *q) {
  return q->format == FORMAT_QDQ && q->block == 0;
}

bool measure_blocks_can(const struct recipes *r, uint32_t codes) {
  uint32_t id;
  if (!measure_reader_codes(r, codes, &id)) return false;
  const struct recipe_quantization q = recipe_quantization_of(r, id);
  if (is_whole(&q)) return true;
  const uint32_t of = r->args[r->rows[id].args];
  if (q.format == FORMAT_GATHER && q.block == 0)
    return recipe_dims(r, of)[q.axis] <= MEASURE_PANELS_ROWS;
  const bool known =
      q.format == FORMAT_QDQ || q.format == FORMAT_GATHER || recipe_is_nbits(q.format);
  return known && q.block > 0 && MEASURE_PANELS_ROWS % q.block == 0;
}

static struct measure_panels_way way_of(const struct recipes *r, uint32_t row, uint32_t out) {
  const struct recipe_quantization q = recipe_quantization_of(r, row);
  return (struct measure_panels_way){
      .format = eval_block_format(r, row), .whole = is_whole(&q), .out = out};
}

static uint64_t pow2_below(uint64_t x) {
  uint64_t p = 1;
  while (p <= x / 2)
    p *= 2;
  return p;
}

static void shape_operand(struct operand *o, const struct recipes *r, uint32_t axis) {
  struct measure_panels_operand *x = &o->is;
  const struct recipe *row = &r->rows[x->recipe];
  const int64_t *dims = recipe_dims(r, x->recipe);
  bool fits = dims_product(dims, axis, &x->outer) &&
              dims_product(dims + axis + 1, row->rank - axis - 1, &x->inner);
  x->k = (uint64_t)dims[axis];
  x->width = dtype_bits((enum dtype)row->dtype) / 8;
  // Of an empty tensor the other dims may pass all bounds.
  if (row->count == 0) x->outer = x->inner = 0;
  fits = fits || row->count == 0;
  assert(fits);
  o->columns = x->outer * x->inner;
  const uint64_t column_bytes = max_u64(x->k, 1) * x->width;
  o->item_columns = pow2_below(max_u64(ITEM_BYTES / column_bytes, 1));
  if (x->inner > 1) o->item_columns = max_u64(o->item_columns, STRIPE_COLUMNS);
  o->n_items = o->columns / o->item_columns + (o->columns % o->item_columns != 0);
}

static int by_operand(const void *a, const void *b) {
  const struct request *x = a, *y = b;
  if (x->operand != y->operand) return x->operand < y->operand ? -1 : 1;
  return x->out < y->out ? -1 : x->out > y->out;
}

// Requests in order of their operands, which is about that of the sources.
static struct request *sort_requests(const struct recipes *r, const uint32_t *codes, uint32_t n,
                                     struct arena *a) {
  struct request *list = arena_alloc(a, n * sizeof *list);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t row;
    const bool can = measure_blocks_can(r, codes[i]) && measure_reader_codes(r, codes[i], &row);
    assert(can);
    list[i] = (struct request){.row = row, .operand = r->args[r->rows[row].args], .out = i};
  }
  if (n > 0) qsort(list, n, sizeof *list, by_operand);
  return list;
}

static void add_operand(struct measuring *m, const struct request *q, uint32_t axis) {
  struct operand *x = &m->operands[m->n_operands++];
  *x = (struct operand){.is = {.recipe = q->operand, .ways = &m->ways[q - m->requests]}};
  shape_operand(x, m->r, axis);
}

static void gather(struct measuring *m, const uint32_t *codes, uint32_t n, struct arena *a) {
  m->requests = sort_requests(m->r, codes, n, a);
  m->ways = arena_alloc(a, (n + (size_t)1) * sizeof *m->ways);
  m->operands = arena_alloc(a, (n + (size_t)1) * sizeof *m->operands);
  uint32_t axis = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct request *q = &m->requests[i];
    const uint32_t its_axis = recipe_quantization_of(m->r, q->row).axis;
    // The same operand cut along another axis is another look at it.
    if (i == 0 || q->operand != q[-1].operand || its_axis != axis) add_operand(m, q, its_axis);
    axis = its_axis;
    m->ways[i] = way_of(m->r, q->row, q->out);
    struct measure_panels_operand *x = &m->operands[m->n_operands - 1].is;
    x->n_whole += m->ways[i].whole;
    x->n_ways++;
  }
}

// Numbers the items, and makes room for their figures.
static void number_items(struct measuring *m, struct measure_reader_team *team, struct arena *a) {
  for (struct operand *x = m->operands; x < m->operands + m->n_operands; x++) {
    x->first_item = team->n_items;
    team->n_items += x->n_items;
    team->bytes_total += x->columns * x->is.k * x->is.width * (x->is.n_whole ? 2 : 1);
    if (x->is.n_ways > m->most_ways) m->most_ways = x->is.n_ways;
    x->parts = arena_zalloc(a, (size_t)x->n_items * x->is.n_ways * sizeof *x->parts);
  }
}

// ---- items -------------------------------------------------------------------------------------

static const struct operand *operand_of(const struct measuring *m, uint64_t item) {
  uint32_t low = 0, high = m->n_operands;
  while (high - low > 1) {
    const uint32_t mid = low + (high - low) / 2;
    if (m->operands[mid].first_item <= item)
      low = mid;
    else
      high = mid;
  }
  return &m->operands[low];
}

static int work(struct measure_reader *rd, struct err *err) {
  const struct measuring *m = rd->team->ctx;
  struct measure_panels *panels = measure_panels_new(rd, m->most_ways);
  uint64_t item;
  while (measure_reader_next(rd, &item)) {
    const struct operand *x = operand_of(m, item);
    const uint64_t its = item - x->first_item, c = its * x->item_columns;
    const int rc =
        measure_panels_columns(panels, &x->is, c, min_u64(c + x->item_columns, x->columns),
                               &x->parts[its * x->is.n_ways], err);
    if (rc) return rc < 0 ? -1 : 0;
  }
  return 0;
}

static void conclude(const struct measuring *m, struct figures *out) {
  for (const struct operand *x = m->operands; x < m->operands + m->n_operands; x++)
    for (uint32_t i = 0; i < x->is.n_ways; i++) {
      struct figures_tree tree = {0};
      for (uint64_t item = 0; item < x->n_items; item++)
        figures_push(&tree, &x->parts[item * x->is.n_ways + i]);
      out[x->is.ways[i].out] = figures_root(&tree);
    }
}

int measure_blocks_run(const struct recipes *r, struct sources *s, const uint32_t *codes,
                       uint32_t n, const struct work_options *options, struct figures *out,
                       struct measure_stats *stats, struct err *err) {
  struct arena arena = {0};
  struct measuring m = {.r = r};
  struct measure_reader_team team = {
      .r = r, .sources = s, .o = options, .stats = stats, .ctx = &m, .work = work};
  gather(&m, codes, n, &arena);
  number_items(&m, &team, &arena);
  const int rc = measure_reader_run(&team, err);
  if (rc == 0) conclude(&m, out);
  arena_free(&arena);
  return rc;
}
