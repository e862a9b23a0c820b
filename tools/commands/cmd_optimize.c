// weir optimize: rounds of rewrites over what inference knows, and the types and shapes of what is left.
//
//   infer (only with --set-shape, --set-dim) ──▶ opset (with --opset) ──▶ rounds ──▶ what comes last ──▶ infer
#include "cli/commands.h"
#include "cli/report.h"
#include "pipeline/infer_step.h"
#include "pipeline/optimize_steps.h"
#include "render/runs/render_passes.h"
#include "request/fill.h"
#include "request/pass_command.h"

int cmd_optimize(const struct cli_args *args, struct err *err) {
  struct pass_edits pj;
  struct optimize_asked asked = {.rounds = 0};
  pass_edits_init(&pj, &report_observer, &render_passes_nodes);
  int rc = FILL_IN(args, optimize_asked, &asked, &pj.pipeline.arena, err);
  if (rc == 0) rc = pass_command_take_inputs(&pj, args, err);
  const struct infer_step_sets sets = pass_command_sets(args);
  if (rc == 0 && sets.n_shapes + sets.n_dims > 0) rc = infer_step_add(&pj.pipeline, &sets, "", err);
  if (rc == 0 && cli_given(args, OPT_OPSET))
    rc = optimize_steps_raise(&pj.pipeline, (unsigned)cli_count(args, OPT_OPSET), err);
  if (rc == 0) rc = optimize_steps_add(&pj.pipeline, &asked, err);
  if (rc == 0) rc = infer_step_add(&pj.pipeline, NULL, "", err);
  if (rc == 0) rc = pass_command_run(&pj, args, err);
  pass_edits_free(&pj);
  return rc;
}
