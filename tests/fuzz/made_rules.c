// Rules over random graphs: any bytes are read as a graph of the operators that rules look for,
// with constants, attributes and declared types that may be wrong; or as operators that fold, mostly over
// constants, small and large. What rules ask about these is answered by any numbers. Whatever fires
// must leave the model whole and in order.
#include "made_rules.h"

#include "model_builder.h"
#include "passes/questions/findings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct bytes {
  const uint8_t *at;
  size_t n;
};

static uint32_t take(struct bytes *b, uint32_t below) {
  if (b->n == 0) return 0;
  b->n--;
  return *b->at++ % below;
}

static const char *const ops[] = {
    "Add",       "Mul",   "Sub",       "Max",       "Min",     "Relu",
    "Neg",       "Abs",   "Exp",       "Transpose", "Reshape", "Slice",
    "Where",     "Xor",   "Not",       "Less",      "Greater", "Sigmoid",
    "Size",      "Cast",  "Dropout",   "Identity",  "Squeeze", "MatMul",
    "Unsqueeze", "Shape", "Flatten",   "Gather",    "Gemm",    "Div",
    "Loop",      "Silu",  "ReduceSum", "ReduceMax", "Expand",  "GreaterOrEqual"};
static const char *const folds[] = {"Add",
                                    "Div",
                                    "Max",
                                    "Clip",
                                    "Relu",
                                    "Sqrt",
                                    "Exp",
                                    "Where",
                                    "Cast",
                                    "CastLike",
                                    "Equal",
                                    "IsNaN",
                                    "Not",
                                    "BitwiseAnd",
                                    "Pow",
                                    "Sum",
                                    "Mean",
                                    "Reshape",
                                    "Squeeze",
                                    "Unsqueeze",
                                    "Flatten",
                                    "Transpose",
                                    "Slice",
                                    "Concat",
                                    "Pad",
                                    "Gather",
                                    "ReduceSum",
                                    "ReduceMax",
                                    "ReduceMean",
                                    "ReduceL2",
                                    "MatMul",
                                    "ReduceProd",
                                    "ReduceLogSumExp",
                                    "DequantizeLinear",
                                    "Sub",
                                    "Identity"};
static const char *const dims[] = {"2,3", "3,2", "1,2,3", "6", "", "N,3", "?,?", "2,1"};
enum { OPS_HERE = sizeof ops / sizeof ops[0], CONSTANTS = 9 };
_Static_assert(sizeof folds == sizeof ops, "a byte is an operator of either");

static void constants(struct build *b) {
  build_floats(b, "k0", "", (float[]){1});
  build_floats(b, "k1", "3", (float[]){0, 0, 0});
  build_floats(b, "k2", "2,3", (float[]){0.5f, 1, 1.5f, -2, INFINITY, NAN});
  build_floats(b, "k3", "0", (float[]){0});
  build_ints(b, "k4", "2", (int64_t[]){3, 2});
  build_ints(b, "k5", "1", (int64_t[]){-1});
  build_ints(b, "k6", "2", (int64_t[]){0, INT64_MAX});
  build_ints(b, "k7", "1", (int64_t[]){INT64_MIN});
  build_tensor(b, "k8", DTYPE_BOOL, "3", (uint8_t[]){1, 1, 1});
}

// Constants that are not at hand.
static void large_constants(struct build *b) {
  build_file(b, "m.onnx", 1000);
  const uint32_t data = build_file(b, "m.data", UINT64_C(1) << 40);
  build_extent(b, "k9", DTYPE_FLOAT, "300,3", data, 0);
  build_extent(b, "k10", DTYPE_FLOAT, "200,200", data, UINT64_C(1) << 30);
  build_extent(b, "k11", DTYPE_INT64, "20000,3", data, UINT64_C(2) << 30);
  build_extent(b, "k12", DTYPE_FLOAT16, "3", data, UINT64_C(3) << 30);
}

// Any answer, the same for the same recipe.
static int answer(void *ctx, const struct pass_question *q, struct pass_answer *out,
                  struct err *err) {
  struct pass_env *env = ctx;
  struct json_out j = {0};
  const bool multiples = strcmp(q->stage, FINDINGS_STAGE_MULTIPLES) == 0;
  struct tensor_stats *facts = arena_zalloc(env->scratch, (q->n + (size_t)1) * sizeof *facts);
  (void)err;
  for (uint32_t i = 0; i < q->n; i++) {
    const uint32_t any = q->of[i] * 2654435761u;
    facts[i] = tensor_stats_none(any >> 31);
    facts[i].elements = 100;
    facts[i].zeros = any >> 29 & 1;
    facts[i].nans = (any >> 27 & 3) == 0;
    facts[i].least = (double)(any >> 24 & 7) - 3;
    facts[i].most = facts[i].least + (double)(any >> 20 & 7);
    facts[i].finest = 0.25 * (double)(1 + (any >> 18 & 3));
    facts[i].multiples = any >> 17 & 1;
  }
  json_object(&j);
  json_end_object(&j);
  json_newline(&j);
  answers_write(&findings_forms[multiples], &j, env->edits, q->of, q->n, facts);
  out->text = span_of(arena_string(env->scratch, span_of(j.text, j.n)), j.n);
  json_done(&j);
  return 0;
}

