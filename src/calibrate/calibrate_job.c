// The order of things:
//
//   options ─▶ runtime found ─▶ model loaded, passes ─▶ values ─▶ samples looked at ─▶ staging folder
//     ─▶ first read ─▶ second read ─▶ RANGES in its place, the staging folder gone
//
// Nothing is placed before all of what can be refused was looked at, and RANGES is there whole or not at all.
#include "calibrate/calibrate_job.h"

#include "base/version_number.h"
#include "execute/execution_stage.h"
#include "execute/record_file.h"
#include "passes/custom_ops/custom_ops.h"
#include "pipeline/config/pipeline_yaml.h"
#include "side_inputs/side_inputs.h"
#include "stream/sys/file_lookup.h"
#include "stream/sys/fs.h"
#include "verify/runtime/runtime_find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- the model ----------------------------------------------------------------------------------

static int ask(void *ctx, const struct pass_question *q, struct pass_answer *answer,
               struct err *err) {
  struct calibrate_job *j = ctx;
  uint64_t read; // nobody asks for it
  return execution_stage_answer(&j->exec, q, answer, &read, err);
}

static int take_passes(struct calibrate_job *j, struct err *err) {
  struct pipeline *p = &j->pj.pipeline;
  if (j->record) return j->record->take(j->record->ctx, p, err);
  const struct calibrate_request *r = j->request;
  int rc = r->config ? pipeline_read(p, r->config, err) : 0;
  for (uint32_t i = 0; i < r->n_passes && rc == 0; i++)
    rc = pipeline_add_text(p, r->passes[i], err);
  if (rc == 0 && p->n_steps > 0) rc = pipeline_settle(p, false, false, err);
  return rc == 0 ? pipeline_read_files(p, NULL, err) : rc;
}

static void warn(void *ctx, const char *sentence, const char *hint) {
  struct calibrate_job *j = ctx;
  observer_warning(j->c.observer, "%s", sentence);
  if (hint) observer_hint(j->c.observer, "%s", hint);
}

static int run_passes(struct calibrate_job *j, struct err *err) {
  struct pass_run run = {
      .pipeline = &j->pj.pipeline, .env = pass_edits_env(&j->pj, &j->exec), .flaws = j->exec.flaws};
  if (j->pj.pipeline.n_steps == 0) return 0;
  run.env.ask = ask;
  run.env.ask_ctx = j;
  j->pj.exec = &j->exec;
  j->base.given = &j->pj.pipeline.files;
  if (side_inputs_fit(&j->pj.pipeline.files, &j->exec.model, warn, j, err)) return -1;
  return pass_run(&run, &j->pj.arena, err);
}

static int check_model(const struct calibrate_job *j, struct err *err) {
  const struct digest_hex have = digest_hex(j->exec.model.meta_sha256);
  if (!j->record || strcmp(j->record->meta_sha256, have.s) == 0) return 0;
  err_fill(err, ERR_INPUT,
           "the ranges '%s' were found on a model other than '%s' (meta_sha256 %s, not %s)",
           quote_str(path_base(j->out)).s, quote_path(j->exec.in_path).s, have.s,
           quote_str(j->record->meta_sha256).s);
  return err_hint(err, "they were found on a file named '%s'", quote_str(j->record->source).s);
}

static int load(struct calibrate_job *j, struct err *err) {
  const struct infer_options o = {INFER_REFINE, 1, INT64_MAX, false};
  const struct calibrate_request *r = j->request;
  if (execution_load(&j->exec, err) || check_model(j, err) || run_passes(j, err)) return -1;
  j->infer = infer_new(&j->exec.model, &o);
  infer_all(j->infer, NULL);
  j->c.m = &j->exec.model;
  j->c.infer = j->infer;
  calibrate_values_find(&j->c.values, j->c.m, j->infer, j->c.options.statistics, r->excluded,
                        r->n_excluded);
  if (j->c.values.n_list > 0) return 0;
  return err_set(err, ERR_FAIL, "'%s' has no float values to calibrate",
                 quote_path(j->exec.in_path).s);
}

// Where weights take less memory than this, they are packed as the runtime likes them, which is how onnxruntime's own
// calibration runs a model: a product of one row may differ in its last bit otherwise.
#define PACKED_MOST ((uint64_t)512 << 20)

