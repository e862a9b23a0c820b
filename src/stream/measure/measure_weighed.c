// tr(EᵀGE), the error of an output, column by column of the weight:
//
//   W     K x N     a panel of columns, as doubles, each column in one piece       eᵀGe = Σ e_i G_ij e_j
//   Ŵ     what codes, scales and zero points stand for                                  by tiles of G (second_moments.h), twice
//   E     W - Ŵ                                                                         those below the diagonal
//
// A column has sums of its own, added tile by tile, and columns add in order when all are there: so nothing depends on
// how many make a panel, nor on who made it.
//
// Packed codes (NBITS) are read as bytes and unpacked here, since no recipe is of their elements; all others are dequantized by
// a recipe. Both are the floats that a runtime computes with. Rows that AWQ scaled are divided again: the value is, too.
//
// Without a matrix G the sums need no columns, but are taken so all the same; a weight alone, which may lie in any way, is
// taken in lines of 4096 elements.
#include "stream/measure/measure_weighed.h"

#include "kernels/convert/kernels_convert.h"
#include "kernels/kernels.h"
#include "platform/maps.h"
#include "resources/resources.h"
#include "stream/measure/inside/measure_parts.h"
#include "stream/sys/threads.h"
#include "tensor_stats/second_moments.h"

#include <assert.h>
#include <errno.h>

enum {
  LINE = 4096,
  ITEM_BYTES = 4 << 20, // of W and E as doubles, at most
  ITEM_LEAST = 64 << 10,
  ITEM_PART = 8, // of a worker's memory
  ITEM_COLUMNS = 256,
  PIECE = 4096, // elements that are widened at once
};

struct question {
  uint32_t operand, by, rows; // rows: scales of the operand's rows; NO_ID: none
  uint32_t stands;            // NO_ID: packed
  uint32_t codes, scales, zeros;
  struct recipe_quantization q; // of packed codes
  bool gram, one;               // what `by` is; one: a single number
  bool across;                  // element (i, j) lies at i * columns + j, else at j * k + i
  uint64_t k, columns, count, taps;
  uint64_t item_columns, first_item, n_items;
  uint32_t same_as;               // whose signal it has; NO_ID: its own
  double *signal, *error, *plain; // by column
  _Atomic uint64_t nonfinite;
};

struct weighing {
  struct question *questions;
  uint32_t n;
};

// ---- what can be asked -------------------------------------------------------------------------

static uint32_t row_of(const struct recipes *r, uint32_t codes) {
  return recipe_unmoved(r, codes);
}

static bool is_packed(const struct recipes *r, uint32_t row) {
  return recipe_quantizes(r, row) && recipe_is_nbits(recipe_quantization_of(r, row).format);
}

// The only axis of `by` that has a length; RECIPE_PER_TENSOR: none has.
static bool axis_of(const struct recipes *r, uint32_t by, uint32_t *axis) {
  const int64_t *dims = recipe_dims(r, by);
  *axis = RECIPE_PER_TENSOR;
  for (uint32_t i = 0; i < r->rows[by].rank; i++) {
    if (dims[i] == 1) continue;
    if (*axis != RECIPE_PER_TENSOR) return false;
    *axis = i;
  }
  return true;
}

bool measure_weighed_can(const struct recipes *r, uint32_t codes, uint32_t by) {
  const uint32_t row = row_of(r, codes);
  uint32_t axis;
  const bool by_search = recipe_quantizes(r, row);
  if (by_search ? recipe_part_of(r, row) != PART_CODES
                : r->rows[row].kind != RECIPE_QUANTIZE_LINEAR)
    return false;
  if (by_search && recipe_quantization_of(r, row).format == FORMAT_LEVELS) return false;
  if (!recipe_can_grow(r, row)) return false;
  if (!by_search) {
    const struct recipe_linear q = recipe_quantize_linear_of(r, row);
    const struct recipe_dequantization d = {q.scales, q.zeros, q.axis, q.block};
    if (!recipe_can_dequantize(r, row, &d)) return false;
  }
  const uint32_t of = r->args[r->rows[row].args];
  const struct recipe *w = &r->rows[of], *b = &r->rows[by];
  if (!dtype_is_plain_float((enum dtype)w->dtype) || w->count == 0 || b->rank != w->rank ||
      !axis_of(r, by, &axis))
    return false;
  if (b->dtype == DTYPE_FLOAT && b->count == 1) return true;
  if (axis > 1 || (axis == 0 && w->rank != 2) || w->rank < 2) return false;
  const uint64_t k = (uint64_t)recipe_dims(r, of)[axis];
  if (is_packed(r, row) && recipe_quantization_of(r, row).axis != axis) return false;
  if (b->dtype == DTYPE_FLOAT) return b->count == k;
  return b->dtype == DTYPE_DOUBLE && w->rank == 2 && k <= SECOND_MOMENTS_MOST &&
         b->count == second_moments_elements(k);
}

