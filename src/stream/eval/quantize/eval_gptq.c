// GPTQ: columns of W [K, N] quantized row by row, so that what is multiplied with them comes out as nearly as it was
// (Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", 2022).
//
// With H = MᵀM (eval_factor.c) and e = w − q of a column, the error of the output is eᵀHe = ‖Me‖², and row i of Me is
//
//   M_ii e_i + s_i,   s_i = Σ M_ij e_j, j < i
//
// so, rows in order, the best that row i can do is q_i near w_i + s_i / M_ii. That is what the paper computes: its U,
// the upper factor of the inverse of H, has M as its inverse, and its updates of the rows that are left add up to
// s_i / M_ii. A group's scale and zero point are found by the rule of MLAS from its rows as they would be if they had
// every value to choose from: each w_i + s_i / M_ii with e_i = −s_i / M_ii in the sums of those behind it.
//
//            M                      E  (K by the columns of a box, doubles)
//          ┌──────────┐            ┌────┐
//     tile │ ■  ■  ◣  │ ×          │ ■  │ rows that are quantized     s of a tile of rows: whole tiles first,
//     of   │          │            │ ■  │                             then group by group, then row by row
//     rows └──────────┘            │ ◣  │
//
// Sums are of one fused step a term, in the order of j, so that they are the same for any box of columns; columns know
// nothing of each other. Each box goes over M once. Rows of what was never other than 0 count as 0, which takes them
// out of the range of their group; in figures they have the errors that they have.
#include "stream/eval/quantize/inside/eval_whole.h"

#include "tensor_stats/second_moments.h"

// What a box is worked on with.
struct work {
  const struct eval_whole *of;
  struct eval_factor factor;
  double *errors;    // K rows
  double *sums;      // of a tile: s
  double *free_sums; // of a group: s where its rows have every value, then these rows' errors
  double *free_errors;
};

uint64_t eval_gptq_column_bytes(const struct eval_quantize *z) {
  return 8 * (z->k + second_moments_side(z->k, 0) + 2 * z->block);
}

// ---- a group -----------------------------------------------------------------------------------

// M(r, r) is the tile at hand.
struct group {
  struct eval_group g;
  size_t stride;   // of M
  const double *m; // its row g.at
};

static double factor_at(const struct group *g, size_t row) {
  return g->m[row * g->stride + g->g.at + row];
}

// s of the group's rows, but for what its own rows add.
static void begin_sums(const struct work *w, const struct group *g) {
  const struct kernels_products p = {.a = {g->m, g->stride, 1, true},
                                     .b = {w->errors + g->g.first * w->of->n, 1, w->of->n, true},
                                     .rows = g->g.rows,
                                     .columns = w->of->n,
                                     .depth = g->g.at};
  kernels_products(w->sums + g->g.at * w->of->n, w->of->n, &p, w->factor.scratch);
}

// What the parameters are found from: every row with what is best for it.
static void free_rows(const struct work *w, const struct group *g) {
  const size_t n = w->of->n;
  memcpy(w->free_sums, w->sums + g->g.at * n, g->g.rows * n * sizeof *w->free_sums);
  for (size_t l = 0; l < g->g.rows; l++) {
    const double m = factor_at(g, l);
    const float *weights = w->of->weights + (g->g.at + l) * n;
    double *sums = w->free_sums + l * n, *errors = w->free_errors + l * n;
    float *out = w->of->group + l * n;
    for (size_t i = 0; i < l; i++)
      kernels_add_scaled(sums, w->free_errors + i * n, g->m[l * g->stride + g->g.at + i], n);
    for (size_t j = 0; j < n; j++) {
      errors[j] = -sums[j] / m;
      out[j] = m < 0 ? 0 : (float)((double)weights[j] - errors[j]);
    }
  }
}

static void find_parameters(const struct work *w, const struct group *g) {
  const struct kernels_panel p = eval_whole_panel(w->of, g->g.rows);
  const struct kernels_block_format f = eval_whole_format(w->of->z);
  free_rows(w, g);
  kernels_quantize_columns(&p, &f);
}

