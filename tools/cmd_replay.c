// weir replay: the edits of a log onto the source they were made from.
//
// The head of the log says which source (by meta_sha256), which command and layout: the plan comes
// out the same as in the recorded run, and with it every byte, if OUT has the recorded base name and
// the command line says nothing else of the layout.
#include "cli_request.h"
#include "commands.h"
#include "replay_log.h"
#include "report.h"

static void tell(struct job *job, struct run_summary *told) {
  told->did = arena_printf(&job->arena, "%lu edit%s replayed", job->edits.n, plural(job->edits.n));
}

static int replay(struct job *job, struct replay_log *in, bool partial, struct err *err) {
  const struct edit_log_info *head = &in->head;
  if (replay_log_check_source(in, job, err) ||
      job_layout_read(&job->layout, head->layout, &job->arena, err))
    return -1;
  job_layout_take(&job->layout, &job->wanted->layout);
  struct json_out options = {0};
  json_copy(&options, head->options);
  if (job_begin_edits(job, arena_string(&job->arena, head->command),
                      json_take(&options, &job->arena), err))
    return -1;
  job->tell = tell;
  if (replay_log_lines(in, job, partial, err) || job_finish(job, err)) return -1;
  // The data file is named after the .onnx, unless somebody named it.
  if (job->plan.n_outputs > 1 && !job->layout.data_name &&
      !span_is(head->output, job->out.onnx_name))
    report_notice(
        "the recorded output was named '%s': this run's data file has another name, and the "
        ".onnx refers to it; everything else is the same",
        quote(head->output).s);
  return 0;
}

int cmd_replay(const struct cli_args *args, struct err *err) {
  struct replay_log in;
  struct job job;
  struct request request;
  struct arena arena = {0};
  int rc = -1;
  if (cli_request(&request, args, NULL, &report_observer, &arena, err) ||
      job_finish_seal(&request, &rc, err)) {
    arena_free(&arena);
    return rc;
  }
  rc = replay_log_open(&in, cli_operand(args, "EDITS"), err);
  if (rc == 0 && job_open(&job, &request, err) == 0) {
    rc = replay(&job, &in, cli_flag(args, OPT_PARTIAL), err);
    job_close(&job);
  } else {
    rc = -1;
  }
  replay_log_close(&in);
  arena_free(&arena);
  return rc;
}
