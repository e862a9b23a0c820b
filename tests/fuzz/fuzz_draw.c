// Inputs for models that are made of bytes (made_model.h): whatever the model says, sizes are found in a bounded time,
// and every value of which something small can be drawn gets as many elements as it has, all of them of its type.
#include "made_model.h"
#include "verify/draw/draw.h"
#include "verify/draw/inside/draw_parts.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ELEMENTS = 1 << 14 };

static void demand(bool holds) {
  if (!holds) abort();
}

static void draw_one(struct draw *d, uint32_t value, struct arena *a) {
  int64_t dims[ARRAY_MAX_RANK];
  uint32_t rank;
  uint64_t count;
  struct array x;
  char why[256] = "";
  if (draw_dims(d, value, dims, &rank) && (!dims_product(dims, rank, &count) || count > ELEMENTS))
    return;
  if (draw_value(d, value, NULL, 0, a, &x, why) == DRAW_CANNOT) {
    demand(why[0]);
    return;
  }
  demand(x.rank == rank && x.count == count && x.kind == ARRAY_TENSOR);
  for (uint64_t i = 0; x.dtype == DTYPE_BOOL && i < x.count; i++)
    demand(x.at[i] < 2);
}

static void draw_from(const struct model *m, struct infer *in) {
  const struct draw_options o = {.seed = 1};
  struct arena a = {0};
  struct draw *d;
  struct err err = {0};
  if (draw_open(&d, in, m, &o, &err) < 0) return;
  for (uint32_t value = 0; value < m->n_values; value++)
    if (!(m->values[value].flags & VALUE_DEAD)) draw_one(d, value, &a);
  demand(draw_words(d, &a) != NULL);
  draw_close(d);
  arena_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 4096 || (size > 1 && data[0] == 8 && data[1] < 32)) return 0;
  struct made_bytes in = {data, data + size};
  struct model m;
  made_choose(&in, 24);
  made_model(&m, &in, false);
  struct infer *known = infer_new(&m, NULL);
  infer_all(known, NULL);
  draw_from(&m, known);
  infer_free(known);
  model_free(&m);
  return 0;
}
