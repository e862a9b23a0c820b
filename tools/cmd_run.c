// weir run: any passes in one go, named on the command line or in a pipeline file.
//
//   --pass … or --config FILE ──▶ steps ──▶ one model, one plan, one read, one write
//
// Each pass sees what those before it made. The steps are checked, each alone and all together,
// before the model is opened.
#include "commands.h"
#include "pass_job.h"

int cmd_run(const struct cli_args *args, struct err *err) {
  const char *path = cli_string(args, OPT_CONFIG);
  uint32_t n;
  const char *const *texts = cli_list(args, OPT_PASS, &n);
  struct pass_job pj;
  int rc = 0;
  pass_job_init(&pj);
  rc = pass_job_take_inputs(&pj, args, err);
  const char *target = cli_string(args, OPT_TARGET);
  if (target && rc == 0)
    rc = pipeline_take_target(&pj.pipeline, targets_find(span_str(target)), err);
  if (path && rc == 0) rc = pipeline_read(&pj.pipeline, path, err);
  for (uint32_t i = 0; i < n && rc == 0; i++)
    rc = pipeline_add_text(&pj.pipeline, texts[i], err);
  if (rc == 0 && cli_flag(args, OPT_REPEAT))
    pipeline_repeat_all(&pj.pipeline, cli_given(args, OPT_INPUTS_ARE_CONSTANT), PIPELINE_ROUNDS);
  if (!path && n == 0) {
    err_fill(err, ERR_USAGE, "'weir run' needs --pass or --config");
    rc = err_hint(err, "'weir passes' lists the passes");
  }
  pass_job_take_exactness(&pj, args); // over that of the file
  if (rc == 0) rc = pass_job_command(&pj, args, err);
  pass_job_free(&pj);
  return rc;
}
