// Room: candidates for quantizing the weights of a model. The error and the size of each, from one
// streaming read.
//
// The weights are chosen as by the pass quantize, by the pass itself; nothing is edited or written.
#ifndef WEIR_CANDIDATES_H
#define WEIR_CANDIDATES_H

#include "base/table.h"
#include "execute/execution.h"
#include "execute/passes/pass_edits.h"
#include "passes/nbits/matmulnbits.h"

// What one candidate would make of one weight.
struct candidates_row {
  struct matmulnbits_measurement x;
  const char *words; // of its scheme
  const char *layer; // the first node that uses the weight: for people, who do not know tensors
};

struct candidates {
  struct pass_edits pj; // steps: the pass, last, and what comes before it
  // what comes of them
  struct execution exec;                     // as far as sources, model and edits go
  const struct matmulnbits_options *options; // of the pass
  uint64_t source_bytes_read;
  TABLE(struct candidates_row, rows); // those of a weight are neighbours
};

// begin: for the steps to be put into c->pj.pipeline, their options read. done frees.
void candidates_begin(struct candidates *c, const struct request *request);
void candidates_done(struct candidates *c);
// Loads the model, measures, and finds the layers.
int candidates_measure(struct candidates *c, struct err *err);

// All rows of candidate i of the options together. False if no weight takes it.
bool candidates_total(const struct candidates *c, uint32_t i, struct candidates_row *sum);

// The rows of a weight.
struct candidates_weight {
  uint32_t first, n;
  double worst; // the least SQNR that a candidate has
};
// How many there are. The list is in the arena, as the rows are or the worst first.
uint32_t candidates_weights(struct candidates *c, bool worst_first,
                            struct candidates_weight **list);

#endif
