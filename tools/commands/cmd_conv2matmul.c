// weir conv2matmul: pointwise convolutions as matrix products.
//
// This is the pass of that name as a command, with the options that users of onnx-conv2matmul know.
// With --strict-compat the report and the closing line are those of that tool, byte for byte; without
// it they are those of every command of weir.
#include "commands.h"
#include "conv2matmul.h"
#include "pass_command.h"
#include "render_passes.h"
#include "report.h"

// The pass's step: the last one (--inputs-are-constant is one before it).
static uint32_t step_of(const struct pass_edits *pj) {
  return pj->pipeline.n_steps - 1;
}

static bool strict(const struct pass_edits *pj) {
  const struct conv2matmul_options *options = pj->pipeline.steps[step_of(pj)].values.options;
  return options->strict_compat;
}

static void write_report(struct execution *exec, struct json_out *j) {
  const struct pass_edits *pj = exec->forms.ctx;
  const struct pass_edits_counts n = pass_edits_count(pj, step_of(pj));
  const uint64_t held_back = pj->steps[step_of(pj)].held_back;
  json_put_uint(j, "converted", n.converted);
  if (held_back) json_put_uint(j, "held_back", held_back);
  if (step_of(pj) > 0) json_put_uint(j, "inputs_made_constant", pass_edits_count(pj, 0).converted);
  json_put_array(j, "nodes");
  for (uint32_t i = 0; i < pj->n_sites; i++) {
    const struct run_site *s = &pj->sites[i];
    if (s->step != step_of(pj)) continue;
    json_object(j);
    if (!strict(pj)) json_put_uint(j, "graph", s->graph);
    json_put_uint(j, "node_index", s->index);
    json_put_text(j, "node_name", s->name);
    json_put_text(j, "op_type", s->op_type);
    json_put_text(j, "reason", s->reason);
    json_put_text(j, "status", s->status);
    json_put_bool(j, s->fact.name, s->fact.holds);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_uint(j, "skipped", n.skipped);
}

static void tell(struct execution *exec, struct run_summary *told) {
  const struct pass_edits *pj = exec->forms.ctx;
  const struct pass_edits_counts n = pass_edits_count(pj, step_of(pj));
  render_passes_summary(exec, told);
  if (strict(pj))
    told->line = arena_printf(&exec->arena, "converted=%lu skipped=%lu output=%s", n.converted,
                              n.skipped, exec->out.path);
}

int cmd_conv2matmul(const struct cli_args *args, struct err *err) {
  struct pass_edits pj;
  render_passes_init(&pj, &report_observer);
  pj.report = write_report;
  pj.tell = tell;
  int rc = pass_command_take_flags(&pj, args, err);
  if (rc == 0 && strict(&pj) && cli_given(args, OPT_INPUTS_ARE_CONSTANT))
    rc = err_set(err, ERR_USAGE,
                 "--inputs-are-constant has no effect with --strict-compat, which treats such "
                 "weights as constants anyway");
  if (rc == 0) {
    pj.plain_report = pj.all_external = strict(&pj);
    rc = pass_command_run(&pj, args, err);
  }
  pass_edits_free(&pj);
  return rc;
}
