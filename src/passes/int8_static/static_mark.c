// Which values are quantized: the rules of the operators, one function for each of the words of static_ops.def.
//
//   Conv ─▶ a ─▶ Relu ─▶ b ─▶ MaxPool ─▶ c         marked: x, w, b (its own), c (as b); the Relu goes
//
// Marks are made in the order of the nodes, since rules ask what is marked already: an operator that passes its input through
// takes part where its input does. A value that was marked and is to share another's parameters keeps its
// place in the row. All of this is what onnxruntime's QDQQuantizer does, and where that is wrong it is right here:
//
//   Relu, Clip   go only where the codes themselves hold no more than they let through, and nobody else, in no body either,
//                sees the value before them
//   biases       belong to a node, not to a name: each node has its own
//   constants    wherever they are (not with compat): an initializer, a Constant, behind Identity
//   MatMul       a scale a column for matrices; one for vectors and batches (not with compat), whose axis 1 is no column
#include "static.h"

#include <assert.h>
#include <math.h>

#include "ranges.h"
#include "schema.h"

// ---- operators -----------------------------------------------------------------------------------

static const struct static_op ops[] = {
#define STATIC_OP(name, qdq, qop, by_default) {name, STATIC_Q_##qdq, STATIC_O_##qop, by_default},
#include "static_ops.def"
#undef STATIC_OP
};
static const struct static_op own = {"", STATIC_Q_OWN, STATIC_O_FLOAT, false};

