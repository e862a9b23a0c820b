// The story of a writing command:
//
//   job_open ──▶ (the command's edits) ──▶ job_prepare_plan ──▶ execute_plan ──▶ commit
//   └──────────────── job_prepare.c ───────────────────────┘
//
// What carries out a plan and what puts its output in place know nothing of a job: they are given
// what they need, as another process could be. A dry run ends after the plan, with a look ahead at
// what would refuse the rest (job_dry_run.c).
#include "job.h"

#include "execute_plan.h"
#include "engine.h"
#include "job_stage.h"
#include "name_scan.h"
#include "commit.h"
#include "staging_join.h"
#include "run_report.h"
#include "version_number.h"

#include <stdarg.h>
#include <unistd.h>

static const struct job_watch *watch_of(const struct job *job) {
  static const struct job_watch nobody = {.ctx = NULL};
  return job->request->watch ? job->request->watch : &nobody;
}

void job_step(struct job *job, uint32_t step) {
  const struct job_watch *w = watch_of(job);
  if (w->step) w->step(w->ctx, job, step);
}

void job_close(struct job *job) {
  job_stage_end(job, false);
  if (job->request && watch_of(job)->end) watch_of(job)->end(watch_of(job)->ctx);
  record_file_drop(&job->log);
  record_file_drop(&job->report_file);
  record_file_drop(&job->page_file);
  record_file_drop(&job->provenance_file);
  census_free(&job->census);
  if (job->said) run_report_free(job->said);
  if (job->planned) plan_free(&job->plan);
  edits_free(&job->edits);
  recipes_free(&job->recipes);
  model_free(&job->model);
  if (job->sources) sources_close(job->sources);
  seal_refers_done(&job->out.refers);
  if (job->out.dest >= 0) close(job->out.dest);
  job_output_remove_folder(job);
  digest_free(job->log_digest);
  arena_free(&job->arena);
  *job = (struct job){.out.dest = -1};
}

enum { SHARD_SHIFT = 33 }; // 8 GiB

uint32_t job_shards(const struct job *job) {
  const uint32_t asked = job->request->shards;
  return asked ? asked : (uint32_t)(plan_total_bytes(&job->plan) >> SHARD_SHIFT) + 1;
}

void job_warn(struct job *job, const char *fmt, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  observer_notice(job->request->observer, "%s", text);
  if (job->n_warnings < JOB_WARNINGS_MAX)
    job->warnings[job->n_warnings++] = arena_string(&job->arena, span_str(text));
}

bool job_wants_report(const struct request *r) {
  return r->records.report_json || r->shown.json;
}

int job_choose_io(struct job *job, struct err *err) {
  return job->mode == IO_AUTO
             ? engine_pick(&job->mode, job->request->limits.io_name, job->request->observer, err)
             : 0;
}

// `work`, `refers` and `report` are to be added.
static struct commit in_place(const struct job *job) {
  return (struct commit){
      .plan = &job->plan,
      .sources = job->sources,
      .onnx_name = job->out.onnx_name,
      .replace = job->out.replace,
      .manifest = job->wanted->manifest,
      .tensor_digests = job->wanted->tensor_digests,
      .hash_inputs = job->wanted->hash_inputs,
      .edits_sha256 = job->edits_sha256,
      .layout_asked = job->layout_asked,
  };
}

int job_beside_bytes(const struct job *job, uint64_t *bytes, struct err *err) {
  const struct commit x = in_place(job);
  if (commit_bytes(&x, bytes, err)) return -1;
  // Data that keeps its name goes there by way of another .onnx as long.
  const struct plan *p = &job->plan;
  struct stat there;
  if (job->out.replace && p->n_outputs > 1 && job_output_there(job, &there))
    *bytes += p->outputs[p->n_outputs - 1].size;
  return 0;
}

