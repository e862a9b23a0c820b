// Scales and zero points of FORMAT_LINEAR in blocks: those of ranges of cells. As in eval_layout.c the operand is
// [outer, k, inner], and a line is of an outer position one block of k with all of inner; its elements lie
// together, and lines lie one behind the other:
//
//   line    │ row │ row │ row │      a row: `inner` elements; a column of them is a cell
//
// As many lines as there is room for are read at once, or of one that is larger some cells after the other.
// The ranges of whole lines are kept for the run (eval_cache.h): zero points are asked for behind the scales,
// and both again with the codes.
//
//   │ lo │ hi │ pairs │ tile │ of the box
#include "stream/eval/core/eval_figures.h"
#include "stream/eval/quantize/inside/eval_linear.h"
#include "stream/eval/shared/eval_cache.h"

#include <assert.h>
#include <float.h>

enum { PIECE = EVAL_PAIRS, SMALL_BOX = 16 << 10 };

struct linear_blocks {
  struct eval_task *t;
  uint32_t of;
  struct recipe_quantization q;
  enum recipe_part part;
  enum dtype type; // of the operand
  uint32_t width;
  uint64_t k, inner, blocks, lines;
  struct eval_cache_key key; // units: lines
  float *lo, *hi;            // `room` cells
  struct eval_linear_pair *pairs;
  uint64_t room;
  uint8_t *tile;
  uint64_t tile_elements;
  struct err *err;
};

static void blocks_of(struct eval_task *t, uint32_t id, struct linear_blocks *z) {
  const struct recipes *r = t->r;
  *z = (struct linear_blocks){.t = t,
                              .of = r->args[r->rows[id].args],
                              .q = recipe_quantization_of(r, id),
                              .part = recipe_part_of(r, id)};
  const struct recipe_around x = recipe_around(r, z->of, z->q.axis);
  z->type = (enum dtype)r->rows[z->of].dtype;
  z->width = dtype_bits(z->type) / 8;
  z->k = x.n;
  z->inner = x.inner;
  z->blocks = (z->k - 1) / z->q.block + 1;
  z->lines = x.outer * z->blocks;
  const uint64_t bytes = z->inner * sizeof *z->pairs;
  z->key = (struct eval_cache_key){.of = z->of, .q = z->q, .units = z->lines};
  z->key.bytes[0] = bytes <= UINT32_MAX ? (uint32_t)bytes : 0;
}

// A small box has room for the ranges only.
static void share_box(struct linear_blocks *z, struct eval_stripe_box *b) {
  const uint64_t all = z->t->ev->box_bytes, each = EVAL_LINEAR_CHANNEL;
  const bool small = all < SMALL_BOX;
  z->room = (small ? all : all / 2) / each;
  assert(z->room > 0);
  z->lo = (float *)(void *)b->data;
  z->hi = z->lo + z->room;
  z->pairs = (struct eval_linear_pair *)(void *)(z->hi + z->room);
  z->tile = small ? eval_scratch(z->t->ev) : (uint8_t *)(z->pairs + z->room);
  z->tile_elements = (small ? EVAL_SCRATCH_BYTES : all - z->room * each) / z->width;
}

static uint64_t rows_of(const struct linear_blocks *z, uint64_t line) {
  return min_u64(z->q.block, z->k - line % z->blocks * z->q.block);
}

static uint64_t start_of(const struct linear_blocks *z, uint64_t line) {
  return (line / z->blocks * z->k + line % z->blocks * z->q.block) * z->inner;
}

// Elements of the operand into the tile, from where codes hold them if they do.
static int read_tile(struct linear_blocks *z, uint64_t first, uint64_t n) {
  const struct eval_hold *h = &z->t->ev->hold;
  if (z->of != h->of || first < h->first || !range_fits(first - h->first, n, h->count))
    return eval_elements(z->t, z->of, first, n, z->tile, z->err);
  memcpy(z->tile, h->at + (first - h->first) * z->width, (size_t)(n * z->width));
  return 0;
}

// ---- ranges ------------------------------------------------------------------------------------

static int not_finite(const struct linear_blocks *z) {
  err_fill(z->err, ERR_FAIL,
           "a weight has elements that are NaN or infinite and cannot be "
           "quantized");
  return err_because(z->err, REASON_NOT_SHRUNK);
}

// Joins n elements of a row to the cells from `cell` on.
static bool join_row(const struct linear_blocks *z, uint64_t cell, const uint8_t *in, uint64_t n) {
  float v[PIECE];
  bool finite = true;
  for (uint64_t i = 0, m; i < n; i += m) {
    float *lo = z->lo + cell + i, *hi = z->hi + cell + i;
    m = min_u64(n - i, PIECE);
    eval_figures_floats(z->type, in + i * z->width, (size_t)m, v);
    for (uint64_t j = 0; j < m; j++) {
      lo[j] = v[j] < lo[j] ? v[j] : lo[j];
      hi[j] = v[j] > hi[j] ? v[j] : hi[j];
      finite &= v[j] - v[j] == 0;
    }
  }
  return finite;
}

