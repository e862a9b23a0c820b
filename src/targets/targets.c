// Tables of targets and the walk that finds what a model needs.
//
//   nodes and tensors ──▶ forms ──▶ features ──▶ the least version of ONNX Runtime
//                                        └─────▶ what a target refuses
//
// A feature that two rows need counts once. Of several that need the same version the first of the
// table is named. Weights that are no constants (a model with its weights as inputs) have the form that
// attributes say, as far as they say one.
#include "targets/targets.h"

#include "base/dtype.h"
#include "model/model_live.h"
#include "model/model_types.h"
#include "targets/inside/target_kernels.h"
#include "targets/target_dims.h"

#include <string.h>

#define HAS(id) (1u << TARGET_##id)

static const struct target_feature_row features[] = {
#define FEATURE(id, ort, words, instead) [TARGET_##id] = {ort, words, instead},
#include "targets/target_features.def"
};

static const struct target targets[] = {
#define TARGET(...) {__VA_ARGS__},
#include "targets/targets.def"
};

const char targets_joined[] =
#define TARGET(name, ...) "|" name
#include "targets/targets.def"
    ;

// A version of the model and what loads it.
struct version {
  int64_t version;
  uint32_t ort;
};
static const struct version ir_versions[] = {
#define OPSET(version, ort)
#define IR_VERSION(version, ort) {version, ort},
#include "targets/target_versions.def"
    {0, TARGET_OLDEST}};

const struct target_feature_row *target_feature_row(enum target_feature feature) {
  return &features[feature];
}

const char *targets_names(void) {
  return targets_joined + 1;
}

const struct target *targets_at(uint32_t i) {
  return i < sizeof targets / sizeof *targets ? &targets[i] : NULL;
}

const struct target *targets_find(struct span name) {
  for (uint32_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (span_is(name, targets[i].name)) return &targets[i];
  return NULL;
}

// ---- words --------------------------------------------------------------------------------------

uint32_t target_preset_of(const char *option) {
  static const struct {
    const char *option;
    enum target_preset bit;
  } rows[] = {{"format", TARGET_SETS_FORMAT},
              {"block-size", TARGET_SETS_BLOCK},
              {"symmetric", TARGET_SETS_SYMMETRIC},
              {"accuracy-level", TARGET_SETS_LEVEL},
              {"candidates", TARGET_SETS_CANDIDATES}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].option, option) == 0) return rows[i].bit;
  return 0;
}

bool target_sets_dynamic(const struct target *t, const char *word) {
  const size_t n = strlen(word);
  for (const char *at = t ? t->dynamic : NULL; at && *at; at += strcspn(at, " "), at += *at == ' ')
    if (strncmp(at, word, n) == 0 && (at[n] == ' ' || at[n] == 0)) return true;
  return false;
}

const char *target_dynamic_preset(const struct target *t, const char *option, struct arena *a) {
  const size_t n = strlen(option);
  for (const char *at = t->dynamic; at && *at; at += strcspn(at, " "), at += *at == ' ')
    if (strncmp(at, option, n) == 0 && at[n] == '=')
      return arena_string(a, span_of(at + n + 1, strcspn(at + n + 1, " ")));
  return NULL;
}

static const char *joined(const char *words, const char *more, struct arena *a) {
  return *words ? arena_printf(a, "%s, %s", words, more) : more;
}

// DequantizeLinear has one scale for a column that is no longer than a block: it is by channel then.
static const char *block_words(const struct target *t, struct arena *a) {
  if (!t->format || strcmp(t->format, "qdq") != 0) return arena_printf(a, "blocks of %s", t->block);
  return arena_printf(a, "blocks of %s (columns of up to %s elements: by channel)", t->block,
                      t->block);
}

const char *target_presets(const struct target *t, uint32_t set, struct arena *a) {
  const char *words = "";
  if (set & TARGET_SETS_FORMAT && t->format) words = arena_printf(a, "--format %s", t->format);
  if (set & TARGET_SETS_CANDIDATES && t->candidates)
    words = joined(words, arena_printf(a, "--candidates %s", t->candidates), a);
  if (set & TARGET_SETS_BLOCK && t->block) words = joined(words, block_words(t, a), a);
  if (set & TARGET_SETS_SYMMETRIC && t->symmetric) words = joined(words, "symmetric", a);
  if (set & TARGET_SETS_LEVEL && t->level)
    words = joined(words, arena_printf(a, "accuracy level %u on 4-bit nodes", t->level), a);
  return words;
}

const char *target_features_words(uint32_t set, struct arena *a) {
  const char *words = "";
  for (uint32_t f = 0; f < TARGET_FEATURES; f++)
    if (set >> f & 1)
      words = arena_printf(a, "%s%s%s", words, *words ? ", " : "", features[f].words);
  return words;
}

uint32_t target_lacks(const struct target *t) {
  uint32_t set = t->refuses;
  for (uint32_t f = 0; t->ort && f < TARGET_FEATURES; f++)
    if (features[f].ort > t->ort || features[f].ort == 0) set |= 1u << f;
  return set;
}

// ---- forms --------------------------------------------------------------------------------------

