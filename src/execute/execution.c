// The story of a writing command:
//
//   execution_open ──▶ (the command's edits) ──▶ execution_prepare_plan ──▶ execute_plan ──▶ commit
//   └──────────────── execution_prepare.c ───────────────────────┘
//
// What carries out a plan and what puts its output in place know nothing of an execution: they are
// given what they need, as another process could be. A dry run ends after the plan, with a look ahead at
// what would refuse the rest (execution_dry_run.c).
#include "execute/execution.h"

#include "base/version_number.h"
#include "execute/commit/execute_plan.h"
#include "execute/execution_stage.h"
#include "stream/run/engine.h"
#include "stream/staging/staging_join.h"
#include "stream/sys/name_scan.h"

#include <stdarg.h>

static const struct execution_watch *watch_of(const struct execution *exec) {
  static const struct execution_watch nobody = {.ctx = NULL};
  return exec->request->watch ? exec->request->watch : &nobody;
}

void execution_step(struct execution *exec, uint32_t step) {
  const struct execution_watch *w = watch_of(exec);
  if (w->step) w->step(w->ctx, exec, step);
}

void execution_close(struct execution *exec) {
  execution_stage_end(exec, false);
  if (exec->request && watch_of(exec)->end) watch_of(exec)->end(watch_of(exec)->ctx);
  run_report_free(&exec->reported);
  if (exec->planned) plan_free(&exec->plan);
  execution_drop_edits(exec);
  if (exec->sources) sources_close(exec->sources);
  seal_refers_done(&exec->out.refers);
  folder_close(&exec->out.dest);
  execution_output_remove_folder(exec);
  arena_free(&exec->arena);
  *exec = (struct execution){.out.dest = NO_FOLDER};
}

enum { SHARD_SHIFT = 33 }; // 8 GiB

uint32_t execution_shards(const struct execution *exec) {
  const uint32_t asked = exec->request->shards;
  return asked ? asked : (uint32_t)(plan_total_bytes(&exec->plan) >> SHARD_SHIFT) + 1;
}

void execution_warn(struct execution *exec, const char *fmt, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  observer_notice(exec->request->observer, "%s", text);
  if (exec->reported.n_warnings < EXECUTION_WARNINGS_MAX)
    *TABLE_PUSH(&exec->reported, warnings) = arena_string(&exec->arena, span_str(text));
}

bool execution_wants_report(const struct request *r) {
  return r->records.report_json || r->shown.json;
}

int execution_choose_io(struct execution *exec, struct err *err) {
  const struct request_limits *limits = &exec->request->limits;
  if (exec->mode != IO_AUTO) return 0;
  exec->mode = limits->io;
  return engine_pick(&exec->mode, limits->io_name, exec->request->observer, err);
}

struct work_options execution_work(const struct execution *exec) {
  return (struct work_options){.jobs = exec->request->limits.jobs,
                               .memory = exec->memory,
                               .mode = exec->mode,
                               .observer = exec->request->observer,
                               .stop = observer_stop(exec->request->observer)};
}

// `work`, `refers` and `report` are to be added.
static struct commit in_place(const struct execution *exec) {
  return (struct commit){
      .plan = &exec->plan,
      .sources = exec->sources,
      .onnx_name = exec->out.onnx_name,
      .replace = exec->out.replace,
      .manifest = exec->wanted->manifest,
      .tensor_digests = exec->wanted->tensor_digests,
      .hash_inputs = exec->wanted->hash_inputs,
      .edits_sha256 = exec->records.edits_sha256,
      .layout_asked = exec->records.layout_asked,
  };
}

int execution_beside_bytes(const struct execution *exec, uint64_t *bytes, struct err *err) {
  const struct commit x = in_place(exec);
  if (commit_bytes(&x, bytes, err)) return -1;
  // Data that keeps its name goes there by way of another .onnx as long.
  const struct plan *p = &exec->plan;
  struct entry_facts there;
  if (exec->out.replace && p->n_outputs > 1 && execution_output_there(exec, &there))
    *bytes += p->outputs[p->n_outputs - 1].size;
  return 0;
}

static void write_kept_page(void *ctx, struct span_sink sink) {
  struct execution *exec = ctx;
  exec->request->render->page(execution_report(exec), sink);
}

