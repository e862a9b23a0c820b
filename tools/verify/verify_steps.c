// The edits of a run are groups in a row, and each has the name of its pass:
//
//   groups   1 2 3 │ 4 5 │ 6 … 19 │       the log, replayed up to 3, 5, 19
//   pass     tidy  │ fuse│ quantize       source ~ model 3, model 3 ~ model 5, model 5 ~ model 19
//
// Every such model is written into the folder for temporary files, and removed when the next one was compared with it. The last
// one is the output itself.
#include "verify_steps.h"

#include "part.h"
#include "plan.h"
#include "verify_replay.h"

#include <string.h>
#include <unistd.h>

bool verify_steps_wanted(const struct verify *v) {
  const struct pipeline *p = v->options.pipeline;
  return p && p->verify_models && pipeline_verifies(p) && v->options.scope == VERIFY_MODEL;
}

struct step_model {
  const char *path; // of its .onnx
  const char *files[PLAN_DATA_FILES_MAX + 1];
  uint32_t n_files;
};

static void remove_model(const struct verify *v, const struct step_model *m) {
  for (uint32_t i = 0; i < m->n_files; i++)
    (void)unlinkat(v->scratch_fd, m->files[i], 0);
}

// The model behind so many groups, as files in the scratch folder.
static int write_model(const struct verify_steps *s, uint32_t groups, const char *name,
                       struct arena *a, struct step_model *out, struct err *err) {
  struct verify *v = s->v;
  struct verify_replay x;
  struct part_cutter *c = NULL;
  struct plan plan = {.n_outputs = 0};
  const struct plan_layout layout = {.onnx_name = name, .inline_below = 1024};
  bool planned = false;
  int rc = verify_replay_open(&x, s->args, s->model, s->log, groups, true, NULL, err);
  if (rc == 0) rc = edits_finish(&x.job.edits, err);
  if (rc == 0) rc = plan_build(&plan, &x.job.model, &x.job.recipes, &layout, err);
  planned = rc == 0;
  for (uint32_t i = 0; planned && i < plan.n_outputs; i++)
    out->files[out->n_files++] = arena_string(a, span_str(plan.outputs[i].name));
  out->path = arena_printf(a, "%s/%s", v->scratch, name);
  if (rc == 0)
    rc = part_cutter_open(&c, &x.job.model, &x.job.recipes, x.job.sources, v->options.memory, err);
  if (rc == 0) rc = part_write_plan(c, &plan, v->scratch_fd, err);
  part_cutter_close(c);
  if (planned) plan_free(&plan);
  verify_replay_close(&x);
  return rc;
}

// By the bounds of the pass; what it promises is judged as whole models are.
static int compare(const struct verify_steps *s, const char *pass, const char *before,
                   const char *after, struct err *err) {
  struct verify *v = s->v;
  const struct pipeline_verify how = pipeline_verify_of(v->options.pipeline, pass);
  const struct compare_bounds kept = v->options.bounds;
  const char *kept_words = v->options.bounds_words;
  if (!kept_words && how.proof == PIPELINE_PROOF_BOUNDS) {
    v->options.bounds = how.bounds;
    v->options.bounds_words = verify_bounds_words(&how.bounds, &v->found.arena);
  }
  v->step = pass;
  const int rc = verify_models(v, before, after, cli_flag(s->args, OPT_ALLOW_LINKS), err);
  v->step = NULL;
  v->options.bounds = kept;
  v->options.bounds_words = kept_words;
  return rc;
}

int verify_steps_run(const struct verify_steps *s, struct err *err) {
  const struct edit_groups *g = s->groups;
  struct verify *v = s->v;
  struct arena a = {0};
  struct step_model before = {.path = s->model}, after;
  int rc = 0;
  if (!s->log)
    return err_set(err, ERR_IO, "the edits could not be kept in '%s'", quote_path(v->scratch).s);
  for (uint32_t i = 0, odd = 0; i < g->n_rows && rc == 0 && v->found.n_failed == 0; i++) {
    const char *pass = g->rows[i].pass;
    const bool last = i + 1 == g->n_rows || strcmp(g->rows[i + 1].pass, pass) != 0;
    if (!last) continue;
    after = (struct step_model){.path = s->result};
    if (i + 1 < g->n_rows)
      rc = write_model(s, g->first + i + 1, odd ? "odd.onnx" : "even.onnx", &a, &after, err);
    const bool off = pipeline_verify_of(v->options.pipeline, pass).proof <= PIPELINE_PROOF_OFF;
    if (rc == 0 && !off) rc = compare(s, pass, before.path, after.path, err);
    remove_model(v, &before);
    before = after;
    odd = !odd;
  }
  remove_model(v, &before);
  arena_free(&a);
  return rc;
}
