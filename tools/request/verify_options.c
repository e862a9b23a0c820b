// The options of verification: of `weir verify`, and under names that begin with --verify- of the commands that write
// models. Those of onnx-conv2matmul keep their names and defaults.
#include "verify_options.h"

#include "name_pattern.h"
#include "checkpoints.h"
#include "threads.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// What onnx-conv2matmul compares by.
static const int64_t usual_lengths[] = {64, 80, 97, 128, 191};
enum {
  USUAL_LENGTHS = sizeof usual_lengths / sizeof *usual_lengths,
  USUAL_SEED = 102,
  USUAL_JOBS = 2
};

struct taking {
  struct verify_options *o;
  const struct cli_args *args;
  struct arena *a;
  struct err *err;
};

static const char *text(const struct taking *t, enum cli_option o) {
  return cli_string(t->args, o);
}

// "--verify-inputs"
static const char *dashed(const struct taking *t, enum cli_option o) {
  return arena_printf(t->a, "--%s", cli_row(t->args->command, o).name);
}

static int bad(const struct taking *t, enum cli_option o, const char *value, const char *wanted) {
  return err_set(t->err, ERR_USAGE, "invalid value '%s' for %s: use %s", quote_str(value).s,
                 cli_source(t->args, o).s, wanted);
}

// A number from 0 on. Not given: it stays.
static int take_number(const struct taking *t, enum cli_option o, double *out) {
  const char *word = text(t, o);
  char *end;
  if (!word) return 0;
  errno = 0;
  const double d = strtod(word, &end);
  if (*word == '\0' || *end != '\0' || errno || !isfinite(d) || d < 0)
    return bad(t, o, word, "a number from 0 on, such as 1e-4");
  *out = d;
  return 0;
}

// "64,80,97", "1x128x200": whole numbers from 1, appended to a list that has room for them (strlen(at) + 1).
static int take_list(const struct taking *t, enum cli_option o, const char *whole, const char *at,
                     const char *between, int64_t *list, uint32_t *n) {
  for (;; at++) {
    char *end;
    errno = 0;
    const long long x = strtoll(at, &end, 10);
    if (end == at || errno || x < 1 || x > INT32_MAX || *at == '+' || *at == ' ')
      return bad(t, o, whole, "whole numbers from 1 on");
    list[(*n)++] = x;
    at = end;
    if (*at == '\0') return 0;
    if (!strchr(between, *at)) return bad(t, o, whole, "whole numbers from 1 on");
  }
}

// The lengths of all times that the option is given.
static int take_lengths(const struct taking *t) {
  uint32_t n;
  const char *const *words = cli_list(t->args, OPT_VERIFY_LENGTHS, &n);
  size_t room = 0;
  for (uint32_t i = 0; i < n; i++)
    room += strlen(words[i]) + 1;
  t->o->lengths = arena_alloc(t->a, room * sizeof *t->o->lengths);
  for (uint32_t i = 0; i < n; i++)
    if (take_list(t, OPT_VERIFY_LENGTHS, words[i], words[i], ",", t->o->lengths, &t->o->n_lengths))
      return -1;
  if (n > 0) return 0;
  t->o->n_lengths = t->args->command == CLI_conv2matmul ? USUAL_LENGTHS : 1;
  t->o->lengths = arena_zalloc(t->a, t->o->n_lengths * sizeof *t->o->lengths);
  if (t->o->n_lengths > 1) memcpy(t->o->lengths, usual_lengths, sizeof usual_lengths);
  return 0;
}

static int take_shapes(const struct taking *t) {
  uint32_t n;
  const char *const *list = cli_list(t->args, OPT_VERIFY_SHAPE, &n);
  t->o->shapes = arena_zalloc(t->a, (n + (size_t)1) * sizeof *t->o->shapes);
  for (uint32_t i = 0; i < n; i++) {
    struct draw_shape *s = &t->o->shapes[t->o->n_shapes++];
    const char *equals = strrchr(list[i], '=');
    int64_t *dims = arena_alloc(t->a, (strlen(list[i]) + 1) * sizeof *dims);
    if (!equals || equals == list[i])
      return bad(t, OPT_VERIFY_SHAPE, list[i], "NAME=SHAPE, such as audio=1x128x200");
    s->name = arena_string(t->a, span_of(list[i], (size_t)(equals - list[i])));
    if (equals[1] && take_list(t, OPT_VERIFY_SHAPE, list[i], equals + 1, "x,", dims, &s->rank))
      return -1;
    s->dims = equals[1] ? dims : NULL;
  }
  return 0;
}

static int take_bounds(const struct taking *t) {
  struct compare_bounds *b = &t->o->bounds;
  uint32_t n;
  const char *const *metrics = cli_list(t->args, OPT_VERIFY_METRIC, &n);
  *b = compare_nothing();
  const bool given = text(t, OPT_VERIFY_RTOL) || text(t, OPT_VERIFY_ATOL) ||
                     text(t, OPT_VERIFY_MAX_ABS) || text(t, OPT_VERIFY_MEAN_ABS) || n > 0;
  // conv2matmul's four go together: what is not given has the default of that tool.
  if (t->args->command == CLI_conv2matmul && n == 0)
    b->rtol = 3e-5, b->atol = 3e-5, b->max_abs = 3e-5, b->mean_abs = 2e-6;
  if (take_number(t, OPT_VERIFY_RTOL, &b->rtol) || take_number(t, OPT_VERIFY_ATOL, &b->atol) ||
      take_number(t, OPT_VERIFY_MAX_ABS, &b->max_abs) ||
      take_number(t, OPT_VERIFY_MEAN_ABS, &b->mean_abs))
    return -1;
  if (b->rtol >= 0 && b->atol < 0) b->atol = 0;
  if (b->atol >= 0 && b->rtol < 0) b->rtol = 0;
  for (uint32_t i = 0; i < n; i++)
    if (compare_take_metric(b, metrics[i], t->err)) return -1;
  if (given) t->o->bounds_words = verify_bounds_words(b, t->a);
  return 0;
}

