// Room: the report of a run: collected once, and rendered as lines, JSON and a page.
//
//   execution, passes, model, plan, units ──execution_report──▶ struct run_report ──▶ lines for people   render_run.c, render_passes.c
//                                                                               ──▶ JSON               render_run.c, run_passes_json.c
//                                                                               ──▶ a page             tools/render/html
//
// Renderers see this room and none of those that run. A command that is no run (verify) fills what it knows of one; pages
// leave out what is not there.
//
// To report more: a member here, filled by execution_report (what passes did: by pass_edits_collect), then shown in each of
// the three. To add a section to the page: the head of tools/render/html/html_parts.h.
#ifndef WEIR_RUN_REPORT_H
#define WEIR_RUN_REPORT_H

#include "base/err.h"
#include "report/census.h"
#include "report/run_passes.h"
#include "report/stored_tensors.h"
#include "targets/runtime_needs.h"
struct run_report;

// The execution decides by it which renderers it calls.
struct run_shown {
  bool json;       // the report on standard output
  bool json_alone; // no lines after that report, unless the command has a line of its own
  bool lines;      // for people, on standard output
  bool quiet;      // no lines
  bool plain;      // the report has the command's members alone
  // 1: a line for each step; of weir preprocess: one for each node without a shape, from 3 on for all
  unsigned verbose;
  int json_indent; // spaces
};

// The forms that a run is shown in: the execution has none of its own.
struct run_render {
  void (*json)(const struct run_report *r, struct json_out *j);
  void (*known)(const struct run_report *r, struct json_out *j); // of a run whose report is lost
  void (*page)(const struct run_report *r, struct span_sink sink);
  void (*print_report)(const struct run_report *r);                          // on standard output
  void (*print_document)(const struct run_shown *shown, struct span report); // one that was kept
  void (*print_lines)(const struct run_report *r);                           // for people
};

// What a command adds to these forms. Any may be NULL.
struct run_forms {
  // its members of the top object of the JSON report, written in key order
  void (*report)(const struct run_report *r, struct json_out *j);
  // Fills r->told from the rest of the report, once; texts are in r->arena.
  void (*tell)(struct run_report *r);
  // prints what else could be done, before the lines that end a run
  void (*hint)(const struct run_report *r);
};

// What a command says of its work, for the lines that end a run.
struct run_summary {
  const char *did;   // "267 weights quantized to 4 bits (blocks of 64)"
  const char **more; // lines of what else it did, where one is too short
  uint32_t n_more;
  const char *worst;     // the layer that lost most, and how much; NULL: none lost anything
  const char *kept;      // what stayed as it was, and why; NULL: nothing did
  const char *held_back; // by --exactness; NULL: nothing
  const char *larger;    // than the source, though weights were to be smaller; NULL: it is not
  const char *shapeless; // nodes whose shapes are not known, and why; NULL: none
  const char **steps;    // a line for each step of many; NULL: they are few
  uint32_t n_steps;
  const char *line; // this line and nothing else, for scripts made for another tool; or NULL
};

// What was asked for.
struct run_asked {
  const char *command;           // "quantize"
  const char *command_line;      // as it was given, quoted for a shell; NULL: not known
  const char *recorded_as;       // the command in the head of the edit log
  bool dry;                      // nothing was written
  bool plans;                    // a plan for other processes
  const struct run_shown *shown; // NULL: the command is no run
  const struct run_forms *forms; // the command's; NULL: it has none
};

struct run_file {
  const char *name;
  uint64_t size;
  const char *sha256; // of the whole file, in hex; NULL: not known
  uint32_t shards;    // > 1: it is so many that the manifest has digests of, and no one of it all
};

// A file beside the outputs that tells of them.
struct run_record {
  const char *name;         // NULL: there is none
  uint64_t size;            // 0 too where it is not there (yet)
  bool is_there, unchanged; // unchanged: it was there already, byte for byte
};

struct run_files {
  TABLE(struct run_file, inputs);
  TABLE(struct run_file, outputs); // the .onnx first; sizes as planned
  struct run_record manifest, tensors;
  uint64_t padding; // bytes of the outputs that put tensors at aligned places
  bool each;        // there is a data file for each tensor
};

// Where the outputs go.
struct run_out {
  const char *path;     // of the .onnx, as the user gave it
  const char *above;    // what stands before its name there: "int4/"
  const char *folder;   // the one that exists: its own, or (folder_is_above) one above it
  bool folder_is_above; // which the run, a dry one, would make
  bool absent;          // none was given
  bool replaces, inplace;
  bool unwritten; // nothing changed, and no copy was asked for
  bool unchanged; // they were there already, byte for byte
  bool packs;     // weights have few distinct values, which makes them smaller in an archive alone
};

// What was found before the edits.
struct run_stage {
  const char *name;
  uint32_t n; // questions
  uint8_t sha256[DIGEST_BYTES];
  uint64_t source_bytes_read;
  bool resumed; // found, not made
  bool taken;   // of what somebody kept
};

// How the outputs were made.
struct run_work {
  // "units": finished ones were taken over; "seal": only renames were left; NULL: all was done by this run
  const char *resumed;
  const char *staged; // of a plan for others: its folder, as a path; NULL: there is none
  const char *io;     // "uring"
  bool null;          // nothing was stored (--io null)
  uint64_t edits;
  uint32_t units, shards; // of the plan
  struct run_stats stats;
  TABLE(struct run_stage, stages);
};

// Bytes that the run does not pass: `limit`, of which `asked` is --memory. index: arenas and tables once planned.
struct run_memory {
  uint64_t asked, index, index_peak, program, limit;
};

// What a dry run found.
struct run_ahead {
  bool output_exists, folder_writable;
  struct staging_space space;
};

struct run_cost {
  double seconds;                     // so far
  uint64_t peak_memory;               // bytes, so far; 0: not known
  uint64_t bytes_before, bytes_after; // of the model
  uint64_t packed;                    // the latter after gzip -9, about; 0: not known
};

// In hex; NULL: there is none, or it is not known.
struct run_digests {
  const char *plan, *edits, *meta; // SHA-256 of the plan, the edit log, the source's metadata
  const char *output;              // that the manifest gives the output
};

struct verified; // verified.h

// Zero-initialize; run_report_free frees. Texts, and what is pointed at, live as long as the run, or in the arena.
struct run_report {
  struct run_asked asked;
  const char *version;
  const char *model;         // base name of what it is about
  const struct err *refusal; // what refused the run, or would have; NULL: nothing
  struct run_summary told;
  struct run_cost cost;
  struct census census;            // n_ops 0: it was not counted
  const struct run_passes *passes; // NULL: the command runs none
  const struct recipes *recipes;   // of `stored`
  struct stored_tensors stored;    // tensors in another form, with their errors
  TABLE(const char *, warnings);   // beside those of steps
  struct run_files files;
  struct run_out out;
  struct run_work work;
  struct run_memory memory;
  struct run_ahead ahead; // of a dry run
  struct run_doubts doubts;
  struct run_digests digests;
  struct runtime_needs needs;
  // verified: NULL: nothing was. verifying: the same, also where it did not run; NULL: nobody asked.
  const struct verified *verified, *verifying;
  struct arena arena;
};

void run_report_free(struct run_report *r);

#endif
