// Measuring: operands in panels through the kernels, codes thrown away, sums kept.
//
// An operand is looked at as [outer, K, inner], K being the axis that is cut into blocks; its columns
// are numbered o * inner + j. Workers take items: runs of 2^n columns that begin at a multiple of 2^n.
//
//            inner == 1: rows kernels             inner > 1: columns kernels
//
//              k ──────────────▶                    j ─▶ stripe
//        col ┌──────────────────┐                 k ┌────┬───────────┐
//         │  │ item (several    │                 │ │ pa │           │
//         ▼  │ columns at once) │                 ▼ │ nel│  next     │
//            ├──────────────────┤                   ├────┤  stripe   │
//            │ next item        │                   │    │           │
//            └──────────────────┘                   └────┴───────────┘
//
// A panel is read once and cut into tiles that stay in cache while every quantization goes over them.
// The kernels add up each column in order of k, panel after panel; columns are then put together by
// the tree of figures.h, items too, so nothing depends on how large panels, stripes or items are.
//
// A block of all of a long axis has no scale before its last element was seen: such operands take a
// second turn over their panels, the sums starting new lanes every ROWS elements.
#include "measure.h"

#include "budget.h"
#include "crew.h"
#include "eval_quantize.h"
#include "kernels.h"
#include "measure_axes.h"

#include <assert.h>
#include <float.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
  ROWS = 256,             // the least that panels are cut to along k: a multiple of every block
  TILE_BYTES = 128 << 10, // what stays in cache
  TILE_COLUMNS = 128,     // of stripes
  SPACE_MAX = 8 << 20,    // panel and sums of a worker
  ITEM_BYTES = 8 << 20,   // of an operand, about
  STRIPE_COLUMNS = 2048,  // items of stripes are not narrower
  LEAST_ROWS = 16,        // columns in a panel of rows, where k is long
  TICK_MS = 50,
};

struct way {
  struct kernels_block_format format;
  bool whole;   // one block: all of k
  uint32_t out; // index in the caller's list
};

struct operand {
  uint32_t recipe;
  uint32_t first_way, n_ways, n_whole;
  uint32_t width; // bytes of an element
  uint64_t outer, k, inner, columns;
  uint64_t item_columns, first_item, n_items;
  struct figures *parts; // [item][way]
};

struct measuring {
  const struct recipes *r;
  struct sources *sources;
  const struct run_options *o;
  struct budget budget;
  struct way *ways;
  struct operand *operands;
  uint32_t n_operands, most_ways;
  uint64_t n_items;
  _Atomic uint64_t next; // item
  _Atomic bool stopped;

  pthread_mutex_t mu; // guards the rest
  struct err err;
  struct measure_stats *stats;
  uint64_t bytes_done, bytes_total, told_ms;
};

// ---- what is measured --------------------------------------------------------------------------

static uint32_t codes_row(const struct recipes *r, uint32_t id) {
  while (r->rows[id].kind == RECIPE_TRANSPOSE || r->rows[id].kind == RECIPE_RESHAPE)
    id = r->args[r->rows[id].args];
  return id;
}

static bool is_blockwise(const struct recipes *r, uint32_t codes) {
  const uint32_t id = codes_row(r, codes);
  if (r->rows[id].kind != RECIPE_QUANTIZE || recipe_part_of(r, id) != PART_CODES) return false;
  const struct recipe_quantization q = recipe_quantization_of(r, id);
  if (q.format == FORMAT_QDQ && q.block == 0) return true;
  const bool known =
      q.format == FORMAT_QDQ || q.format == FORMAT_GATHER || recipe_is_nbits(q.format);
  return known && q.block > 0 && ROWS % q.block == 0;
}

bool measure_can(const struct recipes *r, uint32_t codes) {
  return is_blockwise(r, codes) || measure_axes_can(r, codes);
}

static struct way way_of(const struct recipes *r, uint32_t row, uint32_t out) {
  struct eval_quantize z;
  eval_quantize_of(r, row, &z); // as the run would quantize it
  return (struct way){.format = z.f, .whole = z.q.block == 0, .out = out};
}

static uint64_t pow2_below(uint64_t x) {
  uint64_t p = 1;
  while (p <= x / 2)
    p *= 2;
  return p;
}