static bool is_mapped(const struct model *m) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (!(m->tensors[i].flags & TENSOR_DEAD)) bytes += m->tensors[i].bytes;
  return bytes > PACKED_MOST;
}

// ---- scratch, samples, staging --------------------------------------------------------------------

static int open_samples(struct calibrate_job *j, struct err *err) {
  const struct calibrate_request *r = j->request;
  const struct samples_options o = {.generate = r->generate,
                                    .draw = {.seed = r->seed},
                                    .most = r->samples,
                                    .scratch = j->scratch.path,
                                    .data = r->data,
                                    .n_data = r->n_data};
  if (samples_open(&j->c.samples, j->c.m, j->infer, &o, err)) return -1;
  j->c.n_samples = samples_count(j->c.samples);
  if (samples_left_out(j->c.samples) > 0)
    observer_notice(j->c.observer, "%s more sample%s left out (--samples)",
                    decimal(samples_left_out(j->c.samples)).s,
                    samples_left_out(j->c.samples) == 1 ? " is" : "s are");
  return 0;
}

static const char *passes_json(struct calibrate_job *j) {
  struct pipeline *p = &j->pj.pipeline;
  if (p->n_steps == 0) return "[]";
  j->exec.records.command = pipeline_command(p);
  j->exec.records.options = pipeline_options(p);
  return execution_passes_json(&j->exec);
}

// All that decides what RANGES holds, beside the model.
static const char *asked_for(struct calibrate_job *j) {
  const struct calibrate_options *o = &j->c.options;
  const struct range_how *how = &o->how;
  uint8_t sum[DIGEST_BYTES];
  samples_sha256(j->c.samples, sum);
  char *text = arena_printf(
      &j->c.arena, "%s %d %a %u %u %d %d %d %d %s %s %u %s", digest_hex(sum).s, (int)how->method,
      how->percentile, how->bins, how->quantized_bins, how->symmetric,
      how->moving_average + 2 * how->cube_roots, (int)o->statistics, o->skip_infinite,
      decimal(o->group_bytes).s, runtime_about(j->c.runtime).version, o->jobs, passes_json(j));
  for (uint32_t i = 0; i < j->request->n_excluded; i++)
    text = arena_printf(&j->c.arena, "%s\n%s", text, j->request->excluded[i]);
  return text;
}

// *there: it is, and is not to be replaced.
static int check_place(struct calibrate_job *j, const char *path, bool *there, struct err *err) {
  struct entry_facts at;
  *there = false;
  if (entry_look(HERE, path, 0, &at)) return 0;
  if (at.kind == ENTRY_FOLDER)
    return err_set(err, ERR_USAGE, "'%s' is a folder", quote_path(path).s);
  if (execution_reads(&j->exec, &at))
    return err_set(err, ERR_USAGE, "'%s' is a file of the input", quote_path(path).s);
  *there = !j->request->replace;
  return 0;
}

static int refuse_existing(const char *path, struct err *err) {
  err_set(err, ERR_USAGE, "'%s' exists", quote_path(path).s);
  return err_because(err, REASON_EXISTS);
}

static int check_companion(struct calibrate_job *j, const char *path, struct err *err) {
  bool there;
  if (check_place(j, path, &there, err)) return -1;
  if (!there) return 0;
  if (j->request->base->fresh) return refuse_existing(path, err);
  j->companions[j->n_companions++] = path;
  return 0;
}

// Companions that are there, and RANGES is not, may be what an interrupted run has placed: check_companions sees that.
static int check_output(struct calibrate_job *j, struct err *err) {
  bool there;
  if (j->cache && strcmp(j->cache, j->out) == 0)
    return err_set(err, ERR_USAGE, "-o and --cache name the same file '%s'", quote_path(j->out).s);
  if (check_place(j, j->out, &there, err)) return -1;
  if (there) return refuse_existing(j->out, err);
  if (j->cache && check_companion(j, j->cache, err)) return -1;
  if (j->c.options.statistics == CALIBRATE_GRAM &&
      check_companion(j, ranges_data_path(j->out, &j->c.arena), err))
    return -1;
  if (record_file_foresee(j->out, err)) return -1;
  return j->cache ? record_file_foresee(j->cache, err) : 0;
}

