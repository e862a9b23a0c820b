// Which nodes are quantized: the checks in the order that gives each its reason word
// (docs/quantize.md).
//
//   selection   operator, then names: exclude beats --tensor (the last that matches) beats include
//   weight      which input, which constant is it, is it one that a caller may override
//   shape       what the target operator takes
//
// The weight of a MatMul or Gemm is its second input, a Gather's its first. It may be an
// initializer or a Constant node, of any enclosing graph, behind Identity nodes, and behind
// Transposes of a matrix: MatMul(x, Transpose(E)) is quantized straight from E. Behind others that move or convert it, such as the
// Cast of what is stored in float16, it is what they make of it (kit_weight).
#include "passes/kit/weights.h"
#include "passes/nbits/inside/nbits.h"

enum {
  MIN_GEMM_OPSET = 7,      // before, Gemm broadcasts C only if an attribute says so
  MIN_CHAIN_OPSET = 12,    // before, there is no Max of integers
  MIN_CONSTANT_OPSET = 21, // before, a Constant node (a function's tensors) holds no 4 bit types
};

struct matching {
  const struct model *m;
  const struct matmulnbits_options *options;
  struct nbits_site *site;
};

// ---- operators ---------------------------------------------------------------------------------

static bool is_contrib(const struct model *m, uint32_t node, const char *op) {
  return span_is(model_name(m, m->nodes[node].op_type), op) &&
         span_is(model_name(m, m->nodes[node].domain), "com.microsoft");
}

uint32_t nbits_looks_at(const struct model *m, uint32_t node, uint32_t op_types) {
  uint32_t op = 0;
  if (model_op_is(m, node, "MatMul") || is_contrib(m, node, "MatMulNBits"))
    op = MATMULNBITS_MATMUL;
  else if (model_op_is(m, node, "Gemm"))
    op = MATMULNBITS_GEMM;
  else if (model_op_is(m, node, "Gather") || is_contrib(m, node, "GatherBlockQuantized"))
    op = MATMULNBITS_GATHER;
  return op & op_types;
}

static bool is_quantized_operator(const struct model *m, uint32_t node) {
  return is_contrib(m, node, "MatMulNBits") || is_contrib(m, node, "GatherBlockQuantized");
}

// ---- the weight --------------------------------------------------------------------------------

// The value before an Identity or, of a matrix, a Transpose that swaps its axes; else NO_ID.
static uint32_t step_back(const struct model *m, uint32_t value, bool *swapped) {
  *swapped = false;
  if (m->values[value].kind != VALUE_NODE_OUTPUT) return NO_ID;
  uint32_t node = m->values[value].def;
  const struct model_node *n = &m->nodes[node];
  *swapped = model_op_is(m, node, "Transpose");
  if (n->n_in != 1 || n->n_out != 1 || !(*swapped || model_op_is(m, node, "Identity")))
    return NO_ID;
  const int64_t *perm;
  uint32_t count;
  if (*swapped && (!model_attr_ints(m, node, "perm", &perm, &count) ||
                   (count != 0 && !(count == 2 && perm[0] == 1 && perm[1] == 0))))
    return NO_ID;
  return model_input(m, n, 0);
}

void nbits_see(struct kit *k, uint32_t node, uint32_t op) {
  struct model_constant c;
  uint32_t value = kit_in(k, node, op == MATMULNBITS_GATHER ? 0 : 1);
  for (uint32_t steps = 0; value != NO_ID && steps <= k->m->n_nodes; steps++) {
    bool swapped;
    if (model_resolve_constant(k->m, value, &c)) return;
    const uint32_t before = step_back(k->m, value, &swapped);
    if (before == NO_ID) kit_weight(k, value, &c);
    value = before;
  }
}

static bool find_constant(struct matching *x, uint32_t value) {
  const struct model *m = x->m;
  struct nbits_site *s = x->site;
  uint32_t start = value;
  bool behind = false, swapped;
  // A chain is at most as long as there are nodes; a cycle ends here too.
  for (uint32_t steps = 0; value != NO_ID && steps <= m->n_nodes; steps++) {
    if (model_resolve_weight(m, value, &s->weight)) {
      if (behind && m->tensors[s->weight.tensor].rank != 2) return false;
      s->name = m->values[s->transposed ? start : s->weight.value].name;
      return true;
    }
    value = step_back(m, value, &swapped);
    behind |= swapped;
    s->transposed ^= swapped;
  }
  return false;
}

// Is it the output of a DequantizeLinear, or of a Transpose or Identity behind one?
static bool is_dequantized(const struct model *m, uint32_t value) {
  bool swapped;
  for (uint32_t steps = 0; value != NO_ID && steps <= m->n_nodes; steps++) {
    if (m->values[value].kind == VALUE_NODE_OUTPUT &&
        model_op_is(m, m->values[value].def, "DequantizeLinear"))
      return true;
    value = step_back(m, value, &swapped);
  }
  return false;
}