static void set_pairs(const struct linear_blocks *z, uint64_t n) {
  for (uint64_t i = 0; i < n; i++)
    z->pairs[i] = (struct eval_linear_pair){z->lo[i], z->hi[i]};
}

static void begin_cells(const struct linear_blocks *z, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    z->lo[i] = FLT_MAX;
    z->hi[i] = -FLT_MAX;
  }
}

// Of one line n cells from `cell` on, row by row.
static int find_some(struct linear_blocks *z, uint64_t line, uint64_t cell, uint64_t n) {
  begin_cells(z, n);
  for (uint64_t row = 0; row < rows_of(z, line); row++) {
    const uint64_t at = start_of(z, line) + row * z->inner + cell;
    if (eval_may_go_on(z->t->ev, z->err) != 0) return -1;
    if (read_tile(z, at, n) != 0) return -1;
    if (!join_row(z, 0, z->tile, n)) return not_finite(z);
  }
  return 0;
}

// Whole lines, which are kept.
static int find_lines(struct linear_blocks *z, uint64_t line, uint64_t n) {
  const uint64_t first = start_of(z, line);
  const uint64_t end = start_of(z, line + n - 1) + rows_of(z, line + n - 1) * z->inner;
  begin_cells(z, n * z->inner);
  if (eval_may_go_on(z->t->ev, z->err) != 0) return -1;
  if (read_tile(z, first, end - first) != 0) return -1;
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t row = 0; row < rows_of(z, line + i); row++) {
      const uint64_t at = start_of(z, line + i) + row * z->inner - first;
      if (!join_row(z, i * z->inner, z->tile + at * z->width, z->inner)) return not_finite(z);
    }
  set_pairs(z, n * z->inner);
  eval_cache_put_units(z->t->ev->cache, &z->key, line, n, (const uint8_t *)z->pairs, NULL);
  return 0;
}

// Of *n cells of a line, from `cell` on, ranges of as many as are kept together (more lines than one where
// they are short): sets *n.
static bool know(struct linear_blocks *z, uint64_t line, uint64_t cell, uint64_t *n) {
  struct eval_cache *c = z->t->ev->cache;
  if (!c || z->key.bytes[0] == 0) return false;
  if (cell == 0 && *n >= z->inner && z->inner <= z->room) {
    const uint64_t lines = min_u64(*n, z->room) / z->inner;
    *n = z->inner * eval_cache_get_units(c, &z->key, line, lines, 0, (uint8_t *)z->pairs);
    return *n > 0;
  }
  *n = min_u64(min_u64(*n, z->room), z->inner - cell);
  return eval_cache_get(c, &z->key, line, 0, (size_t)cell * sizeof *z->pairs, (uint8_t *)z->pairs,
                        (size_t)*n * sizeof *z->pairs);
}

// Sets pairs of *n cells at most, from `first` on.
static int find_pairs(struct linear_blocks *z, uint64_t first, uint64_t *n) {
  const uint64_t line = first / z->inner, cell = first % z->inner, wanted = *n;
  uint64_t lines = min_u64(z->tile_elements / (z->q.block * z->inner), z->room / z->inner);
  if (know(z, line, cell, n)) return 0;
  if (lines == 0) {
    *n = min_u64(min_u64(wanted, z->inner - cell), min_u64(z->room, z->tile_elements));
    if (find_some(z, line, cell, *n) != 0) return -1;
    set_pairs(z, *n);
    return 0;
  }
  lines = min_u64(min_u64(lines, z->lines - line), (cell + wanted - 1) / z->inner + 1);
  if (find_lines(z, line, lines) != 0) return -1;
  *n = min_u64(wanted, lines * z->inner - cell);
  memmove(z->pairs, z->pairs + cell, (size_t)*n * sizeof *z->pairs);
  return 0;
}

// ---- parts -------------------------------------------------------------------------------------

static int put(struct linear_blocks *z, uint64_t n, uint8_t **out) {
  for (uint64_t i = 0; i < n; i++) {
    struct eval_linear_grid g;
    const struct eval_linear_pair *p = &z->pairs[i];
    if (!eval_linear_grid_of(&z->q, z->type, (double)p->lo, (double)p->hi, &g)) {
      err_fill(z->err, ERR_FAIL,
               "a block of a weight ranges from %g to %g, which is too wide for "
               "its type",
               (double)p->lo, (double)p->hi);
      return err_because(z->err, REASON_NOT_SHRUNK);
    }
    *out += eval_linear_put(&z->q, z->type, z->part, &g, *out);
  }
  return 0;
}

int eval_linear_block_elements(struct eval_task *t, struct eval_stripe_box *b, uint64_t first,
                               uint64_t count, uint8_t *out, struct err *err) {
  struct linear_blocks z;
  blocks_of(t, b->id, &z);
  z.err = err;
  share_box(&z, b);
  while (count > 0) {
    uint64_t n = count;
    if (find_pairs(&z, first, &n) != 0 || put(&z, n, &out) != 0) return -1;
    first += n;
    count -= n;
  }
  return 0;
}