// ---- what codes stand for ----------------------------------------------------------------------

static uint32_t part(struct recipes *r, const struct question *x, enum recipe_part which) {
  const struct recipe_statistics by = recipe_statistics_of(r, x->codes);
  if (by.gram != NO_ID) return recipe_quantize_by(r, x->operand, &by, &x->q, which);
  return recipe_quantize(r, x->operand, &x->q, which);
}

static bool has_zeros(const struct recipe_quantization *q) {
  return !q->symmetric || q->format == FORMAT_NBITS_KQUANT ||
         q->format == FORMAT_NBITS_KQUANT_BEST || q->format == FORMAT_LINEAR;
}

// Of SHRINK zeros are floats to be added: code * scale + zero.
static uint32_t shrunk(struct recipes *r, const struct question *x) {
  const enum dtype type = (enum dtype)r->rows[x->operand].dtype;
  int64_t dims[RECIPE_MAX_RANK];
  const uint32_t rank = r->rows[x->operand].rank;
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i == x->q.axis ? recipe_dims(r, x->operand)[i] : 1;
  const uint32_t scaled = recipe_map(
      r, RECIPE_MAP_MUL,
      (uint32_t[]){recipe_cast(r, x->codes, type), recipe_reshape(r, x->scales, dims, rank)});
  return recipe_map(r, RECIPE_MAP_ADD,
                    (uint32_t[]){scaled, recipe_reshape(r, x->zeros, dims, rank)});
}

static uint32_t stands_for(struct recipes *r, struct question *x) {
  struct recipe_dequantization d = {.zeros = NO_ID};
  if (r->rows[x->codes].kind == RECIPE_QUANTIZE_LINEAR) {
    const struct recipe_linear q = recipe_quantize_linear_of(r, x->codes);
    d = (struct recipe_dequantization){q.scales, q.zeros, q.axis, q.block};
    return recipe_dequantize(r, x->codes, &d);
  }
  x->q = recipe_quantization_of(r, x->codes);
  x->scales = part(r, x, PART_SCALES);
  x->zeros = has_zeros(&x->q) ? part(r, x, PART_ZEROS) : NO_ID;
  if (recipe_is_nbits(x->q.format)) return NO_ID;
  if (x->q.format == FORMAT_SHRINK) return shrunk(r, x);
  const bool blocks = x->q.format == FORMAT_QDQ || x->q.format == FORMAT_GATHER;
  const uint64_t length =
      x->q.axis == RECIPE_PER_TENSOR ? 1 : (uint64_t)recipe_dims(r, x->operand)[x->q.axis];
  d = (struct recipe_dequantization){x->scales, x->zeros, x->q.axis,
                                     blocks && x->q.block == 0 ? length : x->q.block};
  return recipe_dequantize(r, x->codes, &d);
}

static void prepare(struct recipes *r, const struct measure_weighing *of, struct question *x) {
  uint32_t axis;
  *x = (struct question){.codes = row_of(r, of->codes), .by = of->by, .same_as = NO_ID};
  x->operand = r->args[r->rows[x->codes].args];
  x->rows = recipe_quantizes(r, x->codes) ? recipe_statistics_of(r, x->codes).rows : NO_ID;
  x->stands = stands_for(r, x);
  const struct recipe *w = &r->rows[x->operand];
  const int64_t *dims = recipe_dims(r, x->operand);
  axis_of(r, x->by, &axis);
  x->count = w->count;
  x->gram = r->rows[x->by].dtype == DTYPE_DOUBLE;
  x->one = !x->gram && r->rows[x->by].count == 1;
  if (x->stands == NO_ID) axis = x->q.axis;
  if (x->one && x->stands != NO_ID) { // in any order
    x->k = min_u64(LINE, x->count);
  } else {
    if (axis == RECIPE_PER_TENSOR) axis = 1;
    x->across = axis == 0;
    x->k = axis == 0 ? (uint64_t)dims[0] : x->count / (uint64_t)dims[0];
    x->taps = x->k / (uint64_t)dims[axis];
  }
  x->columns = (x->count - 1) / x->k + 1;
}