static int take_share(const struct taking *t) {
  const char *word = text(t, OPT_VERIFY_REQUIRE);
  char *end;
  t->o->require = -1;
  if (!word) return 0;
  const double d = strtod(word, &end);
  if (end == word || (*end != '%' && *end != '\0') || (*end == '%' && end[1] != '\0') ||
      !(d >= 0 && d <= 100))
    return bad(t, OPT_VERIFY_REQUIRE, word, "a share such as 100%");
  t->o->require = d / 100;
  return 0;
}

static int take_runtime(const struct taking *t) {
  struct runtime_options *r = &t->o->runtime;
  const bool alone = t->args->command == CLI_verify;
  *r = (struct runtime_options){
      .library = cli_string(t->args, OPT_ONNXRUNTIME),
      .threads = 1,
      .optimized = cli_flag(t->args, OPT_VERIFY_OPTIMIZED),
      .provider = runtime_provider(alone ? cli_string(t->args, OPT_PROVIDER) : NULL),
      .memory_bytes = cli_size(t->args, OPT_VERIFY_MEMORY),
      .seconds = cli_count(t->args, OPT_VERIFY_TIMEOUT)};
  return 0;
}

// What is given is not drawn too, and sites are drawn, of one size each.
static int check_inputs(const struct taking *t) {
  const struct verify_options *o = t->o;
  const bool sites = !(o->scope & (VERIFY_MODEL | VERIFY_POINTS));
  uint32_t n_shapes;
  cli_list(t->args, OPT_VERIFY_SHAPE, &n_shapes);
  if (o->inputs && sites) {
    if (text(t, OPT_VERIFY_INPUTS))
      err_fill(t->err, ERR_USAGE, "%s needs whole models, not sites",
               cli_source(t->args, OPT_VERIFY_INPUTS).s);
    else
      err_fill(t->err, ERR_USAGE, "the pipeline's 'reference' needs whole models, not sites");
    return err_hint(t->err, "set 'verify_on: model' in the pipeline, or --verify=model");
  }
  const bool lengths = cli_given(t->args, OPT_VERIFY_LENGTHS);
  if (lengths && o->n_lengths > 1 && sites)
    return err_set(t->err, ERR_USAGE, "%s: for sites, give one length only",
                   cli_source(t->args, OPT_VERIFY_LENGTHS).s);
  if (o->inputs && (lengths || n_shapes > 0))
    return err_set(t->err, ERR_USAGE, "%s has no effect when inputs are given",
                   cli_source(t->args, n_shapes ? OPT_VERIFY_SHAPE : OPT_VERIFY_LENGTHS).s);
  return 0;
}

// The options that only onnx-conv2matmul's users know.
static int take_compatible(const struct taking *t) {
  struct verify_options *o = t->o;
  o->compatible.output = o->compatible.length_output = -1;
  if (t->args->command != CLI_conv2matmul) return 0;
  o->compatible.signal = cli_string(t->args, OPT_VERIFY_SIGNAL);
  o->compatible.length = cli_string(t->args, OPT_VERIFY_LENGTH);
  o->compatible.channels = cli_count(t->args, OPT_VERIFY_CHANNELS);
  if (cli_given(t->args, OPT_VERIFY_OUTPUT))
    o->compatible.output = cli_count(t->args, OPT_VERIFY_OUTPUT);
  if (cli_given(t->args, OPT_VERIFY_LENGTH_OUTPUT))
    o->compatible.length_output = cli_count(t->args, OPT_VERIFY_LENGTH_OUTPUT);
  o->finite = true;
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
  const struct taking t = {o, args, a, err};
  *o = (struct verify_options){.observer = observer,
                               .seed = USUAL_SEED,
                               .memory = cli_size(args, OPT_MEMORY),
                               .pipeline = pipeline,
                               .jobs = jobs_of(args)};
  if (args->command != CLI_verify) {
    const char *alone = needless(args);
    o->scope = asked_scope(args, pipeline);
    if (o->scope == VERIFY_NOTHING && alone)
      return err_set(err, ERR_USAGE, "--%s has no effect without --verify", alone);
    if (o->scope == VERIFY_NOTHING) return 0;
    o->asked = cli_given(args, OPT_VERIFY);
  } else {
    o->scope = cli_string(args, OPT_EDITS) ? VERIFY_SITES : VERIFY_MODEL;
    o->layers = cli_flag(args, OPT_LAYERS);
    o->save_case = cli_string(args, OPT_SAVE_CASE);
    o->sites = cli_string(args, OPT_SITES);
  }
  o->names.inputs = dashed(&t, OPT_VERIFY_INPUTS);
  o->names.metric = dashed(&t, OPT_VERIFY_METRIC);
  o->names.lengths = dashed(&t, OPT_VERIFY_LENGTHS);
  o->inputs = text(&t, OPT_VERIFY_INPUTS);
  if (!o->inputs && pipeline) o->inputs = pipeline->reference;
  if (cli_given(args, OPT_VERIFY_SEED)) o->seed = cli_count(args, OPT_VERIFY_SEED);
  if (take_lengths(&t) || take_shapes(&t) || take_bounds(&t) || take_share(&t) ||
      take_runtime(&t) || check_inputs(&t))
    return -1;
  return take_compatible(&t);
}