static void shape_operand(struct operand *x, const struct recipes *r, uint32_t axis) {
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
  x->columns = x->outer * x->inner;
  const uint64_t column_bytes = max_u64(x->k, 1) * x->width;
  x->item_columns = pow2_below(max_u64(ITEM_BYTES / column_bytes, 1));
  if (x->inner > 1) x->item_columns = max_u64(x->item_columns, STRIPE_COLUMNS);
  x->n_items = x->columns / x->item_columns + (x->columns % x->item_columns != 0);
}

struct request {
  uint32_t row, operand, out;
};

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
    const uint32_t row = codes_row(r, codes[i]);
    assert(is_blockwise(r, row));
    list[i] = (struct request){.row = row, .operand = r->args[r->rows[row].args], .out = i};
  }
  if (n > 0) qsort(list, n, sizeof *list, by_operand);
  return list;
}

static void gather(struct measuring *m, const uint32_t *codes, uint32_t n, struct arena *a) {
  const struct request *list = sort_requests(m->r, codes, n, a);
  m->ways = arena_alloc(a, (n + 1) * sizeof *m->ways);
  m->operands = arena_alloc(a, (n + 1) * sizeof *m->operands);
  struct operand *x = NULL;
  uint32_t axis = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t its_axis = recipe_quantization_of(m->r, list[i].row).axis;
    // The same operand cut along another axis is another look at it.
    if (!x || x->recipe != list[i].operand || its_axis != axis) {
      x = &m->operands[m->n_operands++];
      *x = (struct operand){.recipe = list[i].operand, .first_way = i};
      axis = its_axis;
      shape_operand(x, m->r, axis);
    }
    m->ways[i] = way_of(m->r, list[i].row, list[i].out);
    x->n_whole += m->ways[i].whole;
    x->n_ways++;
  }
  for (x = m->operands; x < m->operands + m->n_operands; x++) {
    x->first_item = m->n_items;
    m->n_items += x->n_items;
    m->bytes_total += x->columns * x->k * x->width * (x->n_whole ? 2 : 1);
    if (x->n_ways > m->most_ways) m->most_ways = x->n_ways;
    x->parts = arena_zalloc(a, (size_t)x->n_items * x->n_ways * sizeof *x->parts);
  }
}

// ---- a worker ----------------------------------------------------------------------------------

struct worker {
  struct measuring *m;
  struct arena arena;
  struct io *io;
  struct eval *ev;
  uint8_t *panel;
  size_t panel_bytes, sums_bytes;
  struct kernels_sums *sums;  // [way][column]
  struct figures_tree *trees; // per way
  // Of whole blocks, a column each: the range, and per way what follows from it.
  float *lo, *hi, *scales;
  uint8_t *zeros;
  // What is being measured.
  const struct operand *x;
  const struct way *ways;
  uint64_t o, j; // first column
  size_t n;      // columns at once
  uint64_t k;    // first row of the panel
  size_t k_n;    // its rows
};

static bool must_stop(struct measuring *m) {
  if (crew_must_stop(m->o->stop)) m->stopped = true;
  return m->stopped;
}

static void tell(struct measuring *m, uint64_t bytes) {
  if (!m->o->progress.tick) return;
  pthread_mutex_lock(&m->mu);
  m->bytes_done += bytes;
  const uint64_t now = crew_clock_ms();
  if (now - m->told_ms >= TICK_MS) {
    m->told_ms = now;
    m->o->progress.tick(m->o->progress.ctx, m->bytes_done, m->bytes_total, NULL);
  }
  pthread_mutex_unlock(&m->mu);
}

static int read_panel(struct worker *w, struct err *err) {
  const struct operand *x = w->x;
  const bool rows = x->inner == 1;
  // Lines of the panel: columns of the operand, or parts of its rows.
  const uint64_t lines = rows ? w->n : w->k_n, line = rows ? w->k_n : w->n;
  const uint64_t step = rows ? x->k : x->inner;
  const uint64_t first = rows ? w->j * x->k + w->k : (w->o * x->k + w->k) * x->inner + w->j;
  if (line == step)
    return recipe_read(w->ev, x->recipe, first * x->width, w->panel,
                       (size_t)(lines * line * x->width), err);
  for (uint64_t i = 0; i < lines; i++)
    if (recipe_read(w->ev, x->recipe, (first + i * step) * x->width, w->panel + i * line * x->width,
                    (size_t)(line * x->width), err))
      return -1;
  return 0;
}

// A part of the panel: columns [c, c + n), rows [k, k + k_n), counted from its first.
struct tile {
  size_t c, n, k, k_n;
};

