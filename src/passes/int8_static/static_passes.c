// The pass static as the catalogue has it: its row and its options. static.c does the work.
#include "passes/int8_static/inside/static.h"

#include <math.h>
#include <stdlib.h>

// What check() and instead() ask for by position.
enum {
  RANGES,
  FORMAT,
  EXECUTION,
  ACTIVATION_TYPE,
  WEIGHT_TYPE,
  OP_TYPES,
  PER_TENSOR,
  OVERRIDE,
  EXCLUDE,
  INCLUDE,
  COMPAT,
  PER_CHANNEL,
  REDUCE_RANGE,
};

#define TYPE_WORDS "uint8|int8|uint16|int16|uint4|int4|float8e4m3fn"
#define OTHER_TYPE_WORDS                                                                           \
  "QUInt8=uint8 QInt8=int8 QUInt16=uint16 QInt16=int16 QUInt4=uint4 QInt4=int4 "                   \
  "QFLOAT8E4M3FN=float8e4m3fn"
static const uint32_t type_of[] = {DTYPE_UINT8, DTYPE_INT8, DTYPE_UINT16,      DTYPE_INT16,
                                   DTYPE_UINT4, DTYPE_INT4, DTYPE_FLOAT8E4M3FN};

// ---- readers -------------------------------------------------------------------------------------

// Serves --per-tensor and --compat.
static int read_per_channel(const struct pass_value *v, void *with, struct arena *a,
                            struct err *err) {
  (void)a, (void)err;
  struct static_options *o = with;
  o->per_channel = v->number || (!o->compat && !o->per_tensor);
  return 0;
}

static int read_real_floor(const struct pass_value *v, void *with, struct arena *a,
                           struct err *err) {
  struct static_options *o = with;
  char *end;
  (void)a;
  if (!v->text) return 0;
  o->real_floor = strtod(v->text, &end);
  o->has_real_floor = true;
  if (end > v->text && !*end && isfinite(o->real_floor) && o->real_floor >= 0) return 0;
  err_set(err, ERR_USAGE, "--minimum-real-range '%s' is not a number of at least 0",
          quote_str(v->text).s);
  return err_hint(err, "write --minimum-real-range 0.0001");
}

static int read_axis(const char *text, struct static_axis *to, struct arena *a, struct err *err) {
  const char *sign = strrchr(text, '=');
  char *end;
  if (sign && sign > text && sign[1]) {
    to->op = arena_string(a, span_of(text, (size_t)(sign - text)));
    to->axis = strtoll(sign + 1, &end, 10);
    if (!*end && to->axis >= -64 && to->axis < 64) return 0;
  }
  err_set(err, ERR_USAGE, "--qdq-op-type-per-channel-support-to-axis '%s' is not OP=AXIS",
          quote_str(text).s);
  return err_hint(err, "write --qdq-op-type-per-channel-support-to-axis MatMul=0");
}

static int read_axes(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct static_options *o = with;
  o->axes = arena_zalloc(a, (v->n_list + (size_t)1) * sizeof *o->axes);
  for (; o->n_axes < v->n_list; o->n_axes++)
    if (read_axis(v->list[o->n_axes], &o->axes[o->n_axes], a, err)) return -1;
  return 0;
}

// ---- the rows ------------------------------------------------------------------------------------

