// weir calibrate: what range every value of a model has, from runs on samples.
#include "calibrate/calibrate_job.h"
#include "calibrate/calibrate_json.h"
#include "calibrate/calibrate_scales.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "platform/machine.h"
#include "render/results/render_calibrated.h"
#include "request/calibrate_take.h"
#include "request/fill.h"

#include <stdio.h>

static void print_scales_json(const struct calibrate_scaled *made, const char *path) {
  struct json_out j = report_json_open(2);
  json_put_uint(&j, "left_out", made->left);
  json_put_text(&j, "output", path);
  json_put_uint(&j, "values", made->values);
  json_put_uint(&j, "weights", made->weights);
  report_json_end(&j);
}

static void print_scales(const struct calibrate_scaled *made, const char *path) {
  printf("scales of %s value%s and %s weight%s", decimal(made->values).s, plural(made->values),
         decimal(made->weights).s, plural(made->weights));
  if (made->left)
    printf(", %s left out (computed, in blocks, without a name, or too many)",
           decimal(made->left).s);
  printf("\nwrote %s; use it with 'weir static --override'\n", quote_path(path).s);
}

static int write_scales(const struct cli_args *args, struct err *err) {
  const char *of = cli_string(args, OPT_SCALES);
  struct calibrate_scales q = {.model = cli_operand(args, "IN"),
                               .table = strcmp(of, "model") == 0 ? NULL : of,
                               .observer = &report_observer};
  FILL(args, calibrate_scales, &q);
  struct calibrate_scaled made;
  if (calibrate_scales_write(&q, &made, err)) return -1;
  if (cli_flag(args, OPT_JSON))
    print_scales_json(&made, q.out);
  else if (!cli_flag(args, OPT_QUIET))
    print_scales(&made, q.out);
  return 0;
}

int cmd_calibrate(const struct cli_args *args, struct err *err) {
  struct calibrate_request request;
  struct request base;
  struct request_source source;
  struct calibrate_job j;
  struct arena arena = {0};
  if (cli_given(args, OPT_SCALES)) return write_scales(args, err);
  if (calibrate_take(&request, &base, &source, args, &report_observer, &arena, err)) {
    arena_free(&arena);
    return -1;
  }
  const int rc = calibrate_job_run(&j, &request, NULL, err);
  if (rc == 0 && cli_flag(args, OPT_JSON))
    report_json(calibrate_json, &j.c, j.out, machine_clock() - j.exec.began, j.made_bytes);
  else if (rc == 0 && !cli_flag(args, OPT_QUIET))
    render_calibrated(&j.c, j.out, machine_clock() - j.exec.began);
  // What another run can go on from; samples that do not fit will be others then.
  const bool goes_on = err->kind == ERR_RETRY || err->kind == ERR_IO || err->kind == ERR_NOSPACE ||
                       j.placing || (j.n_companions > 0 && j.resumed);
  calibrate_job_close(&j, rc != 0 && goes_on);
  arena_free(&arena);
  return rc;
}
