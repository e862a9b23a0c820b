// requantize: the pass, its options, and the order of its parts (requantize.h).
#include "requantize.h"

#include "opset.h"

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

static int run_requantize(struct pass_env *env, void *with, struct pass_result *result,
                          struct err *err) {
  const struct requantize_options *options = with;
  struct kit k;
  (void)result;
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
  if (kit_has_scan(&k)) kit_declare_made(&k);
  return kit_done(&k, err);
}

static const struct pass_option requantize_rows[] = {
    {"to", PASS_CHOICE, "qdq|qoperator", "qdq",
     "the form that the result has: qdq, float operators between DequantizeLinear and "
     "QuantizeLinear; qoperator, operators on codes, as QLinearConv",
     PASS_MEMBER(requantize_options, to)},
    NAME_FILTER_ROWS,
};

static const struct pass requantize = {
    .name = "requantize",
    .summary =
        "store trained int8 weights as codes; take a model to another form: QDQ or QOperator",
    .about =
        "Float weights behind QuantizeLinear, as quantization-aware training leaves them, become "
        "stored codes. "
        "To qoperator: an operator between DequantizeLinear and QuantizeLinear becomes the "
        "operator on codes (QLinearConv, QLinearMatMul, QGemm, QLinearAdd ...); MatMul "
        "without QuantizeLinear becomes MatMulIntegerToFloat. To qdq: the same backwards. Codes, "
        "scales and zero points stay what they are. What stays is reported with a reason.",
    .needs = "scales and zero points that are constants",
    .promises = "codes differ by one step at most, where the float operator and that on codes "
                "round differently",
    .exactness = EXACTNESS_ROUNDING,
    PASS_OPTIONS(requantize_rows, requantize_options),
    .run = run_requantize,
    .done = name_filter_done,
};

const struct pass *const int8_requantize_passes[] = {&requantize, NULL};
