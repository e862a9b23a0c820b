// The pass shrink as the catalogue has it: its row and its options. Which weights it takes is in
// shrink.c, what becomes of them in shrink_quantize.c and shrink_widen.c.
#include "shrink.h"

enum { METHOD, LEVELS, PER_CHANNEL, FORM };

static const struct pass_option options[] = {
    [METHOD] = {"method", PASS_CHOICE, "integer_weights|float_weights|f16_to_f32",
                "integer_weights",
                "integer_weights: int8 codes; float_weights: the type as it was, with few distinct "
                "values (for compression later); f16_to_f32: float16 becomes float32",
                PASS_MEMBER(shrink_options, method)},
    [LEVELS] = {"levels", PASS_COUNT, "N", "256",
                "distinct values that float_weights leaves, from 2 to 65504",
                PASS_MEMBER(shrink_options, levels), .only_with = "method=float_weights"},
    [PER_CHANNEL] = {"per-channel", PASS_FLAG, NULL, NULL,
                     "a scale for every channel, along the axis with the least error; reads the "
                     "weights twice more",
                     PASS_MEMBER(shrink_options, per_channel)},
    [FORM] = {"form", PASS_CHOICE, "cast-mul-add|dequantize", "cast-mul-add",
              "what turns codes back into weights: Cast, Mul and Add, or DequantizeLinear (the "
              "range then holds 0; float16 needs opset 19)",
              PASS_MEMBER(shrink_options, form)},
};

static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct shrink_options *o = with;
  if (values[LEVELS].given && o->method != SHRINK_FLOAT_WEIGHTS)
    return err_set(err, ERR_USAGE, "levels is for the method float_weights alone");
  return shrink_options_check(o, err);
}

static int run(struct pass_env *env, void *with, struct pass_result *result, struct err *err) {
  (void)result;
  return pass_shrink(env, with, err);
}

static const struct pass shrink = {
    .name = "shrink",
    .summary =
        "large float weights -> int8 with a float scale and offset, or fewer distinct values",
    .about = "ONNX Shrink Ray's methods: every float constant of 16384 elements or more becomes "
             "int8 with "
             "Cast, Mul and Add (or DequantizeLinear) behind it, or keeps its type with a limited "
             "number "
             "of values; or all that is float16 becomes float32.",
    .needs = "nothing",
    .promises = "inputs and outputs of the model as they were, but for f16_to_f32, which makes "
                "float16 ones "
                "float32",
    .exactness = EXACTNESS_ROUNDING, // f16_to_f32 computes in another type
    .stores = "quantized",
    PASS_OPTIONS(options, shrink_options),
    .check = check,
    .run = run,
};

const struct pass *const shrink_passes[] = {&shrink, NULL};
