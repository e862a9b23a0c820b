// weir calibrate, from options to files.
#ifndef WEIR_CALIBRATE_JOB_H
#define WEIR_CALIBRATE_JOB_H

#include "calibrate.h"
#include "pass_job.h"
#include "scratch.h"

struct calibrate_job {
  struct calibrate c;
  struct job job;     // as far as sources, model and edits go
  struct pass_job pj; // --pass, --config
  struct infer *infer;
  struct runtime_options runtime;
  struct artifact artifact; // the staging folder
  struct ranges ranges;
  const char *out;           // RANGES
  const char *cache;         // of onnxruntime; NULL: none is written
  const char *companions[2]; // those that are there, and RANGES is not
  uint32_t n_companions;
  bool placing; // all is found; files are on the way to their places
  struct scratch scratch;
  uint64_t made_bytes;
  bool resumed;
};

// Passes that are not of the command line: `take` appends them, with their files read.
struct calibrate_passes {
  int (*take)(void *ctx, struct pipeline *p, struct err *err);
  void *ctx;
};

// Everything: *j is filled also where it fails, and is to be closed. ERR_RUNTIME without a runtime. passes: NULL: those of
// args.
int calibrate_job_run(struct calibrate_job *j, const struct cli_args *args,
                      const struct calibrate_passes *passes, struct err *err);
void calibrate_job_close(struct calibrate_job *j,
                         bool keep); // keep: the staging folder stays, for a resume

// calibrate_tell.c: lines for people; a document.
void calibrate_tell(const struct calibrate_job *j);
void calibrate_tell_json(const struct calibrate_job *j);

#endif