// ---- reading -----------------------------------------------------------------------------------

struct desk {
  struct measure_worker *w;
  const struct weighing *all;
  uint8_t *raw, *packed;
  double *wide, *tile, *products, *diagonal;
  double *weight, *error; // columns of K
  void *scratch;
};

static uint64_t width_of(const struct recipes *r, uint32_t id) {
  return dtype_bits((enum dtype)r->rows[id].dtype) / 8;
}

// Elements [first, first + n) of a task's recipe, as doubles, handed out a piece at a time.
static int read_run(struct desk *d, struct eval_task *t, uint32_t id, uint64_t first, uint64_t n,
                    double *out, struct err *err) {
  const uint64_t each = width_of(d->w->r, id);
  const struct kernels_cast widen = {.from = d->w->r->rows[id].dtype, .to = DTYPE_DOUBLE};
  for (uint64_t done = 0, now; done < n; done += now) {
    now = min_u64(PIECE, n - done);
    if (eval_read(t, (first + done) * each, d->raw, (size_t)(now * each), err)) return -1;
    kernels_convert(out + done, d->raw, (size_t)now, &widen);
  }
  return 0;
}

// A panel: columns [first, first + n), one behind the other.
static int read_panel(struct desk *d, const struct question *x, uint32_t id, uint64_t first,
                      uint64_t n, double *out, struct err *err) {
  const uint64_t each = width_of(d->w->r, id);
  const uint64_t from = x->across ? first : first * x->k;
  const uint64_t have =
      x->across ? (x->k - 1) * x->columns + n : min_u64(n * x->k, x->count - from);
  struct eval_task *t =
      eval_begin(d->w->ev, id, from * each, have * each, (struct eval_watcher){0});
  if (!x->across) {
    memset(out + have, 0, (size_t)(n * x->k - have) * sizeof *out); // of the last line
    return read_run(d, t, id, from, have, out, err);
  }
  for (uint64_t i = 0; i < x->k; i++) {
    if (i % 64 == 0 && measure_stopped(d->w))
      return err_set(err, ERR_RETRY, "interrupted while measuring weights");
    if (read_run(d, t, id, i * x->columns + first, n, d->wide, err)) return -1;
    for (uint64_t j = 0; j < n; j++)
      out[j * x->k + i] = d->wide[j];
  }
  return 0;
}

static uint32_t bits_at(const uint8_t *bytes, uint64_t i, uint32_t bits) {
  return (uint32_t)(bytes[i * bits / 8] >> (i * bits % 8)) & ((1u << bits) - 1);
}

// Bytes of a column of codes, scales and zero points.
struct column_bytes {
  uint64_t blocks, codes, scales, zeros;
};

static struct column_bytes column_bytes(const struct recipes *r, const struct question *x) {
  struct column_bytes b = {.blocks = (x->k - 1) / x->q.block + 1};
  const uint64_t each = width_of(r, x->scales);
  b.codes = b.blocks * x->q.block * x->q.bits / 8;
  b.scales = b.blocks * each;
  if (x->zeros != NO_ID)
    b.zeros = x->q.format == FORMAT_NBITS_HQQ ? b.scales : (b.blocks * x->q.bits + 7) / 8;
  return b;
}

// Each part at once: whoever makes codes makes those of many columns together.
static int read_parts(struct desk *d, const struct question *x, const struct column_bytes *b,
                      uint64_t first, uint64_t n, struct err *err) {
  uint8_t *codes = d->packed, *scales = codes + n * b->codes, *zeros = scales + n * b->scales;
  if (recipe_read(d->w->ev, x->codes, first * b->codes, codes, (size_t)(n * b->codes), err) ||
      recipe_read(d->w->ev, x->scales, first * b->scales, scales, (size_t)(n * b->scales), err))
    return -1;
  return b->zeros
             ? recipe_read(d->w->ev, x->zeros, first * b->zeros, zeros, (size_t)(n * b->zeros), err)
             : 0;
}

