// Which Convs can become a MatMul: the checks in the order that gives each its reason word.
//
// Two modes share the list. `strict_compat` takes only what onnx-conv2matmul takes: the weight and
// bias are initializers of the main graph, spatial rank 1 or 2, auto_pad absent. Otherwise the
// weight may be any constant (a Constant node, behind Identity, of an outer scope), the bias any
// value, the spatial rank up to 3, and auto_pad may be anything: with a 1×1 kernel SAME_UPPER and
// SAME_LOWER pad nothing, since ceil(in/stride) outputs need (ceil(in/stride)-1)*stride+1 <= in
// inputs.
#include "passes/conv2matmul/conv2matmul.h"
#include "passes/kit/kit.h"

enum { MIN_OPSET = 7 }; // Reshape takes its shape as an input from 5, Add broadcasts from 7

struct matching {
  const struct model *m;
  uint32_t node;
  const struct conv2matmul_options *options;
  struct conv2matmul_match *out;
};

bool conv2matmul_looks_at(const struct model *m, uint32_t node,
                          const struct conv2matmul_options *options) {
  return options->strict_compat ? span_is(model_name(m, m->nodes[node].op_type), "Conv")
                                : model_op_is(m, node, "Conv");
}

// ---- attributes --------------------------------------------------------------------------------

// A list attribute of exactly n numbers, all >= least, into out; the default where it is absent.
static bool read_list(const struct matching *x, const char *name, uint32_t n, int64_t fallback,
                      int64_t least, int64_t *out) {
  const int64_t *list;
  uint32_t count;
  if (!model_attr_ints(x->m, x->node, name, &list, &count)) return false;
  bool absent = model_attr_named(x->m, x->node, name) == NULL;
  if (!absent && count != n) return false;
  for (uint32_t i = 0; i < n; i++) {
    out[i] = absent ? fallback : list[i];
    if (out[i] < least) return false;
  }
  return true;
}

static bool all_equal(const int64_t *x, uint32_t n, int64_t to) {
  for (uint32_t i = 0; i < n; i++)
    if (x[i] != to) return false;
  return true;
}

// ---- weight and bias ---------------------------------------------------------------------------

// The existing tool's notion: an initializer of the main graph by that name, input or not.
static bool is_main_initializer(const struct model *m, uint32_t value) {
  return value != NO_ID && m->values[value].kind == VALUE_INITIALIZER &&
         m->values[value].graph == m->main_graph &&
         !(m->tensors[m->values[value].def].flags & TENSOR_SPARSE);
}

static bool find_weight(struct matching *x) {
  uint32_t value = model_input(x->m, &x->m->nodes[x->node], 1);
  if (!x->options->strict_compat)
    return model_resolve_weight(x->m, value, &x->out->weight);
  if (!is_main_initializer(x->m, value)) return false;
  x->out->weight = (struct model_constant){x->m->values[value].def, value, NO_ID};
  return true;
}

// The reason where find_weight found none.
static const char *no_weight(const struct matching *x) {
  const uint32_t value = model_input(x->m, &x->m->nodes[x->node], 1);
  return kit_is_overridable(x->m, value) && !x->options->strict_compat ? "overridable_weight"
                                                                       : "non_constant_weight";
}

static const char *match_weight(struct matching *x) {
  if (!find_weight(x)) return no_weight(x);
  const struct model_tensor *w = &x->m->tensors[x->out->weight.tensor];
  const int64_t *dims = model_dims(x->m, w);
  uint32_t most = x->options->strict_compat ? 4 : 5;
  if (w->rank < 3 || w->rank > most) return "weight_not_4d";
  x->out->rank = w->rank - 2u;
  x->out->channels_out = dims[0];
  x->out->channels_in = dims[1];
  return all_equal(dims + 2, x->out->rank, 1) ? NULL : "kernel_not_1x1";
}

static const char *match_bias(struct matching *x) {
  const struct model_node *n = &x->m->nodes[x->node];
  x->out->bias = model_input(x->m, n, 2);
  if (kit_may_be_left_out(x->m, x->out->bias)) return "optional_bias";
  if (!x->options->strict_compat || n->n_in < 3) return NULL;
  return is_main_initializer(x->m, x->out->bias) ? NULL : "non_constant_bias";
}

static bool can_transpose(const struct matching *x) {
  const enum dtype t = (enum dtype)x->m->tensors[x->out->weight.tensor].dtype;
  if (x->options->strict_compat) return dtype_bits(t) != 0;
  return dtype_is_plain_float(t);
}

// ---- the list ----------------------------------------------------------------------------------

