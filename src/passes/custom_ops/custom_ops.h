// Room: functions for the operators of onnx_passes.ops.
//
// No runtime has these operators: a model that uses them carries functions that say what they compute
// (custom_ops_text.c). Passes just make the nodes; pass_run.c completes the model when all have run.
#ifndef WEIR_CUSTOM_OPS_H
#define WEIR_CUSTOM_OPS_H

#include "passes/pass.h"

// The domains of quantizers that no runtime has and the pass import-qonnx replaces.
#define CUSTOM_OPS_QONNX "qonnx.custom_op.general"
#define CUSTOM_OPS_BREVITAS "onnx.brevitas"
static inline bool custom_ops_is_imported(struct span domain) {
  return span_is(domain, CUSTOM_OPS_QONNX) || span_is(domain, CUSTOM_OPS_BREVITAS);
}

// Adds the functions that nodes from `first` on call and the model does not have, those that they call in turn, and
// the import of the domain. A model whose opset lacks operators of a function is raised. -1: it cannot be (opset.h).
int custom_ops_complete(struct pass_env *env, uint32_t first, struct err *err);

// A node whose operator no runtime has, and the model no function for: of the domains above, or onnx_passes.ops. NO_ID: there
// is none. Linear in nodes.
uint32_t custom_ops_not_runnable(const struct model *m);
// Do groups of edits of that name give such a model operators that run?
bool custom_ops_makes_runnable(const char *pass);

#endif
