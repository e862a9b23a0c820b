// Operators: does each node look as the signature of its operator says?
//
//   node ──▶ function of the model? ──▶ nothing to say
//     │
//     └────▶ signature at the imported opset ──▶ counts of inputs and outputs, attributes, dtypes
//
// The signatures are those of the table (schema.h). Domains of ONNX are ONNX's to say: what is wrong
// there is an error. com.microsoft has one version, to which releases of ONNX Runtime add, and what
// else the table has is the matter of tools: warnings. Domains that it does not have, and opsets
// newer than it, are said once and let be.
//
// Of types only what is declared or constant counts, and what the caller has inferred: nothing is inferred here.
#include "check/inside/check_parts.h"

#include "base/guess.h"
#include "model/model_calls.h"
#include "model/model_types.h"
#include "schema/schema.h"

#include <stdio.h>

struct operators {
  struct check c;
  struct schema_names names;
  struct model_calls calls;
  struct check_imports let_be;     // domains that are not checked
  const struct model_types *types; // of check_dtypes; NULL: what is declared
  uint32_t guesses;                // made so far
};
enum { GUESSES_MAX = 100 }; // who has more misspelt names than that needs no guess

// A node while it is looked at.
struct look {
  struct operators *o;
  uint32_t id;
  const struct model_node *n;
  const struct schema_operator *op;
  const struct schema_signature *s;
  enum fault_level level;
};

static const char *domain_word(const char *domain) {
  return *domain ? domain : "ai.onnx";
}

static enum fault_level level_of(const char *domain) {
  const bool of_onnx = *domain == 0 || strncmp(domain, "ai.onnx.", 8) == 0;
  return of_onnx ? FAULT_ERROR : FAULT_WARNING;
}

#define REPORT(l, ...)                                                                             \
  check_report(&(l)->o->c, (l)->level, check_node_place(&(l)->o->c, (l)->id).s, __VA_ARGS__)

// "(did you mean 'Relu'?)" or nothing.
struct hint {
  char s[96];
};
static struct hint hint_of(const struct guess *g) {
  struct hint h = {""};
  if (g->best) snprintf(h.s, sizeof h.s, " (did you mean '%s'?)", g->best);
  return h;
}

// ---- the operator -------------------------------------------------------------------------------

static int report_let_be(struct operators *o, const struct check_import *u) {
  const struct span domain = model_name(o->c.m, o->c.m->nodes[u->node].domain);
  const struct quoted name = domain.n ? quote(domain) : quote_str("ai.onnx");
  const int64_t newest = schema_newest(domain);
  if (newest == 0)
    return check_report(&o->c, FAULT_WARNING, check_node_place(&o->c, u->node).s,
                        "weir does not know the operators of domain '%s': they are not checked",
                        name.s);
  return check_report(&o->c, FAULT_NOTE, "model",
                      "opset %s of %s is newer than the newest that weir knows (%s): its "
                      "operators are not checked",
                      integer(model_opset_version(o->c.m, u->root, domain)).s, name.s,
                      integer(newest).s);
}

static int report_all_let_be(struct operators *o) {
  check_imports_sort(&o->let_be);
  for (uint32_t i = 0; i < o->let_be.n_at; i++)
    if (report_let_be(o, &o->let_be.at[i])) return -1;
  return 0;
}

static struct guess guess_operator(struct operators *o, const char *domain, const char *op_type) {
  uint32_t n;
  const struct schema_operator *ops = schema_all(&n);
  struct guess g = guess_start(op_type);
  if (o->guesses++ >= GUESSES_MAX) return g;
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(ops[i].domain, domain) == 0) guess_try(&g, ops[i].name);
  return g;
}

// ", but com.microsoft has one": the domain was forgotten, or is another one's.
static struct hint elsewhere(const char *domain, const char *op_type) {
  static const char *const others[] = {"", "com.microsoft", "ai.onnx.ml"};
  struct hint h = {""};
  for (size_t i = 0; i < sizeof others / sizeof *others && !h.s[0]; i++)
    if (strcmp(others[i], domain) && schema_operator_of(span_str(others[i]), span_str(op_type)))
      snprintf(h.s, sizeof h.s, ", but %s has one", domain_word(others[i]));
  return h;
}

