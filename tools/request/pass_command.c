#include "request/pass_command.h"

#include "cli/report.h"
#include "render/runs/render_passes.h"
#include "request/cli_request.h"
#include "request/fill.h"

int pass_command_take_inputs(struct pass_edits *pj, const struct cli_args *args, struct err *err) {
  uint32_t n;
  if (!cli_given(args, OPT_INPUTS_ARE_CONSTANT)) return 0;
  struct pipeline_step *step =
      pipeline_add(&pj->pipeline, span_str("inputs-are-constant"), &n, err);
  return step ? pass_values_read(&step->values, &pj->pipeline.arena, err) : -1;
}

int pass_command_take_flags(struct pass_edits *pj, const struct cli_args *args, struct err *err) {
  uint32_t n;
  struct pipeline *p = &pj->pipeline;
  if (pass_command_take_inputs(pj, args, err)) return -1;
  struct pipeline_step *step = pipeline_add(p, span_str(cli_pass(args->command)->name), &n, err);
  if (!step) return -1;
  cli_pass_values(args, &step->values, &p->arena);
  return pass_values_read(&step->values, &p->arena, err);
}

struct infer_step_sets pass_command_sets(const struct cli_args *args) {
  struct infer_step_sets sets = {.n_shapes = 0};
  FILL(args, infer_step_sets, &sets);
  return sets;
}

int pass_command_run(struct pass_edits *pj, const struct cli_args *args, struct err *err) {
  struct request request;
  pj->pass = cli_pass(args->command);
  if (cli_given(args, OPT_EXACTNESS)) // over that of a pipeline file
    pj->pipeline.exactness = exactness_by_name(span_str(cli_string(args, OPT_EXACTNESS)));
  FILL(args, pass_edits, pj);
  int rc = pass_edits_check(pj, err);
  if (rc == 0) cli_request(&request, args, &pj->pipeline, pj->observer, &pj->pipeline.arena);
  if (rc == 0) rc = execution_command(&request, pass_edits_edit, pj, err);
  return rc;
}

int pass_command_flags(const struct cli_args *args, struct err *err) {
  struct pass_edits pj;
  pass_edits_init(&pj, &report_observer, &render_passes);
  int rc = pass_command_take_flags(&pj, args, err);
  if (rc == 0) rc = pass_command_run(&pj, args, err);
  pass_edits_free(&pj);
  return rc;
}
