// Small float tensors that a pass wants to see before it decides (kit.h), read while the edits are
// made.
#ifndef WEIR_EXECUTION_LOOK_H
#define WEIR_EXECUTION_LOOK_H

#include "edit/edit.h"

// pass_env.read for an execution as ctx: the first n bytes of the elements of a tensor as the edits so far left
// it, read here and now, in about a MiB of memory.
int execution_look(void *exec, uint32_t tensor, uint8_t *out, size_t n, struct err *err);
// edits.look for an execution as ctx: reads the tensor again. ERR_INPUT if it holds something else than
// what the log's decisions were made by.
int execution_look_replay(void *exec, const struct edit_look *look, struct err *err);

#endif