static const char *no_constant(const struct matching *x, uint32_t value) {
  struct model_constant left;
  const struct model *m = x->m;
  uint32_t first = model_input(m, &m->nodes[x->site->node], 0);
  if (is_dequantized(m, value)) return "already_quantized";
  if (kit_is_overridable(m, value)) return "overridable_weight";
  if (x->site->op == MATMULNBITS_MATMUL && first != NO_ID &&
      model_resolve_constant(m, first, &left))
    return "weight_on_the_left";
  return "non_constant_weight";
}

static const char *match_tensor(const struct matching *x) {
  const struct model_tensor *t = &x->m->tensors[x->site->weight.tensor];
  const int64_t *dims = model_dims(x->m, t);
  uint64_t count;
  if (t->dtype != DTYPE_FLOAT && t->dtype != DTYPE_FLOAT16 && t->dtype != DTYPE_BFLOAT16)
    return "weight_dtype";
  if (t->rank < 2 || t->rank > RECIPE_MAX_RANK) return "weight_rank";
  if (x->site->op != MATMULNBITS_GATHER) {
    for (uint32_t i = 0; i + 2u < t->rank; i++)
      if (dims[i] != 1) return "batched_weight";
    if (x->site->op == MATMULNBITS_GEMM && t->rank != 2) return "weight_rank";
  }
  if (!dims_product(dims, t->rank, &count)) return "weight_rank";
  if (count == 0) return "empty_weight";
  return count < x->options->min_elements ? "too_small" : NULL;
}

// ---- what the target operators take ------------------------------------------------------------

static float float_attribute(const struct model *m, uint32_t node, const char *name) {
  const struct model_attr *a = model_attr_named(m, node, name);
  return a && a->type == ATTR_FLOAT ? a->u.f : 1;
}

// Times a power of two moves no digit: a Mul behind (or before the Add) gives what Gemm gave.
static bool is_exact_factor(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  uint32_t exponent = bits >> 23 & 0xff;
  return (bits & 0x7fffff) == 0 && exponent > 0 && exponent < 0xff;
}

static int64_t opset_of(const struct model *m, uint32_t graph) {
  return model_opset_version(m, graph, span_str(""));
}

static const char *match_matmul(const struct matching *x) {
  const struct model *m = x->m;
  const struct model_node *n = &m->nodes[x->site->node];
  const bool chain = nbits_needs_chain(m, x->site->weight.tensor, model_input(m, n, 0));
  if (x->options->qdq || !chain) return NULL; // the opset is raised
  return opset_of(m, n->graph) < MIN_CHAIN_OPSET ? "opset_too_old" : NULL;
}

static const char *match_gemm(const struct matching *x) {
  const struct model *m = x->m;
  uint32_t node = x->site->node;
  int64_t trans_a, trans_b;
  if (kit_refers(x->m, x->site->node)) return "attribute_reference";
  if (!model_attr_int(m, node, "transB", 0, &trans_b)) return "invalid_attributes";
  if (x->options->qdq) return NULL; // the node stays as it is
  if (!model_attr_int(m, node, "transA", 0, &trans_a)) return "invalid_attributes";
  if (opset_of(m, m->nodes[node].graph) < MIN_GEMM_OPSET) return "opset_too_old";
  if (trans_a) return "transposed_activation";
  if (!is_exact_factor(float_attribute(m, node, "alpha"))) return "inexact_alpha";
  float beta = float_attribute(m, node, "beta");
  const uint32_t c = model_input(m, &m->nodes[node], 2);
  if (c == NO_ID || beta == 0) return NULL;
  if (kit_may_be_left_out(m, c)) return "optional_bias";
  return is_exact_factor(beta) ? NULL : "inexact_beta";
}

// Are rows of a matrix gathered?
static bool gathers_rows(const struct model *m, const struct nbits_site *s) {
  int64_t axis;
  return m->tensors[s->weight.tensor].rank == 2 && model_attr_int(m, s->node, "axis", 0, &axis) &&
         (axis == 0 || axis == -2);
}

// GatherBlockQuantized: 4 bit types of any rank; packed bytes only for a table whose rows are
// gathered and whose columns are whole blocks.
const char *nbits_obstacle(const struct model *m, const struct matmulnbits_options *options,
                           const struct nbits_site *s, const struct matmulnbits_scheme *scheme) {
  if (s->op != MATMULNBITS_GATHER || options->qdq) return NULL;
  const uint32_t home = m->values[s->weight.value].graph;
  const int64_t *dims = model_dims(m, &m->tensors[s->weight.tensor]);
  if (scheme->bits == 4)
    return m->graphs[home].kind == GRAPH_FUNCTION && opset_of(m, home) < MIN_CONSTANT_OPSET
               ? "opset_too_old"
               : NULL;
  return gathers_rows(m, s) && dims[1] % scheme->block == 0 ? NULL : "gather_shape";
}