static struct kernels_panel panel_of(const struct worker *w, const struct tile *t, uint32_t way) {
  const bool rows = w->x->inner == 1;
  const size_t stride = rows ? w->k_n : w->n;
  const size_t at = rows ? t->c * stride + t->k : t->k * stride + t->c;
  return (struct kernels_panel){.in = w->panel + at * w->x->width,
                                .in_stride = stride,
                                .n = t->n,
                                .k = t->k_n,
                                .sums = &w->sums[way * w->n + t->c]};
}

static void quantize_tile(struct worker *w, const struct tile *t) {
  for (uint32_t i = 0; i < w->x->n_ways; i++) {
    if (w->ways[i].whole) continue;
    const struct kernels_panel p = panel_of(w, t, i);
    if (w->x->inner == 1)
      kernels_quantize_rows(&p, &w->ways[i].format);
    else
      kernels_quantize_columns(&p, &w->ways[i].format);
  }
  if (w->x->n_whole == 0) return;
  const struct kernels_panel p = panel_of(w, t, 0);
  const enum kernels_float type = (enum kernels_float)w->ways[0].format.in_type;
  if (w->x->inner == 1)
    kernels_range_rows(&p, type, w->lo + t->c, w->hi + t->c);
  else
    kernels_range_columns(&p, type, w->lo + t->c, w->hi + t->c);
}

static void code_tile(struct worker *w, const struct tile *t) {
  for (uint32_t i = 0; i < w->x->n_ways; i++) {
    if (!w->ways[i].whole) continue;
    struct kernels_panel p = panel_of(w, t, i);
    p.scales = w->scales + i * w->n + t->c;
    p.zeros = w->zeros + i * w->n + t->c;
    p.blocks_stride = 1;
    if (w->x->inner == 1)
      kernels_codes_rows(&p, &w->ways[i].format);
    else
      kernels_codes_columns(&p, &w->ways[i].format);
  }
}

// Tiles of a panel, those of the same columns in order of k; never more than `rows` rows.
static void each_tile(struct worker *w, size_t rows,
                      void (*take)(struct worker *, const struct tile *)) {
  size_t columns = TILE_COLUMNS;
  if (w->x->inner == 1)
    columns = (size_t)max_u64(TILE_BYTES / (min_u64(rows, w->k_n) * w->x->width), 1);
  for (size_t c = 0; c < w->n; c += columns)
    for (size_t k = 0; k < w->k_n; k += rows) {
      const struct tile t = {.c = c,
                             .n = (size_t)min_u64(columns, w->n - c),
                             .k = k,
                             .k_n = (size_t)min_u64(rows, w->k_n - k)};
      take(w, &t);
    }
}

// All panels of the columns at hand. 1: told to stop.
static int each_panel(struct worker *w, size_t panel_rows, size_t tile_rows,
                      void (*take)(struct worker *, const struct tile *), struct err *err) {
  for (w->k = 0; w->k < w->x->k; w->k += w->k_n) {
    if (must_stop(w->m)) return 1;
    w->k_n = (size_t)min_u64(panel_rows, w->x->k - w->k);
    if (read_panel(w, err)) return -1;
    each_tile(w, tile_rows, take);
    tell(w->m, (uint64_t)w->n * w->k_n * w->x->width);
  }
  return 0;
}

static void find_scales(struct worker *w) {
  for (uint32_t i = 0; i < w->x->n_ways; i++)
    for (size_t c = 0; w->ways[i].whole && c < w->n; c++)
      kernels_scale_zero(&w->ways[i].format, w->lo[c], w->hi[c], &w->scales[i * w->n + c],
                         &w->zeros[i * w->n + c]);
}

static void start_columns(struct worker *w) {
  memset(w->sums, 0, w->n * w->x->n_ways * sizeof *w->sums);
  for (size_t c = 0; w->x->n_whole && c < w->n; c++) {
    w->lo[c] = FLT_MAX;
    w->hi[c] = -FLT_MAX;
  }
}

static void push_columns(struct worker *w) {
  for (uint32_t i = 0; i < w->x->n_ways; i++)
    for (size_t c = 0; c < w->n; c++) {
      const struct kernels_sums *s = &w->sums[i * w->n + c];
      const struct figures leaf = {.elements = w->x->k,
                                   .nonfinite = s->nonfinite,
                                   .vv = s->vv,
                                   .ee = s->ee,
                                   .ve = s->ve,
                                   .max_error = (double)s->max_error};
      figures_push(&w->trees[i], &leaf);
    }
}

