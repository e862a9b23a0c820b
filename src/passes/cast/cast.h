// Weights stored in a narrower float type, with a Cast where they are used.
//
//   w float32 ─▶ uses      becomes      w_float16 ─▶ Cast(to float32) ─▶ w ─▶ uses
//
// One Cast a weight, in the graph that holds it; the value behind it keeps the weight's name, so
// that all else stays as it is. Needs: nothing. Promises: all values of the model keep their types.
#ifndef WEIR_CAST_H
#define WEIR_CAST_H

#include "pass.h"

// Weights below this stay: up to here the bytes saved do not pay for the Cast, and a constant of
// few elements is more often an epsilon or a bound than a weight.
enum { CAST_MIN_ELEMENTS = 256 };

struct cast_options {
  enum dtype to; // FLOAT16 or BFLOAT16
  uint64_t min_elements;
  bool
      clips; // finite elements out of range become the largest value; otherwise the run refuses them
  // True for the name of a tensor or node whose weights stay. NULL: none.
  bool (*excluded)(const void *ctx, struct span name);
  const void *ctx;
};

struct cast_result {
  uint64_t converted, skipped;
};

// Every float32 weight is reported to env->site: converted with the reason "cast", its `codes` the
// recipe of the narrow elements; or skipped with "excluded" (by the weight's name, its Constant
// node's, or that of a node that uses it), "small", "opset_too_old" (float16 needs 6, bfloat16 13),
// "graph_input", "unused" or "unreadable". Cannot fail on a loaded model.
void pass_cast(struct pass_env *env, const struct cast_options *options,
               struct cast_result *result);

#endif