static uint32_t by_bits(uint32_t bits, uint32_t two, uint32_t four, uint32_t eight) {
  return bits == 2 ? two : bits == 4 ? four : bits == 8 ? eight : 0;
}

uint32_t target_form_needs(const struct target_form *x) {
  uint32_t set;
  switch (x->op) {
  case TARGET_MATMUL:
    set = by_bits(x->bits, HAS(MATMUL_2), HAS(MATMUL_4), HAS(MATMUL_8));
    if (x->bits == 2 && x->float_zeros)
      set |= HAS(MATMUL_2_FLOAT_ZEROS);
    else if (x->bits == 2 && x->half)
      set |= HAS(MATMUL_2_HALF);
    return x->float_zeros ? set | HAS(FLOAT_ZEROS) : set;
  case TARGET_GATHER: return by_bits(x->bits, HAS(GATHER_2), HAS(GATHER_4), HAS(GATHER_8));
  default:
    set = by_bits(x->bits, HAS(QDQ_2), HAS(QDQ_4), x->block ? HAS(QDQ_8) : 0);
    if (x->bits == 2 && x->half) set |= HAS(QDQ_2_HALF);
    return x->zeros ? set | HAS(QDQ_ZEROS) : set;
  }
}

// ---- a model ------------------------------------------------------------------------------------

// The type of a node's input, if that is a constant; else DTYPE_UNDEFINED.
static enum dtype type_of(const struct model *m, uint32_t node, uint32_t input) {
  const struct model_node *n = &m->nodes[node];
  struct model_constant c;
  if (input >= n->n_in) return DTYPE_UNDEFINED;
  const uint32_t value = model_input(m, n, input);
  if (value == NO_ID || !model_resolve_constant(m, value, &c)) return DTYPE_UNDEFINED;
  return (enum dtype)m->tensors[c.tensor].dtype;
}

static int64_t int_of(const struct model *m, uint32_t node, const char *name, int64_t preset) {
  int64_t x = preset;
  return model_attr_int(m, node, name, preset, &x) ? x : preset;
}

static bool has_input(const struct model *m, uint32_t node, uint32_t input) {
  const struct model_node *n = &m->nodes[node];
  return input < n->n_in && model_input(m, n, input) != NO_ID;
}

// False: it is none that stores weights in few bits.
static bool form_of(const struct model *m, uint32_t node, struct target_form *x) {
  const struct model_node *n = &m->nodes[node];
  const bool contrib = strcmp(model_name_str(m, n->domain), "com.microsoft") == 0;
  const char *op = model_name_str(m, n->op_type);
  int64_t bits;
  *x = (struct target_form){.op = TARGET_QDQ};
  if (contrib && strcmp(op, "MatMulNBits") == 0) {
    const enum dtype zeros = type_of(m, node, 3);
    bits = int_of(m, node, "bits", 4);
    x->op = TARGET_MATMUL;
    x->zeros = has_input(m, node, 3);
    x->float_zeros = zeros != DTYPE_UNDEFINED && dtype_is_float(zeros);
    x->half = type_of(m, node, 2) == DTYPE_FLOAT16;
  } else if (contrib && strcmp(op, "GatherBlockQuantized") == 0) {
    const enum dtype codes = type_of(m, node, 0);
    x->op = TARGET_GATHER;
    bits = codes == DTYPE_UINT8 ? int_of(m, node, "bits", 4) : 4;
  } else if (model_op_is(m, node, "DequantizeLinear")) {
    const enum dtype codes = type_of(m, node, 0);
    if (codes == DTYPE_UNDEFINED || codes == DTYPE_INT32) return false;
    bits = (int64_t)dtype_bits(codes);
    x->zeros = has_input(m, node, 2);
    x->half = type_of(m, node, 1) == DTYPE_FLOAT16;
  } else {
    return false;
  }
  const int64_t block = int_of(m, node, "block_size", 0);
  x->bits = bits > 0 && bits <= 8 ? (uint32_t)bits : 0;
  x->block = block > 0 ? (uint64_t)block : 0;
  return true;
}

static void need(struct target_needs *out, uint32_t set) {
  for (uint32_t f = 0; f < TARGET_FEATURES; f++) {
    if (!(set >> f & 1)) continue;
    if (features[f].ort > out->ort) {
      out->ort = features[f].ort;
      out->why = (enum target_feature)f;
    }
    out->features |= 1u << f;
  }
}

// What it computes with.
static uint32_t math_of(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  uint32_t set = 0;
  if (model_op_is(m, node, "Cast") || model_op_is(m, node, "Identity")) return 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const uint32_t value = model_input(m, n, i);
    const enum dtype dtype = value == NO_ID ? DTYPE_UNDEFINED : target_told_type(m, value);
    if (dtype == DTYPE_FLOAT16) set |= HAS(FLOAT16_MATH);
    if (dtype == DTYPE_BFLOAT16) set |= HAS(BFLOAT16_MATH);
  }
  return set;
}