// What ONNX Runtime has in ai.onnx and ONNX has not.
static int report_runtime_only(struct look *l, const struct schema_operator *op, int64_t version) {
  if (!(op->flags & SCHEMA_WITHDRAWN))
    return REPORT(l, "operator '%s' is not in opset %s of ai.onnx: only ONNX Runtime supports it",
                  op->name, integer(version).s);
  l->level = FAULT_WARNING;
  return REPORT(l, "operator '%s' was removed from ONNX: runtimes may not support it", op->name);
}

// The table has the domain, and not the operator at this version.
static int report_unknown(struct look *l, const char *domain, int64_t version) {
  const char *op_type = model_name_str(l->o->c.m, l->n->op_type);
  const struct schema_operator *op =
      schema_operator_of(span_str(SCHEMA_RUNTIME_DOMAIN), span_str(op_type));
  // What ONNX tries out comes and goes.
  l->level = strncmp(domain, "ai.onnx.preview", 15) ? level_of(domain) : FAULT_WARNING;
  if (*domain == 0 && op && (op->n_versions == 0 || schema_at(op, version)))
    return report_runtime_only(l, op, version);
  struct hint hint = elsewhere(domain, op_type);
  if (!hint.s[0]) {
    const struct guess g = guess_operator(l->o, domain, op_type);
    hint = hint_of(&g);
  }
  return REPORT(l, "there is no operator '%s' in %s%s", quote_str(op_type).s, domain_word(domain),
                hint.s);
}

static int report_too_early(struct look *l, int64_t version) {
  return REPORT(l, "operator '%s' was added in opset %d of %s, but opset %s is imported",
                l->op->name, l->op->versions[0].since, domain_word(l->op->domain),
                integer(version).s);
}

// Nothing to look at further: *s stays NULL.
static int find(struct look *l) {
  struct operators *o = l->o;
  const struct model *m = o->c.m;
  const struct span domain = model_name(m, l->n->domain);
  const int64_t version = model_opset_version(m, l->n->graph, domain);
  const int64_t newest = schema_newest(domain);
  if (newest == 0 || version > newest) check_imports_push(&o->let_be, m, l->id);
  if (newest == 0 || version > newest || version == 0) return 0; // 0: check_structure has said it
  l->op = schema_of_node(&o->names, l->id);
  const char *word = span_is(domain, "ai.onnx") ? "" : model_name_str(m, l->n->domain);
  if (!l->op) return report_unknown(l, word, version);
  l->level = level_of(word);
  l->s = schema_at(l->op, version);
  if (l->s && l->s->deprecated)
    return REPORT(l, "operator '%s' is deprecated since opset %d of %s", l->op->name, l->s->since,
                  domain_word(l->op->domain));
  if (l->s) return 0;
  if (*word == 0 &&
      schema_signature_of(span_str(SCHEMA_RUNTIME_DOMAIN), span_str(l->op->name), version))
    return report_unknown(l, word, version);
  return report_too_early(l, version);
}

// ---- inputs and outputs -------------------------------------------------------------------------

// "1 input", "2 to 3 inputs", "at least 2 inputs".
struct range {
  char s[64];
};
static struct range range_of(unsigned least, unsigned most, const char *what) {
  struct range r;
  if (most == SCHEMA_ANY)
    snprintf(r.s, sizeof r.s, "at least %u %s%s", least, what, plural(least));
  else if (least == most)
    snprintf(r.s, sizeof r.s, "%u %s%s", least, what, plural(least));
  else
    snprintf(r.s, sizeof r.s, "%u to %u %ss", least, most, what);
  return r;
}

static int check_count(struct look *l, uint32_t n, unsigned least, unsigned most,
                       const char *what) {
  if (n >= least && (most == SCHEMA_ANY || n <= most)) return 0;
  return REPORT(l, "has %u %s%s, but %s takes %s", n, what, plural(n), l->op->name,
                range_of(least, most, what).s);
}

static int check_left_out(struct look *l, uint32_t n, const struct schema_formal *formals,
                          uint32_t n_formals, bool input) {
  const struct model *m = l->o->c.m;
  for (uint32_t i = 0; i < n && i < n_formals; i++) {
    const uint32_t value = input ? model_input(m, l->n, i) : model_output(m, l->n, i);
    if (value != NO_ID || formals[i].option != SCHEMA_SINGLE) continue;
    if (REPORT(l, "its %s %u ('%s') has no name, but is required", input ? "input" : "output",
               i + 1, formals[i].name))
      return -1;
  }
  return 0;
}

