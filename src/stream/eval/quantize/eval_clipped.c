// The second half of AWQ (Lin et al., "AWQ: Activation-aware Weight Quantization", 2023): a block's range is cut down to
// what the output has the least error with. A few elements are then far off, and all others nearer.
//
//   for i = 0 .. 9   range of a block: (1 - i / 20) of what it is; its scale and zero point by the rule of MLAS
//                    error of the output: eᵀG'e, e the errors of the block's rows, G' its diagonal block of the moments
//
// Rows of the operand were multiplied by s, which divides what they are multiplied with: so e counts divided by s, and G'
// are the moments as they were found. Blocks know nothing of each other here: what their errors do together is left to
// the choice of s (eval_awq.c).
#include "eval_whole.h"

#include "gram.h"

#include <errno.h>
#include <stdlib.h>

enum { WAYS = 10, PARTS = 20 };

struct work {
  const struct eval_whole *of;
  double *tile; // of the moments, on their diagonal
  float *rows;  // s: K of them
  void *scratch;
  double *errors, *products; // of a group, as many as it has rows
  double *least;             // the error of the best range
  double *low, *high;        // the range, with 0
  double *scale, *zero;      // of the best range
};

uint64_t eval_clipped_column_bytes(const struct eval_quantize *z) {
  return 8 * (2 * z->block + 5);
}

// ---- a group -----------------------------------------------------------------------------------

static void find_ranges(const struct work *w, const struct eval_group *g) {
  const struct eval_whole *of = w->of;
  for (size_t j = 0; j < of->n; j++)
    w->low[j] = w->high[j] = 0, w->least[j] = -1;
  for (size_t l = 0; l < g->rows; l++)
    for (size_t j = 0; j < of->n; j++) {
      const double x = (double)of->weights[(g->at + l) * of->n + j];
      if (x < w->low[j]) w->low[j] = x;
      if (x > w->high[j]) w->high[j] = x;
    }
}

// Scales and zero points of ranges cut down to a part of what they are.
static void find_parameters(const struct work *w, const struct eval_group *g, double part) {
  const struct eval_whole *of = w->of;
  const struct kernels_panel p = eval_whole_panel(of, g->rows);
  const struct kernels_block_format f = eval_whole_format(of->z);
  for (size_t l = 0; l < g->rows; l++)
    for (size_t j = 0; j < of->n; j++) {
      const double x = (double)of->weights[(g->at + l) * of->n + j];
      const double low = w->low[j] * part, high = w->high[j] * part;
      of->group[l * of->n + j] = (float)(x < low ? low : x > high ? high : x);
    }
  kernels_quantize_columns(&p, &f);
}

static double code_of(const struct work *w, double x, double scale, double zero) {
  const double most = (double)((1u << w->of->z->q.bits) - 1);
  const double code = scale != 0 ? x / scale + zero : zero;
  return eval_whole_nearest(code > most ? most : code > 0 ? code : 0);
}

// The errors of the group's rows, and of the output.
static void try_parameters(const struct work *w, const struct eval_group *g) {
  const struct eval_whole *of = w->of;
  const size_t n = of->n, side = (size_t)gram_side(of->z->k, g->first / GRAM_SIDE);
  for (size_t l = 0; l < g->rows; l++) {
    const double row = (double)w->rows[g->first + g->at + l];
    for (size_t j = 0; j < n; j++) {
      const double x = (double)of->weights[(g->at + l) * n + j], scale = (double)of->scales[j];
      const double zero = (double)of->zeros[j];
      w->errors[l * n + j] = (x - (code_of(w, x, scale, zero) - zero) * scale) / row;
    }
  }
  memset(w->products, 0, g->rows * n * sizeof *w->products);
  const struct kernels_products p = {.a = {w->tile + g->at * side + g->at, side, 1, true},
                                     .b = {w->errors, 1, n, true},
                                     .rows = g->rows,
                                     .columns = n,
                                     .depth = g->rows};
  kernels_products(w->products, n, &p, w->scratch);
  for (size_t j = 0; j < n; j++) {
    double error = 0;
    for (size_t l = 0; l < g->rows; l++)
      error += w->errors[l * n + j] * w->products[l * n + j];
    if (w->least[j] >= 0 && !(error < w->least[j])) continue;
    w->least[j] = error > 0 ? error : 0;
    w->scale[j] = (double)of->scales[j];
    w->zero[j] = (double)of->zeros[j];
  }
}