const struct static_op *static_op_named(struct span name) {
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (span_is(name, ops[i].name)) return &ops[i];
  return NULL;
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

// Does a pattern match the node's name, or that of a constant that it reads?
static bool is_meant(struct static_run *s, uint32_t node, const struct name_patterns *patterns) {
  const struct model *m = s->k.m;
  bool matches = name_patterns_match(patterns, model_name_str(m, m->nodes[node].name));
  for (uint32_t i = 0; i < kit_n_in(&s->k, node) && !matches; i++) {
    struct model_constant c;
    if (model_resolve_constant(m, kit_in(&s->k, node, i), &c))
      matches = name_patterns_match(patterns, model_name_str(m, m->values[c.value].name));
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

static const char *refused(struct static_run *s, uint32_t node) {
  const struct name_filter *f = &s->o->nodes;
  if (!is_whole(s, node)) return "signature";
  if (is_meant(s, node, &f->exclude)) return "excluded";
  return f->include.n == 0 || is_meant(s, node, &f->include) ? NULL : "not_included";
}

bool static_moves(const struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
  return op && (op->qdq == STATIC_Q_SHARE || op->qdq == STATIC_Q_MAXPOOL) &&
         op->qop != STATIC_O_POOL;
}

bool static_is_moved_past(const struct static_run *s, uint32_t node) {
  return !s->o->compat && s->o->activation == DTYPE_INT8 && s->opset >= 21 && static_moves(s, node);
}

bool static_takes(struct static_run *s, uint32_t node, const char **why) {
  const struct model *m = s->k.m;
  const struct span type = model_name(m, m->nodes[node].op_type);
  const struct static_op *op = static_op_named(type);
  *why = "";
  if (op && op->qdq == STATIC_Q_NEVER) return false;
  if (!is_listed(s->o, type) && !static_is_moved_past(s, node)) return false;
  *why = refused(s, node);
  return !*why;
}

static bool is_number(struct static_run *s, uint32_t value, double number) {
  double x;
  return value != NO_ID && kit_const_scalar(&s->k, value, &x) && x == number;
}

// The operand of arithmetic that a number beside it leaves as it is; NO_ID: neither.
static uint32_t unchanged(struct static_run *s, uint32_t node) {
  const uint32_t a = kit_in(&s->k, node, 0), b = kit_in(&s->k, node, 1);
  const enum op op = kit_op(&s->k, node);
  const double number = op == OP_Add || op == OP_Sub ? 0 : 1;
  const char *why;
  uint32_t passed = NO_ID;
  if (is_number(s, b, number))
    passed = a;
  else if ((op == OP_Add || op == OP_Mul) && is_number(s, a, number))
    passed = b;
  // Among operators on codes one that is asked for stays float where its input does.
  const bool is_float = s->o->format == STATIC_QOPERATOR && static_is_left(s, passed);
  return passed == NO_ID || (static_takes(s, node, &why) && !is_float) ? NO_ID : passed;
}

uint32_t static_vanishes(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0);
  int64_t to;
  switch (kit_op(k, node)) {
  case OP_Identity: return in;
  case OP_Dropout: // not while it trains
    return kit_in(k, node, 2) == NO_ID || is_number(s, kit_in(k, node, 2), 0) ? in : NO_ID;
  case OP_Cast:
    return in != NO_ID && kit_attr_int(k, node, "to", 0, &to) && to == (int64_t)kit_dtype(k, in)
               ? in
               : NO_ID;
  case OP_Add:
  case OP_Sub:
  case OP_Mul:
  case OP_Div: return unchanged(s, node);
  default: return NO_ID;
  }
}

void static_find_passed(struct static_run *s) {
  struct kit *k = &s->k;
  struct {
    TABLE(uint32_t, nodes);
  } at = {0};
  if (s->o->compat || s->o->activation != DTYPE_INT8 || s->opset < 21) return;
  TABLE_ADD(s, moved_past, k->m->n_values);
  for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next)
    *TABLE_PUSH(&at, nodes) = n;
  for (uint32_t i = at.n_nodes; i > 0; i--) {
    const uint32_t n = at.nodes[i - 1], out = kit_out(k, n, 0);
    const char *why;
    const bool moves = static_is_moved_past(s, n) && static_takes(s, n, &why);
    const uint32_t in = moves ? kit_in(k, n, 0) : static_vanishes(s, n);
    if (in != NO_ID && (moves || (out != NO_ID && s->moved_past[out]))) s->moved_past[in] = true;
  }
  TABLE_FREE(&at, nodes);
}

uint32_t static_passes_codes(struct static_run *s, uint32_t node) {
  const uint32_t out = kit_out(&s->k, node, 0);
  const char *why;
  if (out >= s->n_moved_past || !s->moved_past[out] || static_takes(s, node, &why) || *why)
    return NO_ID;
  return static_is_left(s, out) || refused(s, node) ? NO_ID : static_vanishes(s, node);
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

// ---- marks ---------------------------------------------------------------------------------------

// The entry of the value: a new one at the end, or the one that is there.
static struct static_entry *entry_for(struct static_run *s, uint32_t value) {
  struct static_entry *e = static_entry_of(s, value);
  if (e) return e;
  assert(value != NO_ID);
  if (value >= s->n_entry_of) TABLE_ADD(s, entry_of, value + 1 - s->n_entry_of);
  e = TABLE_PUSH(s, entries);
  s->entry_of[value] = s->n_entries;
  return e;
}

static const struct static_entry unmarked = {.provider = NO_ID, .scales = NO_ID, .zeros = NO_ID};

static void mark(struct static_run *s, uint32_t value, bool weight) {
  if (!static_is_float(s, value) || static_entry_of(s, value)) return;
  if (static_is_left(s, value)) return;
  struct static_entry *e = entry_for(s, value);
  *e = unmarked;
  e->value = value;
  e->weight = weight;
}

static void mark_shared(struct static_run *s, uint32_t value, uint32_t provider, uint32_t node) {
  if (!static_is_float(s, value) || static_is_left(s, value)) return;
  struct static_entry *e = entry_for(s, value);
  *e = unmarked;
  e->value = value;
  e->provider = provider;
  e->provider_node = node;
}

// A copy of the weight for nodes that want its scales along another axis than those before them: operators on codes take
// scales for one a column, whatever the axis says. (The existing tool lets the last node decide.)
static uint32_t turned_weight(struct static_run *s, uint32_t node, uint32_t slot, uint32_t along) {
  struct kit *k = &s->k;
  const uint32_t value = kit_in(k, node, slot);
  struct model_constant c;
  uint32_t made = NO_ID;
  if (value >= s->n_turned_of) TABLE_ADD(s, turned_of, value + 1 - s->n_turned_of);
  for (uint32_t i = s->turned_of[value]; i && made == NO_ID; i = s->turned[i - 1].next)
    if (s->turned[i - 1].axis == along) made = s->turned[i - 1].copy;
  if (made == NO_ID) {
    model_resolve_constant(k->m, value, &c);
    kit_site(k, node, "own_weight");
    const struct span name = model_value_name(k->m, value);
    const struct span wanted =
        span_str(arena_printf(&k->site, "%.*s_axis%u", (int)name.n, (const char *)name.at, along));
    made = edit_add_tensor(k->e, s->graph,
                           kit_names_take(&k->names, KIT_VALUES, s->graph, wanted, &k->site),
                           edit_tensor_recipe(k->e, c.tensor));
    *TABLE_PUSH(s, turned) = (struct static_turned){value, along, made, s->turned_of[value]};
    s->turned_of[value] = s->n_turned;
  }
  edit_set_input(k->e, node, slot, made);
  return made;
}

static void mark_weight(struct static_run *s, uint32_t node, uint32_t slot, int64_t axis,
                        const char *op) {
  uint32_t along, value = kit_in(&s->k, node, slot);
  if (value == NO_ID || !static_is_per_channel(s, value, axis, op, &along)) {
    mark(s, value, true);
    return;
  }
  const struct static_entry *there = static_entry_of(s, value);
  if (there && there->per_channel && there->axis != along)
    value = turned_weight(s, node, slot, along);
  struct static_entry *e = entry_for(s, value);
  *e = unmarked;
  e->value = value;
  e->weight = e->per_channel = true;
  e->axis = along;
}

static void mark_output(struct static_run *s, uint32_t node) {
  if (static_leaves_output(s, node)) return;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++)
    mark(s, kit_out(&s->k, node, i), false);
}

// ---- biases --------------------------------------------------------------------------------------

enum { MOST_DIGITS = 9 };

// An initializer's name: the number at its end, for each name that may stand before it.
static void note_number(struct static_run *s, struct span name) {
  uint32_t number = 0, unit = 1;
  for (size_t n = 1; n < name.n && n <= MOST_DIGITS; n++, unit *= 10) {
    const uint8_t digit = name.at[name.n - n];
    if (digit < '0' || digit > '9') return;
    number += (uint32_t)(digit - '0') * unit;
    const uint32_t stem = model_find_name(s->k.m, span_of(name.at, name.n - n));
    if (stem == NO_ID) continue;
    if (stem >= s->n_numbers) TABLE_ADD(s, numbers, stem + 1 - s->n_numbers);
    if (number >= s->numbers[stem]) s->numbers[stem] = number + 1;
  }
}

// 1 + the largest number behind a name, over all initializers.
static uint32_t next_number(struct static_run *s, uint32_t name) {
  const struct model *m = s->k.m;
  const uint32_t unseen = s->n_numbers == 0 ? m->n_tensors : 0;
  for (uint32_t i = 0; i < unseen; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & TENSOR_DEAD || t->home != HOME_INITIALIZER || t->graph != s->graph) continue;
    note_number(s, model_name(m, t->name));
  }
  if (name >= s->n_numbers) TABLE_ADD(s, numbers, name + 1 - s->n_numbers);
  return s->numbers[name];
}

