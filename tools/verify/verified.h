// What a verification found: built once, rendered as text, JSON (docs/schema/verify.json) and HTML.
#ifndef WEIR_VERIFIED_H
#define WEIR_VERIFIED_H

#include "compare.h"
#include "table.h"

enum verified_end {
  VERIFIED_PASSED,
  VERIFIED_FAILED,
  VERIFIED_NOT, // it was not looked at: `why` says why
};

// A site (scope sites), or an output of a case (scope model).
struct verified_row {
  const char *name;   // of the site or the output, for people
  const char *of;     // the passes and rules of the site, joined by ", "; or the case
  const char *bounds; // what was asked: "equal", "max abs 3e-05, mean abs 2e-06"
  enum verified_end end;
  struct compare_figures figures; // of the worst output; count 0: there are none
  const char *why;                // FAILED, NOT; else NULL
  const char *
      fault; // FAILED: the edit group that alone is at fault, as "group 17 (fuse/bn)"; NULL: not known
  bool loses;     // its passes store less or quantize, so that how much is lost may be a matter of taste
  double seconds; // of both runs
  bool has_value; // it is a metric of the task
  double value;
};

// A value that both models have, in the order of the graph (--layers).
struct verified_layer {
  const char *node;  // the node people know: /layers.3/self_attn/linear_out/MatMul
  const char *value; // the tensor
  struct compare_figures figures;
};

struct verified {
  const char *scope;   // "sites", "model"
  const char *runtime; // version
  uint64_t seed;
  const char *sizes; // "batch=1, time=64"; NULL
  TABLE(struct verified_row, rows);
  TABLE(struct verified_layer, layers);
  uint64_t n_passed, n_failed, n_not;
  uint64_t
      n_left; // sites that nobody wanted to have verified (--sites, verify: off): they have no row
  uint64_t peak_memory[2]; // bytes: of weir and of weir-ort, all of their processes together
  uint32_t n_helpers;      // processes of weir beside the first, each with a weir-ort of its own
  double seconds;
  struct arena arena;
};

#endif
