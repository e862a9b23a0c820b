// weir run: any passes in one go, named on the command line or in a pipeline file.
//
//   --pass … or --config FILE ──▶ steps ──▶ one model, one plan, one read, one write
//
// Each pass sees what those before it made. The steps are checked, each alone and all together,
// before the model is opened.
#include "commands.h"
#include "pass_job.h"

static int read_pipeline(struct pipeline *p, const struct cli_args *args, struct err *err) {
  const char *path = cli_string(args, OPT_CONFIG);
  uint32_t n;
  const char *const *texts = cli_list(args, OPT_PASS, &n);
  if (path) return pipeline_read(p, path, err);
  for (uint32_t i = 0; i < n; i++)
    if (pipeline_add_text(p, texts[i], err)) return -1;
  if (n > 0) return 0;
  err_fill(err, ERR_USAGE, "'weir run' needs --pass or --config: which passes are to run?");
  return err_hint(err, "'weir passes' lists them");
}

int cmd_run(const struct cli_args *args, struct err *err) {
  struct pass_job pj;
  pass_job_init(&pj);
  int rc = read_pipeline(&pj.pipeline, args, err);
  pass_job_take_exactness(&pj, args); // over that of the file
  if (rc == 0) rc = pass_job_command(&pj, args, err);
  pass_job_free(&pj);
  return rc;
}
