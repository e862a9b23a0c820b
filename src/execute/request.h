// What a run is asked for: sources, outputs, records, limits. The command line fills it (cli_request.h); the run checks it and
// never changes it. Strings and lists live as long as the run. Zero means "not asked for".
//
// The lists have one source and one output today.
#ifndef WEIR_REQUEST_H
#define WEIR_REQUEST_H

#include "base/observer.h"
#include "report/run_report.h"
#include "stream/run/work.h"

struct side_inputs;     // side_inputs.h
struct execution_watch; // execution.h

// Where the weights of an output are stored. It overrides the default and the layout of an edit log.
struct request_layout {
  bool in_one_file;      // the weights inside the .onnx
  bool external;         // in one data file
  bool file_each;        // in a data file for each tensor
  const char *data_file; // its name; "": the default name; NULL: not given
  bool splits, thresholds, aligns;
  uint64_t split, threshold, align; // bytes
};

struct request_source {
  const char *path;
};

struct request_output {
  const char *path; // of the .onnx
  bool absent;      // no output was given (a dry run): `path` is the source's
  bool inplace;     // the output replaces the source
  bool replace;     // the output may replace a file; inplace may in any case
  bool replace_readonly;
  bool makes_folders; // all missing folders, not only the last one
  bool copies;        // also if no pass changed the model
  bool manifest, tensor_digests, hash_inputs;
  struct request_layout layout;
};

// Paths of records. "-": standard output; NULL: not asked for.
struct request_records {
  const char *edit_log, *plan, *report_json, *report_html, *provenance;
  const char *artifacts; // a folder
};

struct request_limits {
  uint64_t memory;                   // bytes
  uint32_t jobs;                     // 0: as work_options
  enum io_mode io;                   // IO_AUTO: the run chooses
  const char *memory_name, *io_name; // for messages: "--memory", or "WEIR_MEMORY"; NULL: unasked
};

struct request {
  const char *command;        // "quantize"
  const char *command_line;   // quoted for a shell; NULL: not known
  const char *resume_command; // the command line that resumes the run
  struct observer *observer;  // NULL: none
  const struct request_source *sources;
  const struct request_output *outputs;
  uint32_t n_sources, n_outputs;
  const char *edits;               // path of an edit log; NULL: none
  const char *config;              // path of a pipeline file; NULL: none
  const struct side_inputs *given; // files that passes read; NULL: none
  // Digest of all other files that decide the result (request_digest.h). NULL: not known.
  const char *reads;
  bool allow_links, dry_run, resume, fresh;
  bool plans;      // prepare the plan for other processes
  uint32_t shards; // of that plan; 0: by its size
  struct request_limits limits;
  struct request_records records;
  struct run_shown shown;
  const struct run_render *render;     // renderers of the report, for people and programs
  const struct execution_watch *watch; // a verification (verify_watch.h); NULL: none
};

#endif
