// The pass quantize as the catalogue has it: its row and its options. Most options are members of
// struct matmulnbits_options; lists of words with a form of their own (patterns, overrides, candidates,
// gates) are read here, by the parsers of nbits_options.c and size_budget.c.
#include "base/size_words.h"
#include "passes/nbits/inside/nbits.h"
#include "passes/questions/name_pattern.h"

// ---- readers -----------------------------------------------------------------------------------

static int read_block(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a, (void)err;
  // 16|32|64|128|256|channel
  ((struct matmulnbits_options *)with)->scheme.block = v->choice < 5 ? 16u << v->choice : 0;
  ((struct matmulnbits_options *)with)->block_given = v->given || v->stated;
  return 0;
}

// Words of the catalogue (pass_values.c): there are no others.
static int read_op_types(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a, (void)err;
  struct matmulnbits_options *o = with;
  for (uint32_t i = 0; i < v->n_list; i++) {
    const char *word = v->list[i];
    o->op_types |= strcmp(word, "Gemm") == 0     ? MATMULNBITS_GEMM
                   : strcmp(word, "Gather") == 0 ? MATMULNBITS_GATHER
                                                 : MATMULNBITS_MATMUL;
  }
  return 0;
}

static int read_overrides(const struct pass_value *v, void *with, struct arena *a,
                          struct err *err) {
  struct matmulnbits_options *o = with;
  o->overrides = arena_zalloc(a, (v->n_list + (size_t)1) * sizeof *o->overrides);
  for (; o->n_overrides < v->n_list; o->n_overrides++)
    if (matmulnbits_override_parse(v->list[o->n_overrides], &o->overrides[o->n_overrides], a, err))
      return -1;
  return 0;
}

static int read_budget(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a;
  struct matmulnbits_options *o = with;
  if (!v->text || (size_words_parse(v->text, &o->budget) && o->budget > 0)) return 0;
  err_set(err, ERR_USAGE, "--budget: '%s' is not a size", quote_str(v->text).s);
  return err_hint(err, "write 400M, 1.5G or a number of bytes");
}

static int add_candidate(struct span word, struct matmulnbits_options *o, struct err *err) {
  struct matmulnbits_scheme *to = &o->candidates[o->n_candidates];
  to->algorithm = o->scheme.algorithm;
  if (matmulnbits_candidate_parse(word, to, err)) return -1;
  for (uint32_t i = 0; i < o->n_candidates; i++)
    if (matmulnbits_scheme_same(&o->candidates[i], to)) return 0; // said twice
  o->n_candidates++;
  return 0;
}

static int read_candidates(const struct pass_value *v, void *with, struct arena *a,
                           struct err *err) {
  struct matmulnbits_options *o = with;
  o->candidates = arena_zalloc(a, (v->n_list + (size_t)1) * sizeof *o->candidates);
  for (uint32_t i = 0; i < v->n_list; i++)
    if (add_candidate(span_str(v->list[i]), o, err)) return -1;
  return 0;
}

static int read_gates(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct matmulnbits_options *o = with;
  o->gates = arena_zalloc(a, (v->n_list + (size_t)1) * sizeof *o->gates);
  for (; o->n_gates < v->n_list; o->n_gates++)
    if (size_budget_gate_parse(v->list[o->n_gates], &o->gates[o->n_gates], err)) return -1;
  return 0;
}

static int read_target(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a, (void)err;
  ((struct matmulnbits_options *)with)->target = v->text ? targets_at(v->choice) : NULL;
  return 0;
}

static int read_level(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a, (void)err;
  ((struct matmulnbits_options *)with)->accuracy_level = (uint32_t)v->number;
  ((struct matmulnbits_options *)with)->level_of_target = v->stated;
  return 0;
}

static void done(void *with) {
  struct matmulnbits_options *o = with;
  name_filter_done(&o->names);
  for (uint32_t i = 0; i < o->n_overrides; i++)
    name_pattern_done(&o->overrides[i].pattern);
}

// ---- the rows ----------------------------------------------------------------------------------

// What instead() and check() ask for by position.
enum {
  TARGET,
  BLOCK_SIZE = 2,
  SYMMETRIC,
  FORMAT,
  ALGORITHM,
  ACCURACY_LEVEL = 10,
  CANDIDATES = 12,
  GATE,
  GATE_ACTION
};

