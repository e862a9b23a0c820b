// The factor of second moments that GPTQ multiplies errors with: M, lower triangular, with H = MᵀM, tile by tile.
//
// H is G = XᵀX with a hundredth of the mean of its diagonal added to the diagonal, so that it is positive definite
// however few rows X had. A value that was never other than 0 has nothing to say: its diagonal element is that mean,
// and its row of M is marked by a diagonal element below 0.
//
// With P that reverses rows, PHP = LLᵀ is Cholesky's factorization and M = PLᵀP: so tiles are found from the last row
// of tiles to the first, in the places that the tiles of G have (second_moments.h), and there is no inverse:
//
//      c ─▶                     tile (r, c):  T = H(r, c) − Σ M(s, r)ᵀ M(s, c), s > r
//   r  ■ ·                      on the diagonal, T = M(r, r)ᵀ M(r, r)
//   │  ■ ■ ·        T           left of it, M(r, c) = M(r, r)⁻ᵀ T
//   ▼  ■ ■ ■ ·      M(s, r), M(s, c)
//
// Three tiles are in memory. One worker finds the factor for all consumers of a value, the others wait; tiles are kept
// in the cache of the run, whose file takes what memory does not. Where there is no cache, or its disk is full, all
// tiles are held in memory for as long as a box is filled, or, if these are many, it is refused.
#include "stream/eval/quantize/inside/eval_whole.h"

#include "platform/maps.h"
#include "resources/resources.h"
#include "tensor_stats/second_moments.h"

#include <errno.h>
#include <math.h>

enum {
  TILE_ELEMENTS = SECOND_MOMENTS_SIDE * SECOND_MOMENTS_SIDE,
  STEP = 32, // rows that are solved together
  ALONE_BYTES = 128 << 20,
};
static const double dampening = 0.01;

static uint64_t unit_of(uint64_t r, uint64_t c) {
  return r * (r + 1) / 2 + c;
}

static uint64_t tile_elements(const struct eval_factor *f) {
  const uint64_t side = second_moments_side(f->k, 0);
  return side * side;
}

static int no_memory(struct err *err) {
  err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: tiles of second moments need %zu bytes",
            TILE_ELEMENTS * sizeof(double));
  return err_because(err, REASON_NO_MEMORY);
}

int eval_factor_open(struct eval_factor *f, const struct eval_quantize *z, struct err *err) {
  const uint64_t n = second_moments_tiles(z->k);
  *f = (struct eval_factor){.k = z->k, .gram = z->by.gram};
  f->key =
      (struct eval_cache_key){.kind = EVAL_CACHE_FACTOR, .of = z->by.gram, .units = unit_of(n, 0)};
  f->key.bytes[EVAL_CACHE_FIRST] = (uint32_t)(tile_elements(f) * sizeof *f->tile);
  f->tile = resources_zalloc((size_t)tile_elements(f), sizeof *f->tile);
  f->scratch = lines_new(KERNELS_PRODUCTS_SCRATCH);
  if (f->tile && f->scratch) return 0;
  eval_factor_close(f);
  return no_memory(err);
}

void eval_factor_close(struct eval_factor *f) {
  resources_free(f->tile);
  lines_free(f->scratch);
  resources_free(f->all);
  *f = (struct eval_factor){0};
}

// ---- keeping -----------------------------------------------------------------------------------

static void keep(const struct eval_task *t, struct eval_factor *f, uint64_t r, uint64_t c,
                 const double *tile) {
  const size_t n = (size_t)(second_moments_side(f->k, r) * second_moments_side(f->k, c));
  if (f->all)
    memcpy(f->all + second_moments_at(f->k, r, c), tile, n * sizeof *tile);
  else
    eval_cache_put(t->ev->cache, &f->key, unit_of(r, c), (const uint8_t *)tile, NULL);
}

static bool known(const struct eval_task *t, const struct eval_factor *f, uint64_t r, uint64_t c,
                  double *tile) {
  const size_t n = (size_t)(second_moments_side(f->k, r) * second_moments_side(f->k, c));
  if (!f->all)
    return eval_cache_look(t->ev->cache, &f->key, unit_of(r, c), EVAL_CACHE_FIRST, (uint8_t *)tile);
  memcpy(tile, f->all + second_moments_at(f->k, r, c), n * sizeof *tile);
  return true;
}