// A copy of the bias for this node alone, called as the existing tool calls it.
static uint32_t own_bias(struct static_run *s, uint32_t node, uint32_t slot) {
  struct kit *k = &s->k;
  const uint32_t value = kit_in(k, node, slot);
  struct model_constant c;
  model_resolve_constant(k->m, value, &c);
  kit_site(k, node, "own_bias");
  const struct span name = model_value_name(k->m, c.value);
  const struct span wanted =
      span_str(arena_printf(&k->site, "%.*s%u", (int)name.n, (const char *)name.at,
                            next_number(s, k->m->values[c.value].name)));
  const struct span taken = kit_names_take(&k->names, KIT_VALUES, s->graph, wanted, &k->site);
  const uint32_t made = edit_add_tensor(k->e, s->graph, taken, edit_tensor_recipe(k->e, c.tensor));
  note_number(s, taken);
  edit_set_input(k->e, node, slot, made);
  return made;
}

// Does anybody else read it: this value, or the constant behind it, which may lie behind an Identity for each?
static bool is_shared(const struct kit *k, uint32_t value) {
  struct model_constant c;
  return kit_use_count(k, value, 2) > 1 ||
         (model_resolve_constant(k->m, value, &c) && kit_use_count(k, c.value, 2) > 1);
}

static void mark_bias(struct static_run *s, uint32_t node, double alpha, double beta) {
  struct kit *k = &s->k;
  uint32_t value = kit_in(k, node, 2);
  if (value == NO_ID || kit_in(k, node, 0) == NO_ID || kit_in(k, node, 1) == NO_ID) return;
  if (static_override_of(s, value)) {
    mark_weight(s, node, 2, 0, NULL);
    return;
  }
  if (!static_is_constant(s, value)) {
    kit_skipped(k, node, "non_constant_bias");
    return;
  }
  const bool is_zero = kit_const_all(k, value, 0) == KIT_YES;
  const bool taken = value < s->n_bias_of && s->bias_of[value] != 0;
  if (taken || (!s->o->compat && is_shared(k, value))) value = own_bias(s, node, 2);
  if (value >= s->n_bias_of) TABLE_ADD(s, bias_of, value + 1 - s->n_bias_of);
  *TABLE_PUSH(s, biases) = (struct static_bias){.value = value,
                                                .node = node,
                                                .slot = 2,
                                                .input = kit_in(k, node, 0),
                                                .weight = kit_in(k, node, 1),
                                                .alpha = alpha,
                                                .beta = beta,
                                                .is_zero = is_zero};
  s->bias_of[value] = s->n_biases;
}

