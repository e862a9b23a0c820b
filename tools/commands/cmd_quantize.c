// weir quantize: weights of MatMul and Gemm in blocks of 2 to 8 bits.
//
// With --opset the pass `opset` runs before it. All else is that of every command with passes (pass_edits.h).
#include "cli/commands.h"
#include "cli/report.h"
#include "passes/nbits/matmulnbits.h"
#include "render/runs/render_passes.h"
#include "request/pass_command.h"

#include <stdlib.h>

// The opset that is asked for; 0: the model's own.
static int opset_of(const struct cli_args *args, int64_t *opset, struct err *err) {
  const char *text = cli_string(args, OPT_OPSET_OR_AUTO);
  struct pass_edits pj;
  char *end;
  *opset = strtoll(text, &end, 10);
  if (end != text && *end == 0 && *opset > 0 && *opset < 1000) return 0;
  if (strcmp(text, "auto") != 0) {
    err_fill(err, ERR_USAGE, "--opset must be a number or auto, not '%s'", quote_str(text).s);
    return err_hint(err, "give --opset 21, or --opset auto for the opset that the format needs");
  }
  pass_edits_init(&pj, &report_observer, &render_passes);
  const int rc = pass_command_take_flags(&pj, args, err);
  if (rc == 0) {
    const struct pipeline *p = &pj.pipeline;
    *opset = matmulnbits_opset(p->steps[p->n_steps - 1].values.options);
  }
  pass_edits_free(&pj);
  return rc;
}

int cmd_quantize(const struct cli_args *args, struct err *err) {
  struct pass_edits pj;
  int64_t opset = 0;
  if (cli_given(args, OPT_OPSET_OR_AUTO) && opset_of(args, &opset, err)) return -1;
  if (opset == 0) return pass_command_flags(args, err);
  pass_edits_init(&pj, &report_observer, &render_passes);
  const char *step = arena_printf(&pj.pipeline.arena, "opset:version=%d", (int)opset);
  int rc = pipeline_add_text(&pj.pipeline, step, err);
  if (rc == 0) rc = pass_command_take_flags(&pj, args, err);
  if (rc == 0) rc = pass_command_run(&pj, args, err);
  pass_edits_free(&pj);
  return rc;
}
