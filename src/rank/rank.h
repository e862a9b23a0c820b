// Room: sites ranked by their cost to the output (--rank). Of every product with a weight that a pass stored in another
// form: the relative error that the weight, and the steps of its activation, give the product.
//
//   before a step   products of the model: node, value, weight      rank_look
//   sites           codes of weights, as passes report them
//   after all       values in RANGES ──▶ questions ──▶ measure_weighed ──▶ rows, worst first      rank_sites
//
// Nothing is decided by it and nothing recorded: the edit log, the plan and the outputs are the same without.
#ifndef WEIR_RANK_H
#define WEIR_RANK_H

#include "execution.h"
#include "pipeline.h"
#include "run_site.h"
#include "table.h"
#include "output_error.h"

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

void rank_done(struct rank *k);
// Is RANGES given to a pass that does nothing with it, and are sites not ranked (`asked`) either? ERR_USAGE.
int rank_check(const struct pipeline *p, bool asked, struct err *err);
// Before each step that may store weights.
void rank_look(struct rank *k, const struct pipeline *p, uint32_t step, const struct model *m);

// What was edited: the sites that the steps reported, and the execution that has the model.
struct rank_of {
  const struct pipeline *pipeline;
  const struct run_site *sites;
  uint32_t n_sites;
  struct execution *exec;
};
// After the last step. ERR_INPUT where RANGES does not go with a weight, or its companion is not there.
int rank_sites(struct rank *k, const struct rank_of *of, struct err *err);

#endif