// What column j of those that were read stands for.
static void unpack_column(struct desk *d, const struct question *x, const struct column_bytes *b,
                          uint64_t j, uint64_t n, double *out) {
  const uint8_t *codes = d->packed + j * b->codes;
  const uint8_t *scales = d->packed + n * b->codes + j * b->scales;
  const uint8_t *zeros = d->packed + n * (b->codes + b->scales) + j * b->zeros;
  const bool floats = b->zeros && x->q.format == FORMAT_NBITS_HQQ;
  const struct kernels_cast widen = {.from = d->w->r->rows[x->scales].dtype, .to = DTYPE_DOUBLE};
  double *scale = d->wide, *zero = d->wide + b->blocks;
  const uint32_t bits = x->q.bits;
  kernels_convert(scale, scales, (size_t)b->blocks, &widen);
  if (floats) kernels_convert(zero, zeros, (size_t)b->blocks, &widen);
  for (uint64_t i = 0; i < b->blocks && !floats; i++)
    zero[i] = b->zeros ? bits_at(zeros, i, bits) : 1u << (bits - 1);
  for (uint64_t i = 0; i < x->k; i++) {
    const uint64_t block = i / x->q.block;
    const float code = (float)((double)bits_at(codes, i, bits) - zero[block]);
    out[i] = (double)(code * (float)scale[block]);
  }
}

static int read_stored(struct desk *d, const struct question *x, uint64_t first, uint64_t n,
                       struct err *err) {
  if (x->stands != NO_ID) return read_panel(d, x, x->stands, first, n, d->error, err);
  const struct column_bytes b = column_bytes(d->w->r, x);
  if (read_parts(d, x, &b, first, n, err)) return -1;
  for (uint64_t j = 0; j < n; j++)
    unpack_column(d, x, &b, j, n, d->error + j * x->k);
  return 0;
}

// ---- sums --------------------------------------------------------------------------------------

// W and E of what was read; rows that were scaled are as they were again.
static int take_difference(struct desk *d, struct question *x, uint64_t n, struct err *err) {
  uint64_t bad = 0;
  if (x->rows != NO_ID &&
      recipe_read(d->w->ev, x->rows, 0, d->raw, (size_t)x->k * sizeof(float), err))
    return -1;
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t i = 0; i < x->k; i++) {
      double *v = &d->weight[j * x->k + i], *e = &d->error[j * x->k + i];
      if (!isfinite(*v) || !isfinite(*e)) {
        *v = *e = 0;
        bad++;
        continue;
      }
      *e = *v - *e;
      if (x->rows == NO_ID) continue;
      float s;
      memcpy(&s, d->raw + i * sizeof s, sizeof s);
      *e /= (double)s;
      *v /= (double)s;
    }
  x->nonfinite += bad;
  return 0;
}

static void add_tile(struct desk *d, const struct question *x, const double *panel, uint64_t n,
                     uint64_t r, uint64_t c, double *sums) {
  const size_t rows = (size_t)second_moments_side(x->k, r),
               depth = (size_t)second_moments_side(x->k, c);
  const struct kernels_products p = {.a = {d->tile, depth, 1, true},
                                     .b = {panel + c * SECOND_MOMENTS_SIDE, (size_t)x->k, 1, true},
                                     .rows = rows,
                                     .columns = (size_t)n,
                                     .depth = depth};
  memset(d->products, 0, (size_t)(rows * n) * sizeof *d->products);
  kernels_products(d->products, (size_t)n, &p, d->scratch);
  for (size_t l = 0; l < rows; l++)
    for (uint64_t j = 0; j < n; j++)
      sums[j] +=
          (r == c ? 1 : 2) * panel[j * x->k + r * SECOND_MOMENTS_SIDE + l] * d->products[l * n + j];
}

