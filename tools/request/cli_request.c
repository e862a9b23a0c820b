#include "cli_request.h"

#include "execution.h"
#include "request_digest.h"
#include "render_run.h"
#include "verify_watch.h"
#include "verify_options.h"

int cli_request_indent(const struct cli_args *args) {
  return args->command == CLI_shrink ? 0 : 2;
}

static enum io_mode io_of(const struct cli_args *args) {
  enum io_mode mode = IO_AUTO;
  (void)io_mode_by_name(cli_string(args, OPT_IO), &mode);
  return mode;
}

// The variable of the environment that a value is from, or the option.
static const char *name_of(const struct cli_args *args, enum cli_option option, const char *typed) {
  return args->value[option].inherited ? cli_variable(option) : typed;
}

struct request_limits cli_request_limits(const struct cli_args *args) {
  return (struct request_limits){.memory = cli_size(args, OPT_MEMORY),
                                 .jobs = cli_count(args, OPT_JOBS),
                                 .io = io_of(args),
                                 .memory_name = name_of(args, OPT_MEMORY, "--memory"),
                                 .io_name = name_of(args, OPT_IO, "--io")};
}

struct request cli_request_reading(const struct cli_args *args, const struct request_source *source,
                                   struct observer *o) {
  return (struct request){.command = cli_command_row(args->command)->name,
                          .observer = o,
                          .sources = source,
                          .n_sources = 1,
                          .allow_links = cli_flag(args, OPT_ALLOW_LINKS),
                          .limits = cli_request_limits(args)};
}

// Of an option that not all writing commands have.
static const char *string(const struct cli_args *args, enum cli_option option) {
  return cli_option_belongs(option, args->command) ? cli_string(args, option) : NULL;
}

static uint64_t size(const struct cli_args *args, enum cli_option option) {
  return cli_option_belongs(option, args->command) ? cli_size(args, option) : 0;
}

static struct request_layout layout_of(const struct cli_args *args) {
  return (struct request_layout){.in_one_file = cli_flag(args, OPT_INLINE),
                                 .external = cli_flag(args, OPT_EXTERNAL),
                                 .file_each = cli_flag(args, OPT_ONE_FILE_PER_TENSOR),
                                 .data_file = string(args, OPT_DATA_FILE),
                                 .splits = cli_given(args, OPT_SPLIT),
                                 .thresholds = cli_given(args, OPT_EXTERNAL_THRESHOLD),
                                 .aligns = cli_given(args, OPT_ALIGN),
                                 .split = size(args, OPT_SPLIT),
                                 .threshold = size(args, OPT_EXTERNAL_THRESHOLD),
                                 .align = size(args, OPT_ALIGN)};
}

// Who asks for a layout, for records of the output, or for what another tool writes, asks for a copy.
static bool asks_for_copy(const struct cli_args *args) {
  static const enum cli_option asks[] = {OPT_COPY,
                                         OPT_PLAN_OUT,
                                         OPT_VERIFY,
                                         OPT_HASH_INPUTS,
                                         OPT_EXTERNAL,
                                         OPT_INLINE,
                                         OPT_DATA_FILE,
                                         OPT_SPLIT,
                                         OPT_ALIGN,
                                         OPT_EXTERNAL_THRESHOLD,
                                         OPT_ONE_FILE_PER_TENSOR,
                                         OPT_TENSOR_DIGESTS,
                                         OPT_PROVENANCE,
                                         OPT_REPORT_HTML};
  if (!cli_option_belongs(OPT_COPY, args->command)) return true;
  for (uint32_t i = 0; i < sizeof asks / sizeof *asks; i++)
    if (cli_given(args, asks[i])) return true;
  return false;
}

static const char *output_path(const struct cli_args *args, struct arena *a) {
  const char *out = cli_output(args);
  if (cli_lacks_output(args) || cli_flag(args, OPT_INPLACE)) return out;
  return execution_output_in(out, cli_operand(args, "IN"), a);
}

