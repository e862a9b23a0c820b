// The edits of a run are groups in a row, and each has the name of its pass:
//
//   groups   1 2 3 │ 4 5 │ 6 … 19 │       the log, replayed up to 3, 5, 19
//   pass     tidy  │ fuse│ quantize       source ~ model 3, model 3 ~ model 5, model 5 ~ model 19
//
// Every such model is written into the folder for temporary files, and removed when the next one was compared with it. The last
// one is the output itself.
#include "verify_steps.h"

#include "verify_import.h"

#include <string.h>

bool verify_steps_wanted(const struct verify *v) {
  const struct pipeline *p = v->options.pipeline;
  return p && p->verify_models && pipeline_verifies(p) &&
         (v->options.scope & VERIFY_ALL) == VERIFY_MODEL;
}

// By the bounds of the pass; what it promises is judged as whole models are.
static int compare(const struct verify_steps *s, const char *pass, bool loses, const char *before,
                   const char *after, struct err *err) {
  struct verify *v = s->v;
  struct verify_bounds how;
  const struct compare_bounds kept = v->options.bounds;
  const char *kept_words = v->options.bounds_words;
  if (!kept_words &&
      verify_proof_of(&v->options, &pass, 1, &how, &v->found.arena) == PIPELINE_PROOF_BOUNDS) {
    v->options.bounds = how.bounds;
    v->options.bounds_words = how.words;
  }
  v->step = pass;
  v->loses = loses;
  v->metrics = VERIFY_NO_METRICS;
  v->unexpected = after != s->result;
  const int rc = verify_models(v, before, after, s->request->allow_links, err);
  v->step = NULL;
  v->unexpected = false;
  v->metrics = VERIFY_METRICS_TOO;
  v->options.bounds = kept;
  v->options.bounds_words = kept_words;
  return rc;
}

int verify_steps_run(const struct verify_steps *s, struct err *err) {
  const struct edit_groups *g = s->groups;
  struct verify *v = s->v;
  struct arena a = {0};
  const struct checkpoint_source from = {s->request, s->model, s->log, v->options.memory, NULL, NULL};
  struct checkpoint_model before = {.path = v->import ? v->import->model.path : s->model}, after;
  const uint32_t imported = v->import ? v->import->groups - g->first : 0;
  bool loses = false; // a group since `before`
  int rc = 0;
  if (!s->log)
    return err_set(err, ERR_IO, "the edits could not be stored in '%s'", quote_path(v->scratch).s);
  for (uint32_t i = imported, odd = 0; i < g->n_rows && rc == 0 && v->found.n_failed == 0; i++) {
    const char *pass = g->rows[i].pass;
    const bool last = i + 1 == g->n_rows || strcmp(g->rows[i + 1].pass, pass) != 0;
    loses = loses || verify_group_loses(&g->rows[i]);
    if (!last) continue;
    after = (struct checkpoint_model){.path = s->result};
    if (i + 1 < g->n_rows)
      rc = checkpoint_model_write(&from, g->first + i + 1, v->scratch, v->scratch_fd,
                              odd ? "odd.onnx" : "even.onnx", &after, &a, err);
    const bool off = pipeline_verify_of(v->options.pipeline, pass).proof <= PIPELINE_PROOF_OFF;
    if (rc == 0 && !off) rc = compare(s, pass, loses, before.path, after.path, err);
    checkpoint_model_remove(v->scratch_fd, &before);
    before = after;
    odd = !odd;
    loses = false;
  }
  checkpoint_model_remove(v->scratch_fd, &before);
  arena_free(&a);
  return rc;
}
