// Scales for the rows of weights, as AWQ finds them (Lin et al., "AWQ: Activation-aware Weight Quantization", 2023): a row
// whose value is large is made larger before it is quantized, and its value smaller by as much.
//
//   s(i) = max(mean |x|^(i/20), 1e-4), divided by the root of its largest times its least;  i = 0 .. 19
//   E(i) = W - dequantized(quantized(s W)) / s                      for all weights of the value
//   the i with the least tr(EᵀGE), the error of the output, G = XᵀX; the first of equals
//
// Where it is known over how many rows G is a sum, i are left out with which one of the weights has a larger error than with
// i = 0, which changes nothing; G has its ridge (eval_moments.c), and of K columns and n rows the means are nearer to
// each other: mean + (mean of all means - mean) K / (K + 10 n).
//
// No activations are needed. Of a weight with many columns some hundreds are looked at, as far apart as can be: an i that
// is best for these is best, or nearly so, for all of them.
//
// Columns come in panels, of which G is read once for all i. A column's error is a sum of its own, and columns add in
// order, so that panels show in nothing. Powers are products of a fifth root of square roots, found with operations that
// round the same on all machines, which those of the C library do not.
#include "stream/eval/quantize/eval_quantize.h"
#include "stream/eval/quantize/inside/eval_whole.h"

#include "platform/maps.h"
#include "resources/resources.h"
#include "stream/eval/core/eval_figures.h"
#include "tensor_stats/second_moments.h"

#include <errno.h>
#include <math.h>

enum { WAYS = RECIPE_AWQ_WAYS, WORK_BYTES = 4 << 20 };

struct finding {
  struct eval_task *t;
  uint32_t id;
  struct recipe_awq a;
  uint64_t k;
  size_t wide; // columns of a panel, at most
  float *out;  // K: the best scales
  float *ways; // WAYS times K
  double *tile, *products;
  double *errors; // K rows of a panel, of all ways side by side
  float *panel;   // K rows of it
  float *group, *scales;
  uint8_t *zeros, *some;
  void *scratch;
  double ridge;
  double own[WAYS]; // of the weight at hand
  double total[WAYS];
  bool barred[WAYS]; // one of the weights is worse off
};

// ---- the ways ----------------------------------------------------------------------------------

// x^(1/20) of x > 0.
static double twentieth_root(double x) {
  const double y = sqrt(sqrt(x));
  double z = y > 1 ? y : 1;
  for (int i = 0; i < 1000; i++) {
    const double fourth = z * z * z * z, next = z - (z - y / fourth) / 5;
    if (!(next < z)) break;
    z = next;
  }
  return z;
}

static int read_means(struct finding *f, struct err *err) {
  float *means = f->out;
  if (eval_elements(f->t, f->a.means, 0, f->k, (uint8_t *)means, err) != 0) return -1;
  double sum = 0;
  for (uint64_t j = 0; j < f->k; j++) {
    if (!(means[j] >= 0) || !isfinite(means[j]))
      return err_set(err, ERR_MODEL, "the mean of magnitudes number %s is %g", decimal(j).s,
                     (double)means[j]);
    sum += (double)means[j];
  }
  if (f->a.seen == 0) return 0;
  const double k = (double)f->k, mean = sum / k, part = k / (k + 10 * (double)f->a.seen);
  for (uint64_t j = 0; j < f->k; j++)
    means[j] = (float)((double)means[j] + (mean - (double)means[j]) * part);
  return 0;
}