static struct request_output output_of(const struct cli_args *args, struct arena *a) {
  const bool inplace = cli_flag(args, OPT_INPLACE);
  return (struct request_output){.path = output_path(args, a),
                                 .absent = cli_lacks_output(args),
                                 .inplace = inplace,
                                 .replace = cli_flag(args, OPT_FORCE),
                                 .replace_readonly = cli_flag(args, OPT_FORCE_READONLY),
                                 .makes_folders = cli_given(args, OPT_OUTPUT_DIR),
                                 .copies = asks_for_copy(args),
                                 .manifest = !cli_flag(args, OPT_NO_MANIFEST),
                                 .tensor_digests = cli_flag(args, OPT_TENSOR_DIGESTS),
                                 .hash_inputs = cli_flag(args, OPT_HASH_INPUTS),
                                 .layout = layout_of(args)};
}

static struct request_records records_of(const struct cli_args *args) {
  return (struct request_records){.edit_log = string(args, OPT_EDIT_LOG),
                                  .plan = string(args, OPT_PLAN_OUT),
                                  .report_json = string(args, OPT_REPORT_JSON),
                                  .report_html = string(args, OPT_REPORT_HTML),
                                  .provenance = string(args, OPT_PROVENANCE),
                                  .artifacts = string(args, OPT_ARTIFACTS)};
}

// onnx-conv2matmul has an option of its own for the report on standard output, and a report of its own.
static struct run_shown shown_of(const struct cli_args *args) {
  const bool conv2matmul = args->command == CLI_conv2matmul;
  const bool own = conv2matmul && cli_flag(args, OPT_REPORT_JSON_STDOUT);
  const bool piped = cli_option_belongs(OPT_VERBOSE_STEPS, args->command);
  return (struct run_shown){
      .json = own || cli_flag(args, OPT_JSON),
      .json_alone = own,
      .lines = !cli_stdout_is_taken(args),
      .quiet = cli_flag(args, OPT_QUIET),
      .verbose = cli_option_belongs(OPT_VERBOSE, args->command)
                     ? cli_count(args, OPT_VERBOSE)
                     : piped && cli_flag(args, OPT_VERBOSE_STEPS),
      .plain = conv2matmul && cli_flag(args, cli_pass_option(args->command, "strict-compat")),
      .json_indent = cli_request_indent(args)};
}

void cli_request(struct request *r, const struct cli_args *args, const struct pipeline *pipeline,
                 struct observer *o, struct arena *a) {
  struct request_source *source = arena_zalloc(a, sizeof *source);
  struct request_output *output = arena_zalloc(a, sizeof *output);
  struct verify_watch *verify = arena_zalloc(a, sizeof *verify);
  struct execution_watch *watch = arena_zalloc(a, sizeof *watch);
  source->path = cli_operand(args, "IN");
  *output = output_of(args, a);
  *r = cli_request_reading(args, source, o);
  r->command_line = cli_given_line(args, a);
  r->resume_command = cli_resume_command(args, a);
  r->outputs = output;
  r->n_outputs = 1;
  r->edits = cli_operand(args, "EDITS");
  r->config = string(args, OPT_CONFIG);
  r->given = pipeline ? &pipeline->files : NULL;
  r->reads = request_digest(pipeline, r->edits, cli_string(args, OPT_VERIFY_INPUTS), a);
  r->dry_run = cli_flag(args, OPT_DRY_RUN);
  r->resume = cli_flag(args, OPT_RESUME);
  r->fresh = cli_flag(args, OPT_FRESH);
  r->plans = args->command == CLI_plan;
  r->shards = r->plans ? cli_count(args, OPT_SHARDS) : 0;
  r->records = records_of(args);
  r->shown = shown_of(args);
  *watch = verify_watch(verify);
  r->watch = watch;
  r->render = &render_run;
  // Told where a verification begins, after an interrupted seal is completed and the output's name is looked at.
  (void)verify_options_take(&verify->options, args, o, pipeline, a, &verify->refused);
}
