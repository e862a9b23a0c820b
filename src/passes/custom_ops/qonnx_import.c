// The pass import-qonnx/ImportQONNX: operators of QONNX and Brevitas, which no runtime has, as ones that have functions, or
// in operators of ONNX.
//
//   qonnx.custom_op.general::Quant, IntQuant      ─▶ onnx_passes.ops::Quant; operators of ONNX, if it rounds as that cannot
//   …::BipolarQuant(x, s)                         ─▶ Where(x >= 0, s, -s)
//   …::Trunc(x, s, z, in, out)                    ─▶ Mul(Sub(Floor(Div(Round(Add(Div(x, s), z)), 2^(in - out))), z), s)
//   …::Trunc(x, s, z, in, t, out)                 ─▶ the same over 2^round(log2(t / s)), between what `out` bits hold,
//                                                    minus z over it, times t
//   …::MultiThreshold<data_layout="NCHW">(x, t)   ─▶ Add(Mul(out_scale, onnx_passes.ops::MultiThreshold(x, t', 1)), out_bias)
//                                                    t [C,T] lies as t' [1,C,1,1,T]
//
// What they compute is what the package qonnx computes (custom_op/general). So the channels of a MultiThreshold that says no
// data_layout are the last axis of three, as there, and else the second.
//
// A node that lacks an attribute without a default, or rounds as nobody knows, stays: the pass says so.
#include "model/model_calls.h"
#include "passes/custom_ops/custom_ops.h"
#include "passes/custom_ops/inside/quant_range.h"
#include "passes/opset/opset.h"

#include "passes/questions/name_filter.h"

#include <math.h>

enum { LEAST_OPSET = 13, LONGEST_WORD = 32 };

enum imported { QUANT, BIPOLAR_QUANT, TRUNC, MULTI_THRESHOLD, NOT_KNOWN, NONE };

static enum imported what_is(const struct model *m, uint32_t node) {
  static const struct {
    const char *name;
    enum imported is;
  } names[] = {{"Quant", QUANT},
               {"IntQuant", QUANT},
               {"BipolarQuant", BIPOLAR_QUANT},
               {"Trunc", TRUNC},
               {"MultiThreshold", MULTI_THRESHOLD}};
  const struct model_node *n = &m->nodes[node];
  const struct span domain = model_name(m, n->domain);
  if (!custom_ops_is_imported(domain)) return NONE;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (span_is(model_name(m, n->op_type), names[i].name)) return names[i].is;
  return NOT_KNOWN;
}

// ---- what a node says --------------------------------------------------------------------------

