// requantize: the pass, its options, and the order of its parts (requantize.h).
#include "passes/int8_requantize/inside/requantize.h"

#include "passes/opset/opset.h"

uint32_t requantize_nodes(struct kit *k, struct arena *a, uint32_t **nodes) {
  struct arena of_graph = {0};
  uint32_t n = 0;
  *nodes = arena_alloc(a, (k->m->n_nodes + (size_t)1) * sizeof **nodes);
  for (uint32_t g = 0; kit_graph(k, &g); g++) {
    uint32_t *list;
    const uint32_t n_list = kit_running(k, g, &of_graph, &list);
    if (n_list) memcpy(*nodes + n, list, n_list * sizeof *list);
    n += n_list;
    arena_reset(&of_graph);
  }
  arena_free(&of_graph);
  return n;
}

void requantize_walk(struct kit *k, const struct requantize_options *options,
                     void (*visit)(struct kit *k, const struct requantize_options *options,
                                   uint32_t node)) {
  struct arena a = {0};
  uint32_t *nodes;
  const uint32_t n = requantize_nodes(k, &a, &nodes);
  for (uint32_t i = 0; i < n; i++) {
    arena_reset(&k->site);
    if (!(k->m->nodes[nodes[i]].flags & NODE_DEAD)) visit(k, options, nodes[i]);
  }
  arena_free(&a);
}

// What DequantizeLinear needs.
static int raise_opset(struct pass_env *env, const struct requantize_options *options,
                       struct err *err) {
  struct kit k;
  kit_init(&k, env, env->pass->name);
  k.tells_no_dims = true;
  const bool wants = options->to == REQUANTIZE_QDQ && env->m->main_graph != NO_ID &&
                     kit_opset(&k, env->m->main_graph) < REQUANTIZE_CHANNELS_OPSET &&
                     requantize_wants_channels(&k, options);
  if (kit_done(&k, err)) return -1;
  return wants ? opset_raise(env, REQUANTIZE_CHANNELS_OPSET, err) : 0;
}

static int run_requantize(struct pass_env *env, void *with, struct err *err) {
  const struct requantize_options *options = with;
  struct kit k;
  if (raise_opset(env, options, err)) return -1;
  kit_init(&k, env, env->pass->name);
  k.tells_no_dims = true;
  kit_infer(&k);
  const struct name_filter *filter = &options->nodes;
  name_filter_warn(&filter, 1, env);
  requantize_fold(&k, options);
  if (options->to == REQUANTIZE_QOPERATOR)
    requantize_to_qoperator(&k, options);
  else
    requantize_to_qdq(&k, options);
  if (options->recipe) requantize_biases(&k, options);
  if (kit_has_scan(&k)) kit_declare_made(&k);
  return kit_done(&k, err);
}

enum { TO, FORMAT, EXECUTION }; // what check() asks for by position

static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct requantize_options *o = with;
  if (values[EXECUTION].given && !o->recipe)
    return err_set(err, ERR_USAGE,
                   "--execution needs --format int32-bias, fp32-bias or fp32-bias-qdq");
  if (o->recipe && o->to == REQUANTIZE_QOPERATOR) {
    err_fill(err, ERR_USAGE,
             "--format %s writes models in QDQ form, and --to qoperator removes that form",
             values[FORMAT].text);
    return err_hint(err, "omit --to; --execution qlinear writes operators on codes");
  }
  return 0;
}

static const struct pass_option requantize_rows[] = {
    [TO] = {"to", PASS_CHOICE, "qdq|qoperator", "qdq",
            "form of the result\n"
            "qdq: float operators between DequantizeLinear and QuantizeLinear. qoperator: "
            "operators on codes, such as QLinearConv.",
            PASS_MEMBER(requantize_options, to)},
    [FORMAT] = {"format", PASS_CHOICE, "int32-bias|fp32-bias|fp32-bias-qdq", NULL,
                "Neural Compressor's recipe for a MatMul with a bias\n"
                "weir writes it as 'weir static' does, from a model in QDQ form. int32-bias: the "
                "bias is added as int32 codes. fp32-bias: the bias is added as float. "
                "fp32-bias-qdq: the same, with QuantizeLinear and DequantizeLinear after the Add.",
                PASS_MEMBER(requantize_options, recipe), .from_one = true, .later = true},
    [EXECUTION] = {"execution", PASS_CHOICE, "qdq|qlinear", "qdq",
                   "form of the MatMul in the recipe of --format\nqdq: DequantizeLinear before the "
                   "MatMul where possible. qlinear: operators on codes.",
                   PASS_MEMBER(requantize_options, qlinear), .only_with = "format", .later = true},
    NAME_FILTER_ROWS,
};

static const struct pass requantize = {
    .name = "requantize",
    .summary =
        "store trained int8 weights as codes; convert a model between QDQ and QOperator form",
    .about =
        "Stores float weights that a QuantizeLinear quantizes, as quantization-aware training "
        "leaves them, as codes. With --to qoperator, an operator between DequantizeLinear and "
        "QuantizeLinear becomes an operator on codes (QLinearConv, QLinearMatMul, QGemm, "
        "QLinearAdd ...), and a MatMul without QuantizeLinear becomes MatMulIntegerToFloat. --to "
        "qdq does the reverse. Codes, scales and zero points do not change. The formats for "
        "biases remove the nodes between a MatMul and the Add of its bias, and write the sum as "
        "one of Neural Compressor's recipes. Nodes that are left unchanged are reported with a "
        "reason.",
    .needs = "constant scales and zero points",
    .promises = "codes differ by at most one step, where the float operator and the operator on "
                "codes round differently; with a format for biases, products are not rounded "
                "before the bias is added",
    .exactness = EXACTNESS_ROUNDING,
    .activations_in = REQUANTIZE_NOT_ROUNDED " " REQUANTIZE_INT32 " " REQUANTIZE_FLOAT,
    PASS_OPTIONS(requantize_rows, requantize_options),
    .check = check,
    .run = run_requantize,
    .done = name_filter_done,
};

const struct pass *const int8_requantize_passes[] = {&requantize, NULL};
