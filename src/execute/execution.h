// Room: a request turned into committed outputs.
//
// What every writing command does around its own work:
//
//   execution_open      paths and options checked, sources opened, model loaded, edit log begun
//   (the command) edits
//   execution_finish    plan, then --dry-run's answer or: stage, run, manifest, seal; reports
//   execution_close
//
// A command gives its name, its resolved options and a way to add to the report.
#ifndef WEIR_EXECUTION_H
#define WEIR_EXECUTION_H

#include "edit/edit_log.h"
#include "execute/commit/commit.h"
#include "execute/record_file.h"
#include "execute/request.h"
#include "plan/plan_file.h"
#include "report/run_report.h"
#include "stream/load/load.h"
#include "stream/run/run.h"
#include "stream/staging/artifact_cache.h"
#include "stream/staging/staging.h"

enum { EXECUTION_WARNINGS_MAX = 8 };

// Where the output goes (execution_output.c).
struct execution_output {
  const char *path;               // as the user gave it
  const char *folder, *onnx_name; // its parts
  struct folder dest;             // descriptor of `folder`
  bool folder_is_above; // `folder` is one above the output's, which the run (this is a dry one)
                        // would make
  bool made;            // `folder` was missing, and this run made it
  bool absent;          // OUT was left out
  const char *asked;    // digest of other files that this run reads (request_digest.h)
  bool replace;         // --force or --inplace
  struct seal_refers refers;   // of the model that is there under its name
  const char *taken;           // the first of the names wanted for data files that was not free
  const char *taken_by_source; // a name wanted for the data file that is one of the input's
};

struct execution;

// Who looks on while a run goes its way. A function that returns -1, with an error, ends the run, and nothing is in place.
// Any may be NULL.
struct execution_watch {
  int (*begin)(void *ctx, struct execution *exec, struct err *err); // before the model is loaded
  void (*edits)(void *ctx, struct execution *exec);                 // they begin, perhaps again
  void (*line)(void *ctx, struct span line);                      // of their log, as it is written
  void (*step)(void *ctx, struct execution *exec, uint32_t step); // of the pipeline, begins
  int (*planned)(void *ctx, struct execution *exec, struct err *err); // the plan is whole
  int (*made)(void *ctx, struct execution *exec, const struct staging *st,
              struct err *err); // so is every unit
  // The output is in `folder`, under its final names; next it is put in place.
  int (*commit)(void *ctx, struct execution *exec, const char *folder, struct err *err);
  void (*end)(void *ctx); // of the execution, also after a failure
  void *ctx;
};

// The records of a run, and what they begin with.
struct execution_records {
  const char *command; // as in the edit log's head and the plan's passes
  const char *options; // canonical JSON object
  struct digest *log_digest;
  struct record_file log;        // --edit-log
  struct record_file report;     // --report-json
  struct record_file page;       // --report-html
  struct record_file provenance; // --provenance
  struct span statement;         // what goes to `provenance`, once the run is over; in the arena
  const char *layout_asked;      // the layout, as in the log's head
  char edits_sha256[DIGEST_HEX];
};

// How large the output may be, and is; and the memory that planning took. Bytes.
struct execution_sizes {
  uint64_t output_limit;   // that all outputs together may have; 0: any
  bool smallest;           // nothing smaller could be picked for it
  const char *limit_hint;  // what would help where it is too small; may be NULL
  uint64_t index_bytes;    // arenas and tables once planned
  uint64_t planning_bytes; // the most that they held until then, and what stages answered
};

// Results that are not in the report as they are.
struct execution_outcome {
  struct run_error *errors; // of what the run quantized; in the arena
  uint32_t n_errors;
  bool all_made;       // every unit of the plan is recorded
  struct err refusal;  // the first thing that would refuse the run
  bool no_such_output; // the model and its weights refuse it: no run would have these edits
};

// What the command adds to the run. Any may be NULL.
struct execution_forms {
  const struct run_forms *shown; // to the forms that it is shown in
  bool leaves_it;                // a run that changed nothing leaves its output unwritten
  void (*collect)(struct execution *exec, struct run_report *r); // its part of the report
  void *ctx;                                                     // the command's own
};

