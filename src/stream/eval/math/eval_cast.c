// Casts between number types, a stretch of scratch at a time:
//
//   operand ──▶ │ scratch │ ──▶ convert ──▶ (clip) ──▶ out
//                                              └──▶ error figures, or a look for new infinities
//
// Among float32, float16, bfloat16 and double a finite element that the type cannot hold becomes
// infinite, or with a cast that clips the largest value; where nobody is told how many there were, it
// may be refused (eval_refuse_overflow).
//
// All other casts are those of ONNX's Cast node (kernels_convert.h), without figures. Where ONNX leaves
// open what an element becomes, the node and this recipe could differ: such an element is refused.
#include "kernels/convert/kernels_convert.h"
#include "stream/eval/core/eval_figures.h"
#include "stream/eval/math/eval_math.h"

#include <assert.h>
#include <float.h>
#include <math.h>

// One stretch of a conversion; `in` has the elements as they were. What has no kernel of its own
// widens first, exactly.
static void convert(uint8_t *out, uint8_t *in, size_t n, enum dtype from, enum dtype to) {
  void *y = out, *x = in;
  float wide[EVAL_SCRATCH_BYTES / 2];
  if ((from == DTYPE_FLOAT16 || from == DTYPE_BFLOAT16) && to != DTYPE_FLOAT) {
    assert(n <= sizeof wide / sizeof *wide);
    if (from == DTYPE_FLOAT16)
      kernels_f16_to_f32(wide, x, n);
    else
      kernels_bf16_to_f32(wide, x, n);
    x = wide;
    from = DTYPE_FLOAT;
  }
  if (from == DTYPE_FLOAT16)
    kernels_f16_to_f32(y, x, n);
  else if (from == DTYPE_BFLOAT16)
    kernels_bf16_to_f32(y, x, n);
  else if (from == DTYPE_FLOAT && to == DTYPE_FLOAT16)
    kernels_f32_to_f16(y, x, n);
  else if (from == DTYPE_FLOAT && to == DTYPE_BFLOAT16)
    kernels_f32_to_bf16(y, x, n);
  else if (from == DTYPE_FLOAT)
    kernels_f32_to_f64(y, x, n);
  else if (to == DTYPE_FLOAT)
    kernels_f64_to_f32(y, x, n);
  else if (to == DTYPE_FLOAT16)
    kernels_f64_to_f16(y, x, n);
  else
    kernels_f64_to_bf16(y, x, n);
}

static double element_of(enum dtype type, const uint8_t *at) {
  double x;
  eval_figures_widen(type, at, 1, &x);
  return x;
}

static bool is_infinite_half(const uint8_t *at, enum dtype type) {
  uint16_t half;
  memcpy(&half, at, sizeof half);
  return (half & 0x7fff) == (type == DTYPE_FLOAT16 ? 0x7c00 : 0x7f80);
}

// The largest finite value in place of infinities that finite elements became, with their sign.
static void clip_to_finite(uint8_t *out, const uint8_t *in, size_t n, enum dtype from,
                           enum dtype to) {
  const uint32_t width = dtype_bits(to) / 8, wide = dtype_bits(from) / 8;
  const float most = FLT_MAX;
  for (size_t i = 0; i < n && width < 8; i++) {
    uint8_t *y = out + i * width;
    if (width == 2 ? !is_infinite_half(y, to) : !isinf(element_of(to, y))) continue;
    const double x = element_of(from, in + i * wide);
    if (!isfinite(x)) continue;
    const float signed_most = x < 0 ? -most : most;
    const uint16_t half =
        (uint16_t)((to == DTYPE_FLOAT16 ? 0x7bff : 0x7f7f) | (x < 0 ? 0x8000 : 0));
    memcpy(y, width == 2 ? (const void *)&half : &signed_most, width);
  }
}

// `first`: which element of the tensor the stretch begins with.
static int check_overflow(const uint8_t *out, const uint8_t *in, size_t n, enum dtype from,
                          enum dtype to, uint64_t first, struct err *err) {
  const uint32_t width = dtype_bits(to) / 8, wide = dtype_bits(from) / 8;
  if (to == DTYPE_DOUBLE) return 0;
  for (size_t i = 0; i < n; i++) {
    if (width == 2 ? !is_infinite_half(out + i * width, to)
                   : !isinf(element_of(to, out + i * width)))
      continue;
    const double x = element_of(from, in + i * wide);
    if (!isfinite(x)) continue;
    err_fill(err, ERR_FAIL, "element %s is %g, which %s cannot represent: it would become infinite",
             decimal(first + i).s, x, dtype_name(to));
    return to == DTYPE_FLOAT16 ? err_because(err, REASON_OVERFLOW_HALF)
                               : err_because(err, REASON_OVERFLOW);
  }
  return 0;
}

