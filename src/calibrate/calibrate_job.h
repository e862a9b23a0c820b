// Ranges of a model's values, from runs on samples: a request to files.
#ifndef WEIR_CALIBRATE_JOB_H
#define WEIR_CALIBRATE_JOB_H

#include "calibrate/calibrate_request.h"
#include "execute/passes/pass_edits.h"
#include "stream/sys/scratch.h"

struct calibrate_record;

struct calibrate_job {
  const struct calibrate_request *request;
  struct request base; // its base, with the files that passes read
  struct calibrate c;
  const struct calibrate_record *record; // NULL: it is none that is done again
  struct execution exec;                 // as far as sources, model and edits go
  struct pass_edits pj;                  // --pass, --config
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

// A run that is done again, as RANGES say that it was.
struct calibrate_record {
  int (*take)(void *ctx, struct pipeline *p,
              struct err *err); // appends its passes, with their files read
  void *ctx;
  const char *meta_sha256;   // of the model, in hex; of another model nothing is found (ERR_INPUT)
  const char *weir, *source; // the version and the model's name that RANGES get
};

// Everything: *j is filled also where it fails, and is to be closed. ERR_RUNTIME without a runtime. request: lives as long as
// *j. record: NULL: a run of its own, with the passes of the request.
int calibrate_job_run(struct calibrate_job *j, const struct calibrate_request *request,
                      const struct calibrate_record *record, struct err *err);
void calibrate_job_close(struct calibrate_job *j,
                         bool keep); // keep: the staging folder stays, for a resume

#endif