static int make_ways(struct finding *f, struct err *err) {
  const float *means = f->out;
  if (read_means(f, err) != 0) return -1;
  double largest[WAYS] = {0}, least[WAYS];
  for (uint64_t j = 0; j < f->k; j++) {
    const double root = means[j] > 0 ? twentieth_root((double)means[j]) : 0;
    double power = 1;
    for (int i = 0; i < WAYS; i++, power *= root) {
      const double s = power > 1e-4 ? power : 1e-4;
      if (j == 0 || s > largest[i]) largest[i] = s;
      if (j == 0 || s < least[i]) least[i] = s;
      f->ways[(uint64_t)i * f->k + j] = (float)s;
    }
  }
  for (int i = 0; i < WAYS; i++)
    for (uint64_t j = 0; j < f->k; j++) {
      float *s = &f->ways[(uint64_t)i * f->k + j];
      *s = (float)((double)*s / sqrt(largest[i] * least[i]));
    }
  return 0;
}

// ---- errors of a panel -------------------------------------------------------------------------

// n columns of a weight, `step` apart.
struct columns {
  uint32_t of;
  uint64_t first, step;
  size_t n;
};

static int read_panel(struct finding *f, const struct columns *c, struct err *err) {
  const struct recipes *r = f->t->r;
  const enum dtype type = (enum dtype)r->rows[c->of].dtype;
  const uint64_t wide = (uint64_t)recipe_dims(r, c->of)[1];
  const uint64_t n = (c->n - 1) * c->step + 1; // of a row, from its first column on
  const uint32_t width = eval_width(r, c->of);
  for (uint64_t i = 0; i < f->k; i++) {
    if (i % 64 == 0 && eval_may_go_on(f->t->ev, err) != 0) return -1;
    if (eval_elements(f->t, c->of, i * wide + c->first, n, f->some, err) != 0) return -1;
    for (size_t j = 0; j < c->n; j++) {
      float *x = &f->panel[i * c->n + j];
      eval_figures_floats(type, f->some + j * c->step * width, 1, x);
      if (!isfinite(*x)) *x = 0; // who quantizes it tells of it
    }
  }
  return 0;
}

// Errors of the panel's elements by way i.
static void quantize(const struct finding *f, const struct columns *c, int i) {
  const float *s = f->ways + (uint64_t)i * f->k;
  double *errors = f->errors + (size_t)i * c->n;
  const struct kernels_block_format format = {.rule = KERNELS_NBITS,
                                              .bits = (uint8_t)f->a.bits,
                                              .symmetric = f->a.symmetric,
                                              .in_type = KERNELS_F32,
                                              .scale_type = KERNELS_F32,
                                              .block = (size_t)f->a.block};
  const double most = (double)((1u << f->a.bits) - 1), big = 0x1.8p52;
  for (uint64_t g = 0; g < f->k; g += f->a.block) {
    const size_t rows = (size_t)min_u64(f->a.block, f->k - g);
    const struct kernels_panel p = {.in = f->group,
                                    .in_stride = c->n,
                                    .n = c->n,
                                    .k = rows,
                                    .scales = f->scales,
                                    .zeros = f->zeros,
                                    .blocks_stride = 1};
    for (size_t l = 0; l < rows; l++)
      for (size_t j = 0; j < c->n; j++)
        f->group[l * c->n + j] = f->panel[(g + l) * c->n + j] * s[g + l];
    kernels_quantize_columns(&p, &format);
    for (size_t l = 0; l < rows; l++)
      for (size_t j = 0; j < c->n; j++) {
        const double x = (double)f->group[l * c->n + j], scale = (double)f->scales[j];
        const double zero = (double)f->zeros[j];
        double code = scale != 0 ? x / scale + zero : zero;
        code = ((code > most ? most : code > 0 ? code : 0) + big) - big;
        errors[(g + l) * WAYS * c->n + j] = (x - (code - zero) * scale) / (double)s[g + l];
      }
  }
}

