// Two models, loaded one after the other; what their data files lack is told, not fatal, where
// weights are not asked for.
#include "compare/diffing.h"

#include "stream/load/load.h"
#include "stream/staging/unfinished.h"

#include <stdio.h>

static int read_onnx(void *ctx, uint32_t side, uint64_t off, void *buf, size_t n, struct err *err) {
  struct diffing *x = ctx;
  return sources_read(x->side[side].sources, 0, off, buf, n, err);
}

static int load_side(struct diffing *x, uint32_t side, struct err *err) {
  struct diffing_model *m = &x->side[side];
  const struct sources_options options = {.allow_links = x->allow_links};
  const struct load_options load = {.no_matter_the_data = x->weights == WEIGHTS_NONE};
  model_init(&m->model);
  recipes_init(&m->recipes);
  edits_init(&m->edits, &m->model, &m->recipes);
  m->loaded = true;
  if (sources_open(&m->sources, m->path, &options, err)) return -1;
  if (load_model(&m->model, m->sources, &load, err)) {
    (void)unfinished_explains(m->path, err);
    if (err->kind == ERR_INPUT && err->reason == REASON_NONE) {
      const size_t n = strlen(err->hint);
      snprintf(err->hint + n, sizeof err->hint - n,
               "%s--weights none compares the structure without the data files", n ? "; " : "");
    }
    return -1;
  }
  for (uint32_t f = 0; f < sources_count(m->sources); f++) {
    m->bytes += sources_size(m->sources, f);
    m->absent |= sources_is_absent(m->sources, f);
  }
  return 0;
}

int diffing_load(struct diffing *x, struct err *err) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    if (load_side(x, s, err)) return -1;
  x->d.read = read_onnx;
  x->d.ctx = x;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    x->d.m[s] = &x->side[s].model;
  return 0;
}

void diffing_done(struct diffing *x) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    struct diffing_model *m = &x->side[s];
    if (!m->loaded) continue;
    edits_free(&m->edits);
    recipes_free(&m->recipes);
    model_free(&m->model);
    if (m->sources) sources_close(m->sources);
  }
  diff_done(&x->d);
  TABLE_FREE(x, rows);
  arena_free(&x->arena);
}
