// The pipeline that the writing commands share: paths, loading, planning, staging, running,
// sealing.
//
//   IN ──load──▶ model ──(the command's edits)──▶ plan ──run──▶ staging folder ──seal──▶ OUT
//
// Everything that can be refused is refused before the staging folder exists. What is left of a run
// that failed: nothing, unless going on with it makes sense (a signal, a full disk, an I/O error);
// then the staging folder stays, and its size and the command to resume are said.
#include "job.h"

#include "beneath.h"
#include "fs.h"
#include "job_stage.h"
#include "report.h"
#include "stop.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BLOCK = 1 << 20 };

// ---- paths -------------------------------------------------------------------------------------

void job_split_output(struct job *job) {
  const char *slash = strrchr(job->out_path, '/');
  job->onnx_name = slash ? slash + 1 : job->out_path;
  if (!slash)
    job->dest_folder = ".";
  else if (slash == job->out_path)
    job->dest_folder = "/";
  else
    job->dest_folder =
        arena_string(&job->arena, span_of(job->out_path, (size_t)(slash - job->out_path)));
}

static int check_name(const struct job *job, struct err *err) {
  const char *name = job->onnx_name;
  if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
    err_set(err, ERR_USAGE, "the output '%s' names no file", quote_str(job->out_path).s);
    return err_hint(err, "name one, such as out/model.onnx");
  }
  if (!cli_flag(job->args, OPT_NO_MANIFEST) && !manifest_can_name(name)) {
    err_set(err, ERR_USAGE, "the output's name '%s' cannot stand in a manifest", quote_str(name).s);
    return err_hint(err, "choose a name without ':', or give --no-manifest");
  }
  const bool alone =
      cli_flag(job->args, OPT_NO_MANIFEST) && !cli_flag(job->args, OPT_TENSOR_DIGESTS);
  const size_t most =
      STAGING_FILE_MAX - (alone ? 0 : strlen(".manifest.json")); // .tensors.jsonl is as long
  if (strlen(name) <= most) return 0;
  err_set(err, ERR_USAGE, "the output's name '%s' has %zu bytes; %zu are the most%s",
          quote_str(name).s, strlen(name), most,
          alone ? "" : ", since the files beside it have longer ones");
  return err_hint(err, "choose a shorter name");
}

// A dry run makes no folder: the nearest one that is there stands in for one that the run would
// make.
static bool takes_folder_above(struct job *job) {
  if (!job->nothing_to_write || !cli_given(job->args, OPT_OUTPUT_DIR)) return false;
  const char *slash = strrchr(job->dest_folder, '/');
  if (!slash && strcmp(job->dest_folder, ".") == 0) return false;
  job->dest_is_above = true;
  job->dest_folder =
      slash == job->dest_folder ? "/"
      : slash
          ? arena_string(&job->arena, span_of(job->dest_folder, (size_t)(slash - job->dest_folder)))
          : ".";
  return true;
}