static const struct pass_option options[] = {
    [RANGES] = {"ranges", PASS_TEXT, "RANGES", NULL,
                "ranges of activations, from 'weir calibrate'\n"
                "It may also be a calibration cache of onnxruntime, or a table of TensorRT. It "
                "is required unless --override has the scales. Without RANGES, values that "
                "--override does not name stay float.",
                PASS_MEMBER(static_options, ranges), .reads = PASS_READS_RANGES},
    [FORMAT] = {"format", PASS_CHOICE, "qdq|qoperator|int32-bias|fp32-bias|fp32-bias-qdq", "qdq",
                "form of the result: qdq, qoperator or a bias recipe\nqdq: QuantizeLinear and "
                "DequantizeLinear around unchanged operators. qoperator: "
                "operators on codes, such as QLinearConv. int32-bias, fp32-bias, fp32-bias-qdq: "
                "Neural Compressor's recipes for a MatMul with a bias, and qdq for everything "
                "else.",
                PASS_MEMBER(static_options, format)},
    [EXECUTION] = {"execution", PASS_CHOICE, "qdq|qlinear", "qdq",
                   "form of the MatMul in a recipe for biases\nqdq: DequantizeLinear before the "
                   "MatMul where possible. qlinear: operators on codes.",
                   PASS_MEMBER(static_options, execution)},
    [ACTIVATION_TYPE] = {"activation-type", PASS_CHOICE, TYPE_WORDS, "uint8",
                         "type of quantized activations\n"
                         "With --compat, the default is int8.",
                         .also = OTHER_TYPE_WORDS, PASS_MEMBER(static_options, activation),
                         .member.means = type_of},
    [WEIGHT_TYPE] = {"weight-type", PASS_CHOICE, TYPE_WORDS, "int8", "type of quantized weights",
                     .also = OTHER_TYPE_WORDS, PASS_MEMBER(static_options, weight),
                     .member.means = type_of},
    [OP_TYPES] = {"op-types", PASS_LIST, "OP", "Conv,MatMul,Gemm",
                  "operators to quantize\n"
                  "all: those that onnxruntime quantizes. With --compat, the default is all.",
                  PASS_LIST_MEMBER(static_options, ops, n_ops), .commas = true,
                  .offers = "Conv MatMul Gemm all"},
    [PER_TENSOR] = {"per-tensor", PASS_FLAG, NULL, NULL,
                    "use one scale per weight, not one per output channel",
                    PASS_MEMBER(static_options, per_tensor)},
    [COMPAT] = {COMPAT_ROW(static_options),
                .help = "write what onnxruntime's quantize_static writes\n"
                        "Where that result is valid, weir writes the same nodes, names and "
                        "tensors. Its defaults apply: int8 activations, one scale "
                        "per weight, all operators" COMPAT_VERSIONS "."},
    [PER_CHANNEL] = {"per-channel", PASS_FLAG, NULL, NULL,
                     "use one scale per output channel\nThis is the default without --compat. With "
                     "--compat, the default is one scale per weight.",
                     .read = read_per_channel},
    [OVERRIDE] = {"override", PASS_TEXT, "FILE", NULL,
                  "set types, scales or ranges of individual tensors\n"
                  "FILE is JSON, like TensorQuantOverrides. int8.md in share/doc/weir describes "
                  "it.",
                  PASS_MEMBER(static_options, override), .reads = PASS_READS_TEXT},
    [EXCLUDE] = {"exclude", PASS_LIST, "PATTERN", NULL,
                 "skip nodes whose names match this glob\nNodes that read a matching weight match "
                 "too. PATTERN is a glob, or re: followed by an extended "
                 "regular expression. --exclude takes precedence over --include.",
                 .read = name_filter_exclude},
    [INCLUDE] = {"include", PASS_LIST, "PATTERN", NULL,
                 "quantize only nodes that match\n"
                 "Nodes that read a matching weight match too.",
                 .read = name_filter_include},
    [REDUCE_RANGE] = {"reduce-range", PASS_FLAG, NULL, NULL,
                      "use 7 bits for weights, for x86 CPUs without VNNI\nWithout VNNI, sums of "
                      "two 8-bit products may saturate.",
                      PASS_MEMBER(static_options, reduce_range)},
    {"activation-symmetric", PASS_FLAG, NULL, NULL, "make ranges of activations symmetric around 0",
     PASS_MEMBER(static_options, activation_symmetric)},
    {"activation-restricted-asymmetric", PASS_FLAG, NULL, NULL,
     "use only 0 or 128 as zero point of activations\n"
     "Applies to uint8 activations: 128 if the range goes below 0, else 0.",
     PASS_MEMBER(static_options, activation_restricted_asymmetric)},
    {"weight-symmetric", PASS_CHOICE, "true|false", NULL,
     "make ranges of weights symmetric around 0\n"
     "The default is true for signed types and false otherwise. Ranges with a scale for each "
     "channel are always symmetric.",
     PASS_MEMBER(static_options, weight_symmetric), .from_one = true},
    {"minimum-real-range", PASS_TEXT, "X", NULL, "smallest width of a range",
     .read = read_real_floor},
    {"calib-tensor-range-symmetric", PASS_FLAG, NULL, NULL,
     "make the ranges in RANGES symmetric around 0",
     PASS_MEMBER(static_options, calib_tensor_range_symmetric)},
    {"force-quantize-no-input-check", PASS_FLAG, NULL, NULL,
     "always quantize operators that only move values\nThese are Transpose, MaxPool, Gather and "
     "others. Without it, they are quantized only if their input is quantized.",
     PASS_MEMBER(static_options, force_quantize_no_input_check)},
    {"op-types-to-exclude-output-quantization", PASS_LIST, "OP", NULL,
     "do not quantize the outputs of these operators",
     PASS_LIST_MEMBER(static_options, no_output, n_no_output), .commas = true},
    {"add-qdq-pair-to-weight", PASS_FLAG, NULL, NULL,
     "keep weights as float\n"
     "QuantizeLinear and DequantizeLinear follow each weight.",
     PASS_MEMBER(static_options, add_qdq_pair_to_weight)},
    {"quantize-bias", PASS_CHOICE, "true|false", "true",
     "quantize biases\n"
     "false: leave them unchanged.",
     PASS_MEMBER(static_options, keep_float_bias)},
    {"dedicated-qdq-pair", PASS_FLAG, NULL, NULL,
     "give each node that uses a value its own Q/DQ pair\nWithout it, they share one pair of "
     "QuantizeLinear and DequantizeLinear.",
     PASS_MEMBER(static_options, dedicated_qdq_pair)},
    {"qdq-op-type-per-channel-support-to-axis", PASS_LIST, "OP=AXIS", NULL,
     "axis of the channels of an operator's weights\n"
     "For MatMul and the norms.",
     .read = read_axes},
    {"qdq-keep-removable-activations", PASS_FLAG, NULL, NULL,
     "keep every Relu and Clip\nWithout it, weir removes a Relu or Clip that has no effect because "
     "the quantized range is already within the operator's range.",
     PASS_MEMBER(static_options, keep_removable_activations)},
    {"qdq-disable-weight-adjust-for-int32-bias", PASS_FLAG, NULL, NULL,
     "do not enlarge the scale of a weight for its bias\n"
     "Without it, weir enlarges the scale if the bias would overflow int32.",
     PASS_MEMBER(static_options, disable_weight_adjust)},
    {"use-qdq-contrib-ops", PASS_FLAG, NULL, NULL,
     "write Q/DQ operators of com.microsoft\n"
     "These QuantizeLinear and DequantizeLinear do not require a newer opset of ONNX.",
     PASS_MEMBER(static_options, use_qdq_contrib_ops)},
    {"block-size", PASS_COUNT, "N", NULL,
     "use one scale for every N elements of a weight\n"
     "For weights with two dims. Needs opset 21.",
     PASS_MEMBER(static_options, block)},
    {"default-tensor-type", PASS_CHOICE, "float|float16", NULL,
     "type to assume for values of unknown type", .also = "float32=float",
     PASS_MEMBER(static_options, default_type),
     .member.means = (const uint32_t[]){DTYPE_FLOAT, DTYPE_FLOAT16}},
    {"matmul-const-b-only", PASS_FLAG, NULL, NULL,
     "leave MatMul of two activations unchanged\n"
     "With --compat, this applies only to --format qoperator, as in onnxruntime.",
     PASS_MEMBER(static_options, matmul_const_b_only)},
    {"extra-sigmoid-nnapi", PASS_FLAG, NULL, NULL,
     "quantize Sigmoid with scale 1/256 and zero point 0\n"
     "For --format qoperator, as NNAPI requires.",
     PASS_MEMBER(static_options, sigmoid_nnapi)},
};

