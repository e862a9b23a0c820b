// Functions for the operators of onnx_passes.ops.
//
// No runtime has these operators: a model that uses them carries functions that say what they compute
// (custom_ops_text.c). Passes just make the nodes; the driver completes the model when all have run.
#ifndef WEIR_CUSTOM_OPS_H
#define WEIR_CUSTOM_OPS_H

#include "edit.h"

// Adds the functions that nodes from `first` on call and the model does not have, those that they call in turn, and
// the import of the domain. Functions import the model's opset of ai.onnx, but none below what their
// operators need. Gives how many were added.
uint32_t custom_ops_complete(struct edits *e, uint32_t first);

#endif
