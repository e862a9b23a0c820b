// --dry-run: what a run would change, and whether it would be let.
//
// A dry run that says yes must be true, so whatever refuses the real run is asked here too, through
// the same functions and in the same order: names and existing files (job_output.c), the engine,
// space, lock and folder (staging_foresee), the memory of the workers (memory_split_of). But the
// answer is wanted also where one of them says no: the first refusal is kept (job_refused), the
// report is printed whole, and the refusal ends the command after it with the exit code of the real
// run.
//
// Where OUT was left out only the model and its weights can refuse (a gate, a budget): figures are then
// those of the input's folder.
#include "job.h"
#include "version_number.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int job_refused(struct job *job, const struct err *why, struct err *err) {
  if (!job->request->dry_run) {
    *err = *why;
    return -1;
  }
  if (job->refusal.kind == ERR_NONE && !job->out.absent) job->refusal = *why;
  return 0;
}

int job_refused_anywhere(struct job *job, const struct err *why, struct err *err) {
  if (job_refused(job, why, err)) return -1;
  if (job->refusal.kind == ERR_NONE) job->refusal = *why;
  job->no_such_output = true;
  return 0;
}

int job_look_ahead(struct job *job, struct err *err) {
  struct staging_options options = {.dest_folder = job->out.folder,
                                    .onnx_name = job->out.onnx_name,
                                    .version = version_number,
                                    .fresh = job->request->fresh};
  struct err why = {0};
  struct stat at;
  if (job_beside_bytes(job, &options.beside_bytes, err)) return -1;
  if (job_choose_io(job, &why) && job_refused(job, &why, err)) return -1;
  why = (struct err){0};
  job->ahead.output_exists = !job->out.absent && job_output_there(job, &at);
  job->ahead.folder_writable = faccessat(job->out.dest, ".", W_OK | X_OK, AT_EACCESS) == 0;
  if (staging_foresee(&job->plan, &options, &job->ahead.space, &why) && job->mode != IO_NULL &&
      job_refused(job, &why, err))
    return -1;
  why = (struct err){0};
  const struct work_options run = {
      .jobs = job->request->limits.jobs, .memory = job->memory, .mode = job->mode};
  if (run_foresee(&job->plan, &run, &job->stats.jobs, &why)) return job_refused(job, &why, err);
  return 0;
}

uint64_t job_index_peak(const struct job *job) {
  if (job->stages) return max_u64(job->planning_bytes, job->index_bytes);
  const uint64_t before = job->planning_bytes; // there --memory is not in use yet
  return before > job->index_bytes + job->memory ? before - job->memory : job->index_bytes;
}

uint64_t job_memory_limit(const struct job *job) {
  return job_index_peak(job) + job->memory + JOB_PROGRAM_BYTES;
}