static const char *match_auto_pad(const struct matching *x) {
  struct span mode;
  if (!model_attr_string(x->m, x->node, "auto_pad", "NOTSET", &mode)) return "auto_pad_not_notset";
  if (span_is(mode, "NOTSET")) return NULL;
  bool known = span_is(mode, "VALID") || span_is(mode, "SAME_UPPER") || span_is(mode, "SAME_LOWER");
  return x->options->strict_compat || !known || x->out->padded ? "auto_pad_not_notset" : NULL;
}

static const char *match_shape_attributes(struct matching *x, int64_t dilations[3]) {
  struct conv2matmul_match *out = x->out;
  int64_t group;
  if (!x->options->strict_compat && kit_refers(x->m, x->node)) return "attribute_reference";
  if (!model_attr_int(x->m, x->node, "group", 1, &group) || group != 1) return "group_not_1";
  if (!read_list(x, "strides", out->rank, 1, 1, out->strides)) return "invalid_strides";
  if (!read_list(x, "dilations", out->rank, 1, 1, dilations)) return "invalid_dilations";
  if (!read_list(x, "pads", 2 * out->rank, 0, 0, out->pads)) return "invalid_pads";
  out->strided = !all_equal(out->strides, out->rank, 1);
  out->padded = !all_equal(out->pads, 2 * out->rank, 0);
  return match_auto_pad(x);
}

static const char *converted_reason(const struct conv2matmul_options *o, bool plain, bool dilated) {
  if (o->extended && o->allow_dilation && (dilated || !plain))
    return "converted_extended_mode_with_non_unit_dilation";
  if (dilated) return "converted_with_non_unit_dilation";
  if (o->extended && !plain) return "converted_extended_mode";
  return "converted_strict_mode";
}

static bool has_other_outputs(const struct model *m, const struct model_node *n) {
  for (uint32_t i = 1; i < n->n_out; i++)
    if (model_output(m, n, i) != NO_ID) return true;
  return false;
}

// The reason to skip, or NULL and out->reason says how it converts.
static const char *match_node(struct matching *x) {
  const struct conv2matmul_options *o = x->options;
  const struct model_node *n = &x->m->nodes[x->node];
  int64_t dilations[3];
  const char *why;
  if (n->n_in < 2 || n->n_in > 3 || model_input(x->m, n, 0) == NO_ID ||
      model_output(x->m, n, 0) == NO_ID || has_other_outputs(x->m, n))
    return "invalid_input_count";
  if ((why = match_weight(x)) || (why = match_shape_attributes(x, dilations)) ||
      (why = match_bias(x)))
    return why;
  if (!o->strict_compat && model_opset_version(x->m, n->graph, span_str("")) < MIN_OPSET)
    return "opset_too_old";
  const bool plain = !x->out->strided && !x->out->padded;
  if (!o->extended && !plain) return "strict_mode_requires_unit_stride_and_zero_pad";
  x->out->used_extended_mode = o->extended;
  bool dilated = !all_equal(dilations, x->out->rank, 1);
  if (dilated && !o->allow_dilation) return "non_unit_dilation_requires_opt_in";
  for (uint32_t i = 0; i < x->out->rank; i++)
    if (o->max_dilation > 0 && dilations[i] > o->max_dilation)
      return "dilation_exceeds_max_guardrail";
  if (!can_transpose(x)) return "weight_materialization_failed";
  x->out->reason = converted_reason(o, plain, dilated);
  return NULL;
}

void conv2matmul_match(const struct model *m, uint32_t node,
                       const struct conv2matmul_options *options, struct conv2matmul_match *out) {
  *out = (struct conv2matmul_match){.bias = NO_ID};
  struct matching x = {m, node, options, out};
  const char *why = match_node(&x);
  out->converts = why == NULL;
  if (why) out->reason = why;
}

uint64_t conv2matmul_weight_bytes(const struct model *m) {
  static const struct conv2matmul_options plain = {0};
  uint8_t *seen = NULL; // by tensor
  size_t cap = 0;
  uint64_t sum = 0;
  seen = table_grow(NULL, &cap, (size_t)m->n_tensors + 1, sizeof *seen);
  memset(seen, 0, (size_t)m->n_tensors + 1);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    struct conv2matmul_match match;
    if (m->nodes[i].flags & NODE_DEAD || !conv2matmul_looks_at(m, i, &plain)) continue;
    conv2matmul_match(m, i, &plain, &match);
    if (!match.converts || seen[match.weight.tensor]) continue;
    seen[match.weight.tensor] = 1;
    sum += m->tensors[match.weight.tensor].bytes;
  }
  table_free(seen, cap, sizeof *seen);
  return sum;
}
