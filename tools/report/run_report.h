// What a run has to say of itself: collected once, and told three times.
//
//   job, passes, model, units ──run_report_of──▶ struct run_report ──▶ lines for people   job_report.c, pass_job_tell.c
//                                                                 ──▶ JSON               job_report.c, pass_job_report.c
//                                                                 ──▶ a page             tools/html
//
// A command that is no job (verify) fills what it knows of one; pages leave out what is not there.
#ifndef WEIR_RUN_REPORT_H
#define WEIR_RUN_REPORT_H

#include "census.h"
#include "quantized.h"
#include "staging.h"
#include "verified.h"

struct run_file {
  const char *name;
  uint64_t size;
  const char *sha256; // of the whole file, in hex; NULL: not known
  uint32_t shards;    // > 1: it is so many that the manifest has digests of, and no one of it all
};

// Zero-initialize; run_report_free frees. Texts live as long as the job, or in the arena.
struct run_report {
  const char *command;      // "quantize"
  const char *command_line; // as it was given, quoted for a shell; NULL: not known
  const char *version;
  const char *model;         // base name of what it is about
  bool dry;                  // nothing was written
  bool unchanged;            // the outputs were there already
  const struct err *refusal; // what refused the run, or would have; NULL: nothing
  struct job_told told;
  const char *resumed;  // as in the JSON report
  double seconds;       // so far
  uint64_t peak_memory; // bytes, so far; 0: not known
  uint64_t bytes_before, bytes_after;
  uint64_t packed;               // the latter after gzip -9, about; 0: not known
  struct census census;          // n_ops 0: it was not counted
  const struct pass_job *passes; // steps, sites and their warnings; NULL: the command runs none
  const struct recipes *recipes; // of `stored`
  struct quantized stored;       // tensors in another form, with their errors
  const char *const *warnings;   // beside those of steps
  uint32_t n_warnings;
  TABLE(struct run_file, inputs);
  TABLE(struct run_file, outputs); // the .onnx first
  const char *manifest;            // its name; NULL: there is none
  const char *root; // digest that the manifest gives the output, in hex; NULL: none, or not known
  const char *plan_id, *edits_sha256, *meta_sha256; // in hex; NULL: there is none
  const char *needs;                                // "ONNX Runtime 1.23 or newer (…)"; NULL: any
  const struct verified *verified;                  // NULL: nothing was verified
  struct arena arena;
};

// The job's, collected at the first call: the plan is made, and the run, if there is one, is over. Seconds and memory are
// those of now. job_close frees it.
const struct run_report *run_report_of(struct job *job);
// Digests of outputs, from the records of the run, before the staging folder is gone.
void run_report_take_digests(struct job *job, const struct staging *st);
void run_report_free(struct run_report *r);

#endif