// Rows of a panel of n columns: multiples of ROWS.
static size_t panel_rows(const struct worker *w) {
  return w->panel_bytes / (w->n * w->x->width) / ROWS * ROWS;
}

static int measure_columns(struct worker *w, struct err *err) {
  const size_t rows = panel_rows(w);
  assert(rows > 0);
  // Rows kernels go along k as far as a tile reaches.
  const size_t tile_rows = w->x->inner == 1 ? TILE_BYTES / 4 / ROWS * ROWS : ROWS;
  start_columns(w);
  int rc = each_panel(w, rows, tile_rows, quantize_tile, err);
  if (rc == 0 && w->x->n_whole > 0) {
    find_scales(w);
    rc = each_panel(w, rows, ROWS, code_tile, err);
  }
  if (rc == 0) push_columns(w);
  return rc;
}

// How many columns at once: what panel and sums have room for.
static size_t columns_at_once(const struct worker *w) {
  const struct operand *x = w->x;
  const uint64_t column = x->n_ways * (sizeof *w->sums + sizeof *w->scales + sizeof *w->zeros) +
                          sizeof *w->lo + sizeof *w->hi;
  uint64_t line = ROWS * (uint64_t)x->width;
  // Rows are read whole, unless so few would fit that they had better be cut.
  if (x->inner == 1 && x->k > ROWS) {
    const uint64_t whole = (x->k + ROWS - 1) / ROWS * ROWS * x->width;
    line = min_u64(whole, max_u64(w->panel_bytes / LEAST_ROWS, line));
  }
  const uint64_t n = min_u64(w->panel_bytes / line, w->sums_bytes / column);
  return (size_t)max_u64(n, 1);
}

// Cuts the worker's memory for sums to the operand at hand.
static void share_sums(struct worker *w, size_t n) {
  const size_t ways = w->x->n_ways;
  w->scales = (float *)(void *)(w->sums + ways * n);
  w->lo = w->scales + ways * n;
  w->hi = w->lo + n;
  w->zeros = (uint8_t *)(w->hi + n);
}

static int measure_item(struct worker *w, const struct operand *x, uint64_t item, struct err *err) {
  w->x = x;
  w->ways = w->m->ways + x->first_way;
  memset(w->trees, 0, x->n_ways * sizeof *w->trees);
  uint64_t c = item * x->item_columns;
  const uint64_t end = min_u64(c + x->item_columns, x->columns);
  const size_t most = columns_at_once(w);
  share_sums(w, most);
  while (c < end) {
    w->o = x->inner == 1 ? 0 : c / x->inner;
    w->j = x->inner == 1 ? c : c % x->inner;
    w->n = (size_t)min_u64(most, end - c);
    if (x->inner > 1) w->n = (size_t)min_u64(w->n, x->inner - w->j);
    const int rc = measure_columns(w, err);
    if (rc) return rc;
    c += w->n;
  }
  for (uint32_t i = 0; i < x->n_ways; i++)
    x->parts[item * x->n_ways + i] = figures_root(&w->trees[i]);
  return 0;
}

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