static const char *match_gather(const struct matching *x) {
  const struct model_tensor *t = &x->m->tensors[x->site->weight.tensor];
  int64_t axis, rank = t->rank;
  if (kit_refers(x->m, x->site->node)) return "attribute_reference";
  if (x->site->transposed) return "non_constant_weight";
  if (x->options->qdq) return NULL;
  if (!model_attr_int(x->m, x->site->node, "axis", 0, &axis) || axis < -rank || axis >= rank)
    return "invalid_attributes";
  return nbits_obstacle(x->m, x->options, x->site, &x->site->scheme);
}

static const char *match_operator(const struct matching *x) {
  const uint32_t home = x->m->values[x->site->weight.value].graph;
  if (!x->options->qdq && !weights_takes_integers(x->m, home)) return "opset_too_old";
  switch (x->site->op) {
  case MATMULNBITS_GEMM: return match_gemm(x);
  case MATMULNBITS_GATHER: return match_gather(x);
  default: return match_matmul(x);
  }
}

// ---- selection ---------------------------------------------------------------------------------

// Looks even where the answer is known, so that every pattern gets its matches counted.
static bool look(struct name_pattern *p, const char *node, const char *tensor) {
  bool by_node = name_pattern_look(p, node);
  return name_pattern_look(p, tensor) || by_node;
}

static void apply(const struct matmulnbits_override *o, struct matmulnbits_scheme *to) {
  if (o->has_bits) to->bits = o->scheme.bits;
  if (o->has_block) to->block = o->scheme.block;
  if (o->has_symmetric) to->symmetric = o->scheme.symmetric;
}

static const char *select_site(const struct model *m, struct matmulnbits_options *o,
                               struct nbits_site *s) {
  const char *node = model_name_str(m, m->nodes[s->node].name);
  const char *tensor = model_name_str(m, s->name);
  bool excluded = false, included = o->names.include.n == 0;
  const struct matmulnbits_override *last = NULL;
  for (uint32_t i = 0; i < o->names.exclude.n; i++)
    excluded |= look(&o->names.exclude.at[i], node, tensor);
  for (uint32_t i = 0; i < o->n_overrides; i++)
    if (look(&o->overrides[i].pattern, node, tensor)) last = &o->overrides[i];
  for (uint32_t i = 0; i < o->names.include.n; i++)
    included |= look(&o->names.include.at[i], node, tensor);
  s->scheme = o->scheme;
  s->pinned = last != NULL;
  if (last) apply(last, &s->scheme);
  if (excluded) return "excluded";
  return included || last ? NULL : "not_included";
}

// A value that nothing makes (a broken model) would die with its last use.
static bool is_missing(const struct model *m, uint32_t value) {
  return value == NO_ID || m->values[value].kind == VALUE_UNDEFINED;
}

static bool inputs_are_valid(const struct model *m, const struct nbits_site *s) {
  const struct model_node *n = &m->nodes[s->node];
  uint32_t c = model_input(m, n, 2);
  if (n->n_out != 1 || model_output(m, n, 0) == NO_ID) return false;
  if (is_missing(m, model_input(m, n, 0)) || is_missing(m, model_input(m, n, 1))) return false;
  return s->op == MATMULNBITS_GEMM ? n->n_in <= 3 && (c == NO_ID || !is_missing(m, c))
                                   : n->n_in == 2;
}

// ---- the list ----------------------------------------------------------------------------------

static const char *match_site(const struct model *m, struct matmulnbits_options *o,
                              struct nbits_site *s) {
  struct matching x = {m, o, s};
  const struct model_node *n = &m->nodes[s->node];
  s->slot = s->op == MATMULNBITS_GATHER ? 0 : 1;
  uint32_t value = model_input(m, n, s->slot);
  bool found = value != NO_ID && !is_quantized_operator(m, s->node) && find_constant(&x, value);
  if (!found && value != NO_ID) s->name = m->values[value].name;
  const char *why = select_site(m, o, s);
  if (why) return why;
  if (is_quantized_operator(m, s->node)) return "already_quantized";
  if (!inputs_are_valid(m, s)) return "invalid_inputs";
  if (!found) return no_constant(&x, value);
  why = match_tensor(&x);
  return why ? why : match_operator(&x);
}

void nbits_match(const struct model *m, struct matmulnbits_options *options,
                 struct nbits_site *site) {
  site->name = m->empty;
  site->weight = (struct model_constant){NO_ID, NO_ID, NO_ID};
  site->transposed = false;
  site->statistics = (struct recipe_statistics){NO_ID, NO_ID};
  site->seen = 0;
  site->share = NO_ID;
  const char *why = match_site(m, options, site);
  site->converts = why == NULL;
  site->reason = why ? why : "quantized";
}
