// The pass dynamic as the catalogue has it: its row and its options.
#include "passes/int8_dynamic/inside/dynamic.h"
#include "targets/targets.h"

#define OP_WORDS "MatMul, Gemm, LSTM, Gather, Conv, Attention, EmbedLayerNormalization, Transpose"
#define OWN_TYPES "MatMul,Gemm,LSTM,Gather,Attention"
#define THEIR_TYPES "MatMul,LSTM,Gather,Conv,Attention,EmbedLayerNormalization,Transpose"

// What check() and instead() ask for by position; from FIRST_THEIRS on with --compat alone.
enum {
  TARGET,
  OP_TYPES,
  WEIGHT_TYPE,
  PER_TENSOR,
  REDUCE_RANGE,
  FORM,
  TENSOR,
  EXCLUDE,
  INCLUDE,
  RANGES,
  COMPAT,
  FIRST_THEIRS,
  ENABLE_SUBGRAPH = FIRST_THEIRS + 3,
};

// ---- readers -----------------------------------------------------------------------------------

static int read_op_types(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  static const struct {
    const char *word;
    enum dynamic_op op;
  } words[] = {{"MatMul", DYNAMIC_MATMUL},
               {"Gemm", DYNAMIC_GEMM},
               {"LSTM", DYNAMIC_LSTM},
               {"Gather", DYNAMIC_GATHER},
               {"Conv", DYNAMIC_CONV},
               {"Attention", DYNAMIC_ATTENTION},
               {"EmbedLayerNormalization", DYNAMIC_EMBED},
               {"Transpose", DYNAMIC_TRANSPOSE}};
  struct dynamic_options *o = with;
  (void)a;
  for (uint32_t i = 0; i < v->n_list; i++) {
    uint32_t k = 0;
    while (k < sizeof words / sizeof *words && !str_is_in_any_case(v->list[i], words[k].word))
      k++;
    if (k == sizeof words / sizeof *words) {
      err_fill(err, ERR_USAGE, "--op-types: '%s' is not an operator that 'weir dynamic' quantizes",
               quote_str(v->list[i]).s);
      return err_hint(err, "use some of " OP_WORDS);
    }
    o->op_types |= words[k].op;
  }
  return 0;
}

static int read_target(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a, (void)err;
  struct dynamic_options *o = with;
  o->target = v->text ? targets_at(v->choice) : NULL;
  o->by_conv = target_sets_dynamic(o->target, "weight-type=by-conv");
  return 0;
}

static int read_weight_type(const struct pass_value *v, void *with, struct arena *a,
                            struct err *err) {
  (void)a, (void)err;
  struct dynamic_options *o = with;
  o->weight_type = v->choice;
  if (v->given) o->by_conv = false;
  return 0;
}

static int override_word(struct span word, struct dynamic_override *to, const char *text,
                         struct err *err) {
  if (span_is(word, "int8") || span_is(word, "uint8")) {
    to->has_type = true;
    to->is_unsigned = span_is(word, "uint8");
  } else if (span_is(word, "tensor") || span_is(word, "channel")) {
    to->has_axis = true;
    to->per_tensor = span_is(word, "tensor");
  } else if (span_is(word, "reduced") || span_is(word, "full")) {
    to->has_reduced = true;
    to->reduced = span_is(word, "reduced");
  } else {
    err_set(err, ERR_USAGE,
            "--tensor '%s': '%s' is not one of int8, uint8, tensor, channel, reduced, full",
            quote_str(text).s, quote(word).s);
    return err_hint(err, "write --tensor 'PATTERN=uint8:tensor'");
  }
  return 0;
}

static int read_override(const char *text, struct dynamic_override *to, struct arena *a,
                         struct err *err) {
  const char *sign = strrchr(text, '=');
  if (!sign || sign == text || !sign[1]) {
    err_set(err, ERR_USAGE, "--tensor '%s' is not of the form PATTERN=WORDS", quote_str(text).s);
    return err_hint(err, "write --tensor 'PATTERN=uint8:tensor'");
  }
  for (const char *at = sign + 1; *at;) {
    const size_t n = strcspn(at, ":");
    if (override_word(span_of(at, n), to, text, err)) return -1;
    at += n + (at[n] == ':');
  }
  const char *pattern = arena_string(a, span_of(text, (size_t)(sign - text)));
  return name_pattern_compile(&to->pattern, pattern, "--tensor", err);
}

