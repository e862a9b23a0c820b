// The list of the families about the functions of domain onnx_passes.ops, and about QONNX.
#include "passes/custom_ops/inside/custom_ops_inside.h"

const struct pass *const custom_ops_passes[] = {&custom_ops_inject,       &custom_ops_inline,
                                                &custom_ops_inline_quant, &custom_ops_fold_quant,
                                                &custom_ops_import,       NULL};