static void put_best(const struct work *w, const struct eval_group *g) {
  const struct eval_whole *of = w->of;
  for (size_t j = 0; j < of->n; j++) {
    of->scales[j] = (float)w->scale[j];
    of->zeros[j] = (uint8_t)w->zero[j];
  }
  for (size_t l = 0; l < g->rows; l++) {
    for (size_t j = 0; j < of->n; j++)
      of->codes[l * of->n + j] = (uint8_t)code_of(w, (double)of->weights[(g->at + l) * of->n + j],
                                                  w->scale[j], w->zero[j]);
    if (of->h->sums) eval_whole_figures(of, g, l);
  }
  eval_whole_put(of, g);
}

// ---- all of it ---------------------------------------------------------------------------------

static int quantize_tile(const struct work *w, uint64_t r, struct err *err) {
  const struct eval_whole *of = w->of;
  const uint64_t k = of->z->k, first = r * GRAM_SIDE;
  const size_t rows = (size_t)gram_side(k, r);
  if (eval_elements(of->t, of->z->by.gram, gram_at(k, r, r), (uint64_t)rows * rows,
                    (uint8_t *)w->tile, err) != 0 ||
      eval_whole_read(of, first, rows, err) != 0)
    return -1;
  for (size_t at = 0; at < rows; at += of->block) {
    const struct eval_group g = {first, at, (size_t)min_u64(of->block, rows - at)};
    if (eval_may_go_on(of->t->ev, err) != 0) return -1;
    find_ranges(w, &g);
    for (int i = 0; i < WAYS; i++) {
      find_parameters(w, &g, 1 - (double)i / (int)PARTS);
      try_parameters(w, &g);
    }
    put_best(w, &g);
  }
  return 0;
}

static int quantize(struct work *w, struct err *err) {
  const struct eval_whole *of = w->of;
  if (!w->tile || !w->rows || !w->scratch) {
    err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: a tile of second moments needs %zu bytes",
              GRAM_SIDE * GRAM_SIDE * sizeof *w->tile);
    return err_because(err, REASON_NO_MEMORY);
  }
  if (eval_elements(of->t, of->z->by.rows, 0, of->z->k, (uint8_t *)w->rows, err) != 0) return -1;
  for (uint64_t i = 0; i < of->z->k; i++)
    if (!(w->rows[i] > 0) || w->rows[i] - w->rows[i] != 0)
      return err_set(err, ERR_MODEL, "row %llu of a weight is scaled by %g", (unsigned long long)i,
                     (double)w->rows[i]);
  for (uint64_t r = 0; r < gram_tiles(of->z->k); r++)
    if (quantize_tile(w, r, err) != 0) return -1;
  return 0;
}

int eval_clipped_fill(struct eval_whole *of, double *doubles, struct err *err) {
  struct work w = {.of = of, .errors = doubles};
  w.products = w.errors + of->n * of->block;
  w.least = w.products + of->n * of->block;
  w.low = w.least + of->n;
  w.high = w.low + of->n;
  w.scale = w.high + of->n;
  w.zero = w.scale + of->n;
  w.tile = malloc(of->side * of->side * sizeof *w.tile);
  w.rows = malloc((size_t)of->z->k * sizeof *w.rows);
  w.scratch = aligned_alloc(64, KERNELS_PRODUCTS_SCRATCH);
  const int failed = quantize(&w, err);
  free(w.tile);
  free(w.rows);
  free(w.scratch);
  return failed;
}