// A file of the staging folder, from when all is found until it has its place: the SHA-256 of each companion.
#define PLACING "placing"
enum { PLACING_BYTES = 1024 };

static int check_companions(struct calibrate_job *j, struct err *err) {
  struct span listed = {0};
  struct err ignored = {0};
  const char *other = NULL;
  if (j->n_companions == 0) return 0;
  if (j->resumed)
    (void)fs_read_own(j->c.kept, PLACING, PLACING_BYTES, "the staging folder", &listed, &ignored);
  for (uint32_t i = 0; i < j->n_companions && !other; i++) {
    bool ours = false;
    for (size_t at = 0; at + DIGEST_BYTES <= listed.n; at += DIGEST_BYTES) {
      const struct file_lookup placed = {j->companions[i], FILE_LOOKUP_ANY_SIZE, listed.at + at};
      ours = ours || file_lookup_in(&placed, &j->companions[i], 1, &other);
    }
    other = ours ? NULL : j->companions[i];
  }
  if (listed.at) fs_free(listed);
  return other ? refuse_existing(other, err) : 0;
}

static const char *folder_of(const char *path, struct arena *a) {
  const char *base = path_base(path);
  return base == path ? "." : arena_string(a, span_of(path, (size_t)(base - path)));
}

static int open_staging(struct calibrate_job *j, struct err *err) {
  const struct artifact_request q = {.dest_folder = folder_of(j->out, &j->c.arena),
                                     .onnx_name = path_base(j->out),
                                     .resume_command = j->request->base->resume_command,
                                     .version = version_number,
                                     .fresh = j->request->base->fresh,
                                     .sources = j->exec.sources,
                                     .meta_sha256 = j->c.m->meta_sha256,
                                     .stage = "calibrate",
                                     .options = span_str(asked_for(j))};
  if (artifact_open_parts(&j->artifact, &q, &j->resumed, err)) return -1;
  j->c.kept = j->artifact.at.folder;
  return 0;
}

// What comes back of many values together must not be in memory with them.
enum { INLINE_BYTES = 4096 };

// ---- the runtime ----------------------------------------------------------------------------------

static int find_runtime(struct calibrate_job *j, struct err *err) {
  const struct calibrate_request *r = j->request;
  const char *found;
  j->runtime = (struct runtime_options){.library = r->library,
                                        .threads = j->c.options.jobs,
                                        .provider = r->provider,
                                        .memory_bytes = r->runtime_memory,
                                        .seconds = r->runtime_seconds,
                                        .inline_bytes = INLINE_BYTES,
                                        .called = j->exec.in_path,
                                        .stop = j->c.stop};
  if (runtime_find_program(&j->c.arena, &found, err)) return -1;
  return runtime_find_library(j->runtime.library, &j->c.arena, &found, err);
}

// The runtime's own error mentions neither QONNX nor the pass that helps.
static int refuse_operators(const struct calibrate_job *j, struct err *err) {
  const struct model *m = j->c.m;
  const uint32_t node = custom_ops_not_runnable(m);
  if (node == NO_ID) return 0;
  const struct span domain = model_name(m, m->nodes[node].domain);
  err_fill(err, ERR_FAIL, "no runtime has the operator %s of %s, so the model cannot be run",
           quote(model_name(m, m->nodes[node].op_type)).s, quote(domain).s);
  return err_hint(err, "'weir run IN OUT --pass %s' converts it to a model that runs",
                  custom_ops_is_imported(domain) ? "import-qonnx" : "inject-ops");
}

static int open_model(struct calibrate_job *j, struct err *err) {
  const struct calibrate_model_of of = {.m = j->c.m,
                                        .recipes = &j->exec.recipes,
                                        .sources = j->exec.sources,
                                        .memory = j->exec.memory,
                                        .runtime = j->c.runtime,
                                        .scratch = j->scratch.path,
                                        .scratch_at = j->scratch.at};
  if (calibrate_model_open(&j->c.model, &of, err)) return -1;
  j->made_bytes = calibrate_model_made_bytes(j->c.model);
  if (j->made_bytes > 0)
    observer_notice(j->c.observer,
                    "weights that passes changed are stored in '%s' during the run: %s",
                    quote_path(j->scratch.path).s, quote_bytes_exact(j->made_bytes).s);
  return calibrate_model_write(j->c.model, err);
}