static int open_worker(struct worker *w, struct err *err) {
  const struct budget *b = &w->m->budget;
  const struct io_options io = {.mode = w->m->o->mode, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  // Tiles and windows of a run are not needed here: their room is ours.
  const size_t space = (size_t)min_u64(2 * b->window_bytes, SPACE_MAX);
  w->panel_bytes = space / 4 * 3;
  w->sums_bytes = space - w->panel_bytes;
  const size_t least = w->m->most_ways * (sizeof *w->sums + 8) + 16;
  if (w->sums_bytes < least) w->sums_bytes = least;
  w->panel = arena_alloc(&w->arena, w->panel_bytes);
  w->sums = arena_alloc(&w->arena, w->sums_bytes);
  w->trees = arena_alloc(&w->arena, w->m->most_ways * sizeof *w->trees);
  if (io_open(&w->io, &io, w->m->sources, err)) return -1;
  return eval_open(&w->ev, w->m->r, w->io, b->eval_bytes, err);
}

static void close_worker(struct worker *w) {
  if (w->ev) eval_close(w->ev);
  if (w->io) {
    pthread_mutex_lock(&w->m->mu);
    w->m->stats->source_bytes_read += io_source_bytes_read(w->io);
    pthread_mutex_unlock(&w->m->mu);
    io_close(w->io);
  }
  arena_free(&w->arena);
}

static void work(void *ctx, uint32_t i) {
  (void)i;
  struct worker w = {.m = ctx};
  struct measuring *m = ctx;
  struct err err = {0};
  int rc = open_worker(&w, &err);
  while (rc == 0 && !must_stop(m)) {
    const uint64_t item = m->next++;
    if (item >= m->n_items) break;
    const struct operand *x = operand_of(m, item);
    rc = measure_item(&w, x, item - x->first_item, &err);
  }
  close_worker(&w);
  if (rc >= 0) return;
  m->stopped = true;
  pthread_mutex_lock(&m->mu);
  if (m->err.kind == ERR_NONE) m->err = err;
  pthread_mutex_unlock(&m->mu);
}

// ---- all of it ---------------------------------------------------------------------------------

static void conclude(const struct measuring *m, struct figures *out) {
  for (const struct operand *x = m->operands; x < m->operands + m->n_operands; x++)
    for (uint32_t i = 0; i < x->n_ways; i++) {
      struct figures_tree tree = {0};
      for (uint64_t item = 0; item < x->n_items; item++)
        figures_push(&tree, &x->parts[item * x->n_ways + i]);
      out[m->ways[x->first_way + i].out] = figures_root(&tree);
    }
}

static int run(struct measuring *m, struct figures *out, struct err *err) {
  if (budget_split(&m->budget, m->o->memory, m->o->jobs, (uint32_t)min_u64(m->n_items, UINT32_MAX),
                   err))
    return -1;
  pthread_mutex_init(&m->mu, NULL);
  if (m->n_items > 0) m->stats->jobs = crew_run(m->budget.jobs, work, m);
  pthread_mutex_destroy(&m->mu);
  if (m->err.kind != ERR_NONE) {
    if (err->kind == ERR_NONE) *err = m->err;
    return -1;
  }
  if (m->stopped) return err_set(err, ERR_RETRY, "interrupted while weights were measured");
  if (sources_unchanged(m->sources, err)) return -1;
  if (m->o->progress.tick)
    m->o->progress.tick(m->o->progress.ctx, m->bytes_total, m->bytes_total, NULL);
  conclude(m, out);
  return 0;
}

static int measure_blocks(const struct recipes *r, struct sources *s, const uint32_t *codes,
                          uint32_t n, const struct run_options *options, struct figures *out,
                          struct measure_stats *stats, struct err *err) {
  struct arena arena = {0};
  struct measuring m = {.r = r, .sources = s, .o = options, .stats = stats};
  memset(stats, 0, sizeof *stats);
  gather(&m, codes, n, &arena);
  const int rc = run(&m, out, err);
  arena_free(&arena);
  return rc;
}

int measure_run(const struct recipes *r, struct sources *s, const uint32_t *codes, uint32_t n,
                const struct run_options *options, struct figures *out, struct measure_stats *stats,
                struct err *err) {
  struct arena arena = {0};
  struct measure_stats more;
  uint32_t *kind[2], *at[2], count[2] = {0}; // blockwise ones, scales a channel; and their places
  struct figures *part = arena_alloc(&arena, (n + (size_t)1) * sizeof *part);
  for (int k = 0; k < 2; k++) {
    kind[k] = arena_alloc(&arena, (n + (size_t)1) * sizeof *kind[k]);
    at[k] = arena_alloc(&arena, (n + (size_t)1) * sizeof *at[k]);
  }
  for (uint32_t i = 0; i < n; i++) {
    const int k = measure_axes_can(r, codes[i]);
    at[k][count[k]] = i;
    kind[k][count[k]++] = codes[i];
  }
  int rc = measure_blocks(r, s, kind[0], count[0], options, part, stats, err);
  for (uint32_t i = 0; rc == 0 && i < count[0]; i++)
    out[at[0][i]] = part[i];
  if (rc == 0 && count[1] > 0) {
    rc = measure_axes_run(r, s, kind[1], count[1], options, part, &more, err);
    stats->source_bytes_read += more.source_bytes_read;
  }
  for (uint32_t i = 0; rc == 0 && i < count[1]; i++)
    out[at[1][i]] = part[i];
  arena_free(&arena);
  return rc;
}
