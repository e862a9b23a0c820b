// Elements of a strided view whose operand lies in memory, written in the view's order. This is
// where transposes happen. A range of the view is cut at its axes into a partial row, whole rows
// and a partial row, down to lines along the last axis:
//
//   axes  0 … j … last          whole rows along j, the axis that is contiguous in memory, are a
//             └─ stride 1       matrix [last × j] there and [j × last] in the output: a call of the
//                               transpose kernel, repeated for the axes between j and last
//
// Lines that are contiguous in memory are copied; everything else (the ends of a range, negative
// steps) goes element by element.
#include "kernels/kernels.h"
#include "stream/eval/core/eval_parts.h"

#include <assert.h>

// One walk over a view: `inner[i]` elements lie behind one step of axis i.
struct gather {
  const struct eval_view *v;
  uint64_t inner[RECIPE_MAX_RANK];
  uint32_t width;
  uint32_t matrix_axis; // j above, or NO_ID
};

static inline __attribute__((always_inline)) void
copy_strided(uint8_t *out, const uint8_t *in, int64_t step, uint64_t count, size_t width) {
  for (uint64_t i = 0; i < count; i++)
    memcpy(out + i * width, in + (int64_t)i * step, width);
}

// `step` in bytes.
static void copy_line(uint8_t *out, const uint8_t *in, int64_t step, uint64_t count,
                      uint32_t width) {
  if (step == (int64_t)width) {
    memcpy(out, in, (size_t)count * width);
    return;
  }
  switch (width) {
  case 1: copy_strided(out, in, step, count, 1); break;
  case 2: copy_strided(out, in, step, count, 2); break;
  case 4: copy_strided(out, in, step, count, 4); break;
  case 8: copy_strided(out, in, step, count, 8); break;
  default: copy_strided(out, in, step, count, 16); break;
  }
}

// n whole rows along the matrix axis, from `in`: a transpose for every place on the axes between.
static void copy_matrices(const struct gather *g, const uint8_t *in, uint64_t n, uint8_t *out) {
  const struct eval_view *v = g->v;
  uint32_t j = g->matrix_axis, last = v->rank - 1;
  uint64_t c[RECIPE_MAX_RANK] = {0};
  size_t length = (size_t)v->dims[last], step = (size_t)v->strides[last];
  for (;;) {
    kernels_transpose(out, (size_t)g->inner[j], in, step, length, (size_t)n, g->width);
    out += length * g->width;
    uint32_t i = last - 1;
    for (; i > j; i--) {
      in += v->strides[i] * (int64_t)g->width;
      if (++c[i] < v->dims[i]) break;
      in -= (int64_t)v->dims[i] * v->strides[i] * (int64_t)g->width;
      c[i] = 0;
    }
    if (i <= j) return;
  }
}

// Elements [first, first + count) of what lies behind axes 0..axis-1, at `in`. As deep as the view
// has axes.
static void copy_range(const struct gather *g, uint32_t axis, const uint8_t *in, uint64_t first,
                       uint64_t count, uint8_t *out) {
  const struct eval_view *v = g->v;
  int64_t step = v->strides[axis] * (int64_t)g->width;
  uint64_t inner = g->inner[axis], width = g->width;
  if (axis == v->rank - 1) {
    copy_line(out, in + (int64_t)first * step, step, count, g->width);
    return;
  }
  in += (int64_t)(first / inner) * step;
  uint64_t skip = first % inner;
  if (skip) {
    uint64_t n = min_u64(inner - skip, count);
    copy_range(g, axis + 1, in, skip, n, out);
    in += step;
    out += n * width;
    count -= n;
  }
  uint64_t rows = count / inner;
  if (axis == g->matrix_axis && rows) {
    copy_matrices(g, in, rows, out);
    in += (int64_t)rows * step;
    out += rows * inner * width;
  }
  for (uint64_t i = 0; i < rows && axis != g->matrix_axis; i++) {
    copy_range(g, axis + 1, in, 0, inner, out);
    in += step;
    out += inner * width;
  }
  if (count % inner) copy_range(g, axis + 1, in, 0, count % inner, out);
}

void eval_gather(const struct eval_view *v, const uint8_t *data, uint32_t width, uint64_t first,
                 uint64_t count, uint8_t *out) {
  assert(range_fits(first, count, v->count));
  if (count == 0) return;
  struct gather g = {.v = v, .width = width, .matrix_axis = NO_ID};
  data += v->base * (int64_t)width;
  if (v->rank == 0) {
    memcpy(out, data, width);
    return;
  }
  uint64_t inner = 1;
  for (uint32_t i = v->rank; i-- > 0; inner *= v->dims[i]) {
    g.inner[i] = inner;
    if (i + 1 < v->rank && v->strides[i] == 1 && v->strides[v->rank - 1] > 1) g.matrix_axis = i;
  }
  copy_range(&g, 0, data, first, count, out);
}
