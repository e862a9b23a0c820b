// A dry run's lines.
#include "render_needs.h"
#include "render_run.h"
#include "runtime_needs.h"
#include "size_words.h"

#include <stdio.h>

void render_dry_run(struct execution *exec) {
  if (exec->out.absent)
    printf("OUT not given: names and sizes are for an output with the input's name, in the same "
           "folder\n");
  printf("would write:\n");
  for (uint32_t k = 0; k < execution_n_files(exec); k++) {
    const struct execution_file f = execution_file(exec, k);
    printf(f.size ? "  %s  %s\n" : "  %s\n", f.shown, quote_bytes_exact(f.size).s);
  }
  if (exec->sizes.packed) printf("compressed: ≈ %s (gzip -9)\n", quote_bytes(exec->sizes.packed).s);
  const char *writable = exec->outcome.ahead.folder_writable ? "is writable" : "is NOT writable";
  if (!exec->out.absent && !exec->outcome.ahead.output_exists)
    printf("output: '%s' does not exist yet\n", quote_str(exec->out.path).s);
  else if (!exec->out.absent)
    printf("output: '%s' exists%s\n", quote_str(exec->out.path).s,
           exec->outcome.refusal.kind == ERR_NONE ? " and would be replaced" : "");
  printf("folder: '%s' %s%s\n", quote_str(exec->out.folder).s, writable,
         !exec->out.folder_is_above ? ""
         : exec->outcome.refusal.kind == ERR_NONE
             ? " (the nearest existing one; the run creates the output's folder)"
             : " (the nearest existing one)");
  printf("disk needed: %s%s; ", quote_bytes_exact(exec->outcome.ahead.space.needed_bytes).s,
         exec->out.replace ? ", in addition to the files to be replaced (they stay until the end)"
                           : "");
  if (exec->outcome.ahead.space.known)
    printf("%s free\n", quote_bytes_exact(exec->outcome.ahead.space.free_bytes).s);
  else
    printf("free space unknown\n");
  printf("peak memory: at most %s (index %s + --memory %s + program %s)\n",
         quote_bytes(execution_memory_limit(exec)).s, quote_bytes(execution_index_peak(exec)).s,
         size_words_of(exec->memory).s, quote_bytes(EXECUTION_PROGRAM_BYTES).s);
  if (exec->outcome.stats.jobs)
    printf("workers: %u, io: %s\n", exec->outcome.stats.jobs, io_mode_name(exec->mode));
  const struct run_doubts doubts = run_doubts(&exec->plan);
  if (doubts.overflow || doubts.nonfinite)
    printf("not checked (a dry run reads only samples): %s%s%s\n",
           doubts.overflow ? "values too large for the new type" : "",
           doubts.overflow && doubts.nonfinite ? ", " : "",
           doubts.nonfinite ? "NaN and infinities" : "");
  if (exec->reported.verifying) printf("not verified (a dry run writes no model to run)\n");
  render_needs(&exec->model, "", "\n", "");
  if (exec->outcome.refusal.kind != ERR_NONE)
    printf("this would fail with exit code %d\n", (int)exec->outcome.refusal.kind);
}
