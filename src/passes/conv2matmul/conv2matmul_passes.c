// The pass conv2matmul as the catalogue has it: its row and its options. What it does is in
// conv2matmul.c; which Convs it takes, and why not, in conv2matmul_match.c.
#include "conv2matmul.h"

static const struct pass_option options[] = {
    {"extended-conv1x1", PASS_FLAG, NULL, NULL,
     "also rewrite convolutions with padding or strides (Pad and Slice before the MatMul)",
     PASS_MEMBER(conv2matmul_options, extended)},
    {"allow-non-unit-dilation", PASS_FLAG, NULL, NULL,
     "also rewrite convolutions with a dilation other than 1 (it has no effect on a 1x1 kernel)",
     PASS_MEMBER(conv2matmul_options, allow_dilation)},
    {"max-dilation", PASS_COUNT, "N", NULL, "leave convolutions with any dilation above N alone",
     PASS_MEMBER(conv2matmul_options, max_dilation)},
    {"form", PASS_CHOICE, "flat|batched|auto", "auto",
     "flat: MatMul over [rows, channels], with Reshape before and after; batched: MatMul on the "
     "transposed activation as it is; auto: batched where that is exact",
     PASS_MEMBER(conv2matmul_options, form)},
    {"strict-compat", PASS_FLAG, NULL, NULL,
     "make exactly the decisions, and the report, of onnx-conv2matmul 0.1.1",
     PASS_MEMBER(conv2matmul_options, strict_compat)},
};

static int run(struct pass_env *env, void *with, struct pass_result *result, struct err *err) {
  (void)result, (void)err; // what a Conv has against it is its site's reason
  struct conv2matmul_result counts;
  pass_conv2matmul(env, with, &counts);
  return 0;
}

static const struct pass conv2matmul = {
    .name = "conv2matmul",
    .summary = "pointwise (1x1) Conv -> MatMul on the transposed activation",
    .about =
        "Rewrites every Conv whose kernel is 1x1 (or 1, or 1x1x1) as Transpose, MatMul, Add and "
        "Transpose; the weight is transposed while it is copied.",
    .needs = "weights that are constants: initializers or Constant nodes, also behind Identity",
    .promises = "the same numbers within float rounding of the order of the sum",
    .exactness = EXACTNESS_ROUNDING,
    .flag = "used_extended_mode",
    PASS_OPTIONS(options, conv2matmul_options),
    .run = run,
};

const struct pass *const conv2matmul_passes[] = {&conv2matmul, NULL};
