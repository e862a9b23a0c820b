// Room: the report of a run: collected once, and rendered as lines, JSON and a page.
//
//   execution, passes, model, units ──execution_report──▶ struct run_report ──▶ lines    render_run.c, render_passes.c
//                                                                           ──▶ JSON     render_run.c, render_passes_json.c
//                                                                           ──▶ a page   tools/render/html
//
// A command that is no execution (verify) fills what it knows of one; pages leave out what is not there.
//
// To report more: a member here, filled by execution_report, then shown in each of the three (lines and JSON: tools/render/runs). To add a section to the
// page: the head of tools/render/html/html_parts.h.
#ifndef WEIR_RUN_REPORT_H
#define WEIR_RUN_REPORT_H

#include "census.h"
#include "stored_tensors.h"
#include "err.h"

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

struct verified;   // verified.h
struct pass_edits; // pass_edits.h

struct run_file {
  const char *name;
  uint64_t size;
  const char *sha256; // of the whole file, in hex; NULL: not known
  uint32_t shards;    // > 1: it is so many that the manifest has digests of, and no one of it all
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

// Zero-initialize; run_report_free frees. Texts live as long as the execution, or in the arena.
struct run_report {
  const char *command;      // "quantize"
  const char *command_line; // as it was given, quoted for a shell; NULL: not known
  const char *version;
  const char *model;         // base name of what it is about
  bool dry;                  // nothing was written
  bool unchanged;            // the outputs were there already
  const struct err *refusal; // what refused the run, or would have; NULL: nothing
  struct run_summary told;
  const char *resumed; // as in the JSON report
  struct run_cost cost;
  struct census census;            // n_ops 0: it was not counted
  const struct pass_edits *passes; // steps, sites and their warnings; NULL: the command runs none
  const struct recipes *recipes;   // of `stored`
  struct stored_tensors stored;    // tensors in another form, with their errors
  const char *const *warnings;     // beside those of steps
  uint32_t n_warnings;
  TABLE(struct run_file, inputs);
  TABLE(struct run_file, outputs); // the .onnx first
  const char *manifest;            // its name; NULL: there is none
  struct run_digests digests;
  const char *needs;               // "ONNX Runtime 1.23 or newer (…)"; NULL: any
  const struct verified *verified; // NULL: nothing was verified
  struct arena arena;
};

void run_report_free(struct run_report *r);

#endif