// ---- operators with weights ----------------------------------------------------------------------

static const char *op_of(struct static_run *s, uint32_t node) {
  return model_name_str(s->k.m, s->k.m->nodes[node].op_type);
}

static void mark_conv(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  mark(s, kit_in(k, node, 0), false);
  mark_output(s, node);
  mark_weight(s, node, 1, strcmp(op_of(s, node), "Conv") == 0 ? 0 : 1, NULL);
  mark_bias(s, node, 1, 1);
}

static void mark_gemm(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  int64_t transposed = 0;
  float alpha = 1, beta = 1;
  mark(s, kit_in(k, node, 0), false);
  mark_output(s, node);
  const bool known = kit_attr_int(k, node, "transB", 0, &transposed) &&
                     kit_attr_float(k, node, "alpha", 1, &alpha) &&
                     kit_attr_float(k, node, "beta", 1, &beta);
  mark_weight(s, node, 1, transposed > 0 ? 0 : 1, NULL);
  if (known) mark_bias(s, node, alpha, beta);
}

static void mark_matmul(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  for (uint32_t i = 0; i < kit_n_in(k, node); i++) {
    const uint32_t v = kit_in(k, node, i);
    uint32_t rank;
    if (!static_is_constant(s, v))
      mark(s, v, false);
    else if (s->o->compat || static_override_of(s, v) ||
             (i == 1 && kit_rank(k, v, &rank) && rank == 2))
      mark_weight(s, node, i, 1, "MatMul");
    else
      mark(s, v, true);
  }
  if (!static_mark_linear(s, node)) mark_output(s, node);
}

// The last recipe quantizes what the Add of a bias gives.
static void mark_sums(struct static_run *s) {
  for (uint32_t i = 0; i < s->n_linears && s->o->format == STATIC_FP32_BIAS_QDQ; i++)
    mark(s, kit_out(&s->k, s->linears[i].add, 0), false);
}

static void mark_norm(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t scale = kit_in(k, node, 1);
  mark(s, kit_in(k, node, 0), false);
  if (static_is_constant(s, scale))
    mark_weight(s, node, 1, 1, op_of(s, node));
  else
    mark(s, scale, false);
  mark_bias(s, node, 1, 1);
  mark_output(s, node);
}

