#include "request/cli_request.h"

#include "execute/execution.h"
#include "execute/request_digest.h"
#include "render/runs/render_run.h"
#include "request/fill.h"
#include "request/verify_options.h"
#include "verify/watch/verify_watch.h"

int cli_request_indent(const struct cli_args *args) {
  return args->command == CLI_shrink ? 0 : 2;
}

// The variable of the environment that a value is from, or the option.
static const char *name_of(const struct cli_args *args, enum cli_option option, const char *typed) {
  return args->value[option].inherited ? cli_variable(option) : typed;
}

struct request_limits cli_request_limits(const struct cli_args *args) {
  struct request_limits limits = {
      .memory_name = name_of(args, OPT_MEMORY, "--memory"),
      .io_name = name_of(args, OPT_IO, cli_given(args, OPT_IO) ? "--io" : NULL)};
  FILL(args, request_limits, &limits);
  return limits;
}

struct request cli_request_reading(const struct cli_args *args, const struct request_source *source,
                                   struct observer *o) {
  struct request r = {.command = cli_command_row(args->command)->name,
                      .observer = o,
                      .sources = source,
                      .n_sources = 1,
                      .limits = cli_request_limits(args)};
  FILL(args, request, &r);
  return r;
}

static const char *output_path(const struct cli_args *args, struct arena *a) {
  const char *out = cli_output(args);
  if (cli_lacks_output(args) || cli_flag(args, OPT_INPLACE)) return out;
  return execution_output_in(out, cli_operand(args, "IN"), a);
}

static struct request_output output_of(const struct cli_args *args, struct arena *a) {
  struct request_output output = {.path = output_path(args, a),
                                  .absent = cli_lacks_output(args),
                                  .copies = !cli_option_belongs(OPT_COPY, args->command),
                                  .manifest = true};
  FILL(args, request_output, &output);
  return output;
}

// onnx-conv2matmul has a report of its own.
static struct run_shown shown_of(const struct cli_args *args) {
  const bool conv2matmul = args->command == CLI_conv2matmul;
  struct run_shown shown = {
      .lines = !cli_stdout_is_taken(args),
      .plain = conv2matmul && cli_flag(args, cli_pass_option(args->command, "strict-compat")),
      .json_indent = cli_request_indent(args)};
  FILL(args, run_shown, &shown);
  return shown;
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
  r->given = pipeline ? &pipeline->files : NULL;
  r->reads = request_digest(pipeline, r->edits, cli_string(args, OPT_VERIFY_INPUTS), a);
  r->plans = args->command == CLI_plan;
  FILL(args, request_records, &r->records);
  r->shown = shown_of(args);
  *watch = verify_watch(verify);
  r->watch = watch;
  r->render = &render_run;
  // Told where a verification begins, after an interrupted seal is completed and the output's name is looked at.
  (void)verify_options_take(&verify->options, args, o, pipeline, a, &verify->refused);
}