// The codes of row l, and its errors.
static void quantize_row(const struct work *w, const struct group *g, size_t l) {
  const size_t n = w->of->n;
  const double m = factor_at(g, l), most = (double)((1u << w->of->z->q.bits) - 1);
  const float *weights = w->of->weights + (g->g.at + l) * n;
  double *sums = w->sums + (g->g.at + l) * n;
  double *errors = w->errors + (g->g.first + g->g.at) * n;
  uint8_t *codes = w->of->codes + l * n;
  for (size_t i = 0; i < l; i++)
    kernels_add_scaled(sums, errors + i * n, g->m[l * g->stride + g->g.at + i], n);
  errors += l * n;
  for (size_t j = 0; j < n; j++) {
    const double weight = m < 0 ? 0 : (double)weights[j], scale = (double)w->of->scales[j];
    const double zero = (double)w->of->zeros[j];
    double code = scale != 0 ? (weight + sums[j] / m) / scale + zero : zero;
    code = eval_whole_nearest(code > most ? most : code > 0 ? code : 0);
    codes[j] = (uint8_t)code;
    errors[j] = weight - (code - zero) * scale;
  }
}

// ---- all of it ---------------------------------------------------------------------------------

// s of a tile of rows, from the tiles of rows before.
static int begin_tile(struct work *w, uint64_t r, struct err *err) {
  const size_t rows = (size_t)second_moments_side(w->of->z->k, r);
  memset(w->sums, 0, rows * w->of->n * sizeof *w->sums);
  for (uint64_t c = 0; c < r; c++) {
    if (eval_may_go_on(w->of->t->ev, err) != 0 ||
        eval_factor_tile(w->of->t, &w->factor, r, c, err) != 0)
      return -1;
    const struct kernels_products p = {
        .a = {w->factor.tile, (size_t)second_moments_side(w->of->z->k, c), 1, true},
        .b = {w->errors + c * SECOND_MOMENTS_SIDE * w->of->n, 1, w->of->n, true},
        .rows = rows,
        .columns = w->of->n,
        .depth = (size_t)second_moments_side(w->of->z->k, c)};
    kernels_products(w->sums, w->of->n, &p, w->factor.scratch);
  }
  return eval_factor_tile(w->of->t, &w->factor, r, r, err);
}

// A tile of rows takes as much as the tiles of M up to it: of n rows of tiles, r behind it, a share of (2r + 1) / n².
static void tell_looked(const struct work *w, uint64_t r) {
  const struct eval_quantize *z = w->of->z;
  const double n = (double)second_moments_tiles(z->k), bytes = (double)(w->of->n * z->k * z->width);
  eval_looked(w->of->t->ev, z->of, (uint64_t)(bytes * (double)(2 * r + 1) / (n * n)));
}

static int quantize_tile(struct work *w, uint64_t r, struct err *err) {
  const struct eval_whole *of = w->of;
  const size_t rows = (size_t)second_moments_side(of->z->k, r);
  const uint64_t first = r * SECOND_MOMENTS_SIDE;
  if (begin_tile(w, r, err) != 0 || eval_whole_read(of, first, rows, err) != 0) return -1;
  for (size_t at = 0; at < rows; at += of->block) {
    const struct group g = {.g = {first, at, (size_t)min_u64(of->block, rows - at)},
                            .stride = rows,
                            .m = w->factor.tile + at * rows};
    if (eval_may_go_on(of->t->ev, err) != 0) return -1;
    begin_sums(w, &g);
    find_parameters(w, &g);
    for (size_t l = 0; l < g.g.rows; l++) {
      quantize_row(w, &g, l);
      if (of->h->sums) eval_whole_figures(of, &g.g, l);
    }
    eval_whole_put(of, &g.g);
  }
  tell_looked(w, r);
  return 0;
}

int eval_gptq_fill(struct eval_whole *of, double *doubles, struct err *err) {
  struct work w = {.of = of, .errors = doubles};
  w.sums = w.errors + of->n * of->z->k;
  w.free_sums = w.sums + of->n * of->side;
  w.free_errors = w.free_sums + of->n * of->block;
  int failed = eval_factor_open(&w.factor, of->z, err);
  for (uint64_t r = 0; !failed && r < second_moments_tiles(of->z->k); r++)
    failed = quantize_tile(&w, r, err);
  eval_factor_close(&w.factor);
  return failed ? -1 : 0;
}
