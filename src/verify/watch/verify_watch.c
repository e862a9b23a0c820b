// The source is still where it was (with --inplace too): the output takes its name after this. So nothing is ever compared
// with itself.
#include "verify/watch/verify_watch.h"

#include "verify/run/verify_written.h"
#include "verify/sites/verify_import.h"
#include "verify/watch/checkpoints.h"

#include <string.h>

// ---- whole models after every pass ---------------------------------------------------------------

// The edits of a run are groups in a row, and each has the name of its pass:
//
//   groups   1 2 3 │ 4 5 │ 6 … 19 │       the log, replayed up to 3, 5, 19
//   pass     tidy  │ fuse│ quantize       source ~ model 3, model 3 ~ model 5, model 5 ~ model 19
//
// Every such model is written into the folder for temporary files, and removed when the next one was compared with it. The last
// one is the output itself.
struct steps {
  struct verify *v; // with a pipeline
  const struct edit_groups *groups;
  const struct request *request;
  const char *result;      // the output, where it is stored
  const char *model, *log; // log: all lines of it, NULL where it could not be kept
};

// "verify_on: model" of a pipeline's file. Does it ask for that, and the command line for nothing else?
static bool steps_are_wanted(const struct verify *v) {
  const struct pipeline *p = v->options.pipeline;
  return p && p->verify_models && pipeline_verifies(p) &&
         (v->options.scope & VERIFY_ALL) == VERIFY_MODEL;
}