// ---- finding -----------------------------------------------------------------------------------

struct finding {
  struct eval_task *t;
  struct eval_factor *f;
  double *diagonal;          // of H
  double *tile, *with, *own; // with: M(s, c), then M(r, r); own: M(s, r)
  bool lost;                 // a tile that was kept is not there
};

static int read_tile(const struct finding *x, uint64_t r, uint64_t c, double *out,
                     struct err *err) {
  const uint64_t k = x->f->k, n = second_moments_side(k, r) * second_moments_side(k, c);
  return eval_elements(x->t, x->f->gram, second_moments_at(k, r, c), n, (uint8_t *)out, err);
}

// The diagonal of H; below 0 where G has 0.
static int read_diagonal(const struct finding *x, struct err *err) {
  const uint64_t k = x->f->k;
  double sum = 0, mean = 1;
  uint64_t alive = 0;
  for (uint64_t i = 0; i < k; i++) {
    if (eval_moments_at(x->t, x->f->gram, k, i, &x->diagonal[i], err) != 0) return -1;
    sum += x->diagonal[i];
    alive += x->diagonal[i] > 0;
  }
  if (alive > 0) mean = sum / (double)alive;
  for (uint64_t i = 0; i < k; i++) {
    const double at = x->diagonal[i];
    x->diagonal[i] = at > 0 ? at + dampening * mean : -(mean + dampening * mean);
  }
  return 0;
}

// H(r, c) into the tile.
static int read_dampened(const struct finding *x, uint64_t r, uint64_t c, struct err *err) {
  const uint64_t side = second_moments_side(x->f->k, r);
  if (read_tile(x, r, c, x->tile, err) != 0) return -1;
  for (uint64_t i = 0; r == c && i < side; i++)
    x->tile[i * side + i] = fabs(x->diagonal[r * SECOND_MOMENTS_SIDE + i]);
  return 0;
}

// The tile T on the diagonal becomes M(r, r), with zeros above its own diagonal.
static int factor_tile(const struct finding *x, uint64_t r, struct err *err) {
  const size_t n = (size_t)second_moments_side(x->f->k, r);
  for (size_t k = n; k-- > 0;) {
    double *row = x->tile + k * n;
    if (!(row[k] > 0) || !isfinite(row[k]))
      return err_set(err, ERR_MODEL,
                     "the second moments of a value are not positive definite: their Cholesky "
                     "factorization has %g on its diagonal (element %s of %s)",
                     row[k], decimal(r * SECOND_MOMENTS_SIDE + k).s, decimal(x->f->k).s);
    row[k] = sqrt(row[k]);
    for (size_t j = 0; j < k; j++)
      row[j] /= row[k];
    memset(row + k + 1, 0, (n - k - 1) * sizeof *row);
    for (size_t i = 0; i < k; i++)
      kernels_add_scaled(x->tile + i * n, row, -row[i], i + 1);
  }
  for (size_t i = 0; i < n; i++)
    if (x->diagonal[r * SECOND_MOMENTS_SIDE + i] < 0) x->tile[i * n + i] *= -1;
  return 0;
}

// The tile T left of the diagonal becomes M(r, c), by M(r, r): some rows at a time, from the last ones on.
static void solve_tile(const struct finding *x, uint64_t r, uint64_t c) {
  const size_t n = (size_t)second_moments_side(x->f->k, r),
               wide = (size_t)second_moments_side(x->f->k, c);
  for (size_t end = n; end > 0;) {
    const size_t first = end > STEP ? end - STEP : 0;
    for (size_t k = end; k-- > first;) {
      const double *by = x->with + k * n;
      double *row = x->tile + k * wide;
      for (size_t j = 0; j < wide; j++)
        row[j] /= by[k];
      for (size_t i = first; i < k; i++)
        kernels_add_scaled(x->tile + i * wide, row, -by[i], wide);
    }
    const struct kernels_products p = {.a = {x->with + first * n, 1, n, true},
                                       .b = {x->tile + first * wide, 1, wide, true},
                                       .rows = first,
                                       .columns = wide,
                                       .depth = end - first,
                                       .subtract = true};
    kernels_products(x->tile, wide, &p, x->f->scratch);
    end = first;
  }
}

