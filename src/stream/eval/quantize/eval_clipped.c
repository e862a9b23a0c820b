// The second half of AWQ (Lin et al., "AWQ: Activation-aware Weight Quantization", 2023): a block's range is cut down to
// what the output has the least error with. A few elements are then far off, and all others nearer.
//
//   for i = 0 .. 9   range of a block: (1 - i / 20) of what it is; its scale and zero point by the rule of MLAS
//                    error of the output: eᵀG'e, e the errors of the block's rows, G' its diagonal block of the moments
//
// Rows of the operand were multiplied by s, which divides what they are multiplied with: so e counts divided by s, and G'
// are the moments as they were found. Without `seen`, as in earlier logs, blocks know nothing of each other. Where it is
// known over how many rows G is a sum, a block's range is the one that the error of the whole column is least with, blocks
// in order:
//
//   of block b, with errors e now and e + d after:  (e + d)ᵀ G (e + d) - eᵀ G e = 2 dᵀ (G e)_b + dᵀ G' d
//
// so a column is never worse off than with all ranges as they are, in the eyes of G with its ridge (eval_moments.c). G e of
// a tile of rows is found when its turn comes, and follows each block of it.
#include "stream/eval/quantize/inside/eval_whole.h"

#include "platform/maps.h"
#include "resources/resources.h"
#include "tensor_stats/second_moments.h"

#include <errno.h>

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
  double ridge;
  double *all;  // of whole columns: the errors of K rows
  double *sums; // of a tile of rows: G e
  double *best; // of a group: what the best range adds to its errors
};