// ---- the result -----------------------------------------------------------------------------------

// NULL: it was told nothing that is not in the head otherwise.
static const char *told_options(struct calibrate_job *j) {
  const struct calibrate_request *r = j->request;
  const uint32_t n = r->n_excluded;
  struct json_out o = {0};
  if (n == 0 && !r->statistics && !r->generate && !r->provider && !r->options.skip_infinite)
    return NULL;
  json_object(&o);
  if (n > 0) json_put_array(&o, "exclude");
  for (uint32_t i = 0; i < n; i++)
    json_text(&o, r->excluded[i]);
  if (n > 0) json_end_array(&o);
  if (r->options.skip_infinite) json_put_bool(&o, "skip_infinite", true);
  if (r->statistics) json_put_text(&o, "statistics", r->statistics);
  if (r->provider) json_put_text(&o, "provider", r->provider);
  if (r->generate) {
    json_put_object(&o, "generate");
    json_put_uint(&o, "n", r->generate);
    json_put_uint(&o, "seed", r->seed);
    json_end_object(&o);
  }
  json_end_object(&o);
  return json_take(&o, &j->c.arena);
}

static void fill_head(struct calibrate_job *j) {
  struct ranges *r = &j->ranges;
  const struct range_how *how = &j->c.options.how;
  r->form = RANGES_OWN;
  r->weir = j->record ? j->record->weir : version_number;
  r->source = j->record ? j->record->source : path_base(j->exec.in_path);
  r->has_model = true;
  memcpy(r->meta_sha256, j->c.m->meta_sha256, DIGEST_BYTES);
  r->passes = passes_json(j);
  r->runtime = runtime_about(j->c.runtime).version;
  r->method = how->method;
  r->percentile = how->percentile;
  r->bins = how->bins;
  r->symmetric = how->symmetric;
  r->moving_average = how->moving_average;
  r->cube_roots = how->cube_roots;
  r->options = told_options(j);
  r->samples = j->c.n_samples;
  samples_sha256(j->c.samples, r->samples_sha256);
}

static int sink(void *ctx, struct span line) {
  return record_file_add(ctx, line);
}

static int move_data(struct calibrate_job *j, struct err *err) {
  const char *path = ranges_data_path(j->out, &j->c.arena);
  if (entry_rename(j->c.kept, "data", HERE, path))
    return err_errno(err, errno, ERR_IO, "'%s' cannot be written", quote_path(path).s);
  return 0;
}

typedef int (*ranges_writer)(const struct ranges *r, int (*sink)(void *ctx, struct span text),
                             void *ctx);

static int write_text(struct calibrate_job *j, const char *path, ranges_writer write,
                      struct err *err) {
  struct record_file text = {0};
  if (record_file_open(&text, path, j->c.observer, &j->c.arena, err)) return -1;
  (void)write(&j->ranges, sink, &text); // the text keeps what failed
  int rc = record_file_check(&text, err);
  if (rc == 0) rc = record_file_publish(&text, err);
  record_file_drop(&text);
  return rc;
}

static int hash(void *ctx, struct span line) {
  digest_add(ctx, line.at, line.n);
  return 0;
}

static int begin_placing(struct calibrate_job *j, struct err *err) {
  uint8_t sums[2 * DIGEST_BYTES];
  size_t n = 0;
  if (j->ranges.data_bytes > 0) {
    memcpy(sums, j->ranges.data_sha256, DIGEST_BYTES);
    n += DIGEST_BYTES;
  }
  if (j->cache) {
    struct digest *sha = digest_new();
    (void)ranges_write_cache(&j->ranges, hash, sha);
    digest_finish(sha, sums + n);
    n += DIGEST_BYTES;
  }
  if (fs_put_file(j->c.kept, PLACING, span_of(sums, n), err) ||
      fs_sync_folder(j->c.kept, "the staging folder", err))
    return -1;
  j->placing = true;
  return 0;
}

