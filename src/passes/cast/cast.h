// Room: weights stored in a narrower float type, with a Cast where they are used.
//
//   w float32 ─▶ uses      becomes      w_float16 ─▶ Cast(to float32) ─▶ w ─▶ uses
//
// (Or, with `graph`, the whole graph in the type: inside/cast_graph.h.) One Cast a weight, in the graph that holds it; the value behind it keeps the weight's name, so
// that all else stays as it is. Needs: nothing. Promises: all values of the model keep their types.
//
// Every float32 weight is reported to env->site: converted with the reason "cast", its `codes` the
// recipe of the narrow elements; or skipped with "excluded" (by the weight's name, its Constant
// node's, or that of a node that uses it), "small", "opset_too_old" (float16 needs 6, bfloat16 13),
// "graph_input", "unused" or "unreadable". Cannot fail on a loaded model.
#ifndef WEIR_CAST_H
#define WEIR_CAST_H

#include "passes/pass.h"

// Weights below this stay: up to here the bytes saved do not pay for the Cast, and a constant of
// few elements is more often an epsilon or a bound than a weight.
enum { CAST_MIN_ELEMENTS = 256 };

// With `graph` to float16: what a number becomes that masks, if it is further from 0 than that. Six of them fit float16, and exp of it is 0.
#define CAST_MASK_MOST 1e4f

#endif