uint64_t eval_clipped_column_bytes(const struct eval_quantize *z) {
  const uint64_t whole = z->q.seen > 0 ? z->k + second_moments_side(z->k, 0) + z->block : 0;
  return 8 * (2 * z->block + 5 + whole);
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

// The errors of the group's rows, less what is at `from`; NULL: nothing.
static void find_errors(const struct work *w, const struct eval_group *g, const double *from,
                        double *out) {
  const struct eval_whole *of = w->of;
  const size_t n = of->n;
  for (size_t l = 0; l < g->rows; l++) {
    const double row = (double)w->rows[g->first + g->at + l];
    for (size_t j = 0; j < n; j++) {
      const double x = (double)of->weights[(g->at + l) * n + j], scale = (double)of->scales[j];
      const double zero = (double)of->zeros[j];
      const double e = (x - (code_of(w, x, scale, zero) - zero) * scale) / row;
      out[l * n + j] = from ? e - from[l * n + j] : e;
    }
  }
}

// What the group's block of the moments makes of its errors.
static void multiply(const struct work *w, const struct eval_group *g) {
  const struct eval_whole *of = w->of;
  const size_t n = of->n,
               side = (size_t)second_moments_side(of->z->k, g->first / SECOND_MOMENTS_SIDE);
  memset(w->products, 0, g->rows * n * sizeof *w->products);
  const struct kernels_products p = {.a = {w->tile + g->at * side + g->at, side, 1, true},
                                     .b = {w->errors, 1, n, true},
                                     .rows = g->rows,
                                     .columns = n,
                                     .depth = g->rows};
  kernels_products(w->products, n, &p, w->scratch);
}

static void keep_parameters(const struct work *w, size_t j) {
  w->scale[j] = (double)w->of->scales[j];
  w->zero[j] = (double)w->of->zeros[j];
}

// Errors of the group's rows, and of the output; the best range is kept.
static void try_parameters(const struct work *w, const struct eval_group *g) {
  const size_t n = w->of->n;
  find_errors(w, g, NULL, w->errors);
  multiply(w, g);
  for (size_t j = 0; j < n; j++) {
    double error = 0;
    for (size_t l = 0; l < g->rows; l++)
      error += w->errors[l * n + j] * w->products[l * n + j];
    if (w->least[j] >= 0 && !(error < w->least[j])) continue;
    w->least[j] = error > 0 ? error : 0;
    keep_parameters(w, j);
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

// ---- whole columns -----------------------------------------------------------------------------

static double *rows_from(double *all, const struct work *w, uint64_t row) {
  return all + row * w->of->n;
}

// What the errors of a column lose or gain by these parameters of a group; the best are kept.
static void try_for_column(const struct work *w, const struct eval_group *g) {
  const size_t n = w->of->n;
  const double *sums = rows_from(w->sums, w, g->at);
  find_errors(w, g, rows_from(w->all, w, g->first + g->at), w->errors);
  multiply(w, g);
  for (size_t j = 0; j < n; j++) {
    double more = 0;
    for (size_t l = 0; l < g->rows; l++)
      more += w->errors[l * n + j] * (2 * sums[l * n + j] + w->products[l * n + j]);
    if (!(more < w->least[j])) continue;
    w->least[j] = more;
    keep_parameters(w, j);
    for (size_t l = 0; l < g->rows; l++)
      w->best[l * n + j] = w->errors[l * n + j];
  }
}

static void choose_for_column(const struct work *w, const struct eval_group *g) {
  const struct eval_whole *of = w->of;
  const size_t n = of->n,
               side = (size_t)second_moments_side(of->z->k, g->first / SECOND_MOMENTS_SIDE);
  double *errors = rows_from(w->all, w, g->first + g->at);
  find_ranges(w, g);
  find_parameters(w, g, 1);
  for (size_t j = 0; j < n; j++)
    w->least[j] = 0, keep_parameters(w, j);
  memset(w->best, 0, g->rows * n * sizeof *w->best);
  for (int i = 1; i < WAYS; i++) {
    find_parameters(w, g, 1 - (double)i / (int)PARTS);
    try_for_column(w, g);
  }
  for (size_t i = 0; i < g->rows * n; i++)
    errors[i] += w->best[i];
  const struct kernels_products p = {.a = {w->tile + g->at, side, 1, true},
                                     .b = {w->best, 1, n, true},
                                     .rows = side,
                                     .columns = n,
                                     .depth = g->rows};
  kernels_products(w->sums, n, &p, w->scratch);
}

// The errors of all rows with ranges as they are.
static int begin_columns(const struct work *w, struct err *err) {
  const struct eval_whole *of = w->of;
  const uint64_t k = of->z->k;
  for (uint64_t r = 0; r < second_moments_tiles(k); r++) {
    const size_t rows = (size_t)second_moments_side(k, r);
    if (eval_may_go_on(of->t->ev, err) != 0 ||
        eval_whole_read(of, r * SECOND_MOMENTS_SIDE, rows, err) != 0)
      return -1;
    for (size_t at = 0; at < rows; at += of->block) {
      const struct eval_group g = {r * SECOND_MOMENTS_SIDE, at,
                                   (size_t)min_u64(of->block, rows - at)};
      find_ranges(w, &g);
      find_parameters(w, &g, 1);
      find_errors(w, &g, NULL, rows_from(w->all, w, g.first + g.at));
    }
  }
  if (of->h->sums) // they are read once more
    for (size_t j = 0; j < of->n; j++)
      of->h->sums[j].nonfinite = 0;
  return 0;
}

static int read_tile(const struct work *w, uint64_t r, uint64_t c, struct err *err) {
  const struct eval_whole *of = w->of;
  const uint64_t k = of->z->k;
  return eval_elements(of->t, of->z->by.gram, second_moments_at(k, r, c),
                       second_moments_side(k, r) * second_moments_side(k, c), (uint8_t *)w->tile,
                       err);
}

// G e of the rows of tile r. The tile on the diagonal is then at hand.
static int begin_sums(const struct work *w, uint64_t r, struct err *err) {
  const struct eval_whole *of = w->of;
  const uint64_t k = of->z->k, tiles = second_moments_tiles(k);
  const size_t rows = (size_t)second_moments_side(k, r);
  memset(w->sums, 0, rows * of->n * sizeof *w->sums);
  for (uint64_t i = 1; i <= tiles; i++) {
    const uint64_t c = (r + i) % tiles; // itself at last
    const size_t depth = (size_t)second_moments_side(k, c);
    if (eval_may_go_on(of->t->ev, err) != 0 || read_tile(w, c < r ? r : c, c < r ? c : r, err) != 0)
      return -1;
    if (c == r) eval_moments_add(w->tile, rows, w->ridge);
    const struct kernels_products p = {
        .a = {w->tile, c <= r ? depth : 1, c <= r ? 1 : rows, true},
        .b = {rows_from(w->all, w, c * SECOND_MOMENTS_SIDE), 1, of->n, true},
        .rows = rows,
        .columns = of->n,
        .depth = depth};
    kernels_products(w->sums, of->n, &p, w->scratch);
  }
  return 0;
}

// ---- all of it ---------------------------------------------------------------------------------

static void choose_for_group(const struct work *w, const struct eval_group *g) {
  find_ranges(w, g);
  for (int i = 0; i < WAYS; i++) {
    find_parameters(w, g, 1 - (double)i / (int)PARTS);
    try_parameters(w, g);
  }
}

static int quantize_tile(const struct work *w, uint64_t r, struct err *err) {
  const struct eval_whole *of = w->of;
  const bool whole = of->z->q.seen > 0;
  const uint64_t first = r * SECOND_MOMENTS_SIDE;
  const size_t rows = (size_t)second_moments_side(of->z->k, r);
  if ((whole ? begin_sums(w, r, err) : read_tile(w, r, r, err)) != 0 ||
      eval_whole_read(of, first, rows, err) != 0)
    return -1;
  for (size_t at = 0; at < rows; at += of->block) {
    const struct eval_group g = {first, at, (size_t)min_u64(of->block, rows - at)};
    if (eval_may_go_on(of->t->ev, err) != 0) return -1;
    (whole ? choose_for_column : choose_for_group)(w, &g);
    put_best(w, &g);
  }
  return 0;
}

static int quantize(struct work *w, struct err *err) {
  const struct eval_whole *of = w->of;
  if (!w->tile || !w->rows || !w->scratch) {
    err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: a tile of second moments needs %zu bytes",
              SECOND_MOMENTS_SIDE * SECOND_MOMENTS_SIDE * sizeof *w->tile);
    return err_because(err, REASON_NO_MEMORY);
  }
  if (eval_elements(of->t, of->z->by.rows, 0, of->z->k, (uint8_t *)w->rows, err) != 0) return -1;
  for (uint64_t i = 0; i < of->z->k; i++)
    if (!(w->rows[i] > 0) || w->rows[i] - w->rows[i] != 0)
      return err_set(err, ERR_MODEL, "row %s of a weight is scaled by %g", decimal(i).s,
                     (double)w->rows[i]);
  if (of->z->q.seen > 0 &&
      (eval_moments_ridge(of->t, of->z->by.gram, of->z->k, of->z->q.seen, &w->ridge, err) != 0 ||
       begin_columns(w, err) != 0))
    return -1;
  for (uint64_t r = 0; r < second_moments_tiles(of->z->k); r++)
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
  w.best = w.zero + of->n;
  w.sums = w.best + of->n * of->block;
  w.all = w.sums + of->n * of->side;
  w.tile = resources_alloc(of->side * of->side * sizeof *w.tile);
  w.rows = resources_alloc((size_t)of->z->k * sizeof *w.rows);
  w.scratch = lines_new(KERNELS_PRODUCTS_SCRATCH);
  const int failed = quantize(&w, err);
  resources_free(w.tile);
  resources_free(w.rows);
  lines_free(w.scratch);
  return failed;
}