static int add_by_matrix(struct desk *d, struct question *x, uint64_t first, uint64_t n,
                         struct err *err) {
  for (uint64_t r = 0; r < second_moments_tiles(x->k); r++)
    for (uint64_t c = 0; c <= r; c++) {
      const uint64_t bytes =
          second_moments_side(x->k, r) * second_moments_side(x->k, c) * sizeof(double);
      if (measure_stopped(d->w))
        return err_set(err, ERR_RETRY, "interrupted while measuring weights");
      if (recipe_read(d->w->ev, x->by, second_moments_at(x->k, r, c) * sizeof(double), d->tile,
                      (size_t)bytes, err))
        return -1;
      add_tile(d, x, d->error, n, r, c, x->error + first);
      if (x->same_as == NO_ID) add_tile(d, x, d->weight, n, r, c, x->signal + first);
    }
  return 0;
}

static int add_by_diagonal(struct desk *d, struct question *x, uint64_t first, uint64_t n,
                           struct err *err) {
  float one = 0;
  if (x->one && recipe_read(d->w->ev, x->by, 0, &one, sizeof one, err)) return -1;
  if (!x->one) {
    const uint64_t channels = x->k / x->taps;
    struct eval_task *t =
        eval_begin(d->w->ev, x->by, 0, channels * sizeof(float), (struct eval_watcher){0});
    if (read_run(d, t, x->by, 0, channels, d->diagonal, err)) return -1;
  }
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t i = 0; i < x->k; i++) {
      const double v = d->weight[j * x->k + i], e = d->error[j * x->k + i];
      const double by = x->one ? (double)one : d->diagonal[i / x->taps];
      x->error[first + j] += by * e * e;
      x->signal[first + j] += by * v * v;
    }
  return 0;
}

static int weigh(struct desk *d, struct question *x, uint64_t first, uint64_t n, struct err *err) {
  if (read_panel(d, x, x->operand, first, n, d->weight, err) || read_stored(d, x, first, n, err) ||
      take_difference(d, x, n, err))
    return -1;
  for (uint64_t j = 0; j < n; j++)
    for (uint64_t i = 0; i < x->k; i++)
      x->plain[first + j] += d->weight[j * x->k + i] * d->weight[j * x->k + i];
  return x->gram ? add_by_matrix(d, x, first, n, err) : add_by_diagonal(d, x, first, n, err);
}

// ---- workers -----------------------------------------------------------------------------------

static struct question *question_of(const struct weighing *all, uint64_t item) {
  uint32_t behind;
  BISECT(behind, all->n, all->questions[behind].first_item <= item);
  return &all->questions[behind - 1];
}

static int work_items(struct desk *d, struct err *err) {
  for (uint64_t item; measure_next(d->w, &item);) {
    struct question *x = question_of(d->all, item);
    const uint64_t first = (item - x->first_item) * x->item_columns;
    const uint64_t n = min_u64(x->item_columns, x->columns - first);
    if (weigh(d, x, first, n, err)) return -1;
    measure_tell(d->w, d->w->r->rows[x->operand].bytes / x->columns * n);
  }
  return 0;
}

static int work(struct measure_worker *w, struct err *err) {
  const struct weighing *all = w->team->ctx;
  struct desk d = {.w = w, .all = all};
  uint64_t panel = 0, k = 0, columns = 0, packed = 1, wide = 0;
  for (const struct question *x = all->questions; x < all->questions + all->n; x++) {
    panel = max_u64(panel, x->item_columns * x->k);
    k = max_u64(k, x->k);
    columns = max_u64(columns, x->item_columns);
    if (x->stands != NO_ID) continue;
    const struct column_bytes b = column_bytes(w->r, x);
    packed = max_u64(packed, x->item_columns * (b.codes + b.scales + b.zeros));
    wide = max_u64(wide, 2 * b.blocks);
  }
  d.raw = resources_alloc((size_t)max_u64(PIECE * sizeof(double), k * sizeof(float)));
  d.packed = resources_alloc((size_t)packed);
  d.wide = resources_alloc((size_t)max_u64(wide, columns) * sizeof *d.wide);
  d.tile = resources_alloc(SECOND_MOMENTS_SIDE * SECOND_MOMENTS_SIDE * sizeof *d.tile);
  d.products = resources_alloc((size_t)(SECOND_MOMENTS_SIDE * columns) * sizeof *d.products);
  d.diagonal = resources_alloc((size_t)k * sizeof *d.diagonal);
  d.weight = resources_alloc((size_t)panel * sizeof *d.weight);
  d.error = resources_alloc((size_t)panel * sizeof *d.error);
  d.scratch = lines_new(KERNELS_PRODUCTS_SCRATCH);
  int rc = -1;
  if (d.raw && d.packed && d.wide && d.tile && d.products && d.diagonal && d.weight && d.error &&
      d.scratch)
    rc = work_items(&d, err);
  else
    err_errno(err, ENOMEM, ERR_NO_MEMORY, "no memory: columns of a weight need %s bytes",
              decimal(2 * panel * sizeof(double)).s),
        err_because(err, REASON_NO_MEMORY);
  resources_free(d.raw);
  resources_free(d.packed);
  resources_free(d.wide);
  resources_free(d.tile);
  resources_free(d.products);
  resources_free(d.diagonal);
  resources_free(d.weight);
  resources_free(d.error);
  lines_free(d.scratch);
  return rc;
}