static int seal(struct execution *exec, const struct execute_plan *c, struct staging *st,
                struct err *err) {
  struct json_out report = {.indent = 2}, provenance = {.indent = 2};
  struct commit_unchanged unchanged = {false, false, false};
  if (exec->records.page.path) execution_report_take_digests(exec, st);
  // The reports that are kept: as they are if another process completes the seal.
  const char *resumed = exec->reported.work.resumed;
  exec->reported.work.resumed = "seal";
  if (execution_wants_report(exec->request)) {
    exec->request->render->json(execution_report(exec), &report);
    json_newline(&report);
  }
  struct commit x = in_place(exec);
  x.work = c->work;
  x.refers = &exec->out.refers;
  x.report = span_of(report.text, report.n);
  if (exec->records.page.path) x.page = (struct kept_page){write_kept_page, exec};
  if (exec->records.provenance.path) x.provenance = &provenance;
  const int rc = commit_outputs(&x, st, &unchanged, err);
  exec->reported.work.resumed = resumed;
  exec->reported.out.unchanged = unchanged.outputs;
  exec->reported.files.manifest.unchanged = unchanged.manifest;
  exec->reported.files.tensors.unchanged = unchanged.tensors;
  exec->records.statement = span_str(json_take(&provenance, &exec->arena));
  json_done(&report);
  return rc;
}

// Before anything has its name. What is resumed was not looked at either.
static int commit(struct execution *exec, const struct staging *st, struct err *err) {
  const struct execution_watch *w = watch_of(exec);
  if (!w->commit) return 0;
  return w->commit(w->ctx, exec, arena_printf(&exec->arena, "%s/%s", exec->out.folder, st->name),
                   err);
}

// beside: bytes of files beside the outputs. Watches for signals.
static struct execute_plan carrying_out(struct execution *exec, uint64_t beside) {
  return (struct execute_plan){
      .plan = &exec->plan,
      .sources = exec->sources,
      .where = {.dest_folder = exec->out.folder,
                .onnx_name = exec->out.onnx_name,
                .resume_command = exec->request->resume_command,
                .asked = exec->out.asked,
                .version = version_number,
                .resume = exec->request->resume,
                .fresh = exec->request->fresh,
                .beside_bytes = beside,
                .null = exec->mode == IO_NULL,
                .took_over = execution_stage_took_over(exec)},
      .closed = execution_output_is_closed(exec),
      .work = execution_work(exec),
  };
}

// Opens the staging by `open`, execute_plan_open or execute_plan_prepare.
static int open_staging(struct execution *exec,
                        int (*open)(const struct execute_plan *c, struct executed_plan *made,
                                    struct err *err),
                        struct execute_plan *c, struct executed_plan *made, struct err *err) {
  uint64_t beside;
  (void)observer_stop(
      exec->request->observer); // from the first thing that an interruption would leave
  int rc = execution_choose_io(exec, err);
  if (rc == 0) rc = execution_beside_bytes(exec, &beside, err);
  if (rc == 0) {
    *c = carrying_out(exec, beside);
    rc = open(c, made, err);
  }
  if (rc) execution_stage_end(exec, execute_plan_worth_resuming(err));
  return rc;
}

static int run_and_seal(struct execution *exec, struct err *err) {
  struct execute_plan c;
  struct executed_plan made;
  struct seal_report report = {0};
  if (open_staging(exec, execute_plan_open, &c, &made, err)) return -1;
  if (made.how == STAGING_SEALED) {
    exec->reported.work.resumed = "seal";
    if (execute_plan_check_seal(&c.work, &made.st, err) || seal_finish(&made.st, &report, err))
      return -1;
    commit_say_left(exec->request->observer, &report);
    return 0;
  }
  const uint64_t taken_over = staging_done_bytes(&made.st, &exec->plan);
  if (taken_over > 0) exec->reported.work.resumed = "units";
  int rc = execution_stage_move(exec, &made.st, err);
  if (rc == 0) rc = execute_plan_run(&c, &made, err);
  exec->reported.work.stats = made.stats;
  exec->outcome.all_made = made.all_made;
  if (exec->outcome.all_made)
    exec->outcome.n_errors = run_errors(&exec->plan, &made.st, &exec->arena, &exec->outcome.errors);
  if (rc == 0 && exec->watch.made) rc = exec->watch.made(exec->watch.ctx, exec, &made.st, err);
  if (rc == 0) rc = commit(exec, &made.st, err);
  if (rc == 0) rc = seal(exec, &c, &made.st, err);
  if (rc)
    execute_plan_leave(&c, &made, err);
  else if (taken_over > 0)
    observer_notice(exec->request->observer,
                    "resumed: %s of %s were already written by an interrupted run",
                    quote_bytes(taken_over).s, quote_bytes(plan_total_bytes(&exec->plan)).s);
  return rc;
}