// By the bounds of the pass; what it promises is judged as whole models are.
static int compare(const struct steps *s, const char *pass, bool loses, const char *before,
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

// Behind every pass that changed something, the model as it is then is compared with the one before the pass, by the bounds of the
// pass. Ends at the first that fails.
static int run_steps(const struct steps *s, struct err *err) {
  const struct edit_groups *g = s->groups;
  struct verify *v = s->v;
  struct arena a = {0};
  const struct checkpoint_source from = {s->request,        s->model, s->log,
                                         v->options.memory, NULL,     NULL};
  struct checkpoint_model before = {.path = v->import ? v->import->model.path : s->model}, after;
  const uint32_t imported = v->import ? v->import->groups - g->first : 0;
  bool loses = false; // a group since `before`
  int rc = 0;
  if (!s->log)
    return err_set(err, ERR_IO, "the edits could not be stored in '%s'", quote_path(v->scratch).s);
  for (uint32_t i = imported, odd = 0; i < g->n_rows && rc == 0 && v->found.n_failed == 0; i++) {
    const char *pass = g->rows[i].pass;
    const bool last = i + 1 == g->n_rows || strcmp(g->rows[i + 1].pass, pass) != 0;
    loses = loses || verify_group_loses(&v->options, &g->rows[i]);
    if (!last) continue;
    after = (struct checkpoint_model){.path = s->result};
    if (i + 1 < g->n_rows)
      rc = checkpoint_model_write(&from, g->first + i + 1, v->scratch, v->scratch_at,
                                  odd ? "odd.onnx" : "even.onnx", &after, &a, err);
    const bool off = pipeline_verify_of(v->options.pipeline, pass).proof <= PIPELINE_PROOF_OFF;
    if (rc == 0 && !off) rc = compare(s, pass, loses, before.path, after.path, err);
    checkpoint_model_remove(v->scratch_at, &before);
    before = after;
    odd = !odd;
    loses = false;
  }
  checkpoint_model_remove(v->scratch_at, &before);
  arena_free(&a);
  return rc;
}

// ---- a run --------------------------------------------------------------------------------------

static int begin(void *ctx, struct execution *exec, struct err *err) {
  struct verify_watch *x = ctx;
  const struct verify_options *o = &x->options;
  if (x->refused.kind != ERR_NONE) {
    *err = x->refused;
    return -1;
  }
  if (exec->request->plans && o->scope != VERIFY_NOTHING) {
    err_fill(err, ERR_USAGE, "'weir plan' writes no output that could be verified");
    return err_hint(err, "'weir finalize --verify' verifies the output before it is put in place");
  }
  x->points = checkpoints_begin(o->pipeline, o->scope & VERIFY_POINTS, &exec->arena);
  if (o->scope == VERIFY_NOTHING && !exec->request->dry_run && o->pipeline &&
      pipeline_has_own_steps(o->pipeline))
    observer_notice(
        exec->request->observer,
        "weir does not prove that your own rules are correct: %s compares what they change",
        exec->request->plans ? "'weir finalize --verify'" : "--verify");
  if (o->scope == VERIFY_NOTHING) return 0;
  x->runs = true;
  exec->reported.verifying = &x->v.found;
  return verify_begin(&x->v, o, err);
}

static void end(void *ctx) {
  struct verify_watch *x = ctx;
  checkpoints_end(x->points);
  if (x->runs) verify_end(&x->v);
  x->points = NULL;
  x->runs = false;
}

// A copy of the log, for who looks for the group at fault; without one nobody does.
static void begin_edits(void *ctx, struct execution *exec) {
  struct verify_watch *x = ctx;
  struct verify *v = &x->v;
  checkpoints_begin_edits(x->points, exec);
  if (!x->runs) return;
  edit_groups_keep(&exec->edits);
  verify_import_look(v, &exec->model);
  if (!(v->options.scope & VERIFY_SITES) && !steps_are_wanted(v) && !v->lacking) return;
  v->log_path = arena_printf(&v->arena, "%s/edits.jsonl", v->scratch);
  if (v->log) stream_close(v->log);
  v->log = file_stream(file_open_to_write(HERE, v->log_path, FILE_MAKE | FILE_EMPTY, 0666), "w");
}

static void add_line(void *ctx, struct span line) {
  struct verify_watch *x = ctx;
  struct verify *v = &x->v;
  checkpoints_line(x->points, line);
  if (!x->runs || !v->log || fwrite(line.at, 1, line.n, v->log) == line.n) return;
  stream_close(v->log);
  v->log = NULL;
}

static void begin_step(void *ctx, struct execution *exec, uint32_t step) {
  const struct verify_watch *x = ctx;
  checkpoints_step(x->points, exec, step);
}

static const char *whole_log(struct verify *v) {
  return v->log && fflush(v->log) == 0 ? v->log_path : NULL;
}

// What lies in the staging folder; of a run that writes nothing, what its recipes give.
static int verify_edits(struct verify *v, struct execution *exec, const char *path,
                        struct err *err) {
  const bool writes = exec->mode != IO_NULL;
  struct verify_written written = {.sources = NULL};
  struct model source;
  struct recipes recipes;
  const char *log = whole_log(v);
  model_init(&source);
  recipes_init(&recipes);
  int rc = load_model(&source, exec->sources, NULL, err);
  if (rc == 0 && writes)
    rc = verify_written_open(&written, path, exec->request->allow_links, &exec->model, err);
  const struct verify_edited e = {.source = &source,
                                  .result = &exec->model,
                                  .written = writes ? &written : NULL,
                                  .source_recipes = &recipes,
                                  .recipes = &exec->recipes,
                                  .sources = exec->sources,
                                  .groups = exec->edits.groups,
                                  .log = log,
                                  .model = exec->in_path,
                                  .request = exec->request};
  const struct verify_edited imported = verify_import_edited(v, e);
  if (rc == 0) rc = verify_sites(v, &imported, err);
  if (writes) verify_written_close(&written);
  recipes_free(&recipes);
  model_free(&source);
  return rc;
}

static int commit(void *ctx, struct execution *exec, const char *folder, struct err *err) {
  struct verify_watch *x = ctx;
  struct verify *v = &x->v;
  if (x->points && checkpoints_write_files(x->points, exec, err)) return -1;
  if (!x->runs) return 0;
  exec->reported.verified = &v->found;
  verify_know_groups(v, exec->edits.groups, exec->edits.group);
  const char *result = arena_printf(&exec->arena, "%s/%s", folder, exec->out.onnx_name);
  const struct verify_import_from from = {.result = &exec->model,
                                          .groups = exec->edits.groups,
                                          .request = exec->request,
                                          .model = exec->in_path,
                                          .log = whole_log(v),
                                          .sites = v->options.scope & VERIFY_SITES};
  if (verify_import_open(v, &from, err)) return -1;
  const char *source = v->import ? v->import->model.path : exec->in_path;
  if (v->options.scope & VERIFY_SITES && verify_edits(v, exec, result, err)) return -1;
  if (v->options.scope & (VERIFY_MODEL | VERIFY_POINTS) && exec->mode == IO_NULL)
    return err_set(err, ERR_USAGE, "--verify=model needs an output, and --io=null writes none");
  if (v->options.scope & VERIFY_POINTS &&
      checkpoints_verify(x->points, exec, v, source, result, err))
    return -1;
  if (v->options.scope & VERIFY_POINTS && v->found.n_failed) {
    // What is wrong there is wrong in the end too.
  } else if (steps_are_wanted(v)) {
    const struct steps steps = {.v = v,
                                .groups = exec->edits.groups,
                                .request = exec->request,
                                .result = result,
                                .model = exec->in_path,
                                .log = from.log};
    if (run_steps(&steps, err)) return -1;
  } else if (v->options.scope & VERIFY_MODEL &&
             verify_models(v, source, result, exec->request->allow_links, err))
    return -1;
  if (verify_judge(v, err) == 0) return 0;
  return err_hint(err, "nothing was written to '%s'", quote_path(exec->out.path).s);
}

struct execution_watch verify_watch(struct verify_watch *x) {
  return (struct execution_watch){.begin = begin,
                                  .edits = begin_edits,
                                  .line = add_line,
                                  .step = begin_step,
                                  .commit = commit,
                                  .end = end,
                                  .ctx = x};
}