// Adds, by way and column, what tile (r, c) of G makes of the errors: twice where it stands for that above the diagonal
// too.
static void add_tile(struct finding *f, size_t n, uint64_t r, uint64_t c, double *sums) {
  const size_t rows = (size_t)second_moments_side(f->k, r),
               depth = (size_t)second_moments_side(f->k, c);
  const size_t wide = WAYS * n;
  const double *above = f->errors + r * SECOND_MOMENTS_SIDE * wide;
  const struct kernels_products p = {
      .a = {f->tile, depth, 1, true},
      .b = {f->errors + c * SECOND_MOMENTS_SIDE * wide, 1, wide, true},
      .rows = rows,
      .columns = wide,
      .depth = depth};
  memset(f->products, 0, rows * wide * sizeof *f->products);
  kernels_products(f->products, wide, &p, f->scratch);
  for (size_t l = 0; l < rows; l++)
    for (size_t j = 0; j < wide; j++)
      sums[j] += (r == c ? 1 : 2) * above[l * wide + j] * f->products[l * wide + j];
}

static int look_at(struct finding *f, const struct columns *c, struct err *err) {
  double sums[WAYS * 64] = {0};
  if (read_panel(f, c, err) != 0) return -1;
  for (int i = 0; i < WAYS; i++)
    quantize(f, c, i);
  for (uint64_t r = 0; r < second_moments_tiles(f->k); r++)
    for (uint64_t k = 0; k <= r; k++) {
      const uint64_t n = second_moments_side(f->k, r) * second_moments_side(f->k, k);
      if (eval_may_go_on(f->t->ev, err) != 0 ||
          eval_elements(f->t, f->a.gram, second_moments_at(f->k, r, k), n, (uint8_t *)f->tile,
                        err) != 0)
        return -1;
      if (r == k) eval_moments_add(f->tile, (size_t)second_moments_side(f->k, r), f->ridge);
      add_tile(f, c->n, r, k, sums);
    }
  for (int i = 0; i < WAYS; i++)
    for (size_t j = 0; j < c->n; j++)
      f->own[i] += sums[(size_t)i * c->n + j];
  eval_looked(f->t->ev, f->id, c->n);
  return 0;
}

static int look_at_weight(struct finding *f, uint32_t of, struct err *err) {
  const uint64_t wide = (uint64_t)recipe_dims(f->t->r, of)[1];
  const uint64_t step = recipe_awq_step(wide), n = recipe_awq_tried(wide);
  memset(f->own, 0, sizeof f->own);
  for (uint64_t i = 0; i < n; i += f->wide) {
    const struct columns c = {of, i * step, step, (size_t)min_u64(f->wide, n - i)};
    if (look_at(f, &c, err) != 0) return -1;
  }
  for (int i = 0; i < WAYS; i++) {
    f->total[i] += f->own[i];
    f->barred[i] |= f->a.seen > 0 && !(f->own[i] <= f->own[0]);
  }
  return 0;
}

// ---- all of it ---------------------------------------------------------------------------------

static int find_best(struct finding *f, struct err *err) {
  const struct recipe *x = &f->t->r->rows[f->id];
  if (make_ways(f, err) != 0 ||
      eval_moments_ridge(f->t, f->a.gram, f->k, f->a.seen, &f->ridge, err) != 0)
    return -1;
  for (uint32_t i = 2; i < x->n_args; i++)
    if (look_at_weight(f, f->t->r->args[x->args + i], err) != 0) return -1;
  int best = 0;
  for (int i = 1; i < WAYS; i++)
    if (!f->barred[i] && f->total[i] < f->total[best]) best = i;
  memcpy(f->out, f->ways + (uint64_t)best * f->k, (size_t)f->k * sizeof *f->out);
  return 0;
}

// The widest row of columns that is read at once.
static uint64_t row_bytes(const struct finding *f) {
  const struct recipes *r = f->t->r;
  const struct recipe *x = &r->rows[f->id];
  uint64_t most = 0;
  for (uint32_t i = 2; i < x->n_args; i++)
    most = max_u64(most, (uint64_t)recipe_dims(r, r->args[x->args + i])[1]);
  return most * sizeof(float);
}