// As it is if another process completes the seal.
static void write_kept_page(void *ctx, struct span_sink sink) {
  struct job *job = ctx;
  const char *resumed = job->resumed;
  job->resumed = "seal";
  job->request->render->page(job_report(job), sink);
  job->resumed = resumed;
}

static int seal(struct job *job, const struct execute_plan *c, struct staging *st,
                struct err *err) {
  struct json_out report = {.indent = 2}, provenance = {.indent = 2};
  if (job->page_file.path) job_report_take_digests(job, st);
  if (job_wants_report(job->request)) { // as it is if another process completes the seal
    const char *resumed = job->resumed;
    job->resumed = "seal";
    job->request->render->json(job, &report);
    job->resumed = resumed;
    json_newline(&report);
  }
  struct commit x = in_place(job);
  x.work = c->work;
  x.refers = &job->out.refers;
  x.report = span_of(report.text, report.n);
  if (job->page_file.path) x.page = (struct kept_page){write_kept_page, job};
  if (job->provenance_file.path) x.provenance = &provenance;
  const int rc = commit_outputs(&x, st, &job->unchanged, err);
  job->provenance = span_str(json_take(&provenance, &job->arena));
  json_done(&report);
  return rc;
}

// Before anything has its name. What is resumed was not looked at either.
static int commit(struct job *job, const struct staging *st, struct err *err) {
  const struct job_watch *w = watch_of(job);
  if (!w->commit) return 0;
  return w->commit(w->ctx, job, arena_printf(&job->arena, "%s/%s", job->out.folder, st->name), err);
}

// beside: bytes of files beside the outputs. Watches for signals.
static struct execute_plan carrying_out(struct job *job, uint64_t beside) {
  return (struct execute_plan){
      .plan = &job->plan,
      .sources = job->sources,
      .where = {.dest_folder = job->out.folder,
                .onnx_name = job->out.onnx_name,
                .resume_command = job->request->resume_command,
                .asked = job->out.asked,
                .version = version_number,
                .resume = job->request->resume,
                .fresh = job->request->fresh,
                .beside_bytes = beside,
                .null = job->mode == IO_NULL,
                .took_over = job_stage_took_over(job)},
      .closed = job_output_is_closed(job),
      .work = {.jobs = job->request->limits.jobs,
               .memory = job->memory,
               .mode = job->mode,
               .observer = job->request->observer,
               .stop = observer_stop(job->request->observer)},
  };
}

static int run_and_seal(struct job *job, struct err *err) {
  struct executed_plan made;
  struct seal_report report = {0};
  uint64_t beside = 0;
  (void)observer_stop(
      job->request->observer); // from the first thing that an interruption would leave
  int rc = job_choose_io(job, err);
  if (rc == 0) rc = job_beside_bytes(job, &beside, err);
  const struct execute_plan c = carrying_out(job, beside);
  if (rc || execute_plan_open(&c, &made, err)) {
    job_stage_end(job, execute_plan_worth_resuming(err));
    return -1;
  }
  if (made.how == STAGING_SEALED) {
    job->resumed = "seal";
    if (execute_plan_check_seal(&c.work, &made.st, err) || seal_finish(&made.st, &report, err))
      return -1;
    commit_say_left(job->request->observer, &report);
    return 0;
  }
  const uint64_t taken_over = staging_done_bytes(&made.st, &job->plan);
  if (taken_over > 0) job->resumed = "units";
  rc = job_stage_move(job, &made.st, err);
  if (rc == 0) rc = execute_plan_run(&c, &made, err);
  job->stats = made.stats;
  job->all_made = made.all_made;
  if (job->all_made) job->n_errors = run_errors(&job->plan, &made.st, &job->arena, &job->errors);
  if (rc == 0 && job->watch.made) rc = job->watch.made(job->watch.ctx, job, &made.st, err);
  if (rc == 0) rc = commit(job, &made.st, err);
  if (rc == 0) rc = seal(job, &c, &made.st, err);
  if (rc)
    execute_plan_leave(&c, &made, err);
  else if (taken_over > 0)
    observer_notice(job->request->observer,
                    "resumed: %s of %s were already written by an interrupted run",
                    quote_bytes(taken_over).s, quote_bytes(plan_total_bytes(&job->plan)).s);
  return rc;
}