// The folder for those who carry out the plan. Beside them nothing of it is needed any more.
static int give_orders(struct execution *exec, const struct staging *st, struct err *err) {
  const struct commit x = in_place(exec);
  const uint32_t n = sources_count(exec->sources);
  const char **companions = arena_alloc(&exec->arena, n * sizeof *companions + 1);
  struct staging_orders orders = {.shards = execution_shards(exec),
                                  .null = exec->mode == IO_NULL,
                                  .replace = x.replace,
                                  .manifest = x.manifest,
                                  .tensor_digests = x.tensor_digests,
                                  .hash_inputs = x.hash_inputs,
                                  .allow_links = exec->request->allow_links,
                                  .edits_sha256 = exec->records.edits_sha256,
                                  .layout_asked = exec->records.layout_asked,
                                  .companions = companions};
  for (uint32_t i = 0; i < n; i++)
    if (sources_is_companion(exec->sources, i))
      companions[orders.n_companions++] = sources_companion_path(exec->sources, i);
  return staging_give_orders(st, &exec->plan, &orders, err);
}

static int stage_plan(struct execution *exec, struct err *err) {
  struct execute_plan c;
  struct executed_plan made;
  int rc = 0;
  if (open_staging(exec, execute_plan_prepare, &c, &made, err)) return -1;
  if (made.how == STAGING_SEALED) {
    err_fill(err, ERR_RETRY, "all units of this plan are finished and being moved into place");
    rc = err_hint(err, "'weir finalize' completes it: %s", made.st.name);
  }
  if (rc == 0) rc = execution_stage_move(exec, &made.st, err);
  if (rc == 0) rc = give_orders(exec, &made.st, err);
  exec->reported.work.staged = arena_printf(&exec->arena, "%s/%s", exec->out.folder, made.st.name);
  if (strcmp(exec->out.folder, ".") == 0) exec->reported.work.staged += 2;
  exec->reported.work.stats.units_skipped = staging_done_count(&made.st);
  staging_close(&made.st);
  return rc;
}

// Said last: before an error that ends the run it would only be in the way.
static void warn_of_name(struct execution *exec) {
  if (exec->outcome.refusal.kind != ERR_NONE || !str_ends(path_base(exec->in_path), ".onnx") ||
      str_ends(exec->out.onnx_name, ".onnx"))
    return;
  execution_warn(exec,
                 "the name of the output '%s' does not end in '.onnx', but it is an ONNX model",
                 quote_path(exec->out.path).s);
}

// Data files that nobody named, under names that transformers.js does not look for, and why.
static void warn_of_data_names(struct execution *exec) {
  const uint32_t last = exec->plan.n_outputs - 2;
  const char *taken = exec->out.taken;
  if (!taken || !exec->layout.split || exec->layout.data_name || exec->plan.n_outputs == 1 ||
      exec->outcome.refusal.kind != ERR_NONE)
    return;
  char who[256];
  const char *own =
      exec->out.replace ? exec->out.onnx_name : NULL; // it is going to have other data
  const enum name_scan found = name_scan_folder(exec->out.dest, taken, own, who);
  const struct quoted user = quote_str(who), usual = quote_str(exec->out.onnx_name);
  const char *why = found == NAME_SCAN_NAMED  ? arena_printf(&exec->arena, "'%s' uses it", user.s)
                    : found == NAME_SCAN_FREE ? "no model in the folder uses it"
                                              : "another model may use it";
  const struct plan_output *out = exec->plan.outputs;
  const char *more =
      last ? arena_printf(&exec->arena, " to '%s'", quote_str(out[last].name).s) : "";
  const char *looked = last ? arena_printf(&exec->arena, " to '%s_data_%u'", usual.s, last) : "";
  execution_warn(exec,
                 "'%s' exists already (%s), so the data file%s '%s'%s: transformers.js looks for "
                 "'%s_data'%s",
                 quote_str(taken).s, why, last ? "s are" : " is", quote_str(out[0].name).s, more,
                 usual.s, looked);
}

