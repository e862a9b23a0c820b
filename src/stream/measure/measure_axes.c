// Which axis of a weight should have a scale a channel: every axis is tried at once.
//
//   first turn    elements ──▶ lowest and highest of every channel of every axis asked about
//                              scale = range / 255 (of no range: 1 / 255), zero = rint(-lowest / scale) - 128
//   second turn   elements ──▶ code = clamp(rint(v / scale) + zero, -128, 127)
//                              e = (code - zero) * scale - v
//
// This is no measurement of what would be stored (eval_affine_grid.c), but the comparison by which
// ONNX Shrink Ray 0.0.11 chooses an axis: there a channel of one value has an error, while it is
// stored exactly. By the errors of what is stored other axes would be chosen than that tool takes.
//
// Every operation is rounded to float (double for double weights), as NumPy does on arrays of that
// type; float16 is widened, where NumPy rounds to half and may overflow in the comparison. Sums are
// double, line by line in the order of storage, by one worker a weight: they depend on nobody else.
#include "stream/measure/inside/measure_parts.h"

#include "kernels/kernels.h"

#include <math.h>

enum { CHUNK = 16 << 10 }; // elements at a time

// One axis of an operand, as [outer, channels, inner].
struct axis {
  uint64_t channels, inner;
  double *lo, *scale, *zero; // by channel; lo: and `scale` the highest, in the first turn
  struct figures sum;
};

// Elements of an operand, as the arithmetic takes them.
struct reading {
  struct measure_worker *w;
  uint32_t of;
  enum dtype type;
  uint8_t *raw;   // CHUNK elements as they are stored
  float *floats;  // of float16
  double *values; // the same
};

static int read_chunk(struct reading *x, uint64_t first, size_t n, struct err *err) {
  const size_t width = dtype_bits(x->type) / 8;
  const void *raw = x->raw;
  if (recipe_read(x->w->ev, x->of, first * width, x->raw, n * width, err)) return -1;
  if (x->type == DTYPE_DOUBLE) {
    memcpy(x->values, raw, n * sizeof *x->values);
    return 0;
  }
  if (x->type == DTYPE_FLOAT16)
    kernels_f16_to_f32(x->floats, raw, n);
  else if (x->type == DTYPE_BFLOAT16)
    kernels_bf16_to_f32(x->floats, raw, n);
  kernels_f32_to_f64(x->values, x->type == DTYPE_FLOAT ? raw : x->floats, n);
  return 0;
}

// A value as the type of the arithmetic holds it.
static double rounded(enum dtype type, double v) {
  return type == DTYPE_DOUBLE ? v : (double)(float)v;
}

static void add_ranges(struct axis *x, const double *v, size_t n, uint64_t first) {
  for (size_t i = 0; i < n; i++) {
    const uint64_t c = (first + i) / x->inner % x->channels;
    if (v[i] < x->lo[c]) x->lo[c] = v[i];
    if (v[i] > x->scale[c]) x->scale[c] = v[i];
  }
}

static void find_scales(enum dtype type, struct axis *x) {
  for (uint64_t c = 0; c < x->channels; c++) {
    double range = rounded(type, x->scale[c] - x->lo[c]);
    if (range == 0) range = 1;
    x->scale[c] = rounded(type, range / 255);
    x->zero[c] = rounded(type, rint(rounded(type, -x->lo[c] / x->scale[c])) - 128);
  }
}

static void add_errors(enum dtype type, struct axis *x, const double *v, size_t n, uint64_t first) {
  struct figures *f = &x->sum;
  for (size_t i = 0; i < n; i++) {
    const uint64_t c = (first + i) / x->inner % x->channels;
    const double step = rounded(type, rint(rounded(type, v[i] / x->scale[c])) + x->zero[c]);
    const double code = step < -128 ? -128 : step > 127 ? 127 : step;
    const double back = rounded(type, rounded(type, code - x->zero[c]) * x->scale[c]);
    const double e = rounded(type, v[i] - back);
    f->vv += v[i] * v[i];
    f->ee += e * e;
    f->ve += v[i] * e;
    if (!(fabs(e) <= f->max_error)) f->max_error = fabs(e);
    if (!isfinite(v[i])) f->nonfinite++;
  }
  f->elements += n;
}

// One turn over the elements.
static int turn(struct reading *x, struct axis *axes, uint32_t n_axes, bool second,
                struct err *err) {
  const uint64_t count = x->w->r->rows[x->of].count;
  for (uint64_t first = 0; first < count; first += CHUNK) {
    const size_t n = (size_t)min_u64(CHUNK, count - first);
    if (measure_stopped(x->w))
      return err_set(err, ERR_RETRY, "interrupted while measuring weights");
    if (read_chunk(x, first, n, err)) return -1;
    for (struct axis *a = axes; a < axes + n_axes; a++) {
      if (second)
        add_errors(x->type, a, x->values, n, first);
      else
        add_ranges(a, x->values, n, first);
    }
    measure_tell(x->w, n * (dtype_bits(x->type) / 8));
  }
  return 0;
}

static struct axis axis_of(const struct recipes *r, uint32_t codes, struct arena *a) {
  const struct recipe *x = &r->rows[r->args[r->rows[codes].args]];
  const uint32_t axis = recipe_quantization_of(r, codes).axis;
  const uint64_t channels = x->count > 0 ? (uint64_t)r->longs[x->dims + axis] : 0;
  struct axis found = {.channels = channels, .inner = 1};
  for (uint32_t i = axis + 1; x->count > 0 && i < x->rank; i++)
    found.inner *= (uint64_t)r->longs[x->dims + i];
  found.lo = arena_alloc(a, 3 * channels * sizeof *found.lo + 1);
  found.scale = found.lo + channels;
  found.zero = found.scale + channels;
  for (uint64_t c = 0; c < channels; c++) {
    found.lo[c] = INFINITY;
    found.scale[c] = -INFINITY;
  }
  return found;
}

int measure_axes(struct measure_worker *w, const uint32_t *codes, uint32_t n, struct figures *out,
                 struct err *err) {
  struct arena arena = {0};
  struct axis *axes = arena_alloc(&arena, n * sizeof *axes);
  struct reading x = {.w = w,
                      .of = w->r->args[w->r->rows[codes[0]].args],
                      .raw = arena_alloc(&arena, CHUNK * sizeof(double)),
                      .floats = arena_alloc(&arena, CHUNK * sizeof *x.floats),
                      .values = arena_alloc(&arena, CHUNK * sizeof *x.values)};
  x.type = (enum dtype)w->r->rows[x.of].dtype;
  for (uint32_t i = 0; i < n; i++)
    axes[i] = axis_of(w->r, codes[i], &arena);
  int rc = turn(&x, axes, n, false, err);
  for (uint32_t i = 0; i < n && rc == 0; i++)
    find_scales(x.type, &axes[i]);
  if (rc == 0) rc = turn(&x, axes, n, true, err);
  for (uint32_t i = 0; i < n; i++)
    out[i] = axes[i].sum;
  arena_free(&arena);
  return rc;
}