// The folder for those who carry out the plan. Beside them nothing of it is needed any more.
static int give_orders(struct job *job, const struct staging *st, struct err *err) {
  const struct commit x = in_place(job);
  const uint32_t n = sources_count(job->sources);
  const char **companions = arena_alloc(&job->arena, n * sizeof *companions + 1);
  struct staging_orders orders = {.shards = job_shards(job),
                                  .null = job->mode == IO_NULL,
                                  .replace = x.replace,
                                  .manifest = x.manifest,
                                  .tensor_digests = x.tensor_digests,
                                  .hash_inputs = x.hash_inputs,
                                  .allow_links = job->request->allow_links,
                                  .edits_sha256 = job->edits_sha256,
                                  .layout_asked = job->layout_asked,
                                  .companions = companions};
  for (uint32_t i = 0; i < n; i++)
    if (sources_is_companion(job->sources, i))
      companions[orders.n_companions++] = sources_companion_path(job->sources, i);
  return staging_give_orders(st, &job->plan, &orders, err);
}

static int stage_plan(struct job *job, struct err *err) {
  struct executed_plan made;
  uint64_t beside;
  struct execute_plan c;
  (void)observer_stop(job->request->observer);
  int rc = job_choose_io(job, err);
  if (rc == 0) rc = job_beside_bytes(job, &beside, err);
  if (rc == 0) {
    c = carrying_out(job, beside);
    rc = execute_plan_prepare(&c, &made, err);
  }
  if (rc) {
    job_stage_end(job, execute_plan_worth_resuming(err));
    return -1;
  }
  if (made.how == STAGING_SEALED) {
    err_fill(err, ERR_RETRY, "all units of this plan are finished and being moved into place");
    rc = err_hint(err, "'weir finalize' completes it: %s", made.st.name);
  }
  if (rc == 0) rc = job_stage_move(job, &made.st, err);
  if (rc == 0) rc = give_orders(job, &made.st, err);
  job->staged = arena_printf(&job->arena, "%s/%s", job->out.folder, made.st.name);
  if (strcmp(job->out.folder, ".") == 0) job->staged += 2;
  job->stats.units_skipped = staging_done_count(&made.st);
  staging_close(&made.st);
  return rc;
}

// Said last: before an error that ends the run it would only be in the way.
static void warn_of_name(struct job *job) {
  if (job->refusal.kind != ERR_NONE || !str_ends(path_base(job->in_path), ".onnx") ||
      str_ends(job->out.onnx_name, ".onnx"))
    return;
  job_warn(job, "the name of the output '%s' does not end in '.onnx', but it is an ONNX model",
           quote_path(job->out.path).s);
}

// Data files that nobody named, under names that transformers.js does not look for, and why.
static void warn_of_data_names(struct job *job) {
  const uint32_t last = job->plan.n_outputs - 2;
  const char *taken = job->out.taken;
  if (!taken || !job->layout.split || job->layout.data_name || job->plan.n_outputs == 1 ||
      job->refusal.kind != ERR_NONE)
    return;
  char who[256];
  const char *own = job->out.replace ? job->out.onnx_name : NULL; // it is going to have other data
  const enum name_scan found = name_scan_folder(job->out.dest, taken, own, who);
  const struct quoted user = quote_str(who), usual = quote_str(job->out.onnx_name);
  const char *why = found == NAME_SCAN_NAMED  ? arena_printf(&job->arena, "'%s' uses it", user.s)
                    : found == NAME_SCAN_FREE ? "no model in the folder uses it"
                                              : "another model may use it";
  const struct plan_output *out = job->plan.outputs;
  const char *more = last ? arena_printf(&job->arena, " to '%s'", quote_str(out[last].name).s) : "";
  const char *looked = last ? arena_printf(&job->arena, " to '%s_data_%u'", usual.s, last) : "";
  job_warn(job,
           "'%s' exists already (%s), so the data file%s '%s'%s: transformers.js looks for "
           "'%s_data'%s",
           quote_str(taken).s, why, last ? "s are" : " is", quote_str(out[0].name).s, more, usual.s,
           looked);
}