// ---- operators that pass on ----------------------------------------------------------------------

static void share(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0);
  if (s->o->force_quantize_no_input_check) mark(s, x, false);
  if ((s->o->force_quantize_no_input_check || static_is_marked(s, x)) &&
      !static_leaves_output(s, node))
    mark_shared(s, kit_out(k, node, 0), x, node);
}

bool static_stays_within(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  struct span mode, where;
  return kit_attr_string(k, node, "mode", "nearest", &mode) && !span_is(mode, "cubic") &&
         kit_attr_string(k, node, "coordinate_transformation_mode", "half_pixel", &where) &&
         !span_is(where, "tf_crop_and_resize");
}

// What lies outside of the input's range has parameters of its own.
static void mark_resize(struct static_run *s, uint32_t node) {
  const uint32_t x = kit_in(&s->k, node, 0);
  struct static_params p;
  if (s->o->compat || static_stays_within(s, node) ||
      !static_params_of(s, kit_out(&s->k, node, 0), &p)) {
    share(s, node);
    return;
  }
  if (s->o->force_quantize_no_input_check) mark(s, x, false);
  if (static_is_marked(s, x)) mark_output(s, node);
}

static void mark_gather(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0);
  if (static_is_constant(s, x) || s->o->force_quantize_no_input_check)
    mark(s, x, false);
  else if (!static_is_marked(s, x))
    return;
  mark_shared(s, kit_out(k, node, 0), x, node);
}

static void mark_split(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0);
  if (!static_is_marked(s, x)) mark(s, x, false);
  for (uint32_t i = 0; i < kit_n_out(k, node) && !static_leaves_output(s, node); i++)
    mark_shared(s, kit_out(k, node, i), x, node);
}

// quantize_static looks for the type of what a number is put around among computed values and inputs only.
static bool knows_what_is_padded(struct static_run *s, uint32_t node) {
  const uint32_t x = kit_in(&s->k, node, 0);
  return x != NO_ID && static_is_typed(s, x) && s->k.m->values[x].kind != VALUE_INITIALIZER;
}

// Are the elements that it pads with known to be 0, or elements of the input?
static bool pads_within(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  struct span mode;
  double x = 0;
  float value = 0;
  if (!kit_attr_string(k, node, "mode", "constant", &mode)) return false;
  if (span_is(mode, "reflect") || span_is(mode, "edge") || span_is(mode, "wrap")) return true;
  if (!span_is(mode, "constant")) return false;
  if (s->o->compat && !knows_what_is_padded(s, node)) return false;
  if (s->opset < 11) return kit_attr_float(k, node, "value", 0, &value) && value == 0;
  return kit_in(k, node, 2) == NO_ID || (kit_const_scalar(k, kit_in(k, node, 2), &x) && x == 0);
}

static void mark_pad(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  for (uint32_t i = 0; i < kit_n_in(k, node); i++)
    mark(s, kit_in(k, node, i), false);
  if (static_leaves_output(s, node)) return;
  if (pads_within(s, node))
    mark_shared(s, kit_out(k, node, 0), kit_in(k, node, 0), node);
  else
    mark(s, kit_out(k, node, 0), false);
}

static void mark_where(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t a = kit_in(k, node, 1), b = kit_in(k, node, 2);
  if (s->o->force_quantize_no_input_check) {
    if (!static_is_marked(s, a)) mark(s, a, false);
    if (!static_is_marked(s, b)) mark(s, b, false);
  } else if (!static_is_marked(s, a) || !static_is_marked(s, b)) {
    return;
  }
  mark_output(s, node);
}

bool static_shares(struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
  struct static_params p;
  switch ((op ? op : &own)->qdq) {
  case STATIC_Q_SHARE:
  case STATIC_Q_SPLIT:
  case STATIC_Q_GATHER: return true;
  case STATIC_Q_MAXPOOL: return s->opset >= 12 && s->o->activation != DTYPE_FLOAT8E4M3FN;
  case STATIC_Q_RESIZE:
    return s->opset >= 11 &&
           (static_stays_within(s, node) || !static_params_of(s, kit_out(&s->k, node, 0), &p));
  case STATIC_Q_PAD: return pads_within(s, node);
  case STATIC_Q_REMOVABLE: return kit_op(&s->k, node) == OP_Relu; // where it goes
  default: return false;
  }
}

