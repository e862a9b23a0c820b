// Which axis of a weight should have a scale a channel: every axis is tried at once.
//
//   first turn    elements ──▶ lowest and highest of every channel of every axis asked about
//                              scale = range / 255 (of no range: 1 / 255), zero = rint(-lowest / scale) - 128
//   second turn   elements ──▶ code = clamp(rint(v / scale) + zero, -128, 127)
//                              e = (code - zero) * scale - v
//
// Every operation is rounded to float (double for double weights), as NumPy does on arrays of that
// type; float16 is widened, where NumPy rounds to half and may overflow in the comparison. Sums are
// double, line by line in the order of storage, by one worker a weight: they depend on nobody else.
#include "measure_axes.h"

#include "kernels.h"
#include "measure_reader.h"

#include <assert.h>
#include <math.h>

enum { CHUNK = 16 << 10 }; // elements at a time

// One axis of an operand, as [outer, channels, inner].
struct axis {
  uint32_t out; // index in the caller's list
  uint64_t channels, inner;
  double *lo, *scale, *zero; // by channel; lo: and `scale` the highest, in the first turn
  struct figures sum;
};

struct operand {
  uint32_t recipe, n_axes;
  struct axis *axes;
};

struct measuring {
  const struct recipes *r;
  struct operand *operands;
  uint32_t n_operands;
};

bool measure_axes_can(const struct recipes *r, uint32_t codes) {
  uint32_t id;
  if (!measure_reader_codes(r, codes, &id)) return false;
  const struct recipe_quantization q = recipe_quantization_of(r, id);
  return q.format == FORMAT_SHRINK && q.axis != RECIPE_PER_TENSOR;
}

// ---- a worker ----------------------------------------------------------------------------------

struct worker {
  struct measure_reader *rd;
  const struct recipes *r;
  uint8_t *raw;   // CHUNK elements as they are stored
  double *values; // the same
  float *floats;  // of float16
  bool is_double;
};

static int read_chunk(struct worker *w, uint32_t recipe, uint64_t first, size_t n,
                      struct err *err) {
  const enum dtype dtype = (enum dtype)w->r->rows[recipe].dtype;
  const size_t width = dtype_bits(dtype) / 8;
  if (recipe_read(w->rd->ev, recipe, first * width, w->raw, n * width, err)) return -1;
  w->is_double = dtype == DTYPE_DOUBLE;
  if (w->is_double) {
    memcpy(w->values, w->raw, n * sizeof *w->values);
    return 0;
  }
  const float *floats = (const float *)(const void *)w->raw;
  if (dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16) {
    const uint16_t *halfs = (const uint16_t *)(const void *)w->raw;
    if (dtype == DTYPE_FLOAT16)
      kernels_f16_to_f32(w->floats, halfs, n);
    else
      kernels_bf16_to_f32(w->floats, halfs, n);
    floats = w->floats;
  }
  kernels_f32_to_f64(w->values, floats, n);
  return 0;
}

// A value as the type of the arithmetic holds it.
static double rounded(const struct worker *w, double x) {
  return w->is_double ? x : (double)(float)x;
}

static void add_ranges(struct axis *x, const double *v, size_t n, uint64_t first) {
  for (size_t i = 0; i < n; i++) {
    const uint64_t c = (first + i) / x->inner % x->channels;
    if (v[i] < x->lo[c]) x->lo[c] = v[i];
    if (v[i] > x->scale[c]) x->scale[c] = v[i];
  }
}

static void find_scales(const struct worker *w, struct axis *x) {
  for (uint64_t c = 0; c < x->channels; c++) {
    double range = rounded(w, x->scale[c] - x->lo[c]);
    if (range == 0) range = 1;
    x->scale[c] = rounded(w, range / 255);
    x->zero[c] = rounded(w, rint(rounded(w, -x->lo[c] / x->scale[c])) - 128);
  }
}

static void add_errors(const struct worker *w, struct axis *x, const double *v, size_t n,
                       uint64_t first) {
  struct figures *f = &x->sum;
  for (size_t i = 0; i < n; i++) {
    const uint64_t c = (first + i) / x->inner % x->channels;
    const double step = rounded(w, rint(rounded(w, v[i] / x->scale[c])) + x->zero[c]);
    const double code = step < -128 ? -128 : step > 127 ? 127 : step;
    const double back = rounded(w, rounded(w, code - x->zero[c]) * x->scale[c]);
    const double e = rounded(w, v[i] - back);
    f->vv += v[i] * v[i];
    f->ee += e * e;
    f->ve += v[i] * e;
    if (!(fabs(e) <= f->max_error)) f->max_error = fabs(e);
    if (!isfinite(v[i])) f->nonfinite++;
  }
  f->elements += n;
}