// RANGES comes last: where it is, all of it is there.
static int write_ranges(struct calibrate_job *j, struct err *err) {
  if (begin_placing(j, err)) return -1;
  if (j->ranges.data_bytes > 0 && move_data(j, err)) return -1;
  if (j->cache && write_text(j, j->cache, ranges_write_cache, err)) return -1;
  return write_text(j, j->out, ranges_write, err);
}

static void begin(struct calibrate *c, const char *label, uint64_t runs) {
  observer_end(c->observer);
  c->told[0] = 0;
  c->told[1] = runs;
  observer_begin(c->observer, label);
}

void calibrate_tick(struct calibrate *c) {
  c->told[0]++;
  const struct work_told told = {.bytes_done = c->told[0],
                                 .bytes_total = c->told[1],
                                 .work_done = (double)c->told[0],
                                 .work_total = (double)c->told[1],
                                 .pieces = "runs"};
  observer_tick(c->observer, &told);
}

int calibrate_each_sample(struct calibrate *c, uint64_t kept, bool ticks,
                          int (*run)(void *ctx, const struct arrays *inputs, const char *sample,
                                     struct err *err),
                          void *ctx, struct err *err) {
  samples_rewind(c->samples);
  for (uint64_t k = 0;; k++) {
    const struct arrays *inputs;
    const char *sample;
    bool ended;
    if (c->stop && *c->stop) return err_set(err, ERR_RETRY, "stopped by a signal");
    if (samples_next(c->samples, &inputs, &sample, &ended, err)) return -1;
    if (ended) return 0;
    if (k >= kept && run(ctx, inputs, sample, err)) return -1;
    if (ticks) calibrate_tick(c);
  }
}

static int measure(struct calibrate_job *j, struct err *err) {
  struct calibrate *c = &j->c;
  if (calibrate_find_types(c, err)) return -1;
  begin(c, "ranges", c->n_samples);
  if (calibrate_first(c, err)) return -1;
  observer_end(c->observer);
  calibrate_second_plan(c);
  if (c->planned_runs > 0) begin(c, "counting", c->planned_runs);
  if (calibrate_second(c, err)) return -1;
  observer_end(c->observer);
  if (sources_unchanged(j->exec.sources, err)) return -1;
  fill_head(j);
  return write_ranges(j, err);
}

int calibrate_job_run(struct calibrate_job *j, const struct calibrate_request *request,
                      const struct calibrate_record *record, struct err *err) {
  const struct request *base = request->base;
  *j = (struct calibrate_job){
      .base = *base, .request = request, .out = request->out, .cache = request->cache};
  j->c.options = request->options;
  j->record = record;
  j->c.observer = base->observer;
  j->c.ranges = &j->ranges;
  j->c.stop = observer_stop(j->c.observer);
  pass_edits_init(&j->pj, base->observer, NULL);
  execution_begin_reading(&j->exec, &j->base, base->sources[0].path);
  ranges_init(&j->ranges);
  if (take_passes(j, err) || find_runtime(j, err) || load(j, err) || check_output(j, err) ||
      scratch_make(&j->scratch, "calibrate", &j->c.arena, err))
    return -1;
  j->runtime.scratch = j->scratch.path;
  j->runtime.mapped = is_mapped(j->c.m);
  if (refuse_operators(j, err) || runtime_open(&j->c.runtime, &j->runtime, err) ||
      open_samples(j, err) || open_staging(j, err) || check_companions(j, err) ||
      open_model(j, err))
    return -1;
  return measure(j, err);
}

void calibrate_job_close(struct calibrate_job *j, bool keep) {
  observer_end(j->c.observer);
  calibrate_model_close(j->c.model);
  if (j->c.runtime) runtime_close(j->c.runtime);
  samples_close(j->c.samples);
  if (folder_is_open(j->artifact.at.folder)) artifact_end(&j->artifact, keep);
  scratch_end(&j->scratch);
  ranges_free(&j->ranges);
  calibrate_values_free(&j->c.values);
  TABLE_FREE(&j->c, groups);
  infer_free(j->infer);
  execution_close(&j->exec);
  pass_edits_free(&j->pj);
  arena_free(&j->c.arena);
}
