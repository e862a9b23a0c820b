//   sources ──load──▶ model ──passes──▶ edits ──plan──▶ bytes
//
// as a command does it, but for records, stages and weights: none of the passes that are asked about looks at weights to
// decide something. Whatever refuses the run makes it no prospect.
#include "pipeline/prospect.h"

#include "pipeline/pass_run.h"
#include "plan/plan.h"
#include "ranges/ranges.h"
#include "stream/load/load.h"

struct ahead {
  struct pipeline pipeline;
  struct model model;
  struct recipes recipes;
  struct edits edits;
  struct ranges ranges;
  struct arena arena;
  uint64_t sites;
};

static void count(void *ctx, const struct pass_site *site) {
  struct ahead *a = ctx;
  a->sites += strcmp(site->status, "converted") == 0;
}

// The values of a model that is loaded; what passes make has none, as in a file.
static void make_ranges(struct ahead *a) {
  const struct model *m = &a->model;
  for (uint32_t value = 0; value < m->n_values; value++) {
    struct ranges_value *v = m->values[value].kind == VALUE_INITIALIZER
                                 ? NULL
                                 : ranges_add(&a->ranges, model_value_name(m, value));
    if (!v) continue;
    v->type = DTYPE_FLOAT;
    v->least = -1;
    v->most = 1;
    v->elements = 1;
  }
}

static int give_ranges(void *ctx, const char *path, const struct ranges **out, struct err *err) {
  struct ahead *a = ctx;
  (void)path;
  (void)err;
  if (a->ranges.n_values == 0) make_ranges(a);
  *out = &a->ranges;
  return 0;
}

static int run_passes(struct ahead *a, const char *const *passes, struct err *err) {
  struct pass_run run = {.pipeline = &a->pipeline,
                         .env = {.m = &a->model,
                                 .edits = &a->edits,
                                 .site = count,
                                 .site_ctx = a,
                                 .files.ranges = give_ranges,
                                 .files.ctx = a}};
  for (uint32_t i = 0; i < PROSPECT_PASSES && passes[i]; i++)
    if (pipeline_add_text(&a->pipeline, passes[i], err)) return -1;
  return pass_run(&run, &a->arena, err);
}

static int plan(struct ahead *a, const char *onnx_name, uint64_t *bytes, struct err *err) {
  const struct plan_layout layout = {.onnx_name = onnx_name, .inline_below = 1024};
  struct plan p = {0};
  const int rc = plan_build(&p, &a->model, &a->recipes, &layout, err);
  if (rc == 0) *bytes = plan_total_bytes(&p);
  plan_free(&p);
  return rc;
}

bool prospect_of(struct sources *sources, const char *const passes[PROSPECT_PASSES],
                 const char *onnx_name, struct prospect *out) {
  struct ahead a = {.sites = 0};
  struct err err = {0};
  pipeline_init(&a.pipeline);
  model_init(&a.model);
  recipes_init(&a.recipes);
  edits_init(&a.edits, &a.model, &a.recipes);
  ranges_init(&a.ranges);
  *out = (struct prospect){0};
  int rc = load_model(&a.model, sources, NULL, &err);
  if (rc == 0) rc = run_passes(&a, passes, &err);
  if (rc == 0) rc = plan(&a, onnx_name, &out->bytes, &err);
  out->sites = a.sites;
  edits_free(&a.edits);
  recipes_free(&a.recipes);
  model_free(&a.model);
  pipeline_free(&a.pipeline);
  ranges_free(&a.ranges);
  arena_free(&a.arena);
  return rc == 0 && out->sites > 0;
}
