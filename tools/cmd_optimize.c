// weir optimize: rounds of rewrites over what inference knows, and the types and shapes of what is left.
//
//   infer (only with --set-shape, --set-dim) ──▶ opset (with --opset) ──▶ rounds ──▶ what comes last ──▶ infer
#include "commands.h"
#include "infer_step.h"
#include "optimize_steps.h"
#include "pass_job.h"
#include "report.h"

int cmd_optimize(const struct cli_args *args, struct err *err) {
  struct pass_job pj;
  struct optimize_asked asked = {.goal = optimize_goal_of(cli_string(args, OPT_GOAL)),
                                 .rounds = cli_count(args, OPT_ROUNDS)};
  pass_job_init(&pj, &report_observer);
  pj.tell = pass_job_tell_nodes;
  asked.only = cli_list(args, OPT_ONLY, &asked.n_only);
  asked.skip = cli_list(args, OPT_SKIP, &asked.n_skip);
  if (cli_given(args, OPT_FOLD_LIMIT))
    asked.fold_limit = arena_printf(&pj.pipeline.arena, "%llu",
                                    (unsigned long long)cli_size(args, OPT_FOLD_LIMIT));
  int rc = pass_job_take_inputs(&pj, args, err);
  if (rc == 0 && infer_step_sets(args)) rc = infer_step_add(&pj.pipeline, args, true, "", err);
  if (rc == 0 && cli_given(args, OPT_OPSET))
    rc = optimize_steps_raise(&pj.pipeline, (unsigned)cli_count(args, OPT_OPSET), err);
  if (rc == 0) rc = optimize_steps_add(&pj.pipeline, &asked, err);
  if (rc == 0) rc = infer_step_add(&pj.pipeline, args, false, "", err);
  pass_job_take_exactness(&pj, args);
  if (rc == 0) rc = pass_job_command(&pj, args, err);
  pass_job_free(&pj);
  return rc;
}
