// weir replay: the edits of a log onto the source they were made from.
//
// The head of the log says which source (by meta_sha256), which command and layout: the plan comes
// out the same as in the recorded run, and with it every byte, if OUT has the recorded base name and
// the command line says nothing else of the layout.
#include "cli/commands.h"
#include "cli/report.h"
#include "execute/replay_log.h"
#include "request/cli_request.h"

static void tell_run(struct run_report *r) {
  r->told.did = arena_printf(&r->arena, "%s edit%s replayed", decimal(r->work.edits).s,
                             plural(r->work.edits));
}

static const struct run_forms forms = {.tell = tell_run};

static int replay(struct execution *exec, struct replay_log *in, bool partial, struct err *err) {
  const struct edit_log_info *head = &in->head;
  if (replay_log_check_source(in, exec, err) ||
      execution_layout_read(&exec->layout, head->layout, &exec->arena, err))
    return -1;
  execution_layout_take(&exec->layout, &exec->wanted->layout);
  struct json_out options = {0};
  json_copy(&options, head->options);
  if (execution_begin_edits(exec, arena_string(&exec->arena, head->command),
                            json_take(&options, &exec->arena), err))
    return -1;
  exec->forms.shown = &forms;
  if (replay_log_lines(in, exec, partial, err) || execution_finish(exec, err)) return -1;
  // The data file is named after the .onnx, unless somebody named it.
  if (exec->plan.n_outputs > 1 && !exec->layout.data_name &&
      !span_is(head->output, exec->out.onnx_name))
    report_notice(
        "the recorded output was named '%s': this run's data file has another name, and the "
        ".onnx refers to it; everything else is the same",
        quote(head->output).s);
  return 0;
}

int cmd_replay(const struct cli_args *args, struct err *err) {
  struct replay_log in;
  struct execution exec;
  struct request request;
  int rc;
  cli_request(&request, args, NULL, &report_observer, cli_arena(args));
  if (execution_finish_seal(&request, &rc, err)) return rc;
  rc = replay_log_open(&in, cli_operand(args, "EDITS"), err);
  if (rc == 0 && execution_open(&exec, &request, err) == 0) {
    rc = replay(&exec, &in, cli_flag(args, OPT_PARTIAL), err);
    execution_close(&exec);
  } else {
    rc = -1;
  }
  replay_log_close(&in);
  return rc;
}