static const char *instead(const struct pass_value *values, uint32_t option) {
  if (!values[COMPAT].text) return NULL;
  return option == OP_TYPES ? "all" : option == ACTIVATION_TYPE ? "int8" : NULL;
}

static bool is_float8(enum dtype t) {
  return t == DTYPE_FLOAT8E4M3FN;
}

static bool is_8_bits(enum dtype t) {
  return t == DTYPE_INT8 || t == DTYPE_UINT8;
}

static int check_qoperator(const struct static_options *o, struct err *err) {
  const struct {
    bool given;
    const char *name;
  } others[] = {{o->block != 0, "block-size"},
                {o->add_qdq_pair_to_weight, "add-qdq-pair-to-weight"},
                {o->keep_float_bias, "quantize-bias"},
                {o->dedicated_qdq_pair, "dedicated-qdq-pair"},
                {o->n_axes > 0, "qdq-op-type-per-channel-support-to-axis"},
                {o->n_no_output > 0, "op-types-to-exclude-output-quantization"},
                {o->keep_removable_activations, "qdq-keep-removable-activations"},
                {o->disable_weight_adjust, "qdq-disable-weight-adjust-for-int32-bias"},
                {o->use_qdq_contrib_ops, "use-qdq-contrib-ops"}};
  const enum dtype type = is_8_bits(o->activation) ? o->weight : o->activation;
  if (!is_8_bits(type)) {
    err_fill(err, ERR_USAGE, "--format qoperator supports int8 and uint8, not %s",
             dtype_name(type));
    return err_hint(err, "--format qdq supports %s", dtype_name(type));
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i].given) {
      err_fill(err, ERR_USAGE, "--%s has no effect with --format qoperator", others[i].name);
      return err_hint(err, "use --format qdq, or omit the option");
    }
  return 0;
}

