// `cast --graph`: the whole graph computes in another floating type.
#ifndef WEIR_CAST_GRAPH_H
#define WEIR_CAST_GRAPH_H

#include "passes/pass.h"
#include "passes/questions/name_pattern.h"

struct cast_graph_options {
  enum dtype to; // FLOAT16 or BFLOAT16, which float32 becomes; or FLOAT, which both of them become
  bool clips;    // as cast's --on-overflow
  bool keep_io;  // inputs and outputs of the model keep their types
  const char *const *keep_op; // operators that stay in the type that they have, by name
  uint32_t n_keep_op;
  const struct name_patterns *exclude; // nodes and weights that stay
  const struct ranges *ranges;         // FLOAT16: what does not fit stays; NULL: nobody knows
  double headroom;                     // how much larger numbers may be than those that were seen
};

// Every weight that changes is reported as converted, every node that keeps its type as skipped: with
// "kept_operator" (a row of cast_graph_kept.def, or --keep-op), "excluded", "unknown_operator",
// "type_unknown", "makes_type", "sequence", "function", "type_not_allowed"; by ranges "float16_range", "float16_sum". Leaves env->infer NULL.
int cast_graph_run(struct pass_env *env, const struct cast_graph_options *o, struct err *err);

#endif