// ---- all of it ---------------------------------------------------------------------------------

static double sum(const double *list, uint64_t n) {
  double all = 0;
  for (uint64_t i = 0; i < n; i++)
    all += list[i];
  return all;
}

static void conclude(const struct weighing *all, struct output_error *out) {
  for (uint32_t i = 0; i < all->n; i++) {
    const struct question *x = &all->questions[i];
    const double *signal = x->same_as == NO_ID ? x->signal : all->questions[x->same_as].signal;
    out[i] = (struct output_error){.signal = sum(signal, x->columns),
                                   .error = sum(x->error, x->columns),
                                   .plain = sum(x->plain, x->columns),
                                   .nonfinite = x->nonfinite};
  }
}

// Windows and tiles of a run are not needed here: their room is for panels.
static uint64_t item_bytes(const struct work_options *o) {
  const uint64_t memory = o->memory ? o->memory : WORK_DEFAULT_MEMORY;
  const uint64_t share = memory / (o->jobs ? o->jobs : threads_processors());
  return min_u64(max_u64(share / ITEM_PART, ITEM_LEAST), ITEM_BYTES);
}

int measure_weighed_run(struct recipes *r, struct sources *s, const struct measure_weighing *of,
                        uint32_t n, const struct work_options *options, struct eval_cache_file file,
                        struct output_error *out, struct measure_stats *stats, struct err *err) {
  struct arena arena = {0};
  struct weighing all = {.n = n};
  struct measure_team team = {
      .r = r, .sources = s, .o = options, .stats = stats, .file = file, .ctx = &all, .work = work};
  *stats = (struct measure_stats){0};
  all.questions = arena_alloc(&arena, (n + (size_t)1) * sizeof *all.questions);
  for (uint32_t i = 0; i < n; i++) {
    struct question *x = &all.questions[i];
    assert(measure_weighed_can(r, of[i].codes, of[i].by));
    prepare(r, &of[i], x);
    // With scaled rows the numbers are the weight's only up to rounding.
    if (i > 0 && x->gram && x->operand == x[-1].operand && x->by == x[-1].by &&
        x->rows == x[-1].rows && x->across == x[-1].across)
      x->same_as = x[-1].same_as == NO_ID ? i - 1 : x[-1].same_as;
    x->item_columns = min_u64(max_u64(item_bytes(options) / (2 * sizeof(double) * x->k), 1),
                              min_u64(ITEM_COLUMNS, x->columns));
    x->n_items = (x->columns - 1) / x->item_columns + 1;
    x->first_item = team.n_items;
    x->signal = arena_zalloc(&arena, (size_t)x->columns * sizeof *x->signal);
    x->error = arena_zalloc(&arena, (size_t)x->columns * sizeof *x->error);
    x->plain = arena_zalloc(&arena, (size_t)x->columns * sizeof *x->plain);
    team.n_items += x->n_items;
    team.bytes_total += r->rows[x->operand].bytes;
  }
  const int rc = measure_team_run(&team, err);
  if (rc == 0) conclude(&all, out);
  arena_free(&arena);
  return rc;
}