static void put_page(void *ctx, struct span piece) {
  (void)record_file_add(ctx, piece); // which keeps what failed
}

static int write_page(struct job *job, struct err *err) {
  struct record_file *page = &job->page_file;
  if (!page->path) return 0;
  if (record_file_start(page, err)) return -1;
  job->request->render->page(job_report(job), (struct span_sink){put_page, page});
  return record_file_check(page, err) ? -1 : record_file_publish(page, err);
}

// Of a run that wrote its output.
static int write_provenance(struct job *job, struct err *err) {
  if (job->provenance.n == 0) return 0;
  return record_file_end(&job->provenance_file, job->provenance, err);
}

static int write_json_report(struct job *job, struct err *err) {
  int rc = 0;
  if (job->report_file.path) {
    struct json_out report = {.indent = 2};
    job->request->render->json(job, &report);
    json_newline(&report);
    rc = record_file_end(&job->report_file, span_of(report.text, report.n), err);
    json_done(&report);
  }
  if (job->request->shown.json) job->request->render->print_report(job);
  return rc;
}

// A command that found nothing has nothing to write, but in the place of an older output.
static bool stays_unwritten(const struct job *job) {
  struct stat at;
  return job->edits.n == 0 && job->leaves_it && job->leaves_it(job) && !job->request->plans &&
         !job->watch.planned && job->refusal.kind == ERR_NONE &&
         (job->wanted->inplace || job->out.absent || !job_output_there(job, &at));
}

int job_finish(struct job *job, struct err *err) {
  if (job_prepare_plan(job, err)) return -1;
  job->unwritten = stays_unwritten(job);
  if (job->request->dry_run || job->request->records.report_html || job_is_for_packing(job))
    job_guess_packed(job);
  if (job->watch.planned && job->watch.planned(job->watch.ctx, job, err)) return -1;
  const bool writes = !job->request->dry_run && !job->unwritten;
  if (writes) warn_of_data_names(job);
  if (job->request->plans && writes) {
    if (stage_plan(job, err)) return -1;
  } else if (writes && run_and_seal(job, err)) {
    // A run that looked at everything and then said no: the report has all of the reason.
    struct err ignored = {0};
    if (!job->all_made || err->kind != ERR_FAIL) return -1;
    job->refusal = *err;
    (void)write_json_report(job, &ignored);
    (void)write_page(job, &ignored);
    return -1;
  }
  if (job->request->dry_run && job_look_ahead(job, err)) return -1;
  if (job->request->dry_run) warn_of_data_names(job);
  if (!job->unwritten) warn_of_name(job);
  int rc = write_json_report(job, err);
  if (rc == 0) rc = write_page(job, err);
  if (rc == 0) rc = write_provenance(job, err);
  // A script made for another tool knows the line that comes after the report.
  const struct request_shown *shown = &job->request->shown;
  const bool beside = shown->json_alone && !job_report(job)->told.line;
  if (!beside && shown->lines) job->request->render->print_lines(job);
  if (rc) return -1;
  if (job->refusal.kind == ERR_NONE) return 0;
  *err = job->refusal;
  return -1;
}

int job_command(const struct request *request,
                int (*edit)(struct job *job, void *ctx, struct err *err), void *ctx,
                struct err *err) {
  struct job job;
  int rc;
  if (job_finish_seal(request, &rc, err)) return rc;
  if (job_open(&job, request, err)) return -1;
  rc = edit(&job, ctx, err);
  if (rc == 0) rc = job_finish(&job, err);
  job_close(&job);
  return rc;
}