static int check_counts(struct look *l) {
  const struct schema_signature *s = l->s;
  if (check_count(l, l->n->n_in, s->least_in, s->most_in, "input")) return -1;
  if (check_count(l, l->n->n_out, s->least_out, s->most_out, "output")) return -1;
  if (s->one_or_all && l->n->n_out > 1 && l->n->n_out < s->n_outputs &&
      REPORT(l, "has %u outputs, but %s takes 1 or %u", l->n->n_out, l->op->name, s->n_outputs))
    return -1;
  if (check_left_out(l, l->n->n_in, s->inputs, s->n_inputs, true)) return -1;
  return check_left_out(l, l->n->n_out, s->outputs, s->n_outputs, false);
}

// ---- attributes ---------------------------------------------------------------------------------

static const char *type_word(unsigned type) {
  static const char *const words[] = {
      [ATTR_FLOAT] = "a float",
      [ATTR_INT] = "an int",
      [ATTR_STRING] = "a string",
      [ATTR_TENSOR] = "a tensor",
      [ATTR_GRAPH] = "a graph",
      [ATTR_FLOATS] = "a list of floats",
      [ATTR_INTS] = "a list of ints",
      [ATTR_STRINGS] = "a list of strings",
      [ATTR_TENSORS] = "a list of tensors",
      [ATTR_GRAPHS] = "a list of graphs",
      [ATTR_SPARSE_TENSOR] = "a sparse tensor",
      [ATTR_SPARSE_TENSORS] = "a list of sparse tensors",
      [ATTR_TYPE_PROTO] = "a type",
      [ATTR_TYPE_PROTOS] = "a list of types",
  };
  return type < sizeof words / sizeof *words && words[type] ? words[type] : "of no type";
}

static int report_attribute(struct look *l, const char *name) {
  struct guess g = guess_start(name);
  for (uint32_t i = 0; i < l->s->n_attributes && l->o->guesses < GUESSES_MAX; i++)
    guess_try(&g, l->s->attributes[i].name);
  l->o->guesses++;
  return REPORT(l, "has attribute '%s', which %s (opset %d) does not have%s", quote_str(name).s,
                l->op->name, l->s->since, hint_of(&g).s);
}

static int check_attribute(struct look *l, const struct model_attr *a) {
  const struct model *m = l->o->c.m;
  const struct schema_attribute *s = schema_attribute_of(l->s, model_name(m, a->name));
  const char *name = model_name_str(m, a->name);
  if (!s && (l->s->more || strncmp(name, "__", 2) == 0)) return 0; // those are for tools
  if (!s) return report_attribute(l, name);
  if (a->type == s->type || a->type == ATTR_UNDEFINED) return 0;
  return REPORT(l, "its attribute '%s' is %s, but must be %s", s->name, type_word(a->type),
                type_word(s->type));
}

static int check_attributes(struct look *l) {
  const struct model *m = l->o->c.m;
  for (uint32_t i = 0; i < l->n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[l->n->attrs + i];
    if (!(a->flags & ATTR_DEAD) && check_attribute(l, a)) return -1;
  }
  for (uint32_t i = 0; i < l->s->n_attributes; i++) {
    const struct schema_attribute *s = &l->s->attributes[i];
    if (!s->required || model_attr_named(m, l->id, s->name)) continue;
    if (REPORT(l, "required attribute '%s' is missing", s->name)) return -1;
  }
  return 0;
}

// ---- types --------------------------------------------------------------------------------------

// "float16, float or double"; of many the first.
struct list {
  char s[160];
};
static struct list list_of(const struct schema_types *types, enum schema_kind kind) {
  enum { FEW = 6 };
  struct list list = {""};
  size_t n = 0;
  uint32_t left = (uint32_t)__builtin_popcount(types->dtypes[kind]), said = 0;
  for (enum dtype d = 1; d < 32 && left > 0; d++) {
    if (!(types->dtypes[kind] >> d & 1)) continue;
    const char *join = said == 0 ? "" : left == 1 ? " or " : ", ";
    if (said == FEW && left > 1) {
      snprintf(list.s + n, sizeof list.s - n, " or %u other types", left);
      break;
    }
    n += (size_t)snprintf(list.s + n, sizeof list.s - n, "%s%s", join, dtype_name(d));
    said++;
    left--;
  }
  return list;
}

// Which value a type variable has its type of.
struct bound {
  enum dtype dtype;
  uint32_t value;
};

