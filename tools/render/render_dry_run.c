// A dry run's lines.
#include "needs_print.h"
#include "render_run.h"
#include "runtime_needs.h"
#include "size_words.h"

#include <stdio.h>

void render_dry_run(struct job *job) {
  if (job->out.absent)
    printf("OUT not given: names and sizes are for an output with the input's name, in the same "
           "folder\n");
  printf("would write:\n");
  for (uint32_t k = 0; k < job_n_files(job); k++) {
    const struct job_file f = job_file(job, k);
    printf(f.size ? "  %s  %s\n" : "  %s\n", f.shown, quote_bytes_exact(f.size).s);
  }
  if (job->packed) printf("compressed: ≈ %s (gzip -9)\n", quote_bytes(job->packed).s);
  const char *writable = job->ahead.folder_writable ? "is writable" : "is NOT writable";
  if (!job->out.absent && !job->ahead.output_exists)
    printf("output: '%s' does not exist yet\n", quote_str(job->out.path).s);
  else if (!job->out.absent)
    printf("output: '%s' exists%s\n", quote_str(job->out.path).s,
           job->refusal.kind == ERR_NONE ? " and would be replaced" : "");
  printf("folder: '%s' %s%s\n", quote_str(job->out.folder).s, writable,
         !job->out.folder_is_above ? ""
         : job->refusal.kind == ERR_NONE
             ? " (the nearest existing one; the run creates the output's folder)"
             : " (the nearest existing one)");
  printf("disk needed: %s%s; ", quote_bytes_exact(job->ahead.space.needed_bytes).s,
         job->out.replace ? ", in addition to the files to be replaced (they stay until the end)"
                          : "");
  if (job->ahead.space.known)
    printf("%s free\n", quote_bytes_exact(job->ahead.space.free_bytes).s);
  else
    printf("free space unknown\n");
  printf("peak memory: at most %s (index %s + --memory %s + program %s)\n",
         quote_bytes(job_memory_limit(job)).s, quote_bytes(job_index_peak(job)).s,
         size_words_of(job->memory).s, quote_bytes(JOB_PROGRAM_BYTES).s);
  if (job->stats.jobs) printf("workers: %u, io: %s\n", job->stats.jobs, io_mode_name(job->mode));
  const struct run_doubts doubts = run_doubts(&job->plan);
  if (doubts.overflow || doubts.nonfinite)
    printf("not checked (a dry run reads only samples): %s%s%s\n",
           doubts.overflow ? "values too large for the new type" : "",
           doubts.overflow && doubts.nonfinite ? ", " : "",
           doubts.nonfinite ? "NaN and infinities" : "");
  if (job->verifying) printf("not verified (a dry run writes no model to run)\n");
  runtime_needs_print(&job->model, "", "\n", "");
  if (job->refusal.kind != ERR_NONE)
    printf("this would fail with exit code %d\n", (int)job->refusal.kind);
}
