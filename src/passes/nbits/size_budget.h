// Deciding by measurements: which quantization of every tensor, so that a file fits and the summed
// error is small; and which tensors miss a gate. Nothing here looks at a model.
#ifndef WEIR_SIZE_BUDGET_H
#define WEIR_SIZE_BUDGET_H

#include "base/arena.h"
#include "base/err.h"
#include "tensor_stats/figures.h"

// ---- budgets -----------------------------------------------------------------------------------

struct size_budget_option {
  uint64_t bytes;
  double error; // summed squared error; smaller is better
};

struct size_budget_tensor {
  const char *name; // breaks ties
  const struct size_budget_option *options;
  uint32_t n;      // at least 1
  uint32_t picked; // set by size_budget_budget
};

// Picks an option of every tensor so that their bytes add up to at most `budget`, with the sum of
// errors as small as the greedy rule gets it: all begin with the fewest bytes, then what saves most
// error per byte is taken as long as it fits; ties go by name, then by position. Never worse than
// giving every tensor the option of the same number, for any number that all have and that fits.
// *bytes: what the pick takes. False if nothing fits: the option of fewest bytes is picked of each.
bool size_budget_budget(struct size_budget_tensor *tensors, uint32_t n, uint64_t budget,
                        uint64_t *bytes);

// ---- gates -------------------------------------------------------------------------------------

enum size_budget_figure { SIZE_BUDGET_SQNR, SIZE_BUDGET_COSINE, SIZE_BUDGET_MAXABS };

struct size_budget_gate {
  enum size_budget_figure figure;
  double limit; // SQNR in dB and COSINE: at least; MAXABS: at most
};

// "sqnr=20dB" (or 20), "cosine=0.99", "maxabs=0.1". ERR_USAGE for anything else.
int size_budget_gate_parse(const char *text, struct size_budget_gate *out, struct err *err);
// Do the figures pass all gates? Where they are not numbers, they do not. output_db: the SQNR that counts instead of that
// of the figures, or NULL.
bool size_budget_passes(const struct size_budget_gate *gates, uint32_t n, const struct figures *f,
                        const double *output_db);

#endif
