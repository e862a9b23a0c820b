// Room: smaller graphs, once types, shapes and small values are known; patterns of ONNX Runtime's operators.
#ifndef WEIR_OPTIMIZE_H
#define WEIR_OPTIMIZE_H

#include "passes/pass.h"

extern const struct pass optimize_attention, optimize_concat, optimize_constants, optimize_fold_if,
    optimize_fold_large, optimize_fold_small, optimize_linear, optimize_no_effect,
    optimize_qkv_merge, optimize_rotary, optimize_shapes;

// Of the family ort: operators of ONNX Runtime's own that need more than rules.
extern const struct pass ort_attention, ort_fused_conv, ort_fused_gemm, ort_rotary,
    ort_skip_layer_norm;

#endif