// ---- operators that go ---------------------------------------------------------------------------

// The bounds of a Clip or Relu; false: not known.
static bool bounds_of(struct static_run *s, uint32_t node, double *low, double *high) {
  struct kit *k = &s->k;
  float x;
  *low = -INFINITY;
  *high = INFINITY;
  if (strcmp(op_of(s, node), "Relu") == 0) {
    *low = 0;
    return true;
  }
  if (s->opset < 11) {
    if (!kit_attr_float(k, node, "min", -INFINITY, &x)) return false;
    *low = x;
    if (!kit_attr_float(k, node, "max", INFINITY, &x)) return false;
    *high = x;
    return true;
  }
  return (kit_in(k, node, 1) == NO_ID || kit_const_scalar(k, kit_in(k, node, 1), low)) &&
         (kit_in(k, node, 2) == NO_ID || kit_const_scalar(k, kit_in(k, node, 2), high));
}

// Do codes with these parameters hold no more than the node lets through, but for the rounding of the zero
// point (half a step)?
static bool clipped_by_codes(struct static_run *s, uint32_t node, const struct static_params *p) {
  double low, high;
  int64_t least, most;
  if (!bounds_of(s, node, &low, &high) || p->type == DTYPE_FLOAT8E4M3FN) return false;
  int8_full_codes(p->type, &least, &most);
  const double from = (double)(least - p->own.zero) * p->own.scale,
               to = (double)(most - p->own.zero) * p->own.scale, half = 0.501 * p->own.scale;
  return from >= (low == 0 ? 0 : low - half) && to <= high + half;
}

static bool is_of_softmax(const struct static_run *s, uint32_t value) {
  return value < s->n_of_softmax && s->of_softmax[value] > 0;
}

static bool can_go(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0), out = kit_out(k, node, 0);
  struct static_params before, behind;
  if (s->o->activation_symmetric || s->o->keep_removable_activations) return false;
  if (!static_params_of(s, out, &behind) || !static_params_of(s, in, &before)) return false;
  if (before.with || behind.with || kit_use_count(k, in, 2) != 1 || kit_is_output(k, in) ||
      kit_unused(k, out))
    return false;
  // The scale of what a Softmax gives must be no smaller than its own (softmax_range).
  if (is_of_softmax(s, in) && behind.own.scale != before.own.scale) return false;
  return k->m->values[in].kind == VALUE_NODE_OUTPUT && k->m->values[in].graph == s->graph &&
         (strcmp(op_of(s, node), "Relu") == 0 || !static_may_grow(s, out)) &&
         clipped_by_codes(s, node, &behind);
}

// What makes its input makes its output instead.
static void remove_activation(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0), out = kit_out(k, node, 0), maker = kit_maker(k, in);
  uint32_t slot = 0;
  while (kit_out(k, maker, slot) != in)
    slot++;
  struct static_entry *e = static_entry_of(s, in);
  if (e) {
    e->gone = true;
    s->entry_of[in] = 0;
  }
  kit_converted(k, node, "clipped_by_codes");
  kit_site(k, node, "clipped_by_codes");
  edit_remove_node(k->e, node);
  edit_set_output(k->e, maker, slot, (struct edit_output){out, span_of("", 0)});
}

static void mark_removable(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0), out = kit_out(k, node, 0);
  const bool leaves = static_leaves_output(s, node);
  if (!static_is_marked(s, in)) return;
  if (can_go(s, node))
    remove_activation(s, node);
  else
    mark(s, in, false);
  if (!leaves) mark(s, out, false);
}

// ---- weights that callers may override -----------------------------------------------------------