struct execution {
  const struct request *request;
  const struct request_output *wanted; // its first output
  struct arena arena;
  const char *in_path;
  const char *replays; // the log that is replayed; NULL: none
  struct execution_output out;
  double began;      // on machine_clock
  enum io_mode mode; // IO_AUTO: not chosen yet
  uint64_t memory;
  struct sources *sources;
  struct model model;
  uint32_t flaws; // warnings of its structure as it was loaded
  struct recipes recipes;
  struct edits edits;
  struct execution_stage *stages; // what was found before the edits (execution_stage.h), in order
  struct artifact_cache kept;     // what of it may be taken from others
  struct plan_layout layout;
  struct plan plan;
  bool planned;
  struct execution_records records;
  struct execution_sizes sizes;
  struct execution_outcome outcome;
  struct execution_forms forms;
  struct run_report reported;   // filled as it comes about, and whole by execution_report
  struct execution_watch watch; // another one, of the command that makes the edits (weir rebuild)
};

// A file without a name where the system keeps large temporary files ($TMPDIR, else /var/tmp), or none. ctx: not looked at.
struct file execution_unnamed_file(void *ctx);

// execution_prepare.c. Opens everything and loads IN. On failure nothing stays open and nothing was written.
int execution_open(struct execution *exec, const struct request *request, struct err *err);
// Starts the edit log. `command` and `options` (a JSON object) name what makes the edits.
int execution_begin_edits(struct execution *exec, const char *command, const char *options,
                          struct err *err);
// The model as it was loaded, with no edit and no record of one: execution_begin_edits comes next. What stages
// answered is kept. planned_bytes: what all files of the output would have after the edits so far.
int execution_begin_again(struct execution *exec, struct err *err);
// Frees the edits with their records, and the model.
void execution_drop_edits(struct execution *exec);
int execution_planned_bytes(struct execution *exec, uint64_t *bytes, struct err *err);
int execution_finish(struct execution *exec, struct err *err);
// What there is to say, collected at the first call: the plan is made, and the run, if there is one, is over. What the run
// has come to, seconds and memory are those of now. execution_close frees it.
const struct run_report *execution_report(struct execution *exec);
// Digests of outputs, from the records of the run, before the staging folder is gone.
void execution_report_take_digests(struct execution *exec, const struct staging *st);
// A step of the pipeline begins: for who looks on.
void execution_step(struct execution *exec, uint32_t step);
// All of it: opens an execution, lets `edit` begin and make its edits, finishes and closes; or completes the
// seal of an interrupted run (execution_finish_seal).
int execution_command(const struct request *request,
                      int (*edit)(struct execution *exec, void *ctx, struct err *err), void *ctx,
                      struct err *err);
// Bytes of manifest and companion, once the plan is prepared.
int execution_beside_bytes(const struct execution *exec, uint64_t *bytes, struct err *err);
// Decides exec->mode, once.
int execution_choose_io(struct execution *exec, struct err *err);
// What work on its bytes goes by, once the mode is chosen. Watches for signals.
struct work_options execution_work(const struct execution *exec);
void execution_close(struct execution *exec);

// execution_prepare.c. begin_reading: one that reads this source as the request says, and writes nothing; nothing is opened.
// load opens the sources and loads the model; what is open after a failure, execution_close
// closes. prepare_plan: the end of the edits, and the plan: exec->plan, its file and the log are whole. Neither is
// written for a dry run that the model and its weights refuse: they would be of no run.
void execution_begin_reading(struct execution *exec, const struct request *request,
                             const char *in_path);
int execution_load(struct execution *exec, struct err *err);
// Of exec->records.command and exec->records.options: what was asked for, as plans have it. In the arena.
const char *execution_passes_json(struct execution *exec);
int execution_prepare_plan(struct execution *exec, struct err *err);

