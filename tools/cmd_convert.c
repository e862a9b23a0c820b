// weir convert: the same model in another layout.
//
// No edit is made: only where payloads lie changes, and those fields of the .onnx that name them. The
// options of the layout are those of all writing commands (job_layout.c).
// So the edit log of this command has a head and nothing else, and the layout in the head is what a
// replay repeats.
#include "cli_request.h"
#include "commands.h"
#include "job.h"
#include "report.h"

static void tell(struct job *job, struct run_summary *told) {
  const uint32_t n = job->plan.n_outputs - 1;
  if (n > 1)
    told->did = arena_printf(&job->arena, "rewritten with %u data files", n);
  else
    told->did = n == 1 ? "rewritten with one data file" : "rewritten as one file";
}

static int edit(struct job *job, void *ctx, struct err *err) {
  (void)ctx;
  job->tell = tell;
  return job_begin_edits(job, "convert", "{}", err);
}

int cmd_convert(const struct cli_args *args, struct err *err) {
  struct arena arena = {0};
  struct request request;
  int rc = cli_request(&request, args, NULL, &report_observer, &arena, err);
  if (rc == 0) rc = job_command(&request, edit, NULL, err);
  arena_free(&arena);
  return rc;
}