static int open_dest(struct job *job, struct err *err) {
  do
    job->dest = open(job->dest_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (job->dest < 0 && errno == ENOENT && takes_folder_above(job));
  if (job->dest >= 0) return 0;
  if (errno == ENOENT) {
    err_set(err, ERR_USAGE, "the output's folder '%s' does not exist",
            quote_str(job->dest_folder).s);
    return err_hint(err, "make it first: mkdir -p %s", quote_str(job->dest_folder).s);
  }
  return err_errno(err, errno, ERR_IO, "the output's folder '%s' cannot be opened",
                   quote_str(job->dest_folder).s);
}

bool job_output_there(const struct job *job, struct stat *st) {
  return !job->dest_is_above && fstatat(job->dest, job->onnx_name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

// Refuses to write over what must not be written over.
static int check_output(const struct job *job, struct err *err) {
  struct stat st;
  bool inplace = cli_flag(job->args, OPT_INPLACE);
  if (!job_output_there(job, &st)) return 0;
  if (inplace && S_ISLNK(st.st_mode)) {
    err_set(err, ERR_USAGE, "'%s' is a link, which --inplace would replace by a file",
            quote_str(job->out_path).s);
    return err_hint(err, "name another output");
  }
  if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)) {
    err_set(err, ERR_USAGE, "the output '%s' exists and is not a file", quote_str(job->out_path).s);
    return err_hint(err, "name a file that weir may make, such as a new one in that folder");
  }
  if (inplace) return 0;
  struct stat behind = st;
  if (S_ISLNK(st.st_mode)) (void)fstatat(job->dest, job->onnx_name, &behind, 0);
  if (sources_find_inode(job->sources, behind.st_dev, behind.st_ino) != NO_ID) {
    err_set(err, ERR_USAGE, "the output '%s' is one of the input's own files",
            quote_str(job->out_path).s);
    return err_hint(err, "name another output, or use --inplace to replace the input");
  }
  if (job_reads(job, &behind)) {
    err_set(err, ERR_USAGE, "the output '%s' is a file that this command reads",
            quote_str(job->out_path).s);
    return err_hint(err, "name another output");
  }
  if (job->replace) return 0;
  err_set(err, ERR_USAGE, "the output '%s' exists already", quote_str(job->out_path).s);
  if (cli_flag(job->args, OPT_RESUME))
    return err_hint(err, "'weir audit' says whether it is whole; a run that was to replace it goes "
                         "on with --force --resume");
  return err_hint(err, "add --force to replace it, or --resume to go on with an interrupted run");
}

// Is this base name taken in the output's folder?
static bool name_taken(void *ctx, const char *name) {
  struct job *job = ctx;
  struct stat st;
  if (job->dest_is_above || fstatat(job->dest, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return false;
  if (sources_find_inode(job->sources, st.st_dev, st.st_ino) != NO_ID)
    job->taken_by_source = arena_string(&job->arena, span_str(name));
  return true;
}

// With --inplace and --force a data file of the usual name is expected, and the new one gets
// another.
static int check_data_name(const struct job *job, struct err *err) {
  if (!job->taken_by_source || job->replace) return 0;
  err_set(err, ERR_USAGE, "the output's data file '%s' is one of the input's own files",
          quote_str(job->taken_by_source).s);
  return err_hint(err, "name another output, or add --force: a free name is chosen then");
}

// What no reader takes as a location must not be found when all the bytes are written.
static int check_locations(const struct job *job, struct err *err) {
  char path[BENEATH_MAX + 1];
  for (uint32_t i = 0; i < job->plan.n_outputs; i++) {
    const char *name = job->plan.outputs[i].name;
    struct err why = {0};
    if (strcmp(name, job->onnx_name) == 0) continue;
    if (strlen(name) > STAGING_FILE_MAX)
      err_set(&why, ERR_USAGE, "the data file's name '%s' has %zu bytes; %d are the most",
              quote_str(name).s, strlen(name), STAGING_FILE_MAX);
    else if (beneath_normalize(span_str(name), path, &why) == 0)
      continue;
    err_set(err, ERR_USAGE, "%s", why.msg);
    return err_hint(err, "choose another name for the output");
  }
  return 0;
}

// ---- open --------------------------------------------------------------------------------------

static int check_memory(struct job *job, struct err *err) {
  job->memory = cli_size(job->args, OPT_MEMORY);
  uint64_t least = run_min_memory(1);
  if (job->memory >= least) return 0;
  err_set(err, ERR_USAGE, "--memory %llu is too little: one worker needs %llu bytes",
          (unsigned long long)job->memory, (unsigned long long)least);
  return err_hint(err, "the default is 48MiB");
}

static int open_sources(struct job *job, struct err *err) {
  struct sources_options options = {.allow_links = cli_flag(job->args, OPT_ALLOW_LINKS)};
  struct load_options load = {0};
  if (sources_open(&job->sources, job->in_path, &options, err)) return -1;
  return load_model(&job->model, job->sources, &load, err);
}

int job_open(struct job *job, const struct cli_args *args, struct err *err) {
  struct err why = {0};
  *job = (struct job){
      .args = args, .dest = -1, .in_path = cli_operand(args, "IN"), .out_path = cli_output(args)};
  job->replace = cli_flag(args, OPT_FORCE) || cli_flag(args, OPT_INPLACE);
  job->nothing_to_write = cli_flag(args, OPT_DRY_RUN);
  job->no_output = cli_lacks_output(args);
  model_init(&job->model);
  recipes_init(&job->recipes);
  edits_init(&job->edits, &job->model, &job->recipes);
  job_split_output(job);
  job->layout = (struct plan_layout){
      .onnx_name = job->onnx_name, .inline_below = 1024, .name_taken = name_taken, .name_ctx = job};
  job->layout.small_tensors = cli_flag(args, OPT_TENSOR_DIGESTS);
  int rc = check_memory(job, err);
  if (rc == 0) rc = check_name(job, err);
  if (rc == 0) rc = open_sources(job, err);
  if (rc == 0) rc = open_dest(job, err);
  if (rc == 0 && check_output(job, &why)) rc = job_refused(job, &why, err);
  if (rc) job_close(job);
  return rc;
}

void job_close(struct job *job) {
  job_stage_end(job, false);
  job_text_drop(&job->log);
  job_text_drop(&job->report_file);
  if (job->planned) plan_free(&job->plan);
  edits_free(&job->edits);
  recipes_free(&job->recipes);
  model_free(&job->model);
  if (job->sources) sources_close(job->sources);
  if (job->dest >= 0) close(job->dest);
  digest_free(job->log_digest);
  arena_free(&job->arena);
  *job = (struct job){.dest = -1};
}

// ---- the edit log ------------------------------------------------------------------------------

static int log_sink(void *ctx, struct span line) {
  struct job *job = ctx;
  digest_add(job->log_digest, line.at, line.n);
  return job->log.file ? job_text_add(&job->log, line) : 0;
}

// What cannot be written is better known before hours of work than after.
static int open_records(struct job *job, struct err *err) {
  const char *log = cli_string(job->args, OPT_EDIT_LOG);
  const char *plan = cli_string(job->args, OPT_PLAN_OUT);
  const char *report = cli_string(job->args, OPT_REPORT_JSON);
  if (plan && (job_text_foresee(plan, err) ||
               job_text_foresee(arena_printf(&job->arena, "%s.bin", plan), err)))
    return -1;
  if (log && job_text_open(&job->log, log, &job->arena, err)) return -1;
  return report ? job_text_reserve(&job->report_file, report, &job->arena, err) : 0;
}

static void write_layout(const struct job *job, struct json_out *j) {
  static const char *const forms[] = {"default", "external", "inline"};
  json_object(j);
  json_put_text(j, "form", forms[job->layout.form]);
  json_put_text(j, "data_file", job->layout.data_name);
  json_put_uint(j, "align", job->layout.align);
  json_put_uint(j, "inline_below", job->layout.inline_below);
  json_end_object(j);
}

int job_begin_edits(struct job *job, const char *command, const char *options, struct err *err) {
  struct json_out layout = {0};
  job->command = command;
  job->options = options;
  job->log_digest = digest_new();
  digest_start(job->log_digest);
  if (job_check_data_file(job, err) || job_check_files(job, err) || open_records(job, err))
    return -1;
  job->edits.sink = log_sink;
  job->edits.sink_ctx = job;
  write_layout(job, &layout);
  struct edit_log_head head = {
      .command = command, .options = options, .layout = layout.text, .output = job->onnx_name};
  int rc = edit_log_begin(&job->edits, &head, err);
  json_done(&layout);
  return rc;
}

static int close_log(struct job *job, struct err *err) {
  uint8_t sum[DIGEST_BYTES];
  if (job_text_check(&job->log, err) || edits_finish(&job->edits, err)) return -1;
  digest_end(job->log_digest, sum);
  hex_encode(sum, sizeof sum, job->edits_sha256);
  return 0;
}

// ---- the plan ----------------------------------------------------------------------------------

static int plan_sink(void *ctx, struct span text) {
  return ctx ? job_text_add(ctx, text) : 0;
}

// plan_id comes from the plan's text, so it is written even if nobody asked for the file.
static int write_plan(struct job *job, struct err *err) {
  const char *path = cli_string(job->args, OPT_PLAN_OUT);
  if (!path) return plan_file_write(&job->plan, plan_sink, NULL, err);
  const char *literals = arena_printf(&job->arena, "%s.bin", path);
  struct job_text text = {0};
  int rc = job_text_open(&text, path, &job->arena, err);
  struct err vague = {0}; // the text knows its path and what the system said
  if (rc == 0 && plan_file_write(&job->plan, plan_sink, &text, &vague))
    rc = job_text_check(&text, err);
  if (rc == 0) rc = job_text_publish(&text, err);
  job_text_drop(&text);
  return rc ? rc : job_write_file(literals, span_of(job->plan.literals, job->plan.n_literals), err);
}

// The name may come from a log that anybody wrote.
static const char *passes_json(struct job *job) {
  if (!job->command || strcmp(job->command, "convert") == 0) return "[]";
  struct json_out j = {0};
  struct err ignored = {0};
  // A pipeline's options are {"passes":[…]}, in the words of this list.
  struct json_value *doc = strcmp(job->command, "run") == 0
                               ? json_parse(span_str(job->options), "options", &ignored)
                               : NULL;
  const struct json_value *several = json_get(doc, "passes");
  if (json_is_array(several)) {
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
  const char *text = arena_string(&job->arena, span_of(j.text, j.n));
  json_done(&j);
  return text;
}

static void warn_of_layout(struct job *job) {
  if (job->plan.moved_out)
    job_warn(job, "'%s' would pass 2 GiB - 1 bytes, so its weights go to a data file beside it",
             quote_str(job->onnx_name).s);
  if (job->layout.align && job->plan.n_outputs == 1)
    job_warn(
        job,
        "an alignment of %llu bytes has no effect on '%s', which gets no data file: --external "
        "makes one of tensors from 1 KiB on",
        (unsigned long long)job->layout.align, quote_str(job->onnx_name).s);
  for (uint32_t i = 0; i < job->plan.n_outputs; i++) {
    const char *name = job->plan.outputs[i].name;
    if (strcmp(name, job->onnx_name) != 0 && strstr(name, ".."))
      job_warn(job,
               "the data file's name '%s' has '..' in it: ONNX Runtime takes that, onnx.load and "
               "onnx.checker do not",
               quote_str(name).s);
  }
}

static int check_limit(const struct job *job, struct err *err) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < job->plan.n_outputs; i++)
    sum += job->plan.outputs[i].size;
  if (job->output_limit == 0 || sum <= job->output_limit) return 0;
  err_set(err, ERR_FAIL, "the output has %llu bytes, more than the budget of %llu",
          (unsigned long long)sum, (unsigned long long)job->output_limit);
  return err_hint(err, "lower --budget by the difference");
}

static int make_plan(struct job *job, struct err *err) {
  job->layout.passes = passes_json(job);
  job->layout.artifacts = job_stage_artifacts(job);
  if (plan_build(&job->plan, &job->model, &job->recipes, &job->layout, err)) return -1;
  job->planned = true;
  struct err why = {0};
  if (check_data_name(job, &why) && job_refused(job, &why, err)) return -1;
  if (check_locations(job, &why) && job_refused(job, &why, err)) return -1;
  if (check_limit(job, &why) && job_refused(job, &why, err)) return -1;
  if (job_check_files(job, err)) return -1; // the data file's name is known now
  warn_of_layout(job);
  if (write_plan(job, err)) return -1;
  job->index_bytes = arena_held_bytes();
  return 0;
}

// ---- run and seal ------------------------------------------------------------------------------

static int hash_source(struct job *job, uint32_t file, char hex[DIGEST_HEX], struct err *err) {
  uint64_t size = sources_size(job->sources, file);
  uint8_t *block = malloc(READ_BLOCK), sum[DIGEST_BYTES];
  if (!block) return err_set(err, ERR_FAIL, "no memory to hash the input");
  struct digest *d = digest_new();
  digest_start(d);
  int rc = 0;
  for (uint64_t off = 0; off < size && rc == 0; off += READ_BLOCK) {
    size_t n = (size_t)min_u64(READ_BLOCK, size - off);
    rc = *stop_watch() ? err_set(err, ERR_RETRY, "interrupted while the input '%s' was hashed",
                                 quote_str(sources_name(job->sources, file)).s)
                       : sources_read(job->sources, file, off, block, n, err);
    if (rc == 0) digest_add(d, block, n);
  }
  digest_end(d, sum);
  hex_encode(sum, sizeof sum, hex);
  digest_free(d);
  free(block);
  return rc;
}

// Hex digests of all input files (--hash-inputs), or NULL.
static int hash_inputs(struct job *job, const char ***out, struct err *err) {
  *out = NULL;
  if (!cli_flag(job->args, OPT_HASH_INPUTS)) return 0;
  uint32_t n = sources_count(job->sources);
  const char **list = arena_alloc(&job->arena, n * sizeof *list);
  for (uint32_t i = 0; i < n; i++) {
    char *hex = arena_alloc(&job->arena, DIGEST_HEX);
    if (hash_source(job, i, hex, err)) return -1;
    list[i] = hex;
  }
  *out = list;
  return 0;
}

struct records {
  struct json_out manifest;
  struct companion *tensors; // NULL: not wanted
};

static int put_lines(void *ctx, struct span text, struct err *err) {
  return companion_add(ctx, text, err);
}

static int list_tensors(struct job *job, const struct staging *st, const struct work_options *run,
                        struct records *records, struct err *err) {
  char name[256];
  manifest_tensors_name(name, job->onnx_name);
  if (companion_open(&records->tensors, st->folder, name, err)) return -1;
  const struct run_lines lines = {put_lines, records->tensors};
  if (run_tensor_digests(&job->plan, job->sources, st, run, lines, err)) return -1;
  return companion_end(records->tensors, err);
}

static int write_manifest(struct job *job, const struct staging *st, struct records *records,
                          struct err *err) {
  static const char *ignore[2];
  char manifest[256], tensors_hex[DIGEST_HEX];
  const char **inputs;
  uint32_t n = 0;
  manifest_name(manifest, job->onnx_name);
  ignore[n++] = manifest;
  if (records->tensors) {
    ignore[n++] = companion_name(records->tensors);
    hex_encode(companion_sha256(records->tensors), DIGEST_BYTES, tensors_hex);
  }
  if (hash_inputs(job, &inputs, err)) return -1;
  struct manifest_input in = {.plan = &job->plan,
                              .unit_digests = (const uint8_t(*)[DIGEST_BYTES])st->digests,
                              .edits_sha256 = job->log_digest ? job->edits_sha256 : NULL,
                              .tensors_sha256 = records->tensors ? tensors_hex : NULL,
                              .ignore_paths = ignore,
                              .n_ignore_paths = n,
                              .weir_version = version_number(),
                              .source_sha256 = inputs};
  return manifest_write(&records->manifest, &in, err);
}

void job_say_left(const struct seal_report *report) {
  if (report->old_sidecar_left[0])
    report_notice("old data was left in place: '%s': %s", quote_str(report->old_sidecar_left).s,
                  report->why_left);
}

// For who completes the seal, should this process be killed in it (job_resume.c).
static int keep_report(struct job *job, const struct staging *st, struct err *err) {
  if (!job_wants_report(job->args)) return 0;
  const char *resumed = job->resumed;
  struct json_out report = {.indent = 2};
  job->resumed = "seal";
  job_report_write(job, &report);
  job->resumed = resumed;
  json_newline(&report);
  const int rc = fs_put_file(st->folder, STAGING_REPORT, span_of(report.text, report.n), err);
  json_done(&report);
  return rc;
}

static int seal(struct job *job, struct staging *st, const struct work_options *run,
                struct err *err) {
  struct records records = {0};
  struct seal_report report = {0};
  bool manifest = !cli_flag(job->args, OPT_NO_MANIFEST);
  bool digests = cli_flag(job->args, OPT_TENSOR_DIGESTS);
  int rc = 0;
  if (digests) rc = list_tensors(job, st, run, &records, err);
  if (rc == 0 && manifest) rc = write_manifest(job, st, &records, err);
  if (rc == 0 && job->mode == IO_NULL) {
    if (manifest) report_text(records.manifest.text, records.manifest.n);
    staging_close(st);
  } else if (rc == 0) {
    struct seal_options options = {.replace = job->replace,
                                   .manifest = manifest ? records.manifest.text : NULL,
                                   .manifest_bytes = records.manifest.n,
                                   .tensors = records.tensors};
    rc = keep_report(job, st, err);
    if (rc == 0) rc = seal_run(st, &job->plan, &options, &report, err);
  }
  job_say_left(&report);
  json_done(&records.manifest);
  companion_close(records.tensors);
  return rc;
}

// Is what the run finished worth keeping?
static bool worth_resuming(const struct err *err) {
  return err->kind == ERR_RETRY || err->kind == ERR_NOSPACE || err->kind == ERR_IO;
}

static void leave_staging(struct job *job, struct staging *st, struct err *err) {
  if (job->mode == IO_NULL) {
    staging_close(st);
    return;
  }
  if (!worth_resuming(err)) {
    struct err ignored = {0};
    staging_remove(st, &ignored);
    return;
  }
  err_hint(
      err,
      "%u of %u units are done (%s in '%s'): go on with: %s; or remove it: weir clean %s --yes",
      staging_done_count(st), st->n_units, quote_bytes(staging_disk_bytes(st)).s,
      quote_str(st->name).s, cli_resume_command(job->args, &job->arena),
      quote_str(job->dest_folder).s);
  staging_close(st);
}

static int open_staging(struct job *job, struct staging *st, enum staging_resume *how,
                        struct err *err) {
  char note[1024] = "";
  *how = STAGING_FRESH;
  if (job->mode == IO_NULL) return staging_open_null(st, &job->plan, job->dest_folder, err);
  struct staging_options options = {.dest_folder = job->dest_folder,
                                    .onnx_name = job->onnx_name,
                                    .resume_command = cli_resume_command(job->args, &job->arena),
                                    .resume = cli_flag(job->args, OPT_RESUME),
                                    .took_over = job_stage_took_over(job)};
  int rc = staging_open(st, &job->plan, job->sources, &options, how, note, sizeof note, err);
  for (char *line = strtok(note, "\n"); line; line = strtok(NULL, "\n"))
    report_notice("%s", line);
  return rc;
}

int job_choose_io(struct job *job, struct err *err) {
  char note[256] = "";
  if (job->mode != IO_AUTO) return 0;
  if (!io_mode_by_name(cli_string(job->args, OPT_IO), &job->mode)) job->mode = IO_AUTO;
  if (io_choose(&job->mode, note, sizeof note, err)) return -1;
  if (note[0]) report_notice("%s", note);
  return 0;
}

static int run_and_seal(struct job *job, struct err *err) {
  struct staging st;
  enum staging_resume how;
  struct seal_report report = {0};
  const volatile int *stop = stop_watch(); // from the first thing that an interruption would leave
  if (job_choose_io(job, err) || open_staging(job, &st, &how, err)) {
    job_stage_end(job, worth_resuming(err));
    return -1;
  }
  if (how == STAGING_SEALED) {
    job->resumed = "seal";
    return seal_finish(&st, &report, err);
  }
  if (how == STAGING_RESUMED) job->resumed = "units";
  struct work_options options = {.jobs = cli_count(job->args, OPT_JOBS),
                                 .memory = job->memory,
                                 .mode = job->mode,
                                 .progress = {report_tick, NULL},
                                 .stop = stop};
  int rc = job_stage_move(job, &st, err);
  if (rc == 0) {
    report_begin("writing", staging_done_bytes(&st, &job->plan)); // no merit of this run's speed
    rc = run_plan(&job->plan, job->sources, &st, &options, &job->stats, err);
    report_end();
  }
  // Also where what was found is the reason to refuse it.
  job->all_made = staging_done_count(&st) == st.n_units;
  if (job->all_made) job->n_errors = run_errors(&job->plan, &st, &job->arena, &job->errors);
  if (rc == 0) rc = seal(job, &st, &options, err);
  if (rc) leave_staging(job, &st, err);
  return rc;
}

static int write_json_report(struct job *job, struct err *err) {
  struct json_out report = {.indent = 2};
  job_report_write(job, &report);
  json_newline(&report);
  const struct span text = span_of(report.text, report.n);
  int rc = job->report_file.path ? job_text_end(&job->report_file, text, err) : 0;
  if (job_report_to_stdout(job->args)) report_text(report.text, report.n);
  json_done(&report);
  return rc;
}

static int write_reports(struct job *job, struct err *err) {
  const int rc = write_json_report(job, err);
  if (!job_report_to_stdout(job->args) || !cli_flag(job->args, OPT_JSON)) job_report_print(job);
  return rc;
}

// A run that looked at everything and then said no: the report has all of the reason.
static int report_refused(struct job *job, const struct err *why) {
  struct err ignored = {0};
  if (!job->all_made || why->kind != ERR_MODEL || !job_wants_report(job->args)) return -1;
  job->refusal = *why;
  (void)write_json_report(job, &ignored);
  return -1;
}

static int foresee(struct job *job, struct err *err) {
  struct err why = {0};
  if (job_choose_io(job, &why) && job_refused(job, &why, err)) return -1;
  return job_look_ahead(job, err);
}

int job_finish(struct job *job, struct err *err) {
  if (job->log_digest && close_log(job, err)) return -1;
  if (make_plan(job, err)) return -1;
  // Before the seal: a run that is killed in it is completed without making the edits again.
  if (job->log.file && job_text_publish(&job->log, err)) return -1;
  if (!job->nothing_to_write && run_and_seal(job, err)) return report_refused(job, err);
  if (job->nothing_to_write && foresee(job, err)) return -1;
  if (write_reports(job, err)) return -1;
  if (job->refusal.kind == ERR_NONE) return 0;
  *err = job->refusal;
  return -1;
}