static int write_page(struct execution *exec, struct err *err) {
  struct record_file *page = &exec->records.page;
  if (!page->path) return 0;
  return record_file_page(page, exec->request->render->page, execution_report(exec), err);
}

// Of a run that wrote its output.
static int write_provenance(struct execution *exec, struct err *err) {
  if (exec->records.statement.n == 0) return 0;
  return record_file_end(&exec->records.provenance, exec->records.statement, err);
}

static int write_json_report(struct execution *exec, struct err *err) {
  int rc = 0;
  if (exec->records.report.path) {
    struct json_out report = {.indent = 2};
    exec->request->render->json(execution_report(exec), &report);
    json_newline(&report);
    rc = record_file_end(&exec->records.report, span_of(report.text, report.n), err);
    json_done(&report);
  }
  if (exec->request->shown.json) exec->request->render->print_report(execution_report(exec));
  return rc;
}

// A command that found nothing has nothing to write, but in the place of an older output.
static bool stays_unwritten(const struct execution *exec) {
  struct entry_facts at;
  return exec->edits.n == 0 && exec->forms.leaves_it && !exec->request->plans &&
         !exec->watch.planned && exec->outcome.refusal.kind == ERR_NONE &&
         (exec->wanted->inplace || exec->out.absent || !execution_output_there(exec, &at));
}

int execution_finish(struct execution *exec, struct err *err) {
  if (execution_prepare_plan(exec, err)) return -1;
  exec->reported.out.unwritten = stays_unwritten(exec);
  if (exec->request->dry_run || exec->request->records.report_html ||
      execution_is_for_packing(exec))
    execution_guess_packed(exec);
  if (exec->watch.planned && exec->watch.planned(exec->watch.ctx, exec, err)) return -1;
  const bool writes = !exec->request->dry_run && !exec->reported.out.unwritten;
  if (writes) warn_of_data_names(exec);
  if (exec->request->plans && writes) {
    if (stage_plan(exec, err)) return -1;
  } else if (writes && run_and_seal(exec, err)) {
    // A run that looked at everything and then said no: the report has all of the reason.
    struct err ignored = {0};
    if (!exec->outcome.all_made || err->kind != ERR_FAIL) return -1;
    exec->outcome.refusal = *err;
    (void)write_json_report(exec, &ignored);
    (void)write_page(exec, &ignored);
    return -1;
  }
  if (exec->request->dry_run && execution_look_ahead(exec, err)) return -1;
  if (exec->request->dry_run) warn_of_data_names(exec);
  if (!exec->reported.out.unwritten) warn_of_name(exec);
  int rc = write_json_report(exec, err);
  if (rc == 0) rc = write_page(exec, err);
  if (rc == 0) rc = write_provenance(exec, err);
  // A script made for another tool knows the line that comes after the report.
  const struct run_shown *shown = &exec->request->shown;
  const bool beside = shown->json_alone && !execution_report(exec)->told.line;
  if (!beside && shown->lines) exec->request->render->print_lines(execution_report(exec));
  if (rc) return -1;
  if (exec->outcome.refusal.kind == ERR_NONE) return 0;
  *err = exec->outcome.refusal;
  return -1;
}

int execution_command(const struct request *request,
                      int (*edit)(struct execution *exec, void *ctx, struct err *err), void *ctx,
                      struct err *err) {
  struct execution exec;
  int rc;
  if (execution_finish_seal(request, &rc, err)) return rc;
  if (execution_open(&exec, request, err)) return -1;
  rc = edit(&exec, ctx, err);
  if (rc == 0) rc = execution_finish(&exec, err);
  execution_close(&exec);
  return rc;
}