static int read_overrides(const struct pass_value *v, void *with, struct arena *a,
                          struct err *err) {
  struct dynamic_options *o = with;
  o->overrides = arena_zalloc(a, (v->n_list + (size_t)1) * sizeof *o->overrides);
  for (; o->n_overrides < v->n_list; o->n_overrides++)
    if (read_override(v->list[o->n_overrides], &o->overrides[o->n_overrides], a, err)) return -1;
  return 0;
}

static void done(void *with) {
  struct dynamic_options *o = with;
  name_filter_done(&o->nodes);
  for (uint32_t i = 0; i < o->n_overrides; i++)
    name_pattern_done(&o->overrides[i].pattern);
}

// ---- the rows ----------------------------------------------------------------------------------

#define THEIRS .only_with = "compat"

static const struct pass_option options[] = {
    [TARGET] = {"target", PASS_CHOICE, targets_joined + 1, NULL, TARGETS_ONLY_REFUSES,
                .read = read_target, .listed = "weir targets"},
    [OP_TYPES] = {"op-types", PASS_LIST, "TYPE", OWN_TYPES,
                  "operators to quantize\n"
                  "Some of " OP_WORDS
                  ". With --compat, the default is all but Gemm, which becomes MatMul and Add.",
                  .read = read_op_types, .commas = true,
                  .offers = "MatMul Gemm LSTM Gather Conv Attention EmbedLayerNormalization"},
    [WEIGHT_TYPE] = {"weight-type", PASS_CHOICE, "int8|uint8|auto", "int8",
                     "type of quantized weights\n"
                     "int8: without zero points. uint8: with zero points. auto: uint8 for "
                     "matrices whose error it makes smaller by 1 dB or more, else int8.",
                     .also = "QInt8=int8 QUInt8=uint8", .read = read_weight_type},
    [PER_TENSOR] = {"per-tensor", PASS_FLAG, NULL, NULL,
                    "use one scale per weight, not one per column",
                    PASS_MEMBER(dynamic_options, per_tensor)},
    [REDUCE_RANGE] = {"reduce-range", PASS_FLAG, NULL, NULL,
                      "use 7 bits for weights, for x86 CPUs without VNNI\nWithout VNNI, sums of "
                      "two 8-bit products may saturate.",
                      PASS_MEMBER(dynamic_options, reduce_range)},
    [FORM] = {"form", PASS_CHOICE, "fused|integer", "fused",
              "operators to write\n"
              "fused: fused operators of ONNX Runtime, such as DynamicQuantizeMatMul. integer: "
              "DynamicQuantizeLinear, MatMulInteger and nodes that scale the results. The result "
              "is standard ONNX if the replaced operator is.",
              PASS_MEMBER(dynamic_options, form)},
    [TENSOR] = {"tensor", PASS_LIST, "PATTERN=WORDS", NULL,
                "other settings for weights or nodes that match\n"
                "WORDS are int8, uint8, tensor, channel, reduced or full, joined by ':'. The "
                "last match wins.",
                .read = read_overrides},
    [EXCLUDE] =
        {"exclude", PASS_LIST, "PATTERN", NULL,
         "do not quantize nodes or weights that match\n"
         "PATTERN is a glob, or re: followed by an extended regular expression. --exclude takes "
         "precedence over --include.",
         .read = name_filter_exclude},
    [INCLUDE] = {"include", PASS_LIST, "PATTERN", NULL, "quantize only nodes or weights that match",
                 .read = name_filter_include},
    [RANGES] = {"ranges", PASS_TEXT, "RANGES", NULL,
                "activation statistics, for --rank only\n"
                "A file of 'weir calibrate --statistics gram' or 'channel'.",
                PASS_MEMBER(dynamic_options, ranges), .reads = PASS_READS_RANGES, .later = true},
    [COMPAT] = {COMPAT_ROW(dynamic_options),
                .help =
                    "write what onnxruntime's quantize_dynamic writes\n"
                    "Where that result is valid, weir writes the same nodes, names and tensors. "
                    "The defaults are those of quantize_dynamic, and its options are listed "
                    "below" COMPAT_VERSIONS "."},
    [FIRST_THEIRS] = {"per-channel", PASS_FLAG, NULL, NULL, "use one scale per channel of a weight",
                      PASS_MEMBER(dynamic_options, per_channel), THEIRS},
    {"nodes-to-quantize", PASS_LIST, "NAME", NULL, "quantize only nodes of these names",
     PASS_LIST_MEMBER(dynamic_options, only, n_only), THEIRS},
    {"nodes-to-exclude", PASS_LIST, "NAME", NULL,
     "do not quantize nodes of these names\n"
     "A Gemm called n has the name n_MatMul here.",
     PASS_LIST_MEMBER(dynamic_options, except, n_except), THEIRS},
    [ENABLE_SUBGRAPH] = {"enable-subgraph", PASS_FLAG, NULL, NULL,
                         "also quantize the bodies of If, Loop and Scan",
                         PASS_MEMBER(dynamic_options, enable_subgraph), THEIRS},
    {"matmul-const-b-only", PASS_CHOICE, "true|false", "true",
     "skip MatMul of two activations\n"
     "false: quantize these too.",
     PASS_MEMBER(dynamic_options, any_matmul), THEIRS},
    {"default-tensor-type", PASS_CHOICE, "float|float16", NULL,
     "type to assume for values of unknown type", .also = "float32=float",
     PASS_MEMBER(dynamic_options, default_type),
     .member.means = (const uint32_t[]){DTYPE_FLOAT, DTYPE_FLOAT16}, THEIRS},
    {"weight-symmetric", PASS_CHOICE, "true|false", NULL,
     "make ranges of weights symmetric around 0\n"
     "The default is true for int8 and false otherwise.",
     PASS_MEMBER(dynamic_options, weight_symmetric), .from_one = true, THEIRS},
    {"activation-symmetric", PASS_FLAG, NULL, NULL,
     "make ranges of gathered tables symmetric around 0",
     PASS_MEMBER(dynamic_options, activation_symmetric), THEIRS},
    {"force-quantize-no-input-check", PASS_FLAG, NULL, NULL,
     "quantize a Transpose only if its input is constant\nWithout it, a Transpose is quantized if "
     "its input is quantized. The name is onnxruntime's.",
     PASS_MEMBER(dynamic_options, force_quantize), THEIRS},
};

