// Pieces of whole elements, converted where they are not floats; nothing of an array is kept.
#include "calibrate/calibrate_look.h"

#include "kernels/convert/kernels_convert.h"
#include "ranges/ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 }; // elements

int calibrate_look(const struct array *x,
                   int (*each)(void *ctx, const struct calibrate_piece *piece, struct err *err),
                   void *ctx, struct err *err) {
  const struct kernels_cast cast = {.from = (uint8_t)x->dtype, .to = DTYPE_FLOAT};
  const size_t width = dtype_bits(x->dtype) / 8;
  struct arena a = {0};
  uint8_t *raw = arena_alloc(&a, PIECE * width);
  float *floats = x->dtype == DTYPE_FLOAT ? NULL : arena_alloc(&a, PIECE * sizeof *floats);
  int rc = 0;
  for (uint64_t at = 0; at < x->count && rc == 0; at += PIECE) {
    const size_t n = (size_t)min_u64(PIECE, x->count - at);
    rc = array_read(x, at * width, raw, n * width, err);
    if (rc) break;
    if (floats) kernels_convert(floats, raw, n, &cast);
    rc = each(ctx,
              &(struct calibrate_piece){
                  .at = floats ? floats : (const float *)(void *)raw, .n = n, .first = at},
              err);
  }
  arena_free(&a);
  return rc;
}

bool calibrate_along(const struct array *x, int32_t axis, struct calibrate_along *out) {
  const int64_t k = axis < 0 ? axis + (int64_t)x->rank : axis;
  *out = (struct calibrate_along){1, 1, 0};
  if (k < 0 || k >= (int64_t)x->rank || x->dims[k] > RANGES_MOST_CHANNELS) return false;
  for (int64_t i = 0; i < k; i++)
    out->outer *= (uint64_t)x->dims[i];
  for (int64_t i = k + 1; i < (int64_t)x->rank; i++)
    out->inner *= (uint64_t)x->dims[i];
  out->channels = (uint32_t)x->dims[k];
  return true;
}

struct extremes {
  struct kernels_extremes *out;
  struct calibrate_along along;
  float *least, *most;
};

static int see_piece(void *ctx, const struct calibrate_piece *p, struct err *err) {
  const struct extremes *e = ctx;
  (void)err;
  kernels_tally_extremes(e->out, DTYPE_FLOAT, p->at, p->n);
  for (size_t i = 0; e->least && i < p->n; i++) {
    const uint64_t channel = (p->first + i) / e->along.inner % e->along.channels;
    if (p->at[i] < e->least[channel]) e->least[channel] = p->at[i];
    if (p->at[i] > e->most[channel]) e->most[channel] = p->at[i];
  }
  return 0;
}

int calibrate_look_extremes(const struct array *x, int32_t axis, struct kernels_extremes *out,
                            float *least, float *most, struct err *err) {
  struct extremes e = {.out = out, .least = least, .most = most};
  if (least && !calibrate_along(x, axis, &e.along)) e.least = NULL;
  for (uint32_t i = 0; e.least && i < e.along.channels; i++) {
    least[i] = INFINITY;
    most[i] = -INFINITY;
  }
  return calibrate_look(x, see_piece, &e, err);
}