static int report_type(struct look *l, uint32_t value, enum dtype dtype,
                       const struct schema_formal *f, const char *what) {
  const struct quoted name = quote(model_value_name(l->o->c.m, value));
  if (f->types->dtypes[SCHEMA_TENSOR] == 0)
    return REPORT(l, "its %s '%s' is a tensor, but %s does not accept a tensor for '%s'", what,
                  name.s, l->op->name, f->name);
  return REPORT(l, "its %s '%s' is %s, but '%s' of %s must be %s", what, name.s, dtype_name(dtype),
                f->name, l->op->name, list_of(f->types, SCHEMA_TENSOR).s);
}

static int check_type(struct look *l, uint32_t value, const struct schema_formal *f,
                      const char *what, struct bound *bounds) {
  struct model_type type;
  const struct model *m = l->o->c.m;
  if (value == NO_ID || !model_types_get(l->o->types, m, value, &type)) return 0;
  if (!dtype_known(type.dtype)) return 0;
  if (!schema_takes(f->types, type.dtype)) return report_type(l, value, type.dtype, f, what);
  if (f->variable == SCHEMA_NO_VARIABLE || !f->same) return 0;
  struct bound *b = &bounds[f->variable];
  if (b->dtype == DTYPE_UNDEFINED) *b = (struct bound){type.dtype, value};
  if (b->dtype == type.dtype) return 0;
  return REPORT(l, "'%s' is %s and '%s' is %s, but %s needs them to have the same type",
                quote(model_value_name(m, b->value)).s, dtype_name(b->dtype),
                quote(model_value_name(m, value)).s, dtype_name(type.dtype), l->op->name);
}

// What an attribute says of an output: a number that is a type, and in a sequence one that the operator makes. Of tensors
// the type of the output tells.
static int check_said_type(struct look *l, uint32_t slot, const struct schema_formal *f) {
  const struct model *m = l->o->c.m;
  if (l->o->types || schema_output_follows(m, l->id, l->s, f)) return 0;
  for (uint32_t i = 0; slot == 0 && i < l->s->n_attributes; i++) {
    const struct schema_attribute *s = &l->s->attributes[i];
    const struct model_attr *a = s->says ? model_attr_named(m, l->id, s->name) : NULL;
    if (!a || a->type != ATTR_INT || a->ref_name != m->empty || dtype_known(a->u.i)) continue;
    if (s->kind == SCHEMA_INT && a->u.i == s->u.i) continue;
    return REPORT(l, "its attribute '%s' is %s, which is not an element type", s->name,
                  integer(a->u.i).s);
  }
  const enum dtype dtype = schema_attribute_type(m, l->id, l->s, slot);
  if (dtype == DTYPE_UNDEFINED || f->types->dtypes[SCHEMA_TENSOR] ||
      f->types->dtypes[SCHEMA_SEQUENCE] >> dtype & 1)
    return 0;
  return REPORT(l, "its output is a sequence of %s, but '%s' of %s must be one of %s",
                dtype_name(dtype), f->name, l->op->name, list_of(f->types, SCHEMA_SEQUENCE).s);
}

static int check_types(struct look *l) {
  const struct model *m = l->o->c.m;
  struct bound bounds[SCHEMA_VARIABLES_MAX] = {{DTYPE_UNDEFINED, NO_ID}};
  for (uint32_t i = 0; i < l->n->n_in; i++) {
    const struct schema_formal *f = schema_input(l->s, i);
    if (f && check_type(l, model_input(m, l->n, i), f, "input", bounds)) return -1;
  }
  // Inferred ones that follow from the inputs were spoken of there; others are what an attribute or a body says.
  for (uint32_t i = 0; i < l->n->n_out; i++) {
    const struct schema_formal *f = schema_output(l->s, i);
    if (f && check_said_type(l, i, f)) return -1;
    if (f && l->o->types && schema_output_follows(m, l->id, l->s, f)) continue;
    if (f && check_type(l, model_output(m, l->n, i), f, "output", bounds)) return -1;
  }
  return 0;
}

