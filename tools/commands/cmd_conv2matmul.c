// weir conv2matmul: pointwise convolutions as matrix products.
//
// This is the pass of that name as a command, with the options that users of onnx-conv2matmul know.
// With --strict-compat the report and the closing line are those of that tool, byte for byte; without
// it they are those of every command of weir.
#include "cli/commands.h"
#include "cli/report.h"
#include "passes/conv2matmul/conv2matmul.h"
#include "render/runs/render_passes.h"
#include "request/pass_command.h"

// The pass's step is the last one (--inputs-are-constant is one before it).
static bool strict(const struct pass_edits *pj) {
  const struct pipeline *p = &pj->pipeline;
  const struct conv2matmul_options *options = p->steps[p->n_steps - 1].values.options;
  return options->strict_compat;
}

static void write_report(const struct run_report *r, struct json_out *j) {
  const struct run_passes *p = r->passes;
  const struct run_step *step = &p->steps[p->n_steps - 1];
  json_put_uint(j, "converted", step->converted);
  if (step->held_back) json_put_uint(j, "held_back", step->held_back);
  if (p->n_steps > 1) json_put_uint(j, "inputs_made_constant", p->steps[0].converted);
  json_put_array(j, "nodes");
  for (uint32_t i = 0; i < p->n_sites; i++) {
    const struct run_site *s = &p->sites[i];
    if (s->step != p->n_steps - 1) continue;
    json_object(j);
    if (!r->asked.shown->plain) json_put_uint(j, "graph", s->graph);
    json_put_uint(j, "node_index", s->index);
    json_put_text(j, "node_name", s->name);
    json_put_text(j, "op_type", s->op_type);
    json_put_text(j, "reason", s->reason);
    json_put_text(j, "status", s->status);
    json_put_bool(j, s->fact.name, s->fact.holds);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_uint(j, "skipped", step->skipped);
}

static void tell_run(struct run_report *r) {
  const struct run_step *step = &r->passes->steps[r->passes->n_steps - 1];
  render_passes.tell(r);
  if (r->asked.shown->plain)
    r->told.line = arena_printf(&r->arena, "converted=%s skipped=%s output=%s",
                                decimal(step->converted).s, decimal(step->skipped).s, r->out.path);
}

int cmd_conv2matmul(const struct cli_args *args, struct err *err) {
  struct pass_edits pj;
  const struct run_forms forms = {write_report, tell_run, render_passes.hint};
  pass_edits_init(&pj, &report_observer, &forms);
  int rc = pass_command_take_flags(&pj, args, err);
  if (rc == 0 && strict(&pj) && cli_given(args, OPT_INPUTS_ARE_CONSTANT))
    rc = err_set(err, ERR_USAGE,
                 "--inputs-are-constant has no effect with --strict-compat, which treats such "
                 "weights as constants anyway");
  if (rc == 0) {
    pj.all_external = strict(&pj);
    rc = pass_command_run(&pj, args, err);
  }
  pass_edits_free(&pj);
  return rc;
}