static int find(void *ctx, struct err *err) {
  struct finding *f = ctx;
  const uint64_t side = second_moments_side(f->k, 0);
  const uint64_t column = f->k * (8 * WAYS + 4) + 8 * WAYS * side + f->a.block * 4 + 8;
  f->wide = (size_t)min_u64(max_u64(WORK_BYTES / column, 1), 64);
  f->ways = resources_alloc((size_t)(WAYS * f->k) * sizeof *f->ways);
  f->tile = resources_alloc((size_t)(side * side) * sizeof *f->tile);
  f->errors = resources_alloc((size_t)(f->wide * f->k * WAYS) * sizeof *f->errors);
  f->products = resources_alloc((size_t)(WAYS * f->wide * side) * sizeof *f->products);
  f->panel = resources_alloc((size_t)(f->wide * f->k) * sizeof *f->panel);
  f->group = resources_alloc((size_t)(f->wide * f->a.block) * sizeof *f->group);
  f->scales = resources_alloc(f->wide * sizeof *f->scales);
  f->zeros = resources_alloc(f->wide);
  f->some = resources_alloc((size_t)row_bytes(f));
  f->scratch = lines_new(KERNELS_PRODUCTS_SCRATCH);
  int failed = -1;
  if (f->ways && f->tile && f->errors && f->products && f->panel && f->group && f->scales &&
      f->zeros && f->some && f->scratch)
    failed = find_best(f, err);
  else
    err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: a panel of errors needs %s bytes",
              decimal(f->wide * column).s),
        err_because(err, REASON_NO_MEMORY);
  resources_free(f->ways);
  resources_free(f->tile);
  resources_free(f->errors);
  resources_free(f->products);
  resources_free(f->panel);
  resources_free(f->group);
  resources_free(f->scales);
  resources_free(f->zeros);
  resources_free(f->some);
  lines_free(f->scratch);
  return failed;
}

static struct eval_cache_key key_of(const struct finding *f) {
  return (struct eval_cache_key){.kind = EVAL_CACHE_REDUCED,
                                 .of = f->id,
                                 .units = 1,
                                 .bytes = {(uint32_t)(f->k * sizeof(float))}};
}

static bool is_known(void *ctx) {
  const struct finding *f = ctx;
  const struct eval_cache_key key = key_of(f);
  return eval_cache_look(f->t->ev->cache, &key, 0, EVAL_CACHE_FIRST, (uint8_t *)f->out);
}

static int find_and_keep(void *ctx, struct err *err) {
  const struct finding *f = ctx;
  const struct eval_cache_key key = key_of(f);
  if (find(ctx, err) != 0) return -1;
  eval_cache_put(f->t->ev->cache, &key, 0, (const uint8_t *)f->out, NULL);
  return 0;
}

static int fill(struct eval_task *t, uint32_t id, float *out, struct err *err) {
  struct finding f = {.t = t, .id = id, .a = recipe_awq_of(t->r, id), .k = t->r->rows[id].count};
  const struct eval_cache_key key = key_of(&f);
  f.out = out;
  if (!t->ev->cache) return find(&f, err);
  return eval_find_once(t, &key, 0, is_known, find_and_keep, &f, err);
}

int eval_awq_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                      uint8_t *out, struct err *err) {
  const size_t bytes = (size_t)t->r->rows[id].count * sizeof(float);
  struct eval_stripe_box *b = eval_box_for(t->ev, id);
  const bool held = b && t->ev->box_bytes >= bytes;
  float *all = held ? (float *)(void *)b->data : resources_alloc(bytes);
  int failed = 0;
  if (!all) {
    err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: scales of rows need %zu bytes", bytes);
    return err_because(err, REASON_NO_MEMORY);
  }
  if (!held || b->count == 0) {
    if (held) b->busy = true;
    failed = fill(t, id, all, err);
    if (held) b->busy = false;
    if (held && !failed) b->count = 1;
  }
  if (!failed) memcpy(out, all + first, (size_t)count * sizeof *all);
  if (!held) resources_free(all);
  return failed;
}