// One turn over the elements. 1: told to stop.
static int turn(struct worker *w, const struct operand *x, bool second, struct err *err) {
  const uint64_t count = w->r->rows[x->recipe].count;
  for (uint64_t first = 0; first < count; first += CHUNK) {
    const size_t n = (size_t)min_u64(CHUNK, count - first);
    if (measure_reader_stopped(w->rd)) return 1;
    if (read_chunk(w, x->recipe, first, n, err)) return -1;
    for (struct axis *a = x->axes; a < x->axes + x->n_axes; a++) {
      if (second)
        add_errors(w, a, w->values, n, first);
      else
        add_ranges(a, w->values, n, first);
    }
    measure_reader_tell(w->rd, n * (dtype_bits((enum dtype)w->r->rows[x->recipe].dtype) / 8));
  }
  return 0;
}

static int measure_operand(struct worker *w, const struct operand *x, struct err *err) {
  struct arena ranges = {0};
  for (struct axis *a = x->axes; a < x->axes + x->n_axes; a++) {
    a->lo = arena_alloc(&ranges, 3 * a->channels * sizeof *a->lo);
    a->scale = a->lo + a->channels;
    a->zero = a->scale + a->channels;
    for (uint64_t c = 0; c < a->channels; c++) {
      a->lo[c] = INFINITY;
      a->scale[c] = -INFINITY;
    }
  }
  int rc = turn(w, x, false, err);
  for (struct axis *a = x->axes; rc == 0 && a < x->axes + x->n_axes; a++)
    find_scales(w, a);
  if (rc == 0) rc = turn(w, x, true, err);
  arena_free(&ranges);
  return rc;
}

static int work(struct measure_reader *rd, struct err *err) {
  const struct measuring *m = rd->team->ctx;
  struct worker w = {.rd = rd,
                     .r = m->r,
                     .raw = arena_alloc(&rd->arena, CHUNK * sizeof(double)),
                     .values = arena_alloc(&rd->arena, CHUNK * sizeof *w.values),
                     .floats = arena_alloc(&rd->arena, CHUNK * sizeof *w.floats)};
  uint64_t item;
  while (measure_reader_next(rd, &item)) {
    const int rc = measure_operand(&w, &m->operands[item], err);
    if (rc) return rc < 0 ? -1 : 0;
  }
  return 0;
}

// ---- all of it ---------------------------------------------------------------------------------

static struct axis axis_of(const struct recipes *r, uint32_t row, uint32_t out) {
  const struct recipe *x = &r->rows[r->args[r->rows[row].args]];
  const uint32_t axis = recipe_quantization_of(r, row).axis;
  struct axis a = {.out = out, .channels = (uint64_t)r->longs[x->dims + axis], .inner = 1};
  for (uint32_t i = axis + 1; x->count > 0 && i < x->rank; i++)
    a.inner *= (uint64_t)r->longs[x->dims + i];
  if (x->count == 0) a.channels = 0;
  return a;
}

static struct operand *operand_for(struct measuring *m, uint32_t recipe, uint32_t most,
                                   struct arena *a) {
  // Questions about one operand come together.
  struct operand *last = m->n_operands ? &m->operands[m->n_operands - 1] : NULL;
  if (last && last->recipe == recipe) return last;
  m->operands[m->n_operands] =
      (struct operand){.recipe = recipe, .axes = arena_alloc(a, most * sizeof(struct axis))};
  return &m->operands[m->n_operands++];
}

static uint32_t row_of(const struct recipes *r, uint32_t codes) {
  uint32_t row;
  const bool is = measure_reader_codes(r, codes, &row);
  assert(is);
  return row;
}

static void gather(struct measuring *m, const uint32_t *codes, uint32_t n, struct arena *a) {
  const struct recipes *r = m->r;
  m->operands = arena_alloc(a, (n + (size_t)1) * sizeof *m->operands);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t row = row_of(r, codes[i]), of = r->args[r->rows[row].args];
    uint32_t same = 1;
    while (i + same < n && r->args[r->rows[row_of(r, codes[i + same])].args] == of)
      same++;
    struct operand *x = operand_for(m, of, same, a);
    x->axes[x->n_axes++] = axis_of(r, row, i);
  }
}

static void conclude(const struct measuring *m, struct figures *out) {
  for (uint32_t i = 0; i < m->n_operands; i++)
    for (uint32_t k = 0; k < m->operands[i].n_axes; k++)
      out[m->operands[i].axes[k].out] = m->operands[i].axes[k].sum;
}

int measure_axes_run(const struct recipes *r, struct sources *s, const uint32_t *codes, uint32_t n,
                     const struct work_options *options, struct figures *out,
                     struct measure_stats *stats, struct err *err) {
  struct arena arena = {0};
  struct measuring m = {.r = r};
  struct measure_reader_team team = {
      .r = r, .sources = s, .o = options, .stats = stats, .ctx = &m, .work = work};
  gather(&m, codes, n, &arena);
  team.n_items = m.n_operands;
  for (uint32_t i = 0; i < m.n_operands; i++)
    team.bytes_total += 2 * r->rows[m.operands[i].recipe].bytes;
  const int rc = measure_reader_run(&team, err);
  if (rc == 0) conclude(&m, out);
  arena_free(&arena);
  return rc;
}
