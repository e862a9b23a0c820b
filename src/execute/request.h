// What a run is asked for: sources, outputs, records, limits. Filled by whoever asks (the command line: cli_request.h),
// checked by the run, and never changed by it. Strings and lists live as long as the run. Zero means "not asked for".
//
// Every command of today has one source and one output.
#ifndef WEIR_REQUEST_H
#define WEIR_REQUEST_H

#include "observer.h"
#include "work.h"

struct side_inputs;      // side_inputs.h
struct execution_watch;  // execution.h
struct execution_render; // execution.h

// Where the weights of an output go, over what is the usual, or recorded in an edit log.
struct request_layout {
  bool in_one_file;      // the weights inside the .onnx
  bool external;         // in one data file
  bool file_each;        // in a data file for each tensor
  const char *data_file; // its name; "": the usual one; NULL: nothing said
  bool splits, thresholds, aligns;
  uint64_t split, threshold, align; // bytes
};

struct request_source {
  const char *path;
};

struct request_output {
  const char *path; // of the .onnx
  bool absent;      // nobody named one (a dry run): `path` is the source's
  bool inplace;     // in the place of the source
  bool replace;     // what is there, which inplace does anyway
  bool replace_readonly;
  bool makes_folders; // all that are missing, not the last one alone
  bool copies;        // also where nothing changed
  bool manifest, tensor_digests, hash_inputs;
  struct request_layout layout;
};

// Files of what was done, "-": standard output; NULL: not wanted.
struct request_records {
  const char *edit_log, *plan, *report_json, *report_html, *provenance;
  const char *artifacts; // a folder
};

struct request_limits {
  uint64_t memory;                   // bytes
  uint32_t jobs;                     // 0: as work_options
  enum io_mode io;                   // IO_AUTO: not chosen
  const char *memory_name, *io_name; // as the user calls them: "--memory"
};

// How the run is shown; it is read by renderers alone.
struct request_shown {
  bool json;       // the report on standard output
  bool json_alone; // and no line after it, unless the command has one of its own
  bool lines;      // for people: standard output is theirs
  bool quiet;      // no lines
  bool verbose;    // a line for each step
  bool plain;      // the report is another tool's, without what all reports have
  int json_indent;
};

struct request {
  const char *command;        // "quantize"
  const char *command_line;   // as it was given; NULL: not known
  const char *resume_command; // the line that goes on with it
  struct observer *observer;  // NULL: nobody
  const struct request_source *sources;
  const struct request_output *outputs;
  uint32_t n_sources, n_outputs;
  const char *edits,
      *config; // files that are read beside sources, as far as they were named; or NULL
  const struct side_inputs *given; // others, which passes read; NULL: there are none
  const char *
      reads; // digest of what decides the result beside the source (request_digest.h); NULL: not known
  bool allow_links, dry_run, resume, fresh;
  bool plans; // the plan is prepared for others to carry out, in so many shards (0: by its size)
  uint32_t shards;
  struct request_limits limits;
  struct request_records records;
  struct request_shown shown;
  const struct execution_render *render; // its forms, for people and programs
  const struct execution_watch
      *watch; // who looks on, such as a verification (verify_watch.h); NULL: nobody
};

#endif
