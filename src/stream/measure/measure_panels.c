// One stretch of columns at a time, in panels through the kernels, codes thrown away, sums kept.
//
//            inner == 1: rows kernels             inner > 1: columns kernels
//
//              k ──────────────▶                    j ─▶ stripe
//        col ┌──────────────────┐                 k ┌────┬───────────┐
//         │  │ several columns  │                 │ │ pa │           │
//         ▼  │ at once          │                 ▼ │ nel│  next     │
//            ├──────────────────┤                   ├────┤  stripe   │
//            │ the next ones    │                   │    │           │
//            └──────────────────┘                   └────┴───────────┘
//
// A panel is read once and cut into tiles that stay in cache while every quantization goes over
// them. The kernels add up each column in order of k, panel after panel; columns are then put
// together by the tree of figures.h, so nothing depends on how large panels or stripes are.
//
// A block of all of a long axis has no scale before its last element was seen: such operands take a
// second turn over their panels, the sums starting new lanes every ROWS elements.
#include "measure_panels.h"

#include <assert.h>
#include <float.h>

enum {
  ROWS = MEASURE_PANELS_ROWS,
  TILE_BYTES = 128 << 10, // what stays in cache
  TILE_COLUMNS = 128,     // of stripes
  SPACE_MAX = 8 << 20,    // panel and sums of a worker
  LEAST_ROWS = 16,        // columns in a panel of rows, where k is long
};

struct measure_panels {
  struct measure_reader *rd;
  uint8_t *panel;
  size_t panel_bytes, sums_bytes;
  struct kernels_sums *sums;  // [way][column]
  struct figures_tree *trees; // per way
  // Of whole blocks, a column each: the range, and per way what follows from it.
  float *lo, *hi, *scales;
  uint8_t *zeros;
  // What is being measured.
  const struct measure_panels_operand *x;
  uint64_t o, j; // first column
  size_t n;      // columns at once
  uint64_t k;    // first row of the panel
  size_t k_n;    // its rows
};

static int read_panel(struct measure_panels *w, struct err *err) {
  const struct measure_panels_operand *x = w->x;
  const bool rows = x->inner == 1;
  // Lines of the panel: columns of the operand, or parts of its rows.
  const uint64_t lines = rows ? w->n : w->k_n, line = rows ? w->k_n : w->n;
  const uint64_t step = rows ? x->k : x->inner;
  const uint64_t first = rows ? w->j * x->k + w->k : (w->o * x->k + w->k) * x->inner + w->j;
  if (line == step)
    return recipe_read(w->rd->ev, x->recipe, first * x->width, w->panel,
                       (size_t)(lines * line * x->width), err);
  for (uint64_t i = 0; i < lines; i++)
    if (recipe_read(w->rd->ev, x->recipe, (first + i * step) * x->width,
                    w->panel + i * line * x->width, (size_t)(line * x->width), err))
      return -1;
  return 0;
}

// A part of the panel: columns [c, c + n), rows [k, k + k_n), counted from its first.
struct tile {
  size_t c, n, k, k_n;
};

static struct kernels_panel panel_of(const struct measure_panels *w, const struct tile *t,
                                     uint32_t way) {
  const bool rows = w->x->inner == 1;
  const size_t stride = rows ? w->k_n : w->n;
  const size_t at = rows ? t->c * stride + t->k : t->k * stride + t->c;
  return (struct kernels_panel){.in = w->panel + at * w->x->width,
                                .in_stride = stride,
                                .n = t->n,
                                .k = t->k_n,
                                .sums = &w->sums[way * w->n + t->c]};
}

static void quantize_tile(struct measure_panels *w, const struct tile *t) {
  for (uint32_t i = 0; i < w->x->n_ways; i++) {
    if (w->x->ways[i].whole) continue;
    const struct kernels_panel p = panel_of(w, t, i);
    if (w->x->inner == 1)
      kernels_quantize_rows(&p, &w->x->ways[i].format);
    else
      kernels_quantize_columns(&p, &w->x->ways[i].format);
  }
  if (w->x->n_whole == 0) return;
  const struct kernels_panel p = panel_of(w, t, 0);
  const enum kernels_float type = (enum kernels_float)w->x->ways[0].format.in_type;
  if (w->x->inner == 1)
    kernels_range_rows(&p, type, w->lo + t->c, w->hi + t->c);
  else
    kernels_range_columns(&p, type, w->lo + t->c, w->hi + t->c);
}

static void code_tile(struct measure_panels *w, const struct tile *t) {
  for (uint32_t i = 0; i < w->x->n_ways; i++) {
    if (!w->x->ways[i].whole) continue;
    struct kernels_panel p = panel_of(w, t, i);
    p.scales = w->scales + i * w->n + t->c;
    p.zeros = w->zeros + i * w->n + t->c;
    p.blocks_stride = 1;
    if (w->x->inner == 1)
      kernels_codes_rows(&p, &w->x->ways[i].format);
    else
      kernels_codes_columns(&p, &w->x->ways[i].format);
  }
}

