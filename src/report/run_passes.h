// What passes did, as data: steps, the sites that they looked at, warnings, ranks, and what they could have done besides.
#ifndef WEIR_RUN_PASSES_H
#define WEIR_RUN_PASSES_H

#include "base/table.h"
#include "passes/pass.h"
#include "tensor_stats/output_error.h"

// What a pass said of a site (struct pass_site), kept for the report. There may be one for each of a million nodes.
struct run_site {
  const char *op_type, *status, *reason;
  const char *name; // of the node as reports say it: never empty
  // Of the first node that uses the weight, as far as it has a name; else as `name`.
  const char *layer;
  struct span tensor;
  const char *chosen, *chosen_by;
  const struct figures *figures; // where something was chosen; else NULL
  const char *weighed_by;        // as in struct pass_site
  double output_db;
  uint32_t node, index, graph, codes, of;
  uint32_t step;
  struct pass_fact fact;
  bool gone;            // a later round of a repeat looked at the node again
  uint32_t left_before; // 1 + the site before it that its step left alone too; 0: none
};

struct run_warning {
  uint32_t step;
  const char *sentence, *hint; // hint: or NULL
};

static inline bool run_site_converted(const struct run_site *s) {
  return strcmp(s->status, "converted") == 0;
}

// What an error was weighed by.
enum rank_by { RANK_GRAM, RANK_CHANNELS, RANK_WEIGHT };

struct side_input;
struct ranges_value;
// A node that multiplies a value with a constant, as a step found it.
struct rank_product {
  uint32_t step, node, value, tensor;
  uint32_t axis;         // of the tensor's stored dims: the one that is multiplied
  uint32_t rank, recipe; // recipe: of what an edit made; else NO_ID
  int64_t *dims;
  bool conv, grouped;
  const char *name, *op_type, *value_name, *tensor_name;
  // What calibration saw of the value: under its own name, or as what Transpose nodes were given, of which the columns are
  // this axis (below 0: the last one).
  const struct side_input *file;
  const struct ranges_value *seen; // NULL: nothing
  int64_t seen_axis;
  bool moved;
  uint32_t row; // its first row + 1, 0: none
};

struct rank_row {
  uint32_t product, codes, next; // next: row + 1 of the same product
  enum rank_by by;
  const char *why;           // RANK_WEIGHT: a stable word for why there are no statistics
  struct output_error found; // by the weight alone, if RANK_WEIGHT
  double tokens;             // rows that G sums
  bool has_step;
  double step;  // of the activation's codes
  double noise; // squared error of the output that they give
  // 10 log10 of the squared output over the squared error: of the weight, of the activation (NAN: not counted), of both.
  double weight_db, activation_db, db;
};

struct rank {
  bool asked;
  TABLE(struct rank_product, products);
  TABLE(struct rank_row, rows); // worst first, once ranked
  uint64_t source_bytes_read;
  struct arena arena; // of names
};

// Operators that a step was not asked for, whose weights it could quantize.
struct run_unasked {
  const char *words;    // "1 weight of Gemm (33.6 MB)"; NULL: there are none
  const char *op_types; // the value of the option that asks for all of them
  uint64_t bytes;       // of their weights
};

// A step of the pipeline, over all of its rounds.
struct run_step {
  const struct pass *pass;
  const char *word;       // that asked for it and the steps after it, `named` in all
  uint32_t named;         // 0: it is not the first of them
  const char *options;    // a JSON object
  const char *gate, *ops; // values of the options gate and op-types, in words; NULL: none
  bool is_command;        // it is all that the command does, and its options are the command's
  bool repeats;           // it belongs to a repeat
  uint32_t rounds;        // how often it ran; 0: the pass is held back
  uint64_t held_back;     // rewrites that --exactness kept from being made
  uint32_t half_empty, fitting_block; // as in struct pass_result
  uint64_t converted, skipped;        // sites
  struct run_unasked unasked;         // of quantize
};

// Ranges of activations that passes were given.
struct run_ranges {
  const char *path;
  const struct ranges *ranges; // ranges.h
};

// Texts, and what is pointed at, live as long as the run.
struct run_passes {
  TABLE(struct run_step, steps);
  TABLE(struct run_site, sites); // in the order in which they were reported
  TABLE(struct run_warning, warnings);
  TABLE(uint32_t, waiting); // sites whose weights nodes make of constants: folding stores them
  TABLE(struct run_ranges, ranges);
  const struct rank *rank; // of --rank; NULL: it was not asked for
  uint64_t nodes[2];       // of the model before and after, bodies and functions included
  uint64_t convs;          // Conv, after
  bool is_command;         // the command is one pass; steps before it are the command's too
  bool verbose;            // a pipeline file asks for a line for each step
  // A node that no runtime has, and that none of the steps replaces though import-qonnx would. An empty domain: there is none.
  struct span foreign, foreign_domain;
};

#endif