// Who asks for the fused form has no use for the form that a target takes from onnxruntime's tool.
static const char *instead(const struct pass_value *values, uint32_t option) {
  const struct target *t = values[TARGET].text ? targets_at(values[TARGET].choice) : NULL;
  const bool theirs = target_sets_dynamic(t, "compat=onnxruntime-1.31") && !values[FORM].given;
  const bool compat = values[COMPAT].text || theirs;
  switch (option) {
  case COMPAT: return theirs ? "onnxruntime-1.31" : NULL;
  case ENABLE_SUBGRAPH:
    return theirs && target_sets_dynamic(t, "enable-subgraph=true") ? "true" : NULL;
  case OP_TYPES:
    return target_sets_dynamic(t, "op-types=MatMul") ? "MatMul" : compat ? THEIR_TYPES : NULL;
  case FORM: return compat || target_sets_dynamic(t, "form=integer") ? "integer" : NULL;
  default: return NULL;
  }
}

static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct dynamic_options *o = with;
  for (uint32_t i = FIRST_THEIRS; !o->compat && i < sizeof options / sizeof *options; i++)
    if (values[i].given)
      return err_set(err, ERR_USAGE, "--%s needs --compat onnxruntime", options[i].name);
  if (!o->compat && o->op_types & DYNAMIC_TRANSPOSE)
    return err_set(err, ERR_USAGE, "--op-types Transpose needs --compat onnxruntime");
  if (o->compat && o->form == DYNAMIC_FUSED)
    return err_set(err, ERR_USAGE, "--compat onnxruntime supports only --form integer");
  if (o->compat && o->weight_type == DYNAMIC_AUTO)
    return err_set(err, ERR_USAGE, "--compat onnxruntime does not support --weight-type auto");
  if (o->per_tensor && o->weight_type == DYNAMIC_AUTO)
    return err_set(
        err, ERR_USAGE,
        "--weight-type auto does not work with --per-tensor: it compares types with one scale for "
        "each column");
  if (o->compat && o->per_tensor && o->per_channel)
    return err_set(err, ERR_USAGE, "--per-tensor and --per-channel exclude each other");
  return 0;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  return dynamic_run(env, with, err);
}

static const struct pass dynamic = {
    .name = "dynamic",
    .summary =
        "weights of MatMul, Gemm, LSTM, Gather and Conv -> int8, activations quantized at run time",
    .about = "Stores weights as int8 with a scale for each column. The model quantizes "
             "activations at run time and multiplies 8-bit codes, as with onnxruntime's "
             "quantize_dynamic. --compat writes the same models as quantize_dynamic.",
    .needs = "constant float32 or float16 weights",
    .promises = "inputs and outputs of the model are unchanged",
    .exactness = EXACTNESS_ROUNDING,
    .stores = "quantized",
    PASS_OPTIONS(options, dynamic_options),
    .instead = instead,
    .check = check,
    .run = run,
    .done = done,
};

const struct pass *const int8_dynamic_passes[] = {&dynamic, NULL};