static void attributes(struct build *b, uint32_t node, struct bytes *in) {
  static const char *const perms[] = {"1,0", "0,1", "2,0,1", "0,0", "-1,5", "0"};
  static const char *const names[] = {"perm",      "to",    "axis",   "keepdims",
                                      "allowzero", "alpha", "transA", "start"};
  switch (take(in, 4)) {
  case 0: build_attr_ints(b, node, "perm", perms[take(in, 6)]); break;
  case 1: build_attr_int(b, node, names[1 + take(in, 7)], (int64_t)take(in, 12) - 2); break;
  case 2: build_attr_float(b, node, "alpha", (float)take(in, 3)); break;
  default: break;
  }
}

static void read_graph(struct build *b, struct bytes *in, const char *const *table) {
  const bool over_constants = table == folds;
  uint32_t values = 2;
  build_input(b, "v0", DTYPE_FLOAT, dims[take(in, 8)]);
  build_input(b, "v1", take(in, 2) ? DTYPE_BOOL : DTYPE_FLOAT, dims[take(in, 8)]);
  constants(b);
  if (over_constants) large_constants(b);
  while (in->n > 0 && values < 64) {
    char list[64] = "", out[16], word[16];
    const char *op = table[take(in, OPS_HERE)];
    const uint32_t n_in = 1 + take(in, 4);
    for (uint32_t i = 0; i < n_in; i++) {
      uint32_t pick = take(in, 40);
      if (over_constants && pick > 24) pick = pick % (CONSTANTS + 4);
      // What asks for integers gets them, mostly.
      if (i > 0 && pick % 4 != 0 &&
          (strstr("Reshape Slice Squeeze Unsqueeze Expand Pad Gather", op) ||
           strncmp(op, "Reduce", 6) == 0))
        pick = 4 + pick % 4;
      if (pick < CONSTANTS || (over_constants && pick > CONSTANTS && pick < CONSTANTS + 4))
        snprintf(word, sizeof word, "%sk%u", i ? " " : "", pick);
      else if (pick == CONSTANTS && i > 0)
        snprintf(word, sizeof word, " -");
      else // mostly the newest
        snprintf(word, sizeof word, "%sv%u", i ? " " : "",
                 values - 1 - (pick % values) % (pick % 3 + 1));
      strcat(list, word);
    }
    snprintf(out, sizeof out, "v%u", values++);
    const uint32_t node = build_node(b, op, "", list, out);
    if (strcmp(op, "Silu") == 0) build_domain(b, node, "onnx_passes.ops");
    attributes(b, node, in);
    if (take(in, 3))
      build_value_info(b, out, take(in, 4) ? DTYPE_FLOAT : DTYPE_INT64, dims[take(in, 8)]);
  }
  for (uint32_t v = 2; v < values; v++) {
    char name[16];
    snprintf(name, sizeof name, "v%u", v);
    if (v + 1 == values || v % 7 == 0) build_output(b, name, DTYPE_FLOAT, NULL);
  }
}

// Every input of a node is made before it.
static void check_order(const struct model *m) {
  bool *made = calloc(m->n_values + 1, sizeof *made);
  for (uint32_t v = 0; v < m->n_values; v++)
    made[v] = m->values[v].kind != VALUE_NODE_OUTPUT;
  for (uint32_t n = m->graphs[m->main_graph].first_node; n != NO_ID; n = m->nodes[n].next) {
    for (uint32_t i = 0; i < m->nodes[n].n_in; i++) {
      const uint32_t v = model_input(m, &m->nodes[n], i);
      if (v != NO_ID && !made[v]) abort();
    }
    for (uint32_t i = 0; i < m->nodes[n].n_out; i++)
      if (model_output(m, &m->nodes[n], i) != NO_ID) made[model_output(m, &m->nodes[n], i)] = true;
  }
  free(made);
}

void made_rules_run(const struct rules_book *book, bool over_constants, struct span input) {
  const char *const *table = over_constants ? folds : ops;
  struct model m;
  struct recipes r;
  struct edits e;
  struct build b;
  struct bytes in = {input.at, input.n};
  struct arena scratch = {0};
  struct err err = {0};
  build_begin(&b, &m);
  read_graph(&b, &in, table);
  build_end(&b);
  recipes_init(&r);
  edits_init(&e, &m, &r);
  struct pass_env env = {.m = &m, .edits = &e, .scratch = &scratch, .ask = answer, .ask_ctx = &env};
  const struct rules_options options = {.cap = EXACTNESS_FINITE, .fuel = 8};
  if (rules_run(book, &env, "rules", &options, &err) != 0) abort();
  build_check(&m);
  check_order(&m);
  edits_free(&e);
  recipes_free(&r);
  model_free(&m);
  arena_free(&scratch);
}
