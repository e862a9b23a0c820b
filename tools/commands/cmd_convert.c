// weir convert: the same model in another layout.
//
// No edit is made: only where payloads lie changes, and those fields of the .onnx that name them. The
// options of the layout are those of all writing commands (execution_layout.c).
// So the edit log of this command has a head and nothing else, and the layout in the head is what a
// replay repeats.
#include "cli/commands.h"
#include "cli/report.h"
#include "execute/execution.h"
#include "request/cli_request.h"

static void tell_run(struct run_report *r) {
  const uint32_t n = r->files.n_outputs - 1;
  if (n > 1)
    r->told.did = arena_printf(&r->arena, "rewritten with %u data files", n);
  else
    r->told.did = n == 1 ? "rewritten with one data file" : "rewritten as one file";
}

static const struct run_forms forms = {.tell = tell_run};

static int edit(struct execution *exec, void *ctx, struct err *err) {
  (void)ctx;
  exec->forms.shown = &forms;
  return execution_begin_edits(exec, "convert", "{}", err);
}

int cmd_convert(const struct cli_args *args, struct err *err) {
  struct request request;
  cli_request(&request, args, NULL, &report_observer, cli_arena(args));
  return execution_command(&request, edit, NULL, err);
}
