// Verification of what a command wrote, in the staging folder, before anything has its final name.
#ifndef WEIR_VERIFY_JOB_H
#define WEIR_VERIFY_JOB_H

#include "job.h"
#include "verify.h"

// Starts the runtime if the request wants a verification: job->verify then. ERR_USAGE, ERR_RUNTIME.
int verify_job_begin(struct job *job, struct err *err);
void verify_job_end(struct job *job);
// The edits begin, perhaps again: what each group of them does is kept (edit_groups.h), and so are the lines of the log,
// which are told as they are written.
void verify_job_begin_edits(struct job *job);
void verify_job_line(struct job *job, struct span line);
// Verifies the output in `folder`. ERR_FAIL: it is not the same, or that could not be found out.
int verify_job_run(struct job *job, const char *folder, struct err *err);
// The line that onnx-conv2matmul ends a verification with.
void verify_job_print_compatible(const struct job *job);

#endif
