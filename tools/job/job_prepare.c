// Before the first byte is written: paths, sources, model, the record of the edits, the plan.
//
//   IN ──load──▶ model ──(the command's edits, in the log)──▶ plan
//
// Everything that can be refused is refused here or by the dry run's look ahead, before the staging
// folder exists. The plan's id comes from its text, so the plan is always written, if only into a
// digest.
#include "job.h"
#include "job_asked.h"

#include "job_stage.h"
#include "machine.h"
#include "pipeline.h"
#include "provenance.h"
#include "report.h"
#include "size_words.h"
#include "unfinished.h"

int job_load(struct job *job, struct err *err) {
  const struct sources_options options = {.allow_links = job->request->allow_links};
  const struct load_options load = {.warnings = &job->flaws};
  if (sources_open(&job->sources, job->in_path, &options, err)) return -1;
  const int rc = load_model(&job->model, job->sources, &load, err);
  if (rc) (void)unfinished_explains(job->in_path, err);
  return rc;
}

// A job of this request, with nothing opened.
static void begin(struct job *job, const struct request *request) {
  const struct request_output *wanted = &request->outputs[0];
  *job = (struct job){.request = request,
                      .wanted = wanted,
                      .in_path = request->sources[0].path,
                      .began = machine_clock(),
                      .memory = request->limits.memory,
                      .mode = request->limits.io,
                      .out = {.dest = -1,
                              .path = wanted->path,
                              .absent = wanted->absent,
                              .asked = request->reads,
                              .replace = wanted->replace}};
  model_init(&job->model);
  recipes_init(&job->recipes);
  edits_init(&job->edits, &job->model, &job->recipes);
  job_output_split(job);
  job->layout = (struct plan_layout){.onnx_name = job->out.onnx_name,
                                     .inline_below = 1024,
                                     .name_taken = job_output_taken,
                                     .name_ctx = job,
                                     .small_tensors = wanted->tensor_digests};
  job_layout_take(&job->layout, &wanted->layout);
}

int job_open(struct job *job, const struct request *request, struct err *err) {
  const uint64_t least = run_min_memory(1);
  struct err why = {0};
  const struct job_watch *watch = request->watch;
  begin(job, request);
  int rc = 0;
  if (job->memory < least) {
    rc = err_set(err, ERR_USAGE, "%s %s is not enough: one worker needs %s",
                 request->limits.memory_name, size_words_of(job->memory).s, size_words_of(least).s);
    err_fill_hint(err, "the default is 48MiB");
  }
  if (rc == 0) rc = job_output_check_name(job, err);
  if (rc == 0 && watch && watch->begin) rc = watch->begin(watch->ctx, job, err);
  if (rc == 0) job_output_ask_old(job);
  if (rc == 0) rc = job_load(job, err);
  if (rc == 0) rc = job_output_open(job, err);
  if (rc == 0 && job_output_check(job, &why)) rc = job_refused(job, &why, err);
  if (rc == 0 && request->records.report_html) {
    census_count(&job->census, &job->model, CENSUS_BEFORE);
    job->counted_before = true;
  }
  if (rc) job_close(job);
  return rc;
}

// ---- the edit log ------------------------------------------------------------------------------

static int log_sink(void *ctx, struct span line) {
  struct job *job = ctx;
  digest_add(job->log_digest, line.at, line.n);
  const struct job_watch *watch = job->request->watch;
  if (watch && watch->line) watch->line(watch->ctx, line);
  return record_file_is_open(&job->log) ? record_file_add(&job->log, line) : 0;
}

// Only of what is written: a dry run has none.
static int open_provenance(struct job *job, struct err *err) {
  const char *path = job->request->records.provenance;
  if (!path) return 0;
  if (provenance_check_time(err)) return -1;
  if (job->request->limits.io == IO_NULL) {
    err_fill(err, ERR_USAGE, "--provenance describes an output, but --io=null writes none");
    return err_hint(err, "leave out one of them");
  }
  return job->request->dry_run ? record_file_foresee(path, err)
                               : record_file_reserve(&job->provenance_file, path,
                                                     job->request->observer, &job->arena, err);
}

