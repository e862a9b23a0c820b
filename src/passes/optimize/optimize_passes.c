// The list of the family `optimize`, in the order in which a round of `weir optimize` runs it.
#include "passes/optimize/optimize.h"

const struct pass *const optimize_passes[] = {&optimize_constants,
                                              &optimize_fold_if,
                                              &optimize_fold_small,
                                              &optimize_shapes,
                                              &optimize_no_effect,
                                              &optimize_fold_large,
                                              &optimize_linear,
                                              &optimize_rotary,
                                              &optimize_attention,
                                              &optimize_qkv_merge,
                                              &optimize_concat,
                                              &ort_rotary,
                                              &ort_attention,
                                              &ort_fused_conv,
                                              &ort_fused_gemm,
                                              &ort_skip_layer_norm,
                                              NULL};