// What ONNX leaves open is among n elements: says which the first such is.
static int refuse_open(const struct kernels_cast *c, const uint8_t *in, uint64_t first, size_t n,
                       struct err *err) {
  const struct kernels_cast widen = {.from = c->from, .to = DTYPE_DOUBLE};
  const uint32_t bits = dtype_bits((enum dtype)c->from), width = bits < 8 ? 1 : bits / 8;
  uint8_t one[16];
  double x = 0;
  size_t i = 0;
  while (i + 1 < n && kernels_convert(one, in + i * width, 1, c) == 0)
    i++;
  kernels_convert(&x, in + i * width, 1, &widen);
  err_fill(err, ERR_FAIL, "element %s is %g: ONNX does not define its Cast from %s to %s",
           decimal(first + i).s, x, dtype_name((enum dtype)c->from), dtype_name((enum dtype)c->to));
  return err_hint(err, "leave this Cast node in the model");
}

static int convert_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                            uint8_t *out, struct err *err) {
  const uint32_t of = t->r->args[t->r->rows[id].args];
  const struct recipe_conversion q = recipe_conversion_of(t->r, id);
  const struct kernels_cast c = {.from = t->r->rows[of].dtype,
                                 .to = (uint8_t)q.to,
                                 .saturate = q.saturates,
                                 .round = (uint8_t)q.round};
  const uint64_t step = EVAL_SCRATCH_BYTES / eval_width(t->r, of);
  uint8_t *scratch = eval_scratch(t->ev);
  while (count > 0) {
    const uint64_t n = min_u64(count, step);
    if (eval_elements(t, of, first, n, scratch, err) != 0) return -1;
    if (kernels_convert(out, scratch, (size_t)n, &c) > 0)
      return refuse_open(&c, scratch, first, (size_t)n, err);
    first += n;
    count -= n;
    out += n * eval_width(t->r, id);
  }
  return 0;
}

// Elements of one chunk whose rounding is infinite, which stay at the largest value.
static void count_clipped(struct eval_task *t, uint64_t first, const double *v, size_t n,
                          enum dtype to) {
  struct eval_chunks *c = &t->chunks;
  const double bound = to == DTYPE_FLOAT16    ? 65520
                       : to == DTYPE_BFLOAT16 ? 0x1.ffp127
                                              : 0x1.ffffffp127;
  for (size_t i = (size_t)(c->next - first); i < n && first + i < c->end; i++)
    c->sums.overflows += to != DTYPE_DOUBLE && isfinite(v[i]) && fabs(v[i]) >= bound;
}

// Takes what is wanted of n elements, before and after.
static int tell_figures(struct eval_task *t, uint32_t id, uint64_t first, const uint8_t *in,
                        const uint8_t *out, size_t n, struct err *err) {
  const enum dtype to = (enum dtype)t->r->rows[id].dtype;
  const enum dtype from = (enum dtype)t->r->rows[t->r->args[t->r->rows[id].args]].dtype;
  const bool clips = recipe_cast_clips(t->r, id);
  double v[EVAL_PAIRS], w[EVAL_PAIRS];
  for (size_t i = 0, m; i < n; i += m) {
    m = (size_t)min_u64(min_u64(EVAL_PAIRS, n - i), EVAL_CHUNK - (first + i) % EVAL_CHUNK);
    if (!eval_figures_wants(t, id, first + i, m)) continue;
    eval_figures_widen(from, in + i * (dtype_bits(from) / 8), m, v);
    eval_figures_widen(to, out + i * (dtype_bits(to) / 8), m, w);
    if (clips) count_clipped(t, first + i, v, m, to);
    if (eval_figures_add(t, first + i, v, w, m, err) != 0) return -1;
  }
  return 0;
}

int eval_cast_elements(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                       uint8_t *out, struct err *err) {
  uint32_t of = t->r->args[t->r->rows[id].args];
  enum dtype from = (enum dtype)t->r->rows[of].dtype, to = (enum dtype)t->r->rows[id].dtype;
  if (!recipe_can_cast(from, to)) return convert_elements(t, id, first, count, out, err);
  uint32_t width = eval_width(t->r, id);
  uint64_t step = EVAL_SCRATCH_BYTES / eval_width(t->r, of);
  uint8_t *scratch = eval_scratch(t->ev);
  const bool clips = recipe_cast_clips(t->r, id);
  while (count > 0) {
    uint64_t n = min_u64(count, step);
    if (eval_elements(t, of, first, n, scratch, err) != 0) return -1;
    convert(out, scratch, (size_t)n, from, to);
    if (clips) clip_to_finite(out, scratch, (size_t)n, from, to);
    if (eval_figures_watches(t, id)) {
      if (tell_figures(t, id, first, scratch, out, (size_t)n, err) != 0) return -1;
    } else if (t->ev->refuses_overflow &&
               check_overflow(out, scratch, (size_t)n, from, to, first, err) != 0) {
      return -1;
    }
    first += n;
    count -= n;
    out += n * width;
  }
  return 0;
}