// The inputs of a node that are marked, whatever they are: [*first, *first + result).
static uint32_t marked_inputs(struct static_run *s, uint32_t node, uint32_t *first) {
  const struct static_op *op = static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
  const bool forced = s->o->force_quantize_no_input_check;
  *first = 0;
  switch ((op ? op : &own)->qdq) {
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

// ---- the walk ------------------------------------------------------------------------------------

static void mark_own(struct static_run *s, uint32_t node) {
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++)
    mark(s, kit_in(&s->k, node, i), false);
  mark_output(s, node);
}

static void mark_node(struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
  switch ((op ? op : &own)->qdq) {
  case STATIC_Q_OWN: mark_own(s, node); break;
  case STATIC_Q_CONV: mark_conv(s, node); break;
  case STATIC_Q_GEMM: mark_gemm(s, node); break;
  case STATIC_Q_MATMUL: mark_matmul(s, node); break;
  case STATIC_Q_NORM: mark_norm(s, node); break;
  case STATIC_Q_SHARE: share(s, node); break;
  case STATIC_Q_MAXPOOL:
    if (s->opset >= 12 && s->o->activation != DTYPE_FLOAT8E4M3FN) share(s, node);
    break;
  case STATIC_Q_RESIZE:
    if (s->opset >= 11) mark_resize(s, node);
    break;
  case STATIC_Q_REMOVABLE: mark_removable(s, node); break;
  case STATIC_Q_PAD: mark_pad(s, node); break;
  case STATIC_Q_SPLIT: mark_split(s, node); break;
  case STATIC_Q_GATHER: mark_gather(s, node); break;
  case STATIC_Q_WHERE: mark_where(s, node); break;
  case STATIC_Q_NEVER: break;
  }
}

// Did the node get a mark, on its first input, and no weight, which is reported for itself?
static bool is_done(struct static_run *s, uint32_t node) {
  const uint32_t n = kit_n_in(&s->k, node);
  for (uint32_t i = 0; i < n; i++)
    if (static_is_constant(s, kit_in(&s->k, node, i)) &&
        static_is_marked(s, kit_in(&s->k, node, i)))
      return false;
  return static_is_marked(s, kit_in(&s->k, node, 0)) ||
         static_is_marked(s, kit_out(&s->k, node, 0));
}

static void note_receiver(struct static_run *s, uint32_t value, uint32_t node) {
  if (value >= s->n_receivers_of) TABLE_ADD(s, receivers_of, value + 1 - s->n_receivers_of);
  *TABLE_PUSH(s, receivers) = (struct static_receiver){.node = node};
  struct static_receivers *of = &s->receivers_of[value];
  if (of->last)
    s->receivers[of->last - 1].next = s->n_receivers;
  else
    of->first = s->n_receivers;
  of->last = s->n_receivers;
}

int static_mark(struct static_run *s, struct err *err) {
  struct kit *k = &s->k;
  (void)err;
  for (uint32_t n = k->m->graphs[s->graph].first_node, next; n != NO_ID; n = next) {
    const char *why;
    next = k->m->nodes[n].next;
    const bool takes = static_takes(s, n, &why);
    if (takes && static_kept(s, n)) why = static_kept(s, n);
    const uint32_t passed = static_passes_codes(s, n);
    if (passed != NO_ID && static_is_marked(s, passed)) {
      mark_shared(s, kit_out(k, n, 0), passed, n);
      kit_converted(k, n, "quantized");
      continue;
    }
    if (!takes || static_kept(s, n)) {
      if (*why) kit_skipped(k, n, why);
      continue;
    }
    if (static_skips_overridable(s, n)) continue;
    const char *left = static_left_input(s, n);
    if (left && *left) kit_skipped(k, n, left);
    mark_node(s, n);
    if (k->m->nodes[n].flags & NODE_DEAD) continue;
    if (is_done(s, n)) kit_converted(k, n, "quantized");
    for (uint32_t i = 0; i < kit_n_in(k, n); i++)
      if (kit_in(k, n, i) != NO_ID) note_receiver(s, kit_in(k, n, i), n);
  }
  mark_sums(s);
  return 0;
}

// ---- ranges --------------------------------------------------------------------------------------

// Does nothing but the node see what it is given? The existing tool does not know that an output is seen.
static bool sees_alone(struct static_run *s, uint32_t value) {
  const uint32_t unseen = s->o->compat && kit_is_output(&s->k, value);
  return kit_use_count(&s->k, value, 3) - unseen == 1;
}

// Softmax gives [0, 1], but sums over many elements may be far below: then what was seen is the range. ONNX Runtime makes a
// QLinearSoftmax wherever there are a DQ and a Q, or could be behind what moves elements, whoever asked; its codes are wrong where 1 / scale
// is more than 128 for each element of a sum. (Measured over sums of 1 to 4000 elements in 1.31.1.) So no range is smaller
// than this. (compat: [0, 1], and only where it is taken.)
static double softmax_least(struct static_run *s, uint32_t node) {
  enum { CODES = 255, LARGEST = 128 };
  const uint64_t terms = kit_softmax_terms(&s->k, node);
  return terms ? fmin((double)CODES / (double)LARGEST / (double)terms, 1) : 1;
}

static void softmax_range(struct static_run *s, uint32_t node, bool taken) {
  const double hardly_codes = 1.0 / 16;
  struct int8_range *r = &s->range[kit_out(&s->k, node, 0)];
  const double seen = r->type ? r->most : 1;
  double most = 1;
  if (!s->o->compat && !(taken && seen >= hardly_codes)) most = fmax(softmax_least(s, node), seen);
  *r = (struct int8_range){.type = kit_dtype(&s->k, kit_out(&s->k, node, 0)),
                           .most = most < 1 ? most : 1,
                           .has_deviation = r->has_deviation,
                           .deviation = r->deviation};
}

// ONNX Runtime drops a Relu or Clip before a Q whose codes hold no more than it lets through: what nobody asks for has a range that is
// right after a Softmax too.
static void adjust_clipped(struct static_run *s, uint32_t node) {
  const uint32_t in = kit_in(&s->k, node, 0), out = kit_out(&s->k, node, 0);
  const char *why;
  if (s->o->compat || !is_of_softmax(s, in) || !static_holds_floats(s, out) ||
      static_takes(s, node, &why))
    return;
  s->of_softmax[out] = s->of_softmax[in];
  if (s->range[out].type && s->range[out].least >= 0 && s->range[out].most < s->of_softmax[out])
    s->range[out].most = s->of_softmax[out];
}

// What only moves the elements of a Softmax has its range, and what passes them on and goes.
static void adjust_moved(struct static_run *s, uint32_t node) {
  const uint32_t in = static_moves(s, node) ? kit_in(&s->k, node, 0) : static_vanishes(s, node);
  if (s->o->compat || !is_of_softmax(s, in)) return;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++) {
    const uint32_t out = kit_out(&s->k, node, i);
    if (out == NO_ID || !static_holds_floats(s, out)) continue;
    s->of_softmax[out] = s->of_softmax[in];
    if (s->range[out].type) s->range[out] = s->range[in];
  }
}

// What goes into a Relu or Clip, and only there, needs no more range than what comes out. What a Softmax gives keeps its own. (compat: a
// Clip may let less through.)
void static_adjust_ranges(struct static_run *s) {
  struct kit *k = &s->k;
  TABLE_ADD(s, of_softmax, k->m->n_values);
  for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next) {
    const char *why, *op = op_of(s, n);
    const uint32_t in = kit_in(k, n, 0), out = kit_out(k, n, 0);
    const bool clips = strcmp(op, "Relu") == 0 || strcmp(op, "Clip") == 0;
    if (in == NO_ID || out == NO_ID) continue;
    adjust_moved(s, n);
    if (clips) adjust_clipped(s, n);
    if (!clips && strcmp(op, "Softmax") != 0) continue;
    const bool taken = static_takes(s, n, &why);
    if (!clips && (taken || (!s->o->compat && s->range[out].type))) {
      softmax_range(s, n, taken);
      s->of_softmax[out] = s->o->compat ? 0 : softmax_least(s, n);
    } else if (clips && taken && !is_of_softmax(s, in) && sees_alone(s, in) && s->range[in].type &&
               s->range[out].type) {
      s->range[in] = s->range[out];
    }
  }
}
