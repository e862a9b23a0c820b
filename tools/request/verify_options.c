// The options of verification: of `weir verify`, and under names that begin with --verify- of the commands that write
// models. Those of onnx-conv2matmul keep their names and defaults.
#include "request/verify_options.h"

#include "request/fill.h"
#include "stream/sys/threads.h"
#include "verify/watch/checkpoints.h"

#include <string.h>

// What onnx-conv2matmul compares by.
static const int64_t usual_lengths[] = {64, 80, 97, 128, 191};
enum { USUAL_LENGTHS = sizeof usual_lengths / sizeof *usual_lengths, USUAL_JOBS = 2 };

// "--verify-inputs"
static const char *dashed(const struct cli_args *args, enum cli_option o, struct arena *a) {
  return arena_printf(a, "--%s", cli_row(args->command, o).name);
}

// What holds where no option says more.
static void set_defaults(struct verify_options *o, const struct cli_args *args) {
  struct compare_bounds *b = &o->bounds;
  o->require = -1;
  o->compatible.output = o->compatible.length_output = -1;
  o->runtime.threads = 1;
  *b = compare_nothing();
  o->finite = args->command == CLI_conv2matmul;
  // The four of that tool go together: what is not given has its default.
  if (args->command == CLI_conv2matmul && !cli_given(args, OPT_VERIFY_METRIC))
    b->rtol = 3e-5, b->atol = 3e-5, b->max_abs = 3e-5, b->mean_abs = 2e-6;
}

// What follows from the options that are given, and from those that are not.
static void complete(struct verify_options *o, const struct cli_args *args, struct arena *a) {
  static const enum cli_option bounds[] = {OPT_VERIFY_RTOL, OPT_VERIFY_ATOL, OPT_VERIFY_MAX_ABS,
                                           OPT_VERIFY_MEAN_ABS, OPT_VERIFY_METRIC};
  struct compare_bounds *b = &o->bounds;
  if (!o->inputs && o->pipeline) o->inputs = o->pipeline->reference;
  o->runtime.provider = runtime_provider(o->runtime.provider);
  if (o->n_lengths == 0) {
    o->n_lengths = args->command == CLI_conv2matmul ? USUAL_LENGTHS : 1;
    o->lengths = arena_zalloc(a, o->n_lengths * sizeof *o->lengths);
    if (o->n_lengths > 1) memcpy(o->lengths, usual_lengths, sizeof usual_lengths);
  }
  if (b->rtol >= 0 && b->atol < 0) b->atol = 0;
  if (b->atol >= 0 && b->rtol < 0) b->rtol = 0;
  for (size_t i = 0; !o->bounds_words && i < sizeof bounds / sizeof *bounds; i++)
    if (cli_given(args, bounds[i])) o->bounds_words = verify_bounds_words(b, a);
}

// What is given is not drawn too, and sites are drawn, of one size each.
static int check_inputs(const struct verify_options *o, const struct cli_args *args,
                        struct err *err) {
  const bool sites = !(o->scope & (VERIFY_MODEL | VERIFY_POINTS));
  if (o->inputs && sites) {
    if (cli_string(args, OPT_VERIFY_INPUTS))
      err_fill(err, ERR_USAGE, "%s needs whole models, not sites",
               cli_source(args, OPT_VERIFY_INPUTS).s);
    else
      err_fill(err, ERR_USAGE, "the pipeline's 'reference' needs whole models, not sites");
    return err_hint(err, "set 'verify_on: model' in the pipeline, or --verify=model");
  }
  const bool lengths = cli_given(args, OPT_VERIFY_LENGTHS);
  if (lengths && o->n_lengths > 1 && sites)
    return err_set(err, ERR_USAGE, "%s: for sites, give one length only",
                   cli_source(args, OPT_VERIFY_LENGTHS).s);
  if (o->inputs && (lengths || o->n_shapes > 0))
    return err_set(err, ERR_USAGE, "%s has no effect when inputs are given",
                   cli_source(args, o->n_shapes ? OPT_VERIFY_SHAPE : OPT_VERIFY_LENGTHS).s);
  return 0;
}

