// Room: raises the opset of a model, for passes that write operators of a newer one.
#ifndef WEIR_OPSET_H
#define WEIR_OPSET_H

#include "passes/pass.h"

// As the pass `opset` does, in the name of env->pass: model and functions have at least this version of ai.onnx then, and
// nodes whose operators changed in between are rewritten. -1 with ERR_FAIL, which names a node that keeps the model
// where it is; there may have been edits then.
int opset_raise(struct pass_env *env, int64_t version, struct err *err);

#endif
