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

#include "execute/execution.h"
#include "pipeline/pipeline.h"
#include "report/run_passes.h"

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