// Tiles of a panel, those of the same columns in order of k; never more than `rows` rows. 1: told
// to stop (the searches take their time).
static int each_tile(struct measure_panels *w, size_t rows,
                     void (*take)(struct measure_panels *, const struct tile *)) {
  size_t columns = TILE_COLUMNS;
  if (w->x->inner == 1)
    columns = (size_t)max_u64(TILE_BYTES / (min_u64(rows, w->k_n) * w->x->width), 1);
  for (size_t c = 0; c < w->n; c += columns)
    for (size_t k = 0; k < w->k_n; k += rows) {
      const struct tile t = {.c = c,
                             .n = (size_t)min_u64(columns, w->n - c),
                             .k = k,
                             .k_n = (size_t)min_u64(rows, w->k_n - k)};
      if (measure_reader_stopped(w->rd)) return 1;
      take(w, &t);
    }
  return 0;
}

// All panels of the columns at hand. 1: told to stop.
static int each_panel(struct measure_panels *w, size_t panel_rows, size_t tile_rows,
                      void (*take)(struct measure_panels *, const struct tile *), struct err *err) {
  for (w->k = 0; w->k < w->x->k; w->k += w->k_n) {
    w->k_n = (size_t)min_u64(panel_rows, w->x->k - w->k);
    if (read_panel(w, err)) return -1;
    if (each_tile(w, tile_rows, take)) return 1;
    measure_reader_tell(w->rd, (uint64_t)w->n * w->k_n * w->x->width);
  }
  return 0;
}

static void find_scales(struct measure_panels *w) {
  for (uint32_t i = 0; i < w->x->n_ways; i++)
    for (size_t c = 0; w->x->ways[i].whole && c < w->n; c++)
      kernels_scale_zero(&w->x->ways[i].format, w->lo[c], w->hi[c], &w->scales[i * w->n + c],
                         &w->zeros[i * w->n + c]);
}

static void start_columns(struct measure_panels *w) {
  memset(w->sums, 0, w->n * w->x->n_ways * sizeof *w->sums);
  for (size_t c = 0; w->x->n_whole && c < w->n; c++) {
    w->lo[c] = FLT_MAX;
    w->hi[c] = -FLT_MAX;
  }
}

static void push_columns(struct measure_panels *w) {
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
static size_t panel_rows(const struct measure_panels *w) {
  return w->panel_bytes / (w->n * w->x->width) / ROWS * ROWS;
}

static int measure_columns(struct measure_panels *w, struct err *err) {
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
static size_t columns_at_once(const struct measure_panels *w) {
  const struct measure_panels_operand *x = w->x;
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
static void share_sums(struct measure_panels *w, size_t n) {
  const size_t ways = w->x->n_ways;
  w->scales = (float *)(void *)(w->sums + ways * n);
  w->lo = w->scales + ways * n;
  w->hi = w->lo + n;
  w->zeros = (uint8_t *)(w->hi + n);
}

int measure_panels_columns(struct measure_panels *w, const struct measure_panels_operand *x,
                           uint64_t first, uint64_t end, struct figures *out, struct err *err) {
  w->x = x;
  memset(w->trees, 0, x->n_ways * sizeof *w->trees);
  const size_t most = columns_at_once(w);
  share_sums(w, most);
  for (uint64_t c = first; c < end; c += w->n) {
    w->o = x->inner == 1 ? 0 : c / x->inner;
    w->j = x->inner == 1 ? c : c % x->inner;
    w->n = (size_t)min_u64(most, end - c);
    if (x->inner > 1) w->n = (size_t)min_u64(w->n, x->inner - w->j);
    const int rc = measure_columns(w, err);
    if (rc) return rc;
  }
  for (uint32_t i = 0; i < x->n_ways; i++)
    out[i] = figures_root(&w->trees[i]);
  return 0;
}

struct measure_panels *measure_panels_new(struct measure_reader *rd, uint32_t most_ways) {
  struct measure_panels *w = arena_zalloc(&rd->arena, sizeof *w);
  w->rd = rd;
  // Tiles and windows of a run are not needed here: their room is ours.
  const size_t space = (size_t)min_u64(2 * rd->team->budget.window_bytes, SPACE_MAX);
  w->panel_bytes = space / 4 * 3;
  w->sums_bytes = space - w->panel_bytes;
  const size_t least = most_ways * (sizeof *w->sums + 8) + 16;
  if (w->sums_bytes < least) w->sums_bytes = least;
  w->panel = arena_alloc(&rd->arena, w->panel_bytes);
  w->sums = arena_alloc(&rd->arena, w->sums_bytes);
  w->trees = arena_alloc(&rd->arena, most_ways * sizeof *w->trees);
  return w;
}
