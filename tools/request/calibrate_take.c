#include "request/calibrate_take.h"

#include "calibrate/calibrate_job.h"
#include "cli/report.h"
#include "request/cli_request.h"
#include "request/fill.h"
#include "stream/sys/threads.h"

int calibrate_take(struct calibrate_request *r, struct request *base, struct request_source *source,
                   const struct cli_args *args, struct observer *o, struct arena *a,
                   struct err *err) {
  source->path = cli_operand(args, "IN");
  *base = cli_request_reading(args, source, o);
  base->resume_command = cli_resume_command(args, a);
  *r = (struct calibrate_request){
      .base = base,
      .options = {.memory = base->limits.memory / 3,
                  .jobs = base->limits.jobs ? base->limits.jobs : threads_processors()}};
  if (FILL_IN(args, calibrate_request, r, a, err) || range_method_check(&r->options.how, err))
    return -1;
  r->provider = runtime_provider(r->provider);
  r->options.statistics = !r->statistics                          ? CALIBRATE_RANGES
                          : strcmp(r->statistics, "channel") == 0 ? CALIBRATE_CHANNELS
                                                                  : CALIBRATE_GRAM;
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