// A rounding mode, in upper case as QONNX takes it. False: it is none.
static bool mode_of(struct kit *k, uint32_t node, const char *fallback, char out[LONGEST_WORD]) {
  struct span mode;
  if (!kit_attr_string(k, node, "rounding_mode", fallback, &mode) || mode.n >= LONGEST_WORD)
    return false;
  for (size_t i = 0; i < mode.n; i++) {
    const char c = ((const char *)mode.at)[i];
    out[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  out[mode.n] = 0;
  return quant_rounding_of(span_str(out)) != QUANT_ROUNDINGS;
}

// Has it just so many inputs, all of which are there?
static bool takes(const struct kit *k, uint32_t node, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (kit_in(k, node, i) == NO_ID || kit_may_be_left_out(k->m, kit_in(k, node, i))) return false;
  return kit_n_in(k, node) == n;
}

// The dtype of what is computed; QONNX knows float32 alone.
static enum dtype type_of(struct kit *k, uint32_t node, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (kit_dtype(k, kit_in(k, node, i)) != DTYPE_UNDEFINED) return quant_dtype(k, node, n);
  return DTYPE_FLOAT;
}

// ---- operators ---------------------------------------------------------------------------------

static const char *import_quant(struct kit *k, uint32_t node) {
  char mode[LONGEST_WORD];
  int64_t is_signed, narrow;
  if (!takes(k, node, 4)) return "inputs";
  if (!kit_attr_int(k, node, "signed", -1, &is_signed) || is_signed < 0 || is_signed > 1 ||
      !kit_attr_int(k, node, "narrow", -1, &narrow) || narrow < 0 || narrow > 1)
    return "attributes";
  if (!mode_of(k, node, "ROUND", mode)) return "rounding_mode";
  const struct quant_said said = {is_signed, narrow, quant_rounding_of(span_str(mode))};
  const char *word = quant_word(said.rounding);
  enum dtype dtype;
  const char *why = word ? NULL : quant_left(k, node, &dtype);
  if (why) return why;
  kit_begin(k, node, "quant");
  if (!word) {
    quant_write(k, node, &said, dtype);
    return NULL;
  }
  kit_import(k, k->graph, CUSTOM_OPS_DOMAIN, 1);
  kit_replace(
      k, node, OP_ops_Quant,
      KIT_IN(kit_in(k, node, 0), kit_in(k, node, 1), kit_in(k, node, 2), kit_in(k, node, 3)),
      KIT_INT("signed", is_signed), KIT_INT("narrow", narrow),
      KIT_STRING("rounding_mode", span_str(word)));
  return NULL;
}

static const char *import_bipolar(struct kit *k, uint32_t node) {
  if (!takes(k, node, 2)) return "inputs";
  const enum dtype dtype = type_of(k, node, 2);
  if (dtype == DTYPE_UNDEFINED) return "type";
  kit_begin(k, node, "bipolar");
  const uint32_t x = kit_in(k, node, 0), scale = kit_in(k, node, 1);
  const uint32_t zero = kit_new_scalar(k, "zero", dtype, 0);
  const uint32_t positive = kit_make(k, OP_GreaterOrEqual, KIT_IN(x, zero));
  const uint32_t minus = kit_make(k, OP_Neg, KIT_IN(scale));
  kit_replace(k, node, OP_Where, KIT_IN(positive, scale, minus));
  return NULL;
}

// 2 to the bits that go: a number where they are, else nodes.
static uint32_t cut_by_bits(struct kit *k, enum dtype dtype, uint32_t from, uint32_t to) {
  double a, b;
  if (kit_const_scalar(k, from, &a) && kit_const_scalar(k, to, &b) && a - b == floor(a - b) &&
      fabs(a - b) < 100)
    return kit_new_scalar(k, "cut", dtype, ldexp(1, (int)(a - b)));
  const uint32_t bits =
      kit_make(k, OP_Sub, KIT_IN(quant_bits(k, dtype, from), quant_bits(k, dtype, to)));
  return kit_make(k, OP_Pow, KIT_IN(kit_new_scalar(k, "two", dtype, 2), bits));
}

// The power of two nearest to the ratio of two scales.
static uint32_t cut_by_scales(struct kit *k, enum dtype dtype, uint32_t from, uint32_t to) {
  double a, b;
  if (kit_const_scalar(k, from, &a) && kit_const_scalar(k, to, &b) && a > 0 && b > 0 &&
      fabs(log2(b / a)) < 100)
    return kit_new_scalar(k, "cut", dtype, ldexp(1, (int)nearbyint(log2(b / a))));
  const uint32_t ratio_log = kit_make(k, OP_Log, KIT_IN(kit_make(k, OP_Div, KIT_IN(to, from))));
  const uint32_t log2_of_it =
      kit_make(k, OP_Div, KIT_IN(ratio_log, kit_new_scalar(k, "log_two", dtype, log(2))));
  return kit_make(
      k, OP_Pow,
      KIT_IN(kit_new_scalar(k, "two", dtype, 2), kit_make(k, OP_Round, KIT_IN(log2_of_it))));
}

static const char *import_trunc(struct kit *k, uint32_t node) {
  char mode[LONGEST_WORD];
  struct quant_said said = {0};
  int64_t is_signed, narrow;
  const bool to_scale = kit_n_in(k, node) == 6;
  if (!takes(k, node, to_scale ? 6 : 5)) return "inputs";
  if (!kit_attr_int(k, node, "signed", 1, &is_signed) ||
      !kit_attr_int(k, node, "narrow", 0, &narrow) || is_signed < 0 || is_signed > 1 ||
      narrow < 0 || narrow > 1)
    return "attributes";
  if (!mode_of(k, node, "FLOOR", mode)) return "rounding_mode";
  const enum dtype dtype = type_of(k, node, 3);
  if (dtype == DTYPE_UNDEFINED) return "type";
  said.rounding = quant_rounding_of(span_str(mode));
  said.is_signed = is_signed;
  said.narrow = narrow;
  kit_begin(k, node, "trunc");
  const uint32_t x = kit_in(k, node, 0), scale = kit_in(k, node, 1), zero = kit_in(k, node, 2);
  const uint32_t to = kit_in(k, node, 4);
  const uint32_t d = kit_make(k, OP_Div, KIT_IN(x, scale));
  const uint32_t q = kit_make(k, OP_Round, KIT_IN(kit_make(k, OP_Add, KIT_IN(d, zero))));
  const uint32_t cut =
      to_scale ? cut_by_scales(k, dtype, scale, to) : cut_by_bits(k, dtype, kit_in(k, node, 3), to);
  uint32_t y = kit_make(k, OP_Div, KIT_IN(q, cut));
  if (to_scale) y = quant_clipped(k, &said, dtype, kit_in(k, node, 5), y);
  y = quant_round(k, said.rounding, y, dtype);
  const uint32_t less = to_scale ? kit_make(k, OP_Div, KIT_IN(zero, cut)) : zero;
  y = kit_make(k, OP_Sub, KIT_IN(y, less));
  kit_replace(k, node, OP_Mul, KIT_IN(y, to_scale ? to : scale));
  return NULL;
}

// The axis of the channels; false: not of x.
static bool channels_of(struct kit *k, uint32_t node, uint32_t rank, uint32_t *axis) {
  struct span layout;
  if (rank < 2 || !kit_attr_string(k, node, "data_layout", "", &layout)) return false;
  const char *c = layout.n ? memchr(layout.at, 'C', layout.n) : NULL;
  *axis = c ? (uint32_t)(c - (const char *)layout.at) : layout.n == 0 && rank == 3 ? 2 : 1;
  return *axis < rank;
}

// Few of them are at hand for who asks.
static uint32_t ones_recipe(struct kit *k, const int64_t *dims, uint32_t rank) {
  float ones[SMALL_ANY_BYTES / sizeof(float)];
  uint64_t n = 1;
  for (uint32_t i = 0; i < rank; i++)
    n *= (uint64_t)dims[i];
  ones[0] = 1;
  if (n > sizeof ones / sizeof *ones)
    return recipe_fill(k->r, DTYPE_FLOAT, dims, rank, span_of(ones, sizeof *ones));
  for (uint64_t i = 0; i < n; i++)
    ones[i] = 1;
  return recipe_bytes(k->r, DTYPE_FLOAT, dims, rank, span_of(ones, n * sizeof *ones));
}

static const char *import_thresholds(struct kit *k, uint32_t node) {
  enum { MOST = 16 };
  int64_t t[2], dims[MOST];
  uint32_t rank, t_rank, axis;
  float scale, bias;
  if (!takes(k, node, 2)) return "inputs";
  const uint32_t x = kit_in(k, node, 0), thresholds = kit_recipe(k, kit_in(k, node, 1));
  if (thresholds == NO_ID || !kit_static_dims(k, kit_in(k, node, 1), t, 2, &t_rank) || t_rank != 2)
    return "thresholds";
  if (!kit_attr_float(k, node, "out_scale", 1, &scale) ||
      !kit_attr_float(k, node, "out_bias", 0, &bias))
    return "attributes";
  if (!kit_rank(k, x, &rank) || rank >= MOST) return "rank";
  if (!channels_of(k, node, rank, &axis)) return "data_layout";
  if (type_of(k, node, 2) != DTYPE_FLOAT) return "type";
  const struct model_dim c = kit_dim(k, x, axis);
  if (t[0] != 1 && c.value >= 0 && c.value != t[0]) return "thresholds";
  kit_begin(k, node, "thresholds");
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i == axis ? t[0] : 1;
  dims[rank] = t[1];
  const uint32_t lying =
      kit_new_tensor(k, "thresholds", recipe_reshape(k->r, thresholds, dims, rank + 1));
  const uint32_t weights = kit_new_tensor(k, "weights", ones_recipe(k, dims, rank + 1));
  kit_import(k, k->graph, CUSTOM_OPS_DOMAIN, 1);
  const uint32_t steps = kit_make(k, OP_ops_MultiThreshold, KIT_IN(x, lying, weights));
  const uint32_t scaled = kit_make(
      k, OP_Mul, KIT_IN(kit_new_scalar(k, "out_scale", DTYPE_FLOAT, (double)scale), steps));
  kit_replace(k, node, OP_Add,
              KIT_IN(scaled, kit_new_scalar(k, "out_bias", DTYPE_FLOAT, (double)bias)));
  return NULL;
}

// ---- the pass ----------------------------------------------------------------------------------

static void visit(struct kit *k, uint32_t node) {
  const char *why = NULL;
  kit_site(k, node, "qonnx");
  switch (what_is(k->m, node)) {
  case QUANT: why = import_quant(k, node); break;
  case BIPOLAR_QUANT: why = import_bipolar(k, node); break;
  case TRUNC: why = import_trunc(k, node); break;
  case MULTI_THRESHOLD: why = import_thresholds(k, node); break;
  case NOT_KNOWN: why = "operator"; break;
  case NONE: break;
  }
  if (why) kit_skipped(k, node, why);
}

// Is there something to import, that is no call of a function of the model?
static bool has_any(const struct model *m, bool *is_call) {
  struct model_calls calls = {0};
  bool any = false;
  *is_call = false;
  model_calls_init(&calls, m);
  for (uint32_t n = 0; n < m->n_nodes; n++)
    if (!(m->nodes[n].flags & NODE_DEAD) && what_is(m, n) != NONE) {
      any = true;
      *is_call |= model_calls_callee(&calls, n) != NO_ID;
    }
  model_calls_done(&calls);
  return any;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct model *m = env->m;
  bool is_call;
  if (!has_any(m, &is_call)) return 0;
  if (is_call) {
    struct kit k;
    kit_init(&k, env, env->pass->name);
    kit_warn(&k,
             "the model has functions for operators of QONNX: these operators are left unchanged",
             "--pass inline-functions inlines the functions");
    return kit_done(&k, err);
  }
  if (model_opset_version(m, m->main_graph, span_str("")) < LEAST_OPSET &&
      opset_raise(env, LEAST_OPSET, err))
    return -1;
  return kit_run(env, with, err);
}

const struct pass custom_ops_import = {
    .name = "import-qonnx/ImportQONNX",
    .summary = "convert the operators of QONNX and Brevitas",
    .about = "Replaces operators of the domains " CUSTOM_OPS_QONNX " and " CUSTOM_OPS_BREVITAS
             ": Quant and IntQuant become Quant of onnx_passes.ops, with a function; "
             "MultiThreshold becomes MultiThreshold of onnx_passes.ops; BipolarQuant and Trunc "
             "become standard ONNX operators. Other operators are left unchanged and reported.",
    .needs = "constant thresholds, and the known rank of the value they are compared with",
    .promises = "all outputs are the same as those that the qonnx package computes",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
    .visit = visit,
};
