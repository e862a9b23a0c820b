// Which operators there are, which nodes are to be quantized, and which values hold floats that can be.
//
// A node is asked for by its operator (--op-types) and by its name (--exclude, --include); operators without a row in static_ops.def are
// quantized with parameters of their own. Of quantize_static (compat) constants are initializers alone.
#include "passes/int8_static/inside/static.h"

#include "schema/schema.h"

// ---- operators -----------------------------------------------------------------------------------

static const struct static_op ops[] = {
#define STATIC_OP(name, qdq, qop, by_default) {name, STATIC_Q_##qdq, STATIC_O_##qop, by_default},
#include "passes/int8_static/inside/static_ops.def"
#undef STATIC_OP
};
static const struct static_op own = {"", STATIC_Q_OWN, STATIC_O_FLOAT, false};

const struct static_op *static_op_named(struct span name) {
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (span_is(name, ops[i].name)) return &ops[i];
  return NULL;
}

const struct static_op *static_op_of(const struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
  return op ? op : &own;
}

const char *static_op_type(const struct static_run *s, uint32_t node) {
  return model_name_str(s->k.m, s->k.m->nodes[node].op_type);
}

static bool is_listed(const struct static_options *o, struct span name) {
  for (uint32_t i = 0; i < o->n_ops; i++) {
    if (span_is(name, o->ops[i])) return true;
    if (strcmp(o->ops[i], "all") != 0) continue;
    const struct static_op *op = static_op_named(name);
    if (op && op->by_default) return true;
  }
  return false;
}

// Does a pattern match the node's name, or that of a constant that it reads? (One that was brought has the name of what it stands for.)
static bool is_meant(struct static_run *s, uint32_t node, const struct name_patterns *patterns) {
  const struct model *m = s->k.m;
  bool matches = name_patterns_match(patterns, model_name_str(m, m->nodes[node].name));
  for (uint32_t i = 0; i < kit_n_in(&s->k, node) && patterns->n > 0 && !matches; i++) {
    const uint32_t value = kit_in(&s->k, node, i);
    struct model_constant c;
    if (s->o->compat ? model_resolve_constant(m, value, &c) : kit_weight(&s->k, value, &c))
      matches = name_patterns_match(patterns, model_name_str(m, m->values[c.value].name)) ||
                name_patterns_match(patterns, model_name_str(m, m->tensors[c.tensor].of));
  }
  return matches;
}

// Has the node what its operator must have? What marks it trusts that it is there.
static bool is_whole(const struct static_run *s, uint32_t node) {
  const struct model *m = s->k.m;
  const struct model_node *n = &m->nodes[node];
  const struct span domain = model_name(m, n->domain), type = model_name(m, n->op_type);
  const int64_t opset = model_opset_version(m, n->graph, domain);
  const struct schema_signature *wants =
      schema_signature_of(domain, type, opset > 0 ? opset : schema_newest(domain));
  if (!wants) // operators are known by their names here
    wants = schema_signature_of(span_str(""), type, schema_newest(span_str("")));
  for (uint32_t i = 0; wants && i < wants->n_inputs; i++)
    if (wants->inputs[i].option == SCHEMA_SINGLE && model_input(m, n, i) == NO_ID) return false;
  for (uint32_t i = 0; wants && i < wants->n_outputs; i++)
    if (wants->outputs[i].option == SCHEMA_SINGLE && model_output(m, n, i) == NO_ID) return false;
  return true;
}

const char *static_refused(struct static_run *s, uint32_t node) {
  const struct name_filter *f = &s->o->nodes;
  if (!is_whole(s, node)) return "signature";
  if (is_meant(s, node, &f->exclude)) return "excluded";
  return f->include.n == 0 || is_meant(s, node, &f->include) ? NULL : "not_included";
}

// A MatMul that the option leaves out. onnxruntime looks at it in one of the two forms only.
static bool two_activations(struct static_run *s, uint32_t node) {
  return s->o->matmul_const_b_only && kit_op(&s->k, node) == OP_MatMul &&
         (!s->o->compat || s->o->format == STATIC_QOPERATOR) &&
         !static_is_constant(s, kit_in(&s->k, node, 1));
}

static bool follows_weight(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const struct model *m = k->m;
  const uint32_t in = kit_in(k, node, 0), maker = in == NO_ID ? NO_ID : kit_maker(k, in);
  if (maker == NO_ID || m->nodes[maker].graph != s->graph || kit_use_count(k, in, 2) != 1 ||
      kit_is_output(k, in))
    return false;
  const enum static_qdq by = static_op_of(s, maker)->qdq;
  return by >= STATIC_Q_CONV && by <= STATIC_Q_NORM &&
         is_listed(s->o, model_name(m, m->nodes[maker].op_type));
}

