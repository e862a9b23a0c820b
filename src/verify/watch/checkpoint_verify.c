// Steps of `verify`: the whole model as it is there, beside the source or beside the outputs that are expected.
//
//   VerifyEquality    equal outputs
//   VerifyTolerance   the tolerance of the pipeline, else what whole models are judged by
//   VerifyMetric      the metrics of the pipeline
//
// A model before any edit is the source, one behind all edits is the output: neither is written again. In rounds that changed
// nothing since the last time a step is not looked at again. Before an import that a runtime needs nothing is (verify_import.h).
#include "verify/watch/checkpoints.h"

#include "verify/sites/verify_import.h"

static int compare(const struct checkpoints *points, struct execution *exec, struct verify *v,
                   const struct checkpoint *row, const char *source, const char *model,
                   struct err *err) {
  const struct pipeline *p = points->pipeline;
  const enum pipeline_point kind = pipeline_point_of(p, row->step);
  const struct compare_bounds kept = v->options.bounds;
  const char *kept_words = v->options.bounds_words;
  struct arena *a = &v->found.arena;
  if (kind == POINT_EQUALITY) {
    v->options.bounds = compare_nothing();
    v->options.bounds.equal = v->options.bounds.zeros_equal = true;
    v->options.bounds_words = "equal except for the sign of zeros";
  } else if (kind == POINT_TOLERANCE && !kept_words && p->tolerance.rtol >= 0) {
    v->options.bounds = p->tolerance;
    v->options.bounds_words = verify_bounds_words(&p->tolerance, a);
  }
  const bool loses = v->loses;
  v->loses = verify_groups_lose(&v->options, exec->edits.groups, row->group);
  v->step = p->steps[row->step].values.pass->name;
  v->step_number = row->step + 1;
  v->unexpected = kind != POINT_TOLERANCE;
  v->metrics = kind == POINT_METRIC ? VERIFY_METRICS_ALONE : VERIFY_NO_METRICS;
  const int rc = verify_models(v, source, model, exec->request->allow_links, err);
  v->loses = loses;
  v->unexpected = false;
  v->step = NULL;
  v->step_number = 0;
  v->metrics = VERIFY_METRICS_TOO;
  v->options.bounds = kept;
  v->options.bounds_words = kept_words;
  return rc;
}

// Was the same model looked at in the same way before?
static bool is_known(const struct checkpoints *p, uint32_t i) {
  const enum pipeline_point kind = pipeline_point_of(p->pipeline, p->rows[i].step);
  for (uint32_t k = i; k-- > 0 && p->rows[k].group == p->rows[i].group;)
    if (pipeline_point_of(p->pipeline, p->rows[k].step) == kind) return true;
  return false;
}

static bool is_wanted(const struct checkpoints *p, uint32_t i) {
  const uint32_t step = p->rows[i].step;
  const enum pipeline_point kind = pipeline_point_of(p->pipeline, step);
  if (!kind || p->pipeline->steps[step].verify.proof == PIPELINE_PROOF_OFF) return false;
  if (kind == POINT_METRIC && !verify_has_metrics(p->pipeline)) return false;
  return !is_known(p, i);
}

// There is nothing to compare yet, and where the import ends nothing but the model itself.
static bool is_before_import(const struct verify *v, const struct checkpoints *p, uint32_t i) {
  const uint32_t group = p->rows[i].group;
  if (!v->import || group > v->import->groups) return false;
  return group < v->import->groups ||
         pipeline_point_of(p->pipeline, p->rows[i].step) != POINT_METRIC;
}

int checkpoints_verify(const struct checkpoints *p, struct execution *exec, struct verify *v,
                       const char *source, const char *result, struct err *err) {
  const struct checkpoint_source from = {exec->request,     exec->in_path, p->log_path,
                                         v->options.memory, NULL,          NULL};
  struct arena a = {0};
  int rc = 0;
  for (uint32_t i = 0; i < p->n_rows && rc == 0 && v->found.n_failed == 0; i++) {
    struct checkpoint_model model = {.path = exec->in_path};
    const uint32_t group = p->rows[i].group;
    if (!is_wanted(p, i) || is_before_import(v, p, i)) continue;
    if (group == exec->edits.group)
      model.path = result;
    else if (group > 0 && !file_is_open(p->log))
      rc = err_set(err, ERR_IO, "the edits could not be stored in the folder for temporary files");
    else if (group > 0)
      rc = checkpoint_model_write(&from, group, v->scratch, v->scratch_at, "point.onnx", &model, &a,
                                  err);
    if (rc == 0) rc = compare(p, exec, v, &p->rows[i], source, model.path, err);
    checkpoint_model_remove(v->scratch_at, &model);
  }
  arena_free(&a);
  return rc;
}
