// Before the first byte is written: paths, sources, model, the record of the edits, the plan.
//
//   IN ──load──▶ model ──(the command's edits, in the log)──▶ plan
//
// Everything that can be refused is refused here or by the dry run's look ahead, before the staging
// folder exists. The plan's id comes from its text, so the plan is always written, if only into a
// digest.
#include "execute/execution.h"

#include "base/size_words.h"
#include "execute/commit/provenance.h"
#include "execute/execution_stage.h"
#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/staging/unfinished.h"

int execution_load(struct execution *exec, struct err *err) {
  const struct load_options load = {.warnings = &exec->flaws};
  const int rc = load_model_at(&exec->model, &exec->sources, exec->in_path,
                               exec->request->allow_links, &load, err);
  if (rc && exec->sources) (void)unfinished_explains(exec->in_path, err);
  return rc;
}

void execution_begin_reading(struct execution *exec, const struct request *request,
                             const char *in_path) {
  *exec = (struct execution){.request = request,
                             .in_path = in_path,
                             .began = machine_clock(),
                             .memory = request->limits.memory,
                             .mode = IO_AUTO};
  model_init(&exec->model);
  recipes_init(&exec->recipes);
  edits_init(&exec->edits, &exec->model, &exec->recipes);
}

// An execution of this request, with nothing opened.
static void begin(struct execution *exec, const struct request *request) {
  const struct request_output *wanted = &request->outputs[0];
  execution_begin_reading(exec, request, request->sources[0].path);
  exec->wanted = wanted;
  exec->out.path = wanted->path;
  exec->out.absent = wanted->absent;
  exec->out.asked = request->reads;
  exec->out.replace = wanted->replace || wanted->inplace;
  execution_output_split(exec);
  exec->layout = (struct plan_layout){.onnx_name = exec->out.onnx_name,
                                      .inline_below = 1024,
                                      .name_taken = execution_output_taken,
                                      .name_ctx = exec,
                                      .small_tensors = wanted->tensor_digests};
  execution_layout_take(&exec->layout, &wanted->layout);
}

int execution_open(struct execution *exec, const struct request *request, struct err *err) {
  const uint64_t least = run_min_memory(1);
  struct err why = {0};
  const struct execution_watch *watch = request->watch;
  begin(exec, request);
  int rc = 0;
  if (exec->memory < least) {
    rc =
        err_set(err, ERR_USAGE, "%s %s is not enough: one worker needs %s",
                request->limits.memory_name, size_words_of(exec->memory).s, size_words_of(least).s);
    err_fill_hint(err, "the default is 48MiB");
  }
  if (rc == 0) rc = execution_output_check_name(exec, err);
  if (rc == 0 && watch && watch->begin) rc = watch->begin(watch->ctx, exec, err);
  if (rc == 0) execution_output_ask_old(exec);
  if (rc == 0) rc = execution_load(exec, err);
  if (rc == 0) rc = execution_output_open(exec, err);
  if (rc == 0 && execution_output_check(exec, &why)) rc = execution_refused(exec, &why, err);
  if (rc == 0 && request->records.report_html)
    census_count(&exec->reported.census, &exec->model, CENSUS_BEFORE);
  if (rc) execution_close(exec);
  return rc;
}

// ---- the edit log ------------------------------------------------------------------------------

static int log_sink(void *ctx, struct span line) {
  struct execution *exec = ctx;
  digest_add(exec->records.log_digest, line.at, line.n);
  const struct execution_watch *watch = exec->request->watch;
  if (watch && watch->line) watch->line(watch->ctx, line);
  return record_file_is_open(&exec->records.log) ? record_file_add(&exec->records.log, line) : 0;
}

// Only of what is written: a dry run has none.
static int open_provenance(struct execution *exec, struct err *err) {
  const char *path = exec->request->records.provenance;
  if (!path) return 0;
  if (provenance_check_time(err)) return -1;
  if (exec->request->limits.io == IO_NULL) {
    err_fill(err, ERR_USAGE, "--provenance describes an output, but --io=null writes none");
    return err_hint(err, "leave out one of them");
  }
  return exec->request->dry_run ? record_file_foresee(path, err)
                                : record_file_reserve(&exec->records.provenance, path,
                                                      exec->request->observer, &exec->arena, err);
}