static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct static_options *o = with;
  if (!o->ranges && (!o->override || o->compat)) {
    err_set(err, ERR_USAGE, "static needs --ranges: the ranges of the model's values");
    return err_hint(err, "write it with 'weir calibrate IN -o RANGES --data ...'%s",
                    o->compat ? "" : ", or give scales with --override");
  }
  if (values[PER_TENSOR].number && values[PER_CHANNEL].number)
    return err_set(err, ERR_USAGE, "--per-tensor and --per-channel exclude each other");
  if (values[EXECUTION].given && !static_is_recipe(o->format))
    return err_set(err, ERR_USAGE,
                   "--execution needs --format int32-bias, fp32-bias or fp32-bias-qdq");
  if (is_float8(o->activation) != is_float8(o->weight)) {
    err_fill(err, ERR_USAGE,
             "--activation-type %s and --weight-type %s: if one is float8, both must be",
             dtype_name(o->activation), dtype_name(o->weight));
    return err_hint(err, "--activation-type float8e4m3fn --weight-type float8e4m3fn");
  }
  if (is_float8(o->weight) && (o->reduce_range || o->block))
    return err_set(err, ERR_USAGE,
                   "--weight-type float8e4m3fn does not support --reduce-range or --block-size");
  if (static_is_recipe(o->format) &&
      (dtype_bits(o->activation) != 8 || dtype_bits(o->weight) != 8 || is_float8(o->weight) ||
       o->block || o->add_qdq_pair_to_weight))
    return err_set(
        err, ERR_USAGE,
        "--format int32-bias, fp32-bias and fp32-bias-qdq support only the types int8 and uint8, "
        "without --block-size and --add-qdq-pair-to-weight");
  if (o->activation == DTYPE_INT8 && o->weight == DTYPE_UINT8) {
    err_fill(err, ERR_USAGE,
             "--activation-type int8 with --weight-type uint8: no runtime "
             "supports this combination");
    return err_hint(err, "use uint8 activations, or int8 weights");
  }
  return o->format == STATIC_QOPERATOR ? check_qoperator(o, err) : 0;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  return static_pass(env, with, err);
}

static const struct pass static_row = {
    .name = "static",
    .summary = "weights and activations -> int8 with scales from calibration, in QDQ form",
    .about = "Quantizes weights, and activations with the ranges from 'weir calibrate', as "
             "onnxruntime's quantize_static does. --compat writes the same models as "
             "quantize_static.",
    .needs = "the ranges of the model's values (RANGES)",
    .promises = "inputs and outputs of the model are unchanged",
    .exactness = EXACTNESS_ROUNDING,
    .stores = "quantized",
    .activations = true,
    PASS_OPTIONS(options, static_options),
    .instead = instead,
    .check = check,
    .run = run,
    .done = name_filter_done,
};

const struct pass *const int8_static_passes[] = {&static_row, NULL};
