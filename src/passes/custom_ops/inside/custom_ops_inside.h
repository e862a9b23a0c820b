// Inside the room of custom operators.
#ifndef WEIR_CUSTOM_OPS_INSIDE_H
#define WEIR_CUSTOM_OPS_INSIDE_H

#include "passes/kit/kit.h"

#define CUSTOM_OPS_DOMAIN "onnx_passes.ops"

// By function, NULL behind the last: custom_ops_text.c says how to read them.
extern const char *const custom_ops_texts[];

extern const struct pass custom_ops_inject, custom_ops_inline, custom_ops_inline_quant,
    custom_ops_fold_quant, custom_ops_import;

#endif
