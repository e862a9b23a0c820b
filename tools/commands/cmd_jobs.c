// weir jobs: a job file for a plan (job_file.h).
#include "cli/commands.h"
#include "cli/report.h"
#include "distribute/job_file.h"

static void print(const struct cli_args *args, const char *scheduler, uint32_t shards,
                  const char *text) {
  if (!cli_flag(args, OPT_JSON)) {
    report_text(text, strlen(text));
    return;
  }
  struct json_out j = report_json_open(2);
  json_put_text(&j, "plan", cli_operand(args, "PLAN"));
  json_put_text(&j, "scheduler", scheduler);
  json_put_uint(&j, "shards", shards);
  json_put_text(&j, "text", text);
  report_json_end(&j);
}

int cmd_jobs(const struct cli_args *args, struct err *err) {
  struct planned x;
  const char *name = cli_string(args, OPT_SCHEDULER), *text;
  const struct job_file *f = name ? job_file_of(name) : NULL;
  if (!f) {
    err_fill(err, ERR_USAGE, "'weir jobs' needs --scheduler");
    return err_hint(err, "slurm, kubernetes, mpi, ray, dask, github, or shell");
  }
  int rc = planned_open(&x, cli_operand(args, "PLAN"), STAGING_AS_VIEWER, &report_observer, err);
  if (rc == 0 && x.in_place)
    rc = err_set(err, ERR_INPUT, "%s is in place already: there is nothing left to do",
                 quote_path(x.model).s);
  if (rc == 0) rc = job_file_make(f, &x, cli_string(args, OPT_IMAGE), &text, err);
  if (rc == 0) print(args, f->name, x.joined.orders.shards, text);
  planned_close(&x);
  return rc;
}
