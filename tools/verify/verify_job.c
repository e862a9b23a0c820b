// The source is still where it was (with --inplace too): the output takes its name after this. So nothing is ever compared
// with itself.
#include "verify_job.h"

#include "points.h"
#include "verify_import.h"
#include "verify_steps.h"
#include "verify_written.h"

static bool has_own_steps(const struct pipeline *p) {
  for (uint32_t i = 0; p && p->own && p->own->passes && i < p->n_steps; i++)
    for (uint32_t k = 0; p->own->passes[k]; k++)
      if (p->steps[i].values.pass == p->own->passes[k]) return true;
  return false;
}

static int begin(void *ctx, struct job *job, struct err *err) {
  struct verify_job *x = ctx;
  const struct verify_options *o = &x->options;
  if (job->request->plans && o->scope != VERIFY_NOTHING) {
    err_fill(err, ERR_USAGE, "'weir plan' writes no output that could be verified");
    return err_hint(err, "'weir finalize --verify' verifies the output before it is put in place");
  }
  x->points = points_begin(o->pipeline, o->scope & VERIFY_POINTS, &job->arena);
  if (o->scope == VERIFY_NOTHING && !job->request->dry_run && has_own_steps(o->pipeline))
    observer_notice(
        job->request->observer,
        "weir does not prove that your own rules are correct: %s compares what they change",
        job->request->plans ? "'weir finalize --verify'" : "--verify");
  if (o->scope == VERIFY_NOTHING) return 0;
  x->runs = true;
  job->verifying = &x->v.found;
  return verify_begin(&x->v, o, err);
}

static void end(void *ctx) {
  struct verify_job *x = ctx;
  points_end(x->points);
  if (x->runs) verify_end(&x->v);
  x->points = NULL;
  x->runs = false;
}

// A copy of the log, for who looks for the group at fault; without one nobody does.
static void begin_edits(void *ctx, struct job *job) {
  struct verify_job *x = ctx;
  struct verify *v = &x->v;
  points_begin_edits(x->points, job);
  if (!x->runs) return;
  edit_groups_keep(&job->edits);
  verify_import_look(v, &job->model);
  if (!(v->options.scope & VERIFY_SITES) && !verify_steps_wanted(v) && !v->lacking) return;
  v->log_path = arena_printf(&v->arena, "%s/edits.jsonl", v->scratch);
  v->log = v->log ? freopen(v->log_path, "we", v->log) : fopen(v->log_path, "we");
}

static void add_line(void *ctx, struct span line) {
  struct verify_job *x = ctx;
  struct verify *v = &x->v;
  points_line(x->points, line);
  if (!x->runs || !v->log || fwrite(line.at, 1, line.n, v->log) == line.n) return;
  fclose(v->log);
  v->log = NULL;
}

static void begin_step(void *ctx, struct job *job, uint32_t step) {
  const struct verify_job *x = ctx;
  points_step(x->points, job, step);
}

static const char *whole_log(struct verify *v) {
  return v->log && fflush(v->log) == 0 ? v->log_path : NULL;
}

// What lies in the staging folder; of a run that writes nothing, what its recipes give.
static int verify_edits(struct verify *v, struct job *job, const char *path, struct err *err) {
  const bool writes = job->mode != IO_NULL;
  struct verify_written written = {.sources = NULL};
  const struct load_options load = {.warnings = NULL};
  struct model source;
  struct recipes recipes;
  const char *log = whole_log(v);
  model_init(&source);
  recipes_init(&recipes);
  int rc = load_model(&source, job->sources, &load, err);
  if (rc == 0 && writes)
    rc = verify_written_open(&written, path, job->request->allow_links, &job->model, err);
  const struct verify_edited e = {.source = &source,
                                  .result = &job->model,
                                  .written = writes ? &written : NULL,
                                  .source_recipes = &recipes,
                                  .recipes = &job->recipes,
                                  .sources = job->sources,
                                  .groups = job->edits.groups,
                                  .log = log,
                                  .model = job->in_path,
                                  .request = job->request};
  const struct verify_edited imported = verify_import_edited(v, e);
  if (rc == 0) rc = verify_sites(v, &imported, err);
  if (writes) verify_written_close(&written);
  recipes_free(&recipes);
  model_free(&source);
  return rc;
}

static int commit(void *ctx, struct job *job, const char *folder, struct err *err) {
  struct verify_job *x = ctx;
  struct verify *v = &x->v;
  if (x->points && points_write_files(x->points, job, err)) return -1;
  if (!x->runs) return 0;
  job->verified = &v->found;
  verify_know_groups(v, job->edits.groups, job->edits.group);
  const char *result = arena_printf(&job->arena, "%s/%s", folder, job->out.onnx_name);
  const struct verify_import_from from = {.result = &job->model,
                                          .groups = job->edits.groups,
                                          .request = job->request,
                                          .model = job->in_path,
                                          .log = whole_log(v),
                                          .sites = v->options.scope & VERIFY_SITES};
  if (verify_import_open(v, &from, err)) return -1;
  const char *source = v->import ? v->import->model.path : job->in_path;
  if (v->options.scope & VERIFY_SITES && verify_edits(v, job, result, err)) return -1;
  if (v->options.scope & (VERIFY_MODEL | VERIFY_POINTS) && job->mode == IO_NULL)
    return err_set(err, ERR_USAGE, "--verify=model needs an output, and --io=null writes none");
  if (v->options.scope & VERIFY_POINTS && points_verify(x->points, job, v, source, result, err))
    return -1;
  if (v->options.scope & VERIFY_POINTS && v->found.n_failed) {
    // What is wrong there is wrong in the end too.
  } else if (verify_steps_wanted(v)) {
    const struct verify_steps steps = {.v = v,
                                       .groups = job->edits.groups,
                                       .request = job->request,
                                       .result = result,
                                       .model = job->in_path,
                                       .log = from.log};
    if (verify_steps_run(&steps, err)) return -1;
  } else if (v->options.scope & VERIFY_MODEL &&
             verify_models(v, source, result, job->request->allow_links, err))
    return -1;
  if (verify_judge(v, err) == 0) return 0;
  return err_hint(err, "nothing was written to '%s'", quote_path(job->out.path).s);
}

struct job_watch verify_job_watch(struct verify_job *x) {
  return (struct job_watch){.begin = begin,
                            .edits = begin_edits,
                            .line = add_line,
                            .step = begin_step,
                            .commit = commit,
                            .end = end,
                            .ctx = x};
}