// What cannot be written is better known before hours of work than after.
static int open_records(struct execution *exec, struct err *err) {
  const char *log = exec->request->records.edit_log;
  const char *plan = exec->request->records.plan;
  const char *report = exec->request->records.report_json;
  const char *page = exec->request->records.report_html;
  if (plan && (record_file_foresee(plan, err) ||
               record_file_foresee(arena_printf(&exec->arena, "%s.bin", plan), err)))
    return -1;
  const char *artifacts = exec->request->records.artifacts;
  if (artifacts && !exec->request->dry_run && artifact_cache_make(artifacts, err)) return -1;
  if (log && record_file_open(&exec->records.log, log, exec->request->observer, &exec->arena, err))
    return -1;
  if (report && record_file_reserve(&exec->records.report, report, exec->request->observer,
                                    &exec->arena, err))
    return -1;
  if (page &&
      record_file_reserve(&exec->records.page, page, exec->request->observer, &exec->arena, err))
    return -1;
  return open_provenance(exec, err);
}

int execution_begin_edits(struct execution *exec, const char *command, const char *options,
                          struct err *err) {
  struct json_out layout = {0};
  exec->records.command = command;
  exec->records.options = options;
  exec->records.log_digest = digest_new();
  if (execution_check_data_file(exec, err) || execution_check_files(exec, err) ||
      open_records(exec, err))
    return -1;
  const struct execution_watch *watch = exec->request->watch;
  if (watch && watch->edits) watch->edits(watch->ctx, exec);
  exec->edits.sink = log_sink;
  exec->edits.sink_ctx = exec;
  execution_layout_write(&exec->layout, &layout);
  exec->records.layout_asked = json_take(&layout, &exec->arena);
  const struct edit_log_head head = {.command = command,
                                     .options = options,
                                     .layout = exec->records.layout_asked,
                                     .output = exec->out.onnx_name};
  return edit_log_begin(&exec->edits, &head, err);
}

void execution_drop_edits(struct execution *exec) {
  record_file_drop(&exec->records.log);
  record_file_drop(&exec->records.report);
  record_file_drop(&exec->records.page);
  record_file_drop(&exec->records.provenance);
  digest_free(exec->records.log_digest);
  exec->records.log_digest = NULL;
  edits_free(&exec->edits);
  recipes_free(&exec->recipes);
  model_free(&exec->model);
}

int execution_begin_again(struct execution *exec, struct err *err) {
  const struct load_options load = {.warnings = &exec->flaws};
  execution_drop_edits(exec);
  model_init(&exec->model);
  recipes_init(&exec->recipes);
  edits_init(&exec->edits, &exec->model, &exec->recipes);
  execution_stage_forget(exec);
  return load_model(&exec->model, exec->sources, &load, err);
}

// ---- the plan ----------------------------------------------------------------------------------

static int plan_sink(void *ctx, struct span text) {
  return ctx ? record_file_add(ctx, text) : 0;
}

// plan_id comes from the plan's text, so it is written even if nobody asked for the file.
static int write_plan(struct execution *exec, struct err *err) {
  const char *path = exec->outcome.no_such_output ? NULL : exec->request->records.plan;
  if (!path) return plan_file_write(&exec->plan, plan_sink, NULL, err);
  const char *literals = arena_printf(&exec->arena, "%s.bin", path);
  struct record_file text = {0};
  int rc = record_file_open(&text, path, exec->request->observer, &exec->arena, err);
  struct err vague = {0}; // the text knows its path and what the system said
  if (rc == 0 && plan_file_write(&exec->plan, plan_sink, &text, &vague))
    rc = record_file_check(&text, err);
  if (rc == 0) rc = record_file_publish(&text, err);
  record_file_drop(&text);
  return rc ? rc
            : record_file_write(literals, span_of(exec->plan.literals, exec->plan.n_literals),
                                exec->request->observer, err);
}

// The name may come from a log that anybody wrote.
const char *execution_passes_json(struct execution *exec) {
  if (strcmp(exec->records.command, "convert") == 0) return "[]";
  struct json_out j = {0};
  struct err ignored = {0};
  // A pipeline's options are {"passes":[…]}, in the words of this list. One that says more, how exact it is to be or which
  // rules of a user's own it has, is recorded whole: nothing that its edits follow from is left out.
  struct json_value *doc = strcmp(exec->records.command, "run") == 0
                               ? json_parse(span_str(exec->records.options), "options", &ignored)
                               : NULL;
  const struct json_value *several = json_get(doc, "passes");
  if (json_is_array(several) && json_count(doc) == 1) {
    json_copy(&j, several);
  } else {
    json_array(&j);
    json_object(&j);
    json_put_text(&j, "name", exec->records.command);
    json_put_raw(&j, "options", span_str(exec->records.options));
    json_end_object(&j);
    json_end_array(&j);
  }
  json_free(doc);
  return json_take(&j, &exec->arena);
}