static const struct pass_option options[] = {
    [TARGET] = {"target", PASS_CHOICE, targets_joined + 1, NULL,
                "choose settings for this runtime\n'weir targets' lists the names. The target sets "
                "defaults for the options below, and refuses what it cannot run.",
                .read = read_target, .measured = true, .listed = "weir targets"},
    {"bits", PASS_CHOICE, "2|4|8", "4", "bits per weight",
     PASS_MEMBER(matmulnbits_options, scheme.bits), .member.means = (const uint32_t[]){2, 4, 8}},
    [BLOCK_SIZE] =
        {"block-size", PASS_CHOICE, "16|32|64|128|256|channel", "128",
         "weights per scale; channel: a scale for each column\nchannel needs --format qdq.",
         .read = read_block},
    [SYMMETRIC] = {"symmetric", PASS_FLAG, NULL, NULL,
                   "use ranges symmetric around 0, without zero points",
                   PASS_MEMBER(matmulnbits_options, scheme.symmetric)},
    [FORMAT] = {"format", PASS_CHOICE, "qoperator|qdq", "qoperator",
                "write MatMulNBits, or DequantizeLinear and MatMul\nqoperator: MatMulNBits and "
                "GatherBlockQuantized, for ONNX Runtime. qdq: DequantizeLinear before the original "
                "node, which is standard ONNX since opset 21 (2 bits: 25).",
                PASS_MEMBER(matmulnbits_options, qdq), .measured = true},
    [ALGORITHM] =
        {"algorithm", PASS_CHOICE, "default|rtn|k_quant|k_quant_best|hqq|gptq|awq", "default",
         "how to choose scales and zero points\n"
         "default (or ort): by the minimum and maximum of a block, as onnxruntime's default. rtn, "
         "k_quant, hqq: as onnxruntime's algorithm of that name. k_quant_best: the "
         "better of k_quant and rtn for each block. gptq, awq: by the error of the output, with "
         "the statistics in --ranges.",
         PASS_MEMBER(matmulnbits_options, scheme.algorithm), .also = "ort=default"},
    {"op-types", PASS_LIST, "MatMul,Gemm,Gather", "MatMul", "operators to quantize",
     .read = read_op_types, .measured = true},
    {"exclude", PASS_LIST, "PATTERN", NULL,
     "skip nodes and weights whose names match this glob\nThis holds even if another option "
     "selects them. PATTERN is a glob, or re: followed by an extended regular expression.",
     .read = name_filter_exclude, .measured = true},
    {"include", PASS_LIST, "PATTERN", NULL, "quantize only nodes and weights that match this glob",
     .read = name_filter_include, .measured = true},
    {"tensor", PASS_LIST, "PATTERN=bits4:g64:sym", NULL,
     "other settings for tensors that match\n"
     "These are bits, block size and symmetry (sym, asym). The last match wins.",
     .read = read_overrides},
    [ACCURACY_LEVEL] =
        {"accuracy-level", PASS_NUMBER, "N", NULL,
         "accuracy_level of MatMulNBits\n"
         "1: float32. 2: float16. 3: bfloat16. 4: int8. Without it, the runtime chooses.",
         .read = read_level},
    {"budget", PASS_TEXT, "SIZE", NULL,
     "choose bits so that all output files fit in SIZE\nweir chooses the bits and the block size "
     "of each weight from --candidates, so that the total squared error is small. 400M is 400 MiB, "
     "400MB is 400000000 bytes. Reads the weights once more, even in a dry run.",
     .read = read_budget, .of_output = true},
    [CANDIDATES] =
        {"candidates", PASS_LIST, "BITS:BLOCK[:sym][:ALGORITHM]", "4:128,4:64,4:32,8:128",
         "schemes to choose from, as bits:block\n"
         "A :sym means no zero points (4:64:sym). :default, :rtn, :k_quant, :k_quant_best or "
         ":hqq sets the algorithm (4:64:rtn).",
         .read = read_candidates, .only_with = "budget", .commas = true, .measured = true,
         .offers = "2:32 2:64 4:32 4:64 4:128 4:128:sym 8:64 8:128"},
    [GATE] =
        {"gate", PASS_LIST, "FIGURE=LIMIT", NULL,
         "limit on the error of each weight\nsqnr=20dB or cosine=0.99 (at least), maxabs=0.1 (at "
         "most). A weight must meet all limits that you give; --gate-action sets what happens to "
         "one that does not. weir reads the weights once more.",
         .read = read_gates, .offers = "sqnr= cosine= maxabs="},
    [GATE_ACTION] = {"gate-action", PASS_CHOICE, "raise|skip|fail", "raise",
                     "what to do with weights that miss the gate\n"
                     "raise: use 8 bits. skip: do not quantize them. fail: stop with exit code 1.",
                     PASS_MEMBER(matmulnbits_options, gate_action), .only_with = "gate"},
    {"on-nonfinite", PASS_CHOICE, "fail|skip", "fail",
     "what to do with weights that contain NaN or infinity\n"
     "fail: stop. skip: do not quantize them. weir then reads the weights once more.",
     PASS_MEMBER(matmulnbits_options, skip_nonfinite)},
    {"ranges", PASS_TEXT, "RANGES", NULL,
     "activation statistics, from 'weir calibrate'\n"
     "A file of 'weir calibrate --statistics gram'. --algorithm gptq and awq need it. --rank "
     "uses it, and with it --budget and --gate judge by the error of the output.",
     PASS_MEMBER(matmulnbits_options, ranges), .reads = PASS_READS_RANGES, .later = true},
    {"min-elements", PASS_NUMBER, "N", NULL, "do not quantize weights with fewer elements",
     PASS_MEMBER(matmulnbits_options, min_elements), .measured = true},
};