// What cannot be written is better known before hours of work than after.
static int open_records(struct job *job, struct err *err) {
  const char *log = job->request->records.edit_log;
  const char *plan = job->request->records.plan;
  const char *report = job->request->records.report_json;
  const char *page = job->request->records.report_html;
  if (plan && (record_file_foresee(plan, err) ||
               record_file_foresee(arena_printf(&job->arena, "%s.bin", plan), err)))
    return -1;
  const char *artifacts = job->request->records.artifacts;
  if (artifacts && !job->request->dry_run && kept_artifacts_make(artifacts, err)) return -1;
  if (log && record_file_open(&job->log, log, job->request->observer, &job->arena, err)) return -1;
  if (report &&
      record_file_reserve(&job->report_file, report, job->request->observer, &job->arena, err))
    return -1;
  if (page && record_file_reserve(&job->page_file, page, job->request->observer, &job->arena, err))
    return -1;
  return open_provenance(job, err);
}

int job_begin_edits(struct job *job, const char *command, const char *options, struct err *err) {
  struct json_out layout = {0};
  job->command = command;
  job->options = options;
  job->log_digest = digest_new();
  digest_start(job->log_digest);
  if (job_check_data_file(job, err) || job_check_files(job, err) || open_records(job, err))
    return -1;
  const struct job_watch *watch = job->request->watch;
  if (watch && watch->edits) watch->edits(watch->ctx, job);
  job->edits.sink = log_sink;
  job->edits.sink_ctx = job;
  job_layout_write(&job->layout, &layout);
  job->layout_asked = json_take(&layout, &job->arena);
  const struct edit_log_head head = {.command = command,
                                     .options = options,
                                     .layout = job->layout_asked,
                                     .output = job->out.onnx_name};
  return edit_log_begin(&job->edits, &head, err);
}

int job_begin_again(struct job *job, struct err *err) {
  const struct load_options load = {.warnings = &job->flaws};
  record_file_drop(&job->log);
  record_file_drop(&job->report_file);
  record_file_drop(&job->page_file);
  record_file_drop(&job->provenance_file);
  digest_free(job->log_digest);
  job->log_digest = NULL;
  edits_free(&job->edits);
  recipes_free(&job->recipes);
  model_free(&job->model);
  model_init(&job->model);
  recipes_init(&job->recipes);
  edits_init(&job->edits, &job->model, &job->recipes);
  job_stage_forget(job);
  return load_model(&job->model, job->sources, &load, err);
}

// ---- the plan ----------------------------------------------------------------------------------

static int plan_sink(void *ctx, struct span text) {
  return ctx ? record_file_add(ctx, text) : 0;
}

// plan_id comes from the plan's text, so it is written even if nobody asked for the file.
static int write_plan(struct job *job, struct err *err) {
  const char *path = job->no_such_output ? NULL : job->request->records.plan;
  if (!path) return plan_file_write(&job->plan, plan_sink, NULL, err);
  const char *literals = arena_printf(&job->arena, "%s.bin", path);
  struct record_file text = {0};
  int rc = record_file_open(&text, path, job->request->observer, &job->arena, err);
  struct err vague = {0}; // the text knows its path and what the system said
  if (rc == 0 && plan_file_write(&job->plan, plan_sink, &text, &vague))
    rc = record_file_check(&text, err);
  if (rc == 0) rc = record_file_publish(&text, err);
  record_file_drop(&text);
  return rc ? rc
            : record_file_write(literals, span_of(job->plan.literals, job->plan.n_literals),
                                job->request->observer, err);
}

// The name may come from a log that anybody wrote.
const char *job_passes_json(struct job *job) {
  if (strcmp(job->command, "convert") == 0) return "[]";
  struct json_out j = {0};
  struct err ignored = {0};
  // A pipeline's options are {"passes":[…]}, in the words of this list. One that says more, how exact it is to be or which
  // rules of a user's own it has, is recorded whole: nothing that its edits follow from is left out.
  struct json_value *doc = strcmp(job->command, "run") == 0
                               ? json_parse(span_str(job->options), "options", &ignored)
                               : NULL;
  const struct json_value *several = json_get(doc, "passes");
  if (json_is_array(several) && json_count(doc) == 1) {
    json_copy(&j, several);
  } else {
    json_array(&j);
    json_object(&j);
    json_put_text(&j, "name", job->command);
    json_put_raw(&j, "options", span_str(job->options));
    json_end_object(&j);
    json_end_array(&j);
  }
  json_free(doc);
  return json_take(&j, &job->arena);
}

