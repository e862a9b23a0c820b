// weir preprocess: what onnxruntime's quant_pre_process does before a model is quantized.
//
//   infer ──▶ opset (with --opset) ──▶ rounds (optimize.def, goal quantization) ──▶ infer ──▶ mark-preprocessed
//
// Its options are here, and mean what they mean there; where two steps of it infer shapes, both are ours. What cannot be
// inferred is no error, unless --strict says so. Options that say how the output is stored are those of all commands that write.
#include "cli/commands.h"
#include "cli/report.h"
#include "pipeline/infer_step.h"
#include "pipeline/optimize_steps.h"
#include "render/runs/render_passes.h"
#include "report/run_passes_json.h"
#include "request/fill.h"
#include "request/pass_command.h"

enum { SHOWN = 20, VERBOSE_ALL = 3 };

// The nodes without a shape, as the last inference left them: --verbose.
static void hint(const struct run_report *r) {
  const struct run_passes *p = r->passes;
  const unsigned verbose = r->asked.shown->verbose;
  struct arena a = {0};
  uint32_t last = NO_ID, shown = 0, more = 0;
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (render_passes_infers(p, i)) last = i;
  for (uint32_t i = 0; verbose > 0 && i < p->n_sites; i++) {
    const struct run_site *s = &p->sites[i];
    if (s->step != last || s->gone || run_site_converted(s)) continue;
    if (verbose < VERBOSE_ALL && shown == SHOWN) {
      more++;
      continue;
    }
    shown++;
    report_notice("no known shape for the output of %s '%s': %s", quote_str(s->op_type).s,
                  quote_str(s->name).s, render_passes_reason(s->reason, &a));
  }
  if (more) report_notice("and for %u more (--verbose 3 lists all)", more);
  arena_free(&a);
  render_passes.hint(r);
}

static void tell_run(struct run_report *r) {
  uint64_t converted = 0;
  for (uint32_t i = 0; i < r->passes->n_steps; i++)
    converted += r->passes->steps[i].converted;
  render_passes_nodes.tell(r);
  if (r->work.edits > 0 && converted == 0) r->told.did = "marked as preprocessed";
}

static const struct run_forms forms = {run_passes_json, tell_run, hint};

static int add_steps(struct pipeline *p, const struct cli_args *args, struct err *err) {
  struct optimize_asked asked = {.goal = GOAL_QUANTIZATION};
  if (FILL_IN(args, optimize_asked, &asked, &p->arena, err)) return -1;
  const bool optimize = !cli_flag(args, OPT_SKIP_OPTIMIZATION);
  const bool last = !cli_flag(args, OPT_SKIP_ONNX_SHAPE);
  const bool symbolic = !cli_flag(args, OPT_SKIP_SYMBOLIC_SHAPE);
  // Without rewrites in between, once is enough.
  const struct infer_step_sets sets = pass_command_sets(args);
  const bool first = sets.n_shapes + sets.n_dims > 0 || (symbolic && (optimize || !last));
  const char *keys =
      arena_printf(&p->arena, "int_max=%u,guess_output_rank=%s", cli_count(args, OPT_INT_MAX),
                   cli_flag(args, OPT_GUESS_OUTPUT_RANK) ? "true" : "false");
  const char *strict =
      arena_printf(&p->arena, "%s,strict=%s", keys, cli_flag(args, OPT_STRICT) ? "true" : "false");
  if (first && infer_step_add(p, &sets, last ? keys : strict, err)) return -1;
  if (cli_given(args, OPT_OPSET) &&
      optimize_steps_raise(p, (unsigned)cli_count(args, OPT_OPSET), err))
    return -1;
  if (optimize && optimize_steps_add(p, &asked, err)) return -1;
  if (last && infer_step_add(p, NULL, strict, err)) return -1;
  return pipeline_add_text(p, "mark-preprocessed", err);
}

int cmd_preprocess(const struct cli_args *args, struct err *err) {
  struct pass_edits pj;
  const struct infer_step_sets sets = pass_command_sets(args);
  pass_edits_init(&pj, &report_observer, &forms);
  if (cli_flag(args, OPT_AUTO_MERGE))
    report_hint("--auto-merge has no effect: weir treats dims as equal only where they must be");
  if (cli_flag(args, OPT_STRICT) && cli_flag(args, OPT_SKIP_ONNX_SHAPE) &&
      cli_flag(args, OPT_SKIP_SYMBOLIC_SHAPE) && sets.n_shapes + sets.n_dims == 0)
    report_hint("--strict has no effect where no shapes are inferred");
  int rc = pass_command_take_inputs(&pj, args, err);
  if (rc == 0) rc = add_steps(&pj.pipeline, args, err);
  if (rc == 0) rc = pass_command_run(&pj, args, err);
  pass_edits_free(&pj);
  return rc;
}
