// ort/fused-conv and ort/fused-gemm: the activation behind a Conv or Gemm as a part of it.
//
//   Conv(x, W, b) ── Clip(0, 6) ──▶ y        FusedConv<activation="Clip", activation_params=[0, 6]>(x, W, b) ──▶ y
//
// The runtime computes the product and applies the activation to it while it is in the cache; each element is computed as
// before. A table says which activations its CPU provider knows in which of the two, in every version that weir knows of,
// and where their parameters go: into one list by place (FusedConv), or into attributes of their own (FusedGemm). What
// has no parameter there, or one that is computed, stays; so does a product that others use too. A Gemm that is made of a MatMul
// and an Add comes behind the rounds, so this does for Gemm.
#include "passes/optimize/optimize.h"

#include "passes/kit/kit.h"

#include <assert.h>
#include <float.h>
#include <string.h>

enum { MOST = 2 };

struct activation {
  const char *name;
  enum op op;
  bool conv, gemm;
  const char *given[MOST], *as[MOST]; // attributes, and what FusedGemm calls them
  float fallback[MOST];
};

static const struct activation activations[] = {
    {"Relu", OP_Relu, true, true, {NULL}, {NULL}, {0}},
    {"Sigmoid", OP_Sigmoid, true, true, {NULL}, {NULL}, {0}},
    {"Tanh", OP_Tanh, true, true, {NULL}, {NULL}, {0}},
    {"LeakyRelu", OP_LeakyRelu, true, true, {"alpha"}, {"activation_alpha"}, {0.01f}},
    {"HardSigmoid",
     OP_HardSigmoid,
     true,
     true,
     {"alpha", "beta"},
     {"activation_alpha", "activation_beta"},
     {0.2f, 0.5f}},
    {"Clip", OP_Clip, true, false, {"min", "max"}, {NULL}, {-FLT_MAX, FLT_MAX}},
    {"Elu", OP_Elu, false, true, {"alpha"}, {"activation_alpha"}, {1}},
    {"Celu", OP_Celu, false, true, {"alpha"}, {"activation_alpha"}, {1}},
    {"Selu",
     OP_Selu,
     false,
     true,
     {"alpha", "gamma"},
     {"activation_alpha", "activation_gamma"},
     {1.67326319217681884765625f, 1.05070102214813232421875f}},
    {"Softplus", OP_Softplus, false, true, {NULL}, {NULL}, {0}},
    {"Softsign", OP_Softsign, false, true, {NULL}, {NULL}, {0}},
    {"ThresholdedRelu", OP_ThresholdedRelu, false, true, {"alpha"}, {"activation_alpha"}, {1}},
};

static const struct activation *activation_of(enum op op, bool conv) {
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if (activations[i].op == op && (conv ? activations[i].conv : activations[i].gemm))
      return &activations[i];
  return NULL;
}

// A bound of Clip, an input since opset 11.
static bool bound(struct kit *k, uint32_t node, uint32_t slot, float *out) {
  double x;
  if (kit_in(k, node, slot) == NO_ID) return true;
  if (!kit_const_scalar(k, kit_in(k, node, slot), &x)) return false;
  *out = (float)x;
  return true;
}

// Its parameters, as many as the table has.
static bool parameters(struct kit *k, uint32_t node, const struct activation *a, float params[MOST],
                       uint32_t *n) {
  for (*n = 0; *n < MOST && a->given[*n]; ++*n) {
    params[*n] = a->fallback[*n];
    if (a->op == OP_Clip && kit_opset(k, k->m->nodes[node].graph) >= 11) {
      if (!bound(k, node, *n + 1, &params[*n])) return false;
    } else if (!kit_attr_float(k, node, a->given[*n], a->fallback[*n], &params[*n])) {
      return false;
    }
  }
  return true;
}

static void merge(struct kit *k, uint32_t maker, uint32_t node, const struct activation *a,
                  const float *params, uint32_t n) {
  const bool conv = kit_op(k, maker) == OP_Conv;
  struct edit_attr attrs[1 + MOST];
  uint32_t n_attrs = 0, in[3], n_in = kit_n_in(k, maker);
  assert(n_in <= 3);
  for (uint32_t i = 0; i < n_in; i++)
    in[i] = kit_in(k, maker, i);
  attrs[n_attrs++] =
      (struct edit_attr){.name = "activation", .type = ATTR_STRING, .s = span_str(a->name)};
  if (conv && n > 0)
    attrs[n_attrs++] = (struct edit_attr){
        .name = "activation_params", .type = ATTR_FLOATS, .floats = params, .n = n};
  for (uint32_t i = 0; !conv && i < n; i++)
    attrs[n_attrs++] = (struct edit_attr){.name = a->as[i], .type = ATTR_FLOAT, .f = params[i]};
  kit_begin(k, node, "activation");
  kit_import(k, k->m->nodes[node].graph, "com.microsoft", 1);
  kit_replace(k, node, conv ? OP_ms_FusedConv : OP_ms_FusedGemm, KIT_INPUTS(in, n_in),
              KIT_ATTRS(attrs, n_attrs), KIT_ATTRS_OF(maker));
  kit_sweep(k, maker);
}

static void visit(struct kit *k, uint32_t node) {
  const enum op into = k->env->pass == &ort_fused_conv ? OP_Conv : OP_Gemm;
  const struct activation *a = activation_of(kit_op(k, node), into == OP_Conv);
  const uint32_t product = kit_in(k, node, 0), maker = kit_maker(k, product);
  float params[MOST];
  uint32_t n;
  if (!a || kit_op(k, maker) != into || k->m->nodes[maker].graph != k->m->nodes[node].graph) return;
  // Before opset 7 a Gemm says how its operands broadcast.
  if (into == OP_Gemm && kit_opset(k, k->m->nodes[node].graph) < 7) return;
  if (kit_sole_user(k, product) != node || product != kit_out(k, maker, 0) ||
      kit_dtype(k, kit_in(k, maker, 0)) != DTYPE_FLOAT || !kit_attrs_copyable(k, maker) ||
      !parameters(k, node, a, params, &n))
    return;
  merge(k, maker, node, a, params, n);
}

const struct pass ort_fused_conv = {
    .name = "ort/fused-conv",
    .summary = "fuse a Conv and the activation after it",
    .about = "Replaces a float32 Conv and the Relu, LeakyRelu, Sigmoid, HardSigmoid, Tanh or Clip "
             "with constant bounds after it by FusedConv.",
    .needs = "a Conv whose result has no other users",
    .promises = "the same results up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = visit,
};

const struct pass ort_fused_gemm = {
    .name = "ort/fused-gemm",
    .summary = "fuse a Gemm and the activation after it",
    .about =
        "Replaces a float32 Gemm and the Relu, LeakyRelu, ThresholdedRelu, Sigmoid, HardSigmoid, "
        "Tanh, Elu, Celu, Selu, Softplus or Softsign after it by FusedGemm.",
    .needs = "a Gemm whose result has no other users",
    .promises = "the same results up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = kit_run,
    .visit = visit,
};
