// weir calibrate: what range every value of a model has, from runs on samples.
#include "calibrate_job.h"
#include "calibrate_scales.h"
#include "commands.h"
#include "report.h"

int cmd_calibrate(const struct cli_args *args, struct err *err) {
  struct calibrate_job j;
  if (cli_given(args, OPT_SCALES)) return calibrate_scales(args, err);
  const int rc = calibrate_job_run(&j, args, NULL, &report_observer, err);
  if (rc == 0 && cli_flag(args, OPT_JSON))
    calibrate_tell_json(&j);
  else if (rc == 0 && !cli_flag(args, OPT_QUIET))
    calibrate_tell(&j);
  // What another run can go on from; samples that do not fit will be others then.
  const bool goes_on = err->kind == ERR_RETRY || err->kind == ERR_IO || err->kind == ERR_NOSPACE ||
                       j.placing || (j.n_companions > 0 && j.resumed);
  calibrate_job_close(&j, rc != 0 && goes_on);
  return rc;
}