static int build_plan(struct execution *exec, struct err *err) {
  exec->out.taken = NULL;
  exec->layout.passes = execution_passes_json(exec);
  exec->layout.artifacts = execution_stage_artifacts(exec);
  return plan_build(&exec->plan, &exec->model, &exec->recipes, &exec->layout, err);
}

int execution_planned_bytes(struct execution *exec, uint64_t *bytes, struct err *err) {
  if (build_plan(exec, err)) return -1;
  *bytes = plan_total_bytes(&exec->plan);
  plan_free(&exec->plan);
  return 0;
}

// An output that is larger than it may be.
static void refuse_size(const struct execution *exec, uint64_t bytes, struct err *why) {
  const struct quoted limit = size_words_of(exec->sizes.output_limit);
  if (!exec->sizes.smallest) {
    err_fill(why, ERR_FAIL, "the output has %s (%s bytes), more than the budget of %s",
             quote_bytes(bytes).s, decimal(bytes).s, limit.s);
    err_fill_hint(why, "lower --budget by the difference");
    return;
  }
  err_fill(why, ERR_FAIL,
           "a budget of %s is too small: the smallest output that these candidates allow has %s "
           "(%s bytes)",
           limit.s, quote_bytes(bytes).s, decimal(bytes).s);
  if (exec->sizes.limit_hint)
    err_fill_hint(why, "%s", exec->sizes.limit_hint);
  else
    err_fill_hint(why, "raise --budget, or add candidates with fewer bits or larger blocks");
}

int execution_prepare_plan(struct execution *exec, struct err *err) {
  uint8_t sum[DIGEST_BYTES];
  digest_so_far(exec->records.log_digest, sum);
  edit_log_end(&exec->edits, sum);
  if (record_file_check(&exec->records.log, err) || edits_finish(&exec->edits, err)) return -1;
  digest_end(exec->records.log_digest, sum);
  hex_encode(sum, sizeof sum, exec->records.edits_sha256);
  if (build_plan(exec, err)) return -1;
  exec->planned = true;
  struct err why = {0};
  const uint64_t bytes = plan_total_bytes(&exec->plan);
  if ((execution_output_check_data(exec, &why) || execution_output_check_locations(exec, &why)) &&
      execution_refused(exec, &why, err))
    return -1;
  if (exec->sizes.output_limit && bytes > exec->sizes.output_limit) {
    why = (struct err){0};
    refuse_size(exec, bytes, &why);
    if (execution_refused_anywhere(exec, &why, err)) return -1;
  }
  // The names of data files are known now.
  if (execution_check_data_file(exec, err) || execution_check_files(exec, err)) return -1;
  if (exec->plan.moved_out)
    execution_warn(
        exec,
        "'%s' would be larger than 2 GiB - 1 bytes, so its weights go to a data file next to it",
        quote_str(exec->out.onnx_name).s);
  if (exec->layout.align && exec->plan.n_outputs == 1)
    execution_warn(
        exec,
        "an alignment of %s bytes has no effect on '%s', which has no data file: --external "
        "moves tensors of 1 KiB and more to one",
        decimal(exec->layout.align).s, quote_str(exec->out.onnx_name).s);
  for (uint32_t i = 0; i < exec->plan.n_outputs; i++) {
    const char *name = exec->plan.outputs[i].name;
    if (strcmp(name, exec->out.onnx_name) != 0 && strstr(name, ".."))
      execution_warn(
          exec,
          "the data file's name '%s' contains '..': ONNX Runtime accepts that, onnx.load and "
          "onnx.checker do not",
          quote_str(name).s);
  }
  if (write_plan(exec, err)) return -1;
  exec->sizes.index_bytes = resources_held();
  exec->sizes.planning_bytes = resources_peak();
  for (const struct execution_stage *s = exec->stages; s; s = s->next)
    exec->sizes.planning_bytes += s->artifact.text.n; // answers, which lie elsewhere
  // Before the seal: a run that is killed in it is completed without making the edits again.
  return record_file_is_open(&exec->records.log) && !exec->outcome.no_such_output
             ? record_file_publish(&exec->records.log, err)
             : 0;
}