static uint32_t fused_of(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  const bool fused = span_is(model_name(m, n->op_type), "Attention") ||
                     span_is(model_name(m, n->op_type), "MultiHeadAttention");
  return fused && span_is(model_name(m, n->domain), "com.microsoft") ? HAS(FUSED_ATTENTION) : 0;
}

static uint32_t dynamic_of(const struct model *m, uint32_t node) {
  static const char *const fused[] = {"DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "QAttention"};
  const struct model_node *n = &m->nodes[node];
  if (model_op_is(m, node, "DynamicQuantizeLinear")) return HAS(DYNAMIC_INT8);
  if (model_op_is(m, node, "ConvInteger"))
    return type_of(m, node, 1) == DTYPE_INT8 ? HAS(CONV_INTEGER_8) : 0;
  for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
    if (span_is(model_name(m, n->op_type), fused[i]) &&
        span_is(model_name(m, n->domain), "com.microsoft"))
      return HAS(DYNAMIC_INT8);
  return 0;
}

// The last row at or below `version` says what loads it.
static uint32_t loads(const struct version *rows, size_t n, int64_t version) {
  uint32_t ort = TARGET_OLDEST;
  for (size_t i = 0; i + 1 < n; i++)
    if (rows[i].version <= version) ort = rows[i].ort;
  return ort;
}

// Versions are named only where they need more than the nodes do.
static void need_versions(const struct model *m, struct target_needs *out) {
  const int64_t opset =
      m->main_graph == NO_ID ? 0 : model_opset_version(m, m->main_graph, span_str(""));
  const uint32_t by_opset = target_loads_opset(opset);
  const uint32_t by_ir =
      loads(ir_versions, sizeof ir_versions / sizeof *ir_versions, m->ir_version);
  const uint32_t more = by_opset > by_ir ? by_opset : by_ir;
  if (by_opset == 0 || by_ir == 0) {
    out->why = TARGET_FEATURES;
    out->opset = by_opset ? 0 : opset;
    out->ir_version = by_ir ? 0 : m->ir_version;
    out->none = true;
  }
  if (more <= out->ort || out->none) return;
  out->ort = more;
  out->why = TARGET_FEATURES;
  if (by_opset == more) out->opset = opset;
  if (by_ir == more) out->ir_version = m->ir_version;
}

// Nodes are named only where they need more than all else, the first of those that need the most.
static void need_kernels(const struct model *m, const bool *graphs, struct target_needs *out) {
  struct target_kernels k;
  enum dtype dtype;
  target_kernels_init(&k, m);
  for (uint32_t i = 0; i < m->n_nodes && !out->none; i++) {
    if (!model_live_node(m, graphs, i)) continue;
    const uint32_t ort = target_kernel_of(&k, i, 0, &dtype);
    if (ort && ort <= out->ort) continue;
    // That is said of all such nodes in one.
    if (ort == 0 && dtype == DTYPE_BFLOAT16 && out->features & HAS(BFLOAT16_MATH)) continue;
    if (ort) out->ort = ort;
    out->none = ort == 0;
    out->why = TARGET_FEATURES;
    out->opset = out->ir_version = 0;
    out->node = i;
    out->op = model_name_str(m, m->nodes[i].op_type);
    const struct span domain = model_name(m, m->nodes[i].domain);
    out->node_opset =
        span_is(domain, "com.microsoft") ? 0 : model_opset_version(m, m->nodes[i].graph, domain);
    out->dtype = dtype;
  }
  target_kernels_done(&k);
}

void target_needs(const struct model *m, struct target_needs *out) {
  struct arena scratch = {0};
  struct target_form form;
  const bool *graphs = model_live_graphs(m, &scratch);
  *out = (struct target_needs){.ort = TARGET_OLDEST, .why = TARGET_FEATURES, .node = NO_ID};
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (!model_live_node(m, graphs, i)) continue;
    if (form_of(m, i, &form)) need(out, target_form_needs(&form));
    need(out, math_of(m, i) | fused_of(m, i) | dynamic_of(m, i));
  }
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (m->tensors[i].dtype == DTYPE_BFLOAT16 && model_live_tensor(m, graphs, i))
      need(out, HAS(BFLOAT16));
  if (target_dims_open(m)) need(out, HAS(OPEN_DIMS));
  need_versions(m, out);
  need_kernels(m, graphs, out);
  arena_free(&scratch);
}

const char *target_needs_words(const struct target_needs *n, struct arena *a) {
  if (n->why != TARGET_FEATURES) return features[n->why].words;
  if (n->node != NO_ID && n->node_opset == 0) return arena_printf(a, "%s", quote_str(n->op).s);
  if (n->node != NO_ID)
    return arena_printf(a, n->dtype ? "%s of opset %s with %s" : "%s of opset %s",
                        quote_str(n->op).s, integer(n->node_opset).s, dtype_name(n->dtype));
  if (n->opset && n->ir_version)
    return arena_printf(a, "opset %s, IR version %s", integer(n->opset).s,
                        integer(n->ir_version).s);
  if (n->opset) return arena_printf(a, "opset %s", integer(n->opset).s);
  return n->ir_version ? arena_printf(a, "IR version %s", integer(n->ir_version).s) : "";
}
