// The pass shrink as the catalogue has it: its row and its options. Which weights it takes is in
// shrink.c, what becomes of them in shrink_quantize.c and shrink_widen.c.
#include "passes/shrink/shrink.h"
#include "targets/targets.h"

enum { METHOD, LEVELS, PER_CHANNEL, FORM, EXCLUDE, MIN_ELEMENTS, WEIGHT_TYPE = 7, COMPAT };

static int read_exclude(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct shrink_options *o = with;
  return name_patterns_compile(&o->exclude, v->list, v->n_list, "--exclude", a, err);
}

static int read_min_elements(const struct pass_value *v, void *with, struct arena *a,
                             struct err *err) {
  (void)a, (void)err;
  ((struct shrink_options *)with)->min_elements = v->given ? max_u64(v->number, 1) : 0;
  return 0;
}

enum { UINT8, INT8 };

static int read_weight_type(const struct pass_value *v, void *with, struct arena *a,
                            struct err *err) {
  (void)a, (void)err;
  ((struct shrink_options *)with)->weight_type = v->text ? v->choice : INT8;
  return 0;
}

static const struct pass_option options[] = {
    [METHOD] =
        {"method", PASS_CHOICE, "integer_weights|float_weights|f16_to_f32|integer_activations",
         "integer_weights",
         "how to store weights\n"
         "integer_weights: as int8. float_weights: in the same type, with few distinct values "
         "(for later compression). f16_to_f32: float16 becomes float32. integer_activations: "
         "matrix products of 8-bit integers, with activations quantized at run time ('weir "
         "dynamic').",
         PASS_MEMBER(shrink_options, method)},
    [LEVELS] = {"levels", PASS_COUNT, "N", "256",
                "number of distinct values, for method float_weights\nFrom 2 to 65504.",
                PASS_MEMBER(shrink_options, levels), .only_with = "method=float_weights"},
    [PER_CHANNEL] = {"per-channel", PASS_FLAG, NULL, NULL,
                     "use one scale per channel\n"
                     "For each weight, weir picks the axis with the smallest error. This reads the "
                     "weights two more times.",
                     PASS_MEMBER(shrink_options, per_channel)},
    [FORM] = {"form", PASS_CHOICE, "cast-mul-add|dequantize", "cast-mul-add",
              "operators that convert int8 back to float\n"
              "cast-mul-add: Cast, Mul and Add. dequantize: DequantizeLinear; the range then "
              "includes 0, and float16 needs opset 19.",
              PASS_MEMBER(shrink_options, form)},
    [EXCLUDE] = {"exclude", PASS_LIST, "PATTERN", NULL,
                 "do not shrink nodes or tensors that match\n"
                 "PATTERN is a glob, or re: followed by an extended regular expression.",
                 .read = read_exclude},
    [MIN_ELEMENTS] = {"min-elements", PASS_NUMBER, "N", NULL,
                      "skip weights with fewer elements (default: 16384)",
                      .read = read_min_elements},
    {"target", PASS_CHOICE, targets_joined + 1, NULL, TARGETS_ONLY_REFUSES,
     PASS_MEMBER(shrink_options, target), .listed = "weir targets"},
    [WEIGHT_TYPE] = {"weight-type", PASS_CHOICE, "uint8|int8", NULL,
                     "type of weights for integer_activations\n"
                     "The default is int8; with --compat it is uint8.",
                     .read = read_weight_type, .only_with = "method=integer_activations",
                     .later = true},
    [COMPAT] = {COMPAT_ROW(shrink_options),
                .help = "write what ONNX Shrink Ray writes\n"
                        "For integer_activations. That tool uses onnxruntime's "
                        "quantize_dynamic" COMPAT_VERSIONS ".",
                .only_with = "method=integer_activations", .later = true},
};

// onnx_shrink_ray's weights are uint8 where onnxruntime's are int8.
static const char *instead(const struct pass_value *values, uint32_t option) {
  return option == WEIGHT_TYPE && values[COMPAT].text ? "uint8" : NULL;
}

static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct shrink_options *o = with;
  if (values[LEVELS].given && o->method != SHRINK_FLOAT_WEIGHTS)
    return err_set(err, ERR_USAGE, "--levels needs --method float_weights");
  if (o->method != SHRINK_INTEGER_ACTIVATIONS &&
      (values[WEIGHT_TYPE].given || values[COMPAT].given))
    return err_set(err, ERR_USAGE, "--%s needs --method integer_activations",
                   options[values[COMPAT].given ? COMPAT : WEIGHT_TYPE].name);
  if (o->method == SHRINK_INTEGER_ACTIVATIONS && values[MIN_ELEMENTS].given)
    return err_set(err, ERR_USAGE,
                   "--min-elements needs --method integer_weights or float_weights");
  if (o->method == SHRINK_F16_TO_F32 && (values[EXCLUDE].given || values[MIN_ELEMENTS].given))
    return err_set(err, ERR_USAGE, "--%s needs --method integer_weights or float_weights",
                   options[values[EXCLUDE].given ? EXCLUDE : MIN_ELEMENTS].name);
  return shrink_options_check(o, err);
}

static void done(void *with) {
  name_patterns_done(&((struct shrink_options *)with)->exclude);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  return pass_shrink(env, with, err);
}

static const struct pass shrink = {
    .name = "shrink",
    .summary =
        "large float weights -> int8 with a float scale and offset, or fewer distinct values",
    .about = "Applies one of ONNX Shrink Ray's methods. integer_weights: every float constant of "
             "16384 elements or more becomes int8, followed by Cast, Mul and Add (or "
             "DequantizeLinear). float_weights: such constants keep their type, with a limited "
             "number of distinct values. f16_to_f32: float16 becomes float32. "
             "integer_activations: activations are quantized at run time, and products use 8-bit "
             "codes.",
    .promises = "inputs and outputs of the model are unchanged, except that f16_to_f32 changes "
                "float16 ones to float32",
    .exactness = EXACTNESS_ROUNDING, // f16_to_f32 computes in another type
    .stores = "quantized",
    PASS_OPTIONS(options, shrink_options),
    .instead = instead,
    .check = check,
    .run = run,
    .done = done,
};

const struct pass *const shrink_passes[] = {&shrink, NULL};