// execution_layout.c: the options of the layout. take: over what *l has, as was asked. write:
// the record of it; read: a record that anybody may have written (ERR_MODEL).
void execution_layout_take(struct plan_layout *l, const struct request_layout *asked);
void execution_layout_write(const struct plan_layout *l, struct json_out *j);
// Names are in *a. ERR_MODEL: it is not a layout.
int execution_layout_read(struct plan_layout *l, const struct json_value *v, struct arena *a,
                          struct err *err);
// Is that what execution_layout_write writes of some layout?
bool execution_layout_is(struct span text);

// execution_output.c. split fills dest_folder and onnx_name from out_path; open opens dest, and makes the
// folder if it alone is missing. remove_folder: the one that open made, if it is empty.
// in: OUT may be a folder (one that exists, or a name that ends with a slash); then the output is stored in it
// under the name of the input. Of a run without --inplace that was given an output.
const char *execution_output_in(const char *out, const char *in, struct arena *a);
void execution_output_split(struct execution *exec);
// ERR_USAGE if the folder cannot be made since it, or one above it, is a link to what does not exist.
int execution_output_check_link(const char *folder, struct arena *a, struct err *err);
int execution_output_open(struct execution *exec, struct err *err);
void execution_output_remove_folder(struct execution *exec);
// Asks the model that is replaced for its data files. Before the execution's own model is loaded: the index of one is in memory at a time.
void execution_output_ask_old(struct execution *exec);
// Is there something under the output's name, and what?
bool execution_output_there(const struct execution *exec, struct entry_facts *st);
// ERR_USAGE for a name that cannot be an output's; for one that must not be written over; for a
// data file that is one of the input's; for names that no reader takes as a location.
int execution_output_check_name(const struct execution *exec, struct err *err);
int execution_output_check(const struct execution *exec, struct err *err);
int execution_output_check_data(const struct execution *exec, struct err *err);
int execution_output_check_locations(const struct execution *exec, struct err *err);
// plan_layout's name_taken; ctx is the execution.
bool execution_output_taken(void *ctx, const char *name);
// Is there a model to be replaced that not everybody may read?
bool execution_output_is_closed(const struct execution *exec);

// Says it in a notice and keeps it for the report.
void execution_warn(struct execution *exec, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// execution_dry_run.c. What would refuse a run: passed on as *err with -1, or in a dry run noted for the
// end of its report. anywhere: by the model and its weights, so also where OUT was left out. look_ahead asks what is asked of a run after its plan was made.
int execution_refused(struct execution *exec, const struct err *why, struct err *err);
int execution_refused_anywhere(struct execution *exec, const struct err *why, struct err *err);
int execution_look_ahead(struct execution *exec, struct err *err);
// execution_packed.c: fills in exec->sizes.packed from samples of what the plan makes. Never fails.
void execution_guess_packed(struct execution *exec);
// Are there weights with few distinct values (shrink --method float_weights), which are smaller in nothing else?
bool execution_is_for_packing(const struct execution *exec);
// execution_resume.c. A run that was interrupted between its last renames is completed before anything
// else: true (and *rc is the command's result) if there was one for this output. It is this command's if that read the same files
// (request_digest.h).
bool execution_finish_seal(const struct request *request, int *rc, struct err *err);

// Into how many shards a plan is divided, unless somebody says otherwise.
uint32_t execution_shards(const struct execution *exec);

// Is a report asked for at all?
bool execution_wants_report(const struct request *r);

// execution_files.c. Is it a file of the input's, or one that the command reads beside it (a log, a pipeline)?
bool execution_reads(const struct execution *exec, const struct entry_facts *st);
// Is a file of that name in the folder one that the execution writes?
bool execution_writes(const struct execution *exec, struct folder folder, const char *name);
// ERR_USAGE if --edit-log, --plan-out, --report-json, --report-html or --provenance would write over a file that is read, one of
// the output's (as far as its names are known: all of them once planned), or one another's.
int execution_check_files(struct execution *exec, struct err *err);
// ERR_USAGE if a data file has a name of another file of the output. Before the plan: the first, if it
// was named; then: any.
int execution_check_data_file(const struct execution *exec, struct err *err);

#endif
