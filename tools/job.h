// What every writing command does around its own work:
//
//   job_open      paths and options checked, sources opened, model loaded, edit log begun
//   (the command) edits
//   job_finish    plan, then --dry-run's answer or: stage, run, manifest, seal; reports
//   job_close
//
// A command gives its name, its resolved options and a way to add to the report.
#ifndef WEIR_JOB_H
#define WEIR_JOB_H

#include "cli.h"
#include "edit_log.h"
#include "load.h"
#include "plan_file.h"
#include "run.h"
#include "seal.h"
#include "staging.h"

#include <stdio.h>

// A text on its way to a file of the user's choice (job_files.c).
struct job_text {
  FILE *file; // NULL: not open
  const char *path;
  const char
      *temporary; // its name until it is whole; NULL: written in place (a pipe, a device, a link)
};

struct job {
  const struct cli_args *args;
  struct arena arena;
  const char *in_path, *out_path;
  const char *dest_folder, *onnx_name; // of the output
  int dest;                            // descriptor of dest_folder
  bool replace, nothing_to_write;      // --force or --inplace; a dry run
  struct sources *sources;
  struct model model;
  struct recipes recipes;
  struct edits edits;
  struct plan_layout layout;
  struct plan plan;
  bool planned;
  const char *taken_by_source; // a name wanted for the data file that is one of the input's
  // records
  const char *command; // as in the edit log's head and the plan's passes
  const char *options; // canonical JSON object
  struct digest *log_digest;
  struct job_text log; // --edit-log
  char edits_sha256[DIGEST_HEX];
  // what came of it
  uint64_t index_bytes;
  struct run_stats stats;
  enum io_mode mode;
  uint64_t memory;
  bool sealed_earlier; // an unfinished seal was completed: nothing else was done
  // the command's part of the report: members of the top object, written in key order; may be NULL
  void (*report)(struct job *job, struct json_out *j);
  bool plain_report; // nothing but the command's own members
  // lines for people and scripts on standard output, before the summary; may be NULL
  void (*print)(struct job *job);
  void *ctx; // the command's own
};

// Opens everything and loads IN. On failure nothing stays open and nothing was written.
int job_open(struct job *job, const struct cli_args *args, struct err *err);
// Starts the edit log. `command` and `options` (a JSON object) name what makes the edits.
int job_begin_edits(struct job *job, const char *command, const char *options, struct err *err);
int job_finish(struct job *job, struct err *err);
void job_close(struct job *job);

// A run that was interrupted between its last renames is completed before anything else: true (and
// *rc is the command's result) if there was one for this output.
bool job_finish_seal(const struct cli_args *args, int *rc, struct err *err);

// job_report.c: the report as JSON (--report-json, --json) and the summary for people.
void job_report_write(struct job *job, struct json_out *j);
void job_report_print(struct job *job);

// job_files.c: texts beside the outputs. A text is at `path` whole or not at all, unless that is no
// plain file. `path` is kept; the temporary name lies in the arena. publish closes on success; drop
// closes what is open and removes it.
int job_text_open(struct job_text *t, const char *path, struct arena *a, struct err *err);
int job_text_publish(struct job_text *t, struct err *err);
void job_text_drop(struct job_text *t);
int job_write_file(const char *path, struct span text, struct err *err);
// ERR_USAGE if --edit-log, --plan-out or --report-json would write over a file of the input's or the
// output's (as far as its names are known: all of them once planned).
int job_check_files(struct job *job, struct err *err);
// ERR_USAGE if the data file has a name of another file of the output.
int job_check_data_file(const struct job *job, struct err *err);

#endif
