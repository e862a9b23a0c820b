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

int verify_job_begin(struct job *job, struct err *err) {
  const struct verify_options none = {.scope = VERIFY_NOTHING}, *o = job->request->verify;
  if (!o) o = &none;
  if (job->request->plans && o->scope != VERIFY_NOTHING) {
    err_fill(err, ERR_USAGE, "'weir plan' writes no output that could be verified");
    return err_hint(err, "'weir finalize --verify' verifies the output before it is put in place");
  }
  points_begin(job, o->pipeline, o->scope & VERIFY_POINTS);
  if (o->scope == VERIFY_NOTHING && !job->request->dry_run && has_own_steps(o->pipeline))
    observer_notice(
        job->request->observer,
        "weir does not prove that your own rules are correct: %s compares what they change",
        job->request->plans ? "'weir finalize --verify'" : "--verify");
  if (o->scope == VERIFY_NOTHING) return 0;
  job->verify = arena_zalloc(&job->arena, sizeof *job->verify);
  return verify_begin(job->verify, o, err);
}

void verify_job_end(struct job *job) {
  points_end(job);
  if (job->verify) verify_end(job->verify);
  job->verify = NULL;
}

// A copy of the log, for who looks for the group at fault; without one nobody does.
void verify_job_begin_edits(struct job *job) {
  struct verify *v = job->verify;
  points_begin_edits(job);
  if (!v) return;
  edit_groups_keep(&job->edits);
  verify_import_look(v, &job->model);
  if (!(v->options.scope & VERIFY_SITES) && !verify_steps_wanted(v) && !v->lacking) return;
  v->log_path = arena_printf(&v->arena, "%s/edits.jsonl", v->scratch);
  v->log = v->log ? freopen(v->log_path, "we", v->log) : fopen(v->log_path, "we");
}

void verify_job_line(struct job *job, struct span line) {
  struct verify *v = job->verify;
  points_line(job, line);
  if (!v || !v->log || fwrite(line.at, 1, line.n, v->log) == line.n) return;
  fclose(v->log);
  v->log = NULL;
}

static const char *whole_log(struct verify *v) {
  return v->log && fflush(v->log) == 0 ? v->log_path : NULL;
}

// What lies in the staging folder; of a run that writes nothing, what its recipes give.
static int verify_edits(struct job *job, const char *path, struct err *err) {
  const bool writes = job->mode != IO_NULL;
  struct verify_written written = {.sources = NULL};
  const struct load_options load = {.warnings = NULL};
  struct model source;
  struct recipes recipes;
  const char *log = whole_log(job->verify);
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
  const struct verify_edited imported = verify_import_edited(job->verify, e);
  if (rc == 0) rc = verify_sites(job->verify, &imported, err);
  if (writes) verify_written_close(&written);
  recipes_free(&recipes);
  model_free(&source);
  return rc;
}

int verify_job_run(struct job *job, const char *folder, struct err *err) {
  struct verify *v = job->verify;
  if (points_write_files(job, err)) return -1;
  if (!v) return 0;
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
  if (v->options.scope & VERIFY_SITES && verify_edits(job, result, err)) return -1;
  if (v->options.scope & (VERIFY_MODEL | VERIFY_POINTS) && job->mode == IO_NULL)
    return err_set(err, ERR_USAGE, "--verify=model needs an output, and --io=null writes none");
  if (v->options.scope & VERIFY_POINTS && points_verify(job, v, source, result, err)) return -1;
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

// verify_ok=True max_abs=2.384186e-07 max_mean_abs=… seed=102 lengths=64,80
void verify_job_print_compatible(const struct job *job) {
  const struct verify *v = job->verify;
  double most[4] = {0};
  for (uint32_t i = 0; i < v->found.n_rows; i++) {
    const struct compare_figures *f = &v->found.rows[i].figures;
    const double of[4] = {f->max_abs, f->mean_abs, f->p99_abs, f->p999_abs};
    for (int k = 0; k < 4; k++)
      if (of[k] > most[k]) most[k] = of[k];
  }
  printf("verify_ok=%s max_abs=%.9e max_mean_abs=%.9e max_p99_abs=%.9e max_p999_abs=%.9e seed=%lu "
         "lengths=",
         v->found.n_failed || !v->found.n_passed ? "False" : "True", most[0], most[1], most[2],
         most[3], v->options.seed);
  for (uint32_t i = 0; i < v->options.n_lengths; i++)
    printf("%s%ld", i ? "," : "", (long)v->options.lengths[i]);
  printf("\n");
}
