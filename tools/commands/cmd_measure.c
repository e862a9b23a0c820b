// weir measure: what every candidate quantization would make of every weight (candidates.h).
#include "candidates/candidates.h"
#include "candidates/candidates_json.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "render/models/render_candidates.h"
#include "request/cli_request.h"
#include "request/pass_command.h"

// Candidates without a budget are what this command is for: what the pass has against them does not
// count.
static int read_options(struct pass_edits *pj, const struct cli_args *args, struct err *err) {
  struct pipeline *p = &pj->pipeline;
  uint32_t n;
  const struct pass *pass = cli_pass(args->command);
  if (pass_command_take_inputs(pj, args, err)) return -1;
  struct pipeline_step *step = pipeline_add(p, span_str(pass->name), &n, err);
  if (!step) return -1;
  cli_pass_values(args, &step->values, &p->arena);
  struct pass_value *candidates =
      &step->values.of[pass_values_option(pass, span_str("candidates"))];
  candidates->stated = candidates->given; // over those of a target
  candidates->given = false;
  if (pass_values_read(&step->values, &p->arena, err)) return -1;
  pass_edits_tell_targets(pj);
  return 0;
}

int cmd_measure(const struct cli_args *args, struct err *err) {
  const struct request_source source = {cli_operand(args, "IN")};
  const struct request request = cli_request_reading(args, &source, &report_observer);
  struct candidates c;
  candidates_begin(&c, &request);
  int rc = read_options(&c.pj, args, err);
  if (rc == 0) rc = candidates_measure(&c, err);
  if (rc == 0 && cli_flag(args, OPT_JSON))
    report_json(candidates_json, &c);
  else if (rc == 0 && cli_flag(args, OPT_CSV))
    render_candidates_csv(&c);
  else if (rc == 0)
    render_candidates_text(&c, cli_flag(args, OPT_ALL_WEIGHTS), cli_flag(args, OPT_QUIET));
  candidates_done(&c);
  return rc;
}