// hqq has no symmetric form, and accuracy levels are for MatMulNBits: a target's go where these are asked for.
static const char *instead(const struct pass_value *values, uint32_t option) {
  const struct target *t = values[TARGET].text ? targets_at(values[TARGET].choice) : NULL;
  const bool hqq = values[ALGORITHM].choice == MATMULNBITS_HQQ;
  const bool qdq = values[FORMAT].given ? values[FORMAT].choice == 1 : t && t->format;
  if (!t) return NULL;
  switch (option) {
  case BLOCK_SIZE: return t->block;
  case SYMMETRIC: return t->symmetric && !hqq ? "true" : NULL;
  case FORMAT: return t->format;
  case ACCURACY_LEVEL: return t->level == 4 && !qdq ? "4" : NULL;
  case CANDIDATES: return hqq ? NULL : t->candidates;
  default: return NULL;
  }
}

// What would be passed over without a word comes first.
static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct matmulnbits_options *o = with;
  if (values[GATE_ACTION].given && o->n_gates == 0) {
    err_fill(err, ERR_USAGE, "--gate-action needs --gate");
    return err_hint(err, "add one, such as --gate sqnr=20dB");
  }
  if (values[CANDIDATES].given && o->budget == 0) {
    err_fill(err, ERR_USAGE, "--candidates needs --budget");
    return err_hint(err, "'weir measure' compares candidates without a budget");
  }
  if (matmulnbits_options_check(o, err)) return -1;
  return o->target ? nbits_target_check(o, values[CANDIDATES].given, values[GATE_ACTION].given, err)
                   : 0;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  return pass_matmulnbits(env, with, err);
}

static const struct pass quantize = {
    .name = "quantize",
    .also = "matmulnbits",
    .summary = "weights of MatMul, Gemm and Gather -> blockwise 2, 4 or 8 bit codes",
    .about =
        "Quantizes constant weights in blocks, as onnxruntime's MatMulNBitsQuantizer does: "
        "MatMulNBits and GatherBlockQuantized nodes, or DequantizeLinear before the original node.",
    .needs = "constant float weights of rank 2 (leading dimensions of size 1 are dropped)",
    .promises = "with the default algorithm, the same bytes as onnxruntime; the error of every "
                "tensor is reported",
    .exactness = EXACTNESS_ROUNDING, // MatMulNBits sums in an order of its own
    .stores = "quantized",
    PASS_OPTIONS(options, matmulnbits_options),
    .instead = instead,
    .check = check,
    .run = run,
    .done = done,
};

const struct pass *const nbits_passes[] = {&quantize, NULL};