// An option of --verify that is given without it.
static const char *needless(const struct cli_args *args) {
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(args->command, o)) != CLI_NONE;)
    if (o != OPT_VERIFY && o != OPT_ONNXRUNTIME &&
        cli_row(args->command, o).group == CLI_VERIFICATION && cli_given(args, o))
      return cli_row(args->command, o).name;
  return NULL;
}

// An option that onnx-conv2matmul has too.
static bool is_compatible(const struct cli_args *args) {
  static const enum cli_option known[] = {
      OPT_VERIFY_LENGTHS, OPT_VERIFY_SEED,          OPT_VERIFY_RTOL,     OPT_VERIFY_ATOL,
      OPT_VERIFY_MAX_ABS, OPT_VERIFY_MEAN_ABS,      OPT_VERIFY_SIGNAL,   OPT_VERIFY_LENGTH,
      OPT_VERIFY_OUTPUT,  OPT_VERIFY_LENGTH_OUTPUT, OPT_VERIFY_CHANNELS, OPT_VERIFY_DETERMINISTIC};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (cli_given(args, known[i])) return true;
  return false;
}

// On conv2matmul the bare flag means the whole model where options of that tool say how.
static enum verify_scope scope_of(const struct cli_args *args) {
  const char *word = cli_string(args, OPT_VERIFY);
  if (word && strcmp(word, "model") == 0) return VERIFY_MODEL;
  if (word && strcmp(word, "all") == 0) return VERIFY_ALL;
  if (word) return VERIFY_SITES;
  if (args->command == CLI_finalize) // which has no edits but those of a log
    return cli_given(args, OPT_EDITS) ? VERIFY_SITES : VERIFY_MODEL;
  if (args->command != CLI_conv2matmul) return VERIFY_SITES;
  const bool strict = cli_flag(args, cli_pass_option(args->command, "strict-compat"));
  return strict || is_compatible(args) ? VERIFY_MODEL : VERIFY_SITES;
}

// --verify says what is looked at; a pipeline that says how asks for it too. Arrays of the whole model are for it.
static enum verify_scope asked_scope(const struct cli_args *args, const struct pipeline *p) {
  const enum verify_scope points = checkpoints_are_verified(p) ? VERIFY_POINTS : VERIFY_NOTHING;
  if (cli_given(args, OPT_VERIFY)) return scope_of(args) | points;
  if (!p || !pipeline_verifies(p)) return points;
  if (p->verify_models) return VERIFY_MODEL | points;
  return (p->inputs.n_list ? VERIFY_ALL : VERIFY_SITES) | points;
}

// Each takes the memory of a runtime, so it is two by default, and never more than there are processors.
static uint32_t jobs_of(const struct cli_args *args) {
  const uint32_t asked = cli_count(args, OPT_JOBS), processors = threads_processors();
  const uint32_t jobs = asked ? asked : USUAL_JOBS;
  return jobs < processors ? jobs : processors;
}

int verify_options_take(struct verify_options *o, const struct cli_args *args,
                        struct observer *observer, const struct pipeline *pipeline, struct arena *a,
                        struct err *err) {
  *o = (struct verify_options){.observer = observer, .pipeline = pipeline, .jobs = jobs_of(args)};
  if (args->command != CLI_verify) {
    const char *alone = needless(args);
    o->scope = asked_scope(args, pipeline);
    if (o->scope == VERIFY_NOTHING && alone)
      return err_set(err, ERR_USAGE, "--%s has no effect without --verify", alone);
    if (o->scope == VERIFY_NOTHING) return 0;
    o->asked = cli_given(args, OPT_VERIFY);
  } else {
    o->scope = cli_string(args, OPT_EDITS) ? VERIFY_SITES : VERIFY_MODEL;
  }
  o->names.inputs = dashed(args, OPT_VERIFY_INPUTS, a);
  o->names.metric = dashed(args, OPT_VERIFY_METRIC, a);
  o->names.lengths = dashed(args, OPT_VERIFY_LENGTHS, a);
  set_defaults(o, args);
  if (FILL_IN(args, verify_options, o, a, err)) return -1;
  complete(o, args, a);
  return check_inputs(o, args, err);
}