void static_find_along(struct static_run *s) {
  const struct model *m = s->k.m;
  TABLE_ADD(s, along, m->n_nodes);
  for (uint32_t n = m->graphs[s->graph].first_node; n != NO_ID; n = m->nodes[n].next) {
    const struct span type = model_name(m, m->nodes[n].op_type);
    const struct static_op *op = static_op_named(type);
    s->along[n] =
        op && op->qdq == STATIC_Q_REMOVABLE && !is_listed(s->o, type) && follows_weight(s, n);
  }
}

bool static_comes_along(const struct static_run *s, uint32_t node) {
  return node < s->n_along && s->along[node];
}

bool static_takes(struct static_run *s, uint32_t node, const char **why) {
  const struct model *m = s->k.m;
  const struct span type = model_name(m, m->nodes[node].op_type);
  const struct static_op *op = static_op_named(type);
  *why = "";
  if (op && op->qdq == STATIC_Q_NEVER) return false;
  if (!is_listed(s->o, type) && !static_is_moved_past(s, node) && !static_comes_along(s, node))
    return false;
  *why = two_activations(s, node) ? "two_activations" : static_refused(s, node);
  return !*why;
}

bool static_leaves_output(const struct static_run *s, uint32_t node) {
  const struct span type = model_name(s->k.m, s->k.m->nodes[node].op_type);
  for (uint32_t i = 0; i < s->o->n_no_output; i++)
    if (span_is(type, s->o->no_output[i])) return true;
  return false;
}

// ---- values --------------------------------------------------------------------------------------

static bool is_float_type(enum dtype t) {
  return t == DTYPE_FLOAT || t == DTYPE_FLOAT16;
}

enum dtype static_dtype(struct static_run *s, uint32_t value) {
  const enum dtype type = kit_dtype(&s->k, value);
  if (type != DTYPE_UNDEFINED) return type;
  return s->o->compat && s->o->format == STATIC_QOPERATOR ? DTYPE_FLOAT : s->o->default_type;
}

bool static_is_constant(struct static_run *s, uint32_t value) {
  const struct model *m = s->k.m;
  struct model_constant c;
  if (value == NO_ID || !model_resolve_constant(m, value, &c)) return false;
  if (s->o->compat && (c.node != NO_ID || c.value != value)) return false;
  return is_float_type((enum dtype)m->tensors[c.tensor].dtype) &&
         edit_tensor_readable(s->k.e, c.tensor);
}

bool static_holds_floats(struct static_run *s, uint32_t value) {
  if (value == NO_ID || s->k.m->values[value].graph != s->graph) return false;
  return static_is_constant(s, value) || is_float_type(static_dtype(s, value));
}

bool static_is_float(struct static_run *s, uint32_t value) {
  return static_holds_floats(s, value) && static_is_typed(s, value);
}

struct static_entry *static_entry_of(struct static_run *s, uint32_t value) {
  if (value >= s->n_entry_of || s->entry_of[value] == 0) return NULL;
  return &s->entries[s->entry_of[value] - 1];
}

bool static_is_marked(struct static_run *s, uint32_t value) {
  return value != NO_ID &&
         (static_entry_of(s, value) || (value < s->n_bias_of && s->bias_of[value] != 0));
}

// ---- weights that callers may override -----------------------------------------------------------

// The inputs of a node that are marked, whatever they are: [*first, *first + result).
static uint32_t marked_inputs(struct static_run *s, uint32_t node, uint32_t *first) {
  const struct static_op *op = static_op_of(s, node);
  const bool forced = s->o->force_quantize_no_input_check;
  *first = 0;
  switch (op->qdq) {
  case STATIC_Q_OWN:
  case STATIC_Q_PAD: return kit_n_in(&s->k, node);
  case STATIC_Q_CONV:
  case STATIC_Q_GEMM:
  case STATIC_Q_MATMUL:
  case STATIC_Q_NORM: return 2;
  case STATIC_Q_SPLIT: return 1;
  case STATIC_Q_SHARE:
  case STATIC_Q_MAXPOOL:
  case STATIC_Q_RESIZE:
  case STATIC_Q_GATHER: return forced ? 1 : 0;
  case STATIC_Q_WHERE: *first = 1; return forced ? 2 : 0;
  case STATIC_Q_REMOVABLE:
  case STATIC_Q_NEVER: break;
  }
  return 0;
}

bool static_skips_overridable(struct static_run *s, uint32_t node) {
  struct static_params p;
  uint32_t first;
  const uint32_t n = marked_inputs(s, node, &first);
  for (uint32_t i = first; i < first + n && i < kit_n_in(&s->k, node); i++) {
    const uint32_t value = kit_in(&s->k, node, i);
    if (!kit_is_overridable(s->k.m, value) || static_is_constant(s, value) ||
        !static_is_float(s, value) || static_params_of(s, value, &p))
      continue;
    kit_report(&s->k, &(struct kit_report){.node = node,
                                           .reason = "overridable_weight",
                                           .skipped = true,
                                           .weight = value + 1});
    return true;
  }
  return false;
}