static int build_plan(struct job *job, struct err *err) {
  job->out.taken = NULL;
  job->layout.passes = job_passes_json(job);
  job->layout.artifacts = job_stage_artifacts(job);
  return plan_build(&job->plan, &job->model, &job->recipes, &job->layout, err);
}

int job_planned_bytes(struct job *job, uint64_t *bytes, struct err *err) {
  if (build_plan(job, err)) return -1;
  *bytes = plan_total_bytes(&job->plan);
  plan_free(&job->plan);
  return 0;
}

// An output that is larger than it may be.
static void refuse_size(const struct job *job, uint64_t bytes, struct err *why) {
  const struct quoted limit = size_words_of(job->output_limit);
  if (!job->smallest) {
    err_fill(why, ERR_FAIL, "the output has %s (%lu bytes), more than the budget of %s",
             quote_bytes(bytes).s, bytes, limit.s);
    err_fill_hint(why, "lower --budget by the difference");
    return;
  }
  err_fill(why, ERR_FAIL,
           "a budget of %s is too small: the smallest output that these candidates allow has %s "
           "(%lu bytes)",
           limit.s, quote_bytes(bytes).s, bytes);
  if (job->limit_hint)
    err_fill_hint(why, "%s", job->limit_hint);
  else
    err_fill_hint(why, "raise --budget, or add candidates with fewer bits or larger blocks");
}

int job_prepare_plan(struct job *job, struct err *err) {
  uint8_t sum[DIGEST_BYTES];
  digest_so_far(job->log_digest, sum);
  edit_log_end(&job->edits, sum);
  if (record_file_check(&job->log, err) || edits_finish(&job->edits, err)) return -1;
  digest_end(job->log_digest, sum);
  hex_encode(sum, sizeof sum, job->edits_sha256);
  if (build_plan(job, err)) return -1;
  job->planned = true;
  struct err why = {0};
  const uint64_t bytes = plan_total_bytes(&job->plan);
  if ((job_output_check_data(job, &why) || job_output_check_locations(job, &why)) &&
      job_refused(job, &why, err))
    return -1;
  if (job->output_limit && bytes > job->output_limit) {
    why = (struct err){0};
    refuse_size(job, bytes, &why);
    if (job_refused_anywhere(job, &why, err)) return -1;
  }
  // The names of data files are known now.
  if (job_check_data_file(job, err) || job_check_files(job, err)) return -1;
  if (job->plan.moved_out)
    job_warn(
        job,
        "'%s' would be larger than 2 GiB - 1 bytes, so its weights go to a data file next to it",
        quote_str(job->out.onnx_name).s);
  if (job->layout.align && job->plan.n_outputs == 1)
    job_warn(job,
             "an alignment of %lu bytes has no effect on '%s', which has no data file: --external "
             "moves tensors of 1 KiB and more to one",
             job->layout.align, quote_str(job->out.onnx_name).s);
  for (uint32_t i = 0; i < job->plan.n_outputs; i++) {
    const char *name = job->plan.outputs[i].name;
    if (strcmp(name, job->out.onnx_name) != 0 && strstr(name, ".."))
      job_warn(job,
               "the data file's name '%s' contains '..': ONNX Runtime accepts that, onnx.load and "
               "onnx.checker do not",
               quote_str(name).s);
  }
  if (write_plan(job, err)) return -1;
  job->index_bytes = arena_held_bytes();
  job->planning_bytes = arena_peak_bytes();
  for (const struct job_stage *s = job->stages; s; s = s->next)
    job->planning_bytes += s->artifact.text.n; // answers, which lie elsewhere
  // Before the seal: a run that is killed in it is completed without making the edits again.
  return record_file_is_open(&job->log) && !job->no_such_output
             ? record_file_publish(&job->log, err)
             : 0;
}