// What is declared of an initializer. Of one that is the default of an input runtimes refuse another
// type, of others they overlook it.
static int check_initializers(struct operators *o) {
  const struct model *m = o->c.m;
  for (uint32_t id = 0; id < m->n_values; id++) {
    const struct model_value *v = &m->values[id];
    if (v->kind != VALUE_INITIALIZER || v->flags & VALUE_DEAD) continue;
    const uint8_t dtype = m->tensors[v->def].dtype;
    MODEL_EACH_INFO (m, id, i) {
      const uint8_t said = m->infos[i].dtype;
      if (!dtype_known(said) || !dtype_known(dtype) || said == dtype) continue;
      char place[448];
      snprintf(place, sizeof place, "value '%s'", quote(model_name(m, v->name)).s);
      const bool input = m->infos[i].home == INFO_INPUT;
      if (check_report(&o->c, input ? FAULT_ERROR : FAULT_WARNING, place,
                       "it is declared as %s, but its elements are %s",
                       dtype_name((enum dtype)said), dtype_name((enum dtype)dtype)))
        return -1;
    }
  }
  return 0;
}

// Nodes of one graph that have one name, each name once. ONNX lets them; other graphs, bodies too, do not count.
static int check_node_names(struct operators *o) {
  enum { TOLD = 1 };
  const struct model *m = o->c.m;
  uint32_t *seen = arena_zalloc(&o->c.scratch,
                                (m->n_name_at + (size_t)1) * sizeof *seen); // 2 · graph + 2, | TOLD
  for (uint32_t graph = 0; graph < m->n_graphs; graph++) {
    if (m->graphs[graph].flags & GRAPH_DEAD) continue;
    for (uint32_t id = m->graphs[graph].first_node; id != NO_ID; id = m->nodes[id].next) {
      uint32_t *of_name = &seen[m->nodes[id].name];
      const uint32_t mark = 2 * graph + 2;
      const bool again = (*of_name & ~(uint32_t)TOLD) == mark, told = *of_name == (mark | TOLD);
      *of_name = again ? mark | TOLD : mark;
      if (m->nodes[id].name == m->empty || !again || told) continue;
      const bool body = model_function_around(m, graph) != NO_ID;
      if (check_report(&o->c, FAULT_WARNING, check_node_place(&o->c, id).s,
                       "another node of its graph has this name: ONNX Runtime does not load such "
                       "a model; 'weir run IN OUT%s --pass unique-names' renames the nodes",
                       body ? " --pass inline-functions" : ""))
        return -1;
    }
  }
  return 0;
}

// ---- the story ----------------------------------------------------------------------------------

static int check_node_dtypes(struct look *l) {
  const struct model *m = l->o->c.m;
  l->op = schema_of_node(&l->o->names, l->id);
  if (!l->op || level_of(l->op->domain) != FAULT_ERROR) return 0;
  l->s = schema_at(l->op, model_opset_version(m, l->n->graph, model_name(m, l->n->domain)));
  return l->s ? check_types(l) : 0;
}

static int check_node(struct operators *o, uint32_t node) {
  struct look l = {.o = o, .id = node, .n = &o->c.m->nodes[node], .level = FAULT_ERROR};
  if (l.n->op_type == o->c.m->empty || model_calls_callee(&o->calls, node) != NO_ID) return 0;
  if (o->types) return check_node_dtypes(&l);
  if (find(&l)) return -1;
  if (!l.s) return 0;
  return check_counts(&l) || check_attributes(&l) || check_types(&l) ? -1 : 0;
}

static int check_all(const struct model *m, const struct model_types *types,
                     const struct fault_sink *faults, struct err *err) {
  struct operators o = {.c = {.m = m, .faults = faults, .err = err}, .types = types};
  int rc = 0;
  schema_names_init(&o.names, m);
  model_calls_init(&o.calls, m);
  for (uint32_t graph = 0; graph < m->n_graphs && rc == 0; graph++) {
    if (m->graphs[graph].flags & GRAPH_DEAD) continue;
    for (uint32_t id = m->graphs[graph].first_node; id != NO_ID && rc == 0; id = m->nodes[id].next)
      rc = check_node(&o, id);
  }
  if (rc == 0 && !types) rc = check_node_names(&o);
  if (rc == 0 && !types) rc = check_initializers(&o);
  if (rc == 0 && !types) rc = report_all_let_be(&o);
  model_calls_done(&o.calls);
  schema_names_done(&o.names);
  TABLE_FREE(&o.let_be, at);
  arena_free(&o.c.scratch);
  return rc;
}

int check_operators(const struct model *m, const struct fault_sink *faults, struct err *err) {
  return check_all(m, NULL, faults, err);
}

int check_dtypes(const struct model *m, const struct model_types *types,
                 const struct fault_sink *faults, struct err *err) {
  return check_all(m, types, faults, err);
}