static bool look(struct finding *x, uint64_t r, uint64_t c, double *tile) {
  x->lost = x->lost || !known(x->t, x->f, r, c, tile);
  return !x->lost;
}

static int find_tile(struct finding *x, uint64_t r, uint64_t c, struct err *err) {
  const uint64_t k = x->f->k;
  if (eval_may_go_on(x->t->ev, err) != 0 || read_dampened(x, r, c, err) != 0) return -1;
  for (uint64_t s = r + 1; s < second_moments_tiles(k); s++) {
    if (!look(x, s, r, x->own) || (c < r && !look(x, s, c, x->with))) return 0;
    const size_t own = (size_t)second_moments_side(k, r), with = (size_t)second_moments_side(k, c);
    const struct kernels_products p = {.a = {x->own, 1, own, true},
                                       .b = {c < r ? x->with : x->own, 1, with, true},
                                       .rows = own,
                                       .columns = with,
                                       .depth = (size_t)second_moments_side(k, s),
                                       .subtract = true};
    kernels_products(x->tile, with, &p, x->f->scratch);
  }
  if (c == r && factor_tile(x, r, err) != 0) return -1;
  if (c < r) {
    if (!look(x, r, r, x->with)) return 0;
    solve_tile(x, r, c);
  }
  keep(x->t, x->f, r, c, x->tile);
  eval_looked(x->t->ev, x->f->gram, second_moments_steps(k, r, c));
  return 0;
}

static int find_tiles(struct finding *x, struct err *err) {
  x->lost = false;
  if (read_diagonal(x, err) != 0) return -1;
  for (uint64_t r = second_moments_tiles(x->f->k); r-- > 0;)
    for (uint64_t c = r + 1; c-- > 0;) {
      if (find_tile(x, r, c, err) != 0) return -1;
      if (x->lost) return 0;
    }
  return 0;
}

static int find_factor(void *ctx, struct err *err) {
  struct finding *x = ctx;
  const size_t n = (size_t)tile_elements(x->f);
  x->tile = resources_zalloc(3 * n, sizeof *x->tile);
  x->diagonal = resources_alloc((size_t)x->f->k * sizeof *x->diagonal);
  x->with = x->tile + n;
  x->own = x->with + n;
  const int failed = x->tile && x->diagonal ? find_tiles(x, err) : no_memory(err);
  resources_free(x->tile);
  resources_free(x->diagonal);
  return failed;
}

static bool is_found(void *ctx) {
  const struct finding *x = ctx;
  return known(x->t, x->f, 0, 0, x->f->tile);
}

// All tiles in memory, where nobody keeps them: as far as that is little beside the memory of a run.
static int find_alone(struct finding *x, struct err *err) {
  const uint64_t bytes = second_moments_elements(x->f->k) * sizeof *x->f->all;
  if (bytes > ALONE_BYTES) {
    err_fill(err, ERR_NOSPACE,
             "the factor of %s columns of second moments needs %s bytes, more than the remaining "
             "memory and a file next to the output can hold",
             decimal(x->f->k).s, decimal(bytes).s);
    return err_because(err, REASON_FACTOR);
  }
  x->f->all = resources_alloc((size_t)bytes);
  if (x->f->all) return find_factor(x, err);
  err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: the factor of second moments needs %s bytes",
            decimal(bytes).s);
  return err_because(err, REASON_NO_MEMORY);
}

int eval_factor_tile(struct eval_task *t, struct eval_factor *f, uint64_t r, uint64_t c,
                     struct err *err) {
  struct finding x = {.t = t, .f = f};
  if (known(t, f, r, c, f->tile)) return 0;
  // Tile (0, 0) is found last.
  if (t->ev->cache && eval_find_once(t, &f->key, 0, is_found, find_factor, &x, err) != 0) return -1;
  if (known(t, f, r, c, f->tile)) return 0;
  if (find_alone(&x, err) != 0) return -1;
  return known(t, f, r, c, f->tile) ? 0 : no_memory(err);
}
