#include "calibrate_take.h"

#include "calibrate_job.h"
#include "cli_request.h"
#include "report.h"
#include "threads.h"

static int take_method(struct range_how *how, const struct cli_args *args, struct err *err) {
  const char *symmetric = cli_string(args, OPT_CALIBRATE_SYMMETRIC);
  if (range_method_parse(how, span_str(cli_string(args, OPT_CALIBRATION_METHOD)), err)) return -1;
  how->bins = cli_count(args, OPT_BINS);
  how->moving_average = cli_flag(args, OPT_MOVING_AVERAGE);
  if (cli_given(args, OPT_CALIBRATE_SYMMETRIC))
    how->symmetric = !symmetric || strcmp(symmetric, "false") != 0;
  return range_method_check(how, err);
}

static struct calibrate_options options_of(const struct cli_args *args, const char *statistics) {
  const uint32_t jobs = cli_count(args, OPT_JOBS);
  return (struct calibrate_options){.statistics = !statistics ? CALIBRATE_RANGES
                                                  : strcmp(statistics, "channel") == 0
                                                      ? CALIBRATE_CHANNELS
                                                      : CALIBRATE_GRAM,
                                    .skip_infinite = cli_flag(args, OPT_SKIP_INFINITE),
                                    .group_bytes = cli_size(args, OPT_GROUP),
                                    .memory = cli_size(args, OPT_MEMORY) / 3,
                                    .jobs = jobs ? jobs : threads_processors()};
}

int calibrate_take(struct calibrate_request *r, struct request *base, struct request_source *source,
                   const struct cli_args *args, struct observer *o, struct arena *a,
                   struct err *err) {
  const char *statistics = cli_string(args, OPT_STATISTICS);
  source->path = cli_operand(args, "IN");
  *base = cli_request_reading(args, source, o);
  base->fresh = cli_flag(args, OPT_FRESH);
  base->resume_command = cli_resume_command(args, a);
  *r = (struct calibrate_request){.base = base,
                                  .options = options_of(args, statistics),
                                  .statistics = statistics,
                                  .generate = cli_count(args, OPT_GENERATE),
                                  .seed = cli_count(args, OPT_CALIBRATE_SEED),
                                  .samples = cli_count(args, OPT_SAMPLES),
                                  .out = cli_string(args, OPT_RANGES_OUT),
                                  .cache = cli_string(args, OPT_CACHE),
                                  .replace = cli_flag(args, OPT_CALIBRATE_FORCE),
                                  .library = cli_string(args, OPT_ONNXRUNTIME),
                                  .provider = runtime_provider(cli_string(args, OPT_PROVIDER)),
                                  .runtime_memory = cli_size(args, OPT_VERIFY_MEMORY),
                                  .runtime_seconds = cli_count(args, OPT_VERIFY_TIMEOUT),
                                  .config = cli_string(args, OPT_CONFIG)};
  r->data = cli_list(args, OPT_DATA, &r->n_data);
  r->excluded = cli_list(args, OPT_CALIBRATE_EXCLUDE, &r->n_excluded);
  r->passes = cli_list(args, OPT_PASS, &r->n_passes);
  if (take_method(&r->options.how, args, err)) return -1;
  if (!r->out) {
    err_fill(err, ERR_USAGE, "weir calibrate needs -o RANGES");
    return err_hint(err, "such as: -o ranges.jsonl");
  }
  if (r->n_data == 0 && r->generate == 0) {
    err_fill(err, ERR_USAGE, "weir calibrate needs samples");
    return err_hint(err, "--data FILE reads samples, --generate N draws N random ones");
  }
  return 0;
}

int calibrate_take_run(const char *const *words, int n, const struct calibrate_record *record,
                       struct err *err) {
  struct calibrate_request request;
  struct request base;
  struct request_source source;
  struct calibrate_job job;
  struct arena arena = {0};
  struct cli_args args;
  int rc = cli_parse(&args, n, (char *const *)(uintptr_t)words, err);
  if (rc == 0) rc = calibrate_take(&request, &base, &source, &args, &report_observer, &arena, err);
  if (rc == 0) {
    rc = calibrate_job_run(&job, &request, record, err);
    calibrate_job_close(&job, false);
  }
  cli_free(&args);
  arena_free(&arena);
  return rc;
}
