// Of which values quantize_static knows the type: what the model declares, and what onnx.shape_inference adds to it. It leaves float what
// has none.
//
//   x ─▶ com.microsoft.Gelu ─▶ a ─▶ Add(a, x) ─▶ b ─▶ Shape ─▶ c        a, b: no type; c: int64
//        Add(x, a) ─▶ d                                                 d: the type of x
//
// One walk over the nodes, as they stand. An operator of another domain than ONNX's gives its outputs no type. Others give the type of
// the first input that has the output's type variable, or one that needs no input; static_types.def has those that do otherwise.
// Bodies are entered with their node's inputs, functions of the model for each call; what is declared inside a function does not count.
//
// What the types are is not asked here: weir's own inference knows at least as much. Nor are shapes, of which onnx's may find that they
// do not fit: such models run nowhere.
#include "passes/int8_static/inside/static.h"

#include "model/model_calls.h"
#include "schema/schema.h"

// Nodes of functions that are visited, and more for each node of the model; after that all types are taken as known.
enum { VISITS = 1 << 18, VISITS_EACH = 16 };

// ---- operators that do otherwise -------------------------------------------------------------------

enum { NEWEST = INT16_MAX, ALL = UINT16_MAX };

struct asks {
  const char *domain, *op;
  int16_t since, until;
  uint8_t output;      // from this one on
  uint16_t inputs;     // bits
  const char *instead; // an attribute, or NULL
};
static const struct asks asks[] = {
#define ASKS(domain, op, since, until, output, inputs, instead)                                    \
  {domain, op, since, until, output, inputs, instead},
#include "passes/int8_static/inside/static_types.def"
#undef ASKS
};

static const struct asks *asks_of(const struct schema_operator *op,
                                  const struct schema_signature *at, uint32_t slot) {
  for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
    const struct asks *a = &asks[i];
    if (at->since >= a->since && at->since <= a->until && slot >= a->output &&
        strcmp(op->name, a->op) == 0 && strcmp(op->domain, a->domain) == 0)
      return a;
  }
  return NULL;
}

// ---- the walk ------------------------------------------------------------------------------------

// A graph that is being walked, and the node that it is a body of, or that calls it.
struct scope {
  uint32_t next, node, graph;
  uint32_t attr; // the body's, counted from the node's first; NO_ID: a call
};

struct walk {
  struct static_run *s;
  const struct model *m;
  struct schema_names names;
  struct model_calls calls;
  TABLE(struct scope, scopes);
  uint64_t visits; // of nodes that stand in functions
};

static bool is_declared(const struct model *m, uint32_t value) {
  const struct model_value *v = &m->values[value];
  if (m->graphs[v->graph].kind == GRAPH_FUNCTION) return false;
  if (v->kind == VALUE_INITIALIZER) return true;
  MODEL_EACH_INFO (m, value, i)
    if (m->infos[i].flags & (INFO_TENSOR | INFO_SEQUENCE | INFO_OPTIONAL)) return true;
  return false;
}

static void set(struct walk *w, uint32_t value, bool typed) {
  if (value != NO_ID) w->s->typed[value] = typed || is_declared(w->m, value);
}

// An input that is left out asks for nothing.
static bool is_fit(const struct walk *w, uint32_t node, uint32_t slot) {
  const struct model_node *n = &w->m->nodes[node];
  const uint32_t value = slot < n->n_in ? model_input(w->m, n, slot) : NO_ID;
  return value == NO_ID || w->s->typed[value];
}

static bool infers(struct walk *w, uint32_t node, const struct schema_operator *op,
                   const struct schema_signature *at, uint32_t slot) {
  const struct asks *a = asks_of(op, at, slot);
  const struct schema_formal *out = schema_output(at, slot);
  const uint32_t n_in = w->m->nodes[node].n_in;
  if (a && (a->inputs == 0 || (a->instead && model_attr_named(w->m, node, a->instead))))
    return a->inputs != 0;
  for (uint32_t i = 0; i < n_in; i++) {
    const struct schema_formal *in = schema_input(at, i);
    const bool is_first =
        out && in && out->variable != SCHEMA_NO_VARIABLE && in->variable == out->variable;
    if (!a && is_first) return is_fit(w, node, i);
    if (a && (a->inputs == ALL || (i < 16 && a->inputs >> i & 1)) && !is_fit(w, node, i))
      return false;
  }
  return true;
}

static bool is_of_onnx(const struct schema_operator *op) {
  return op && (!op->domain[0] || strncmp(op->domain, "ai.onnx", strlen("ai.onnx")) == 0);
}

static void apply(struct walk *w, uint32_t node) {
  const struct model_node *n = &w->m->nodes[node];
  const struct schema_operator *op = schema_of_node(&w->names, node);
  const struct schema_signature *at = schema_of_node_at(&w->names, node);
  for (uint32_t i = 0; i < n->n_out; i++)
    set(w, model_output(w->m, n, i), at && is_of_onnx(op) && infers(w, node, op, at, i));
}

// ---- graphs inside -------------------------------------------------------------------------------

static uint32_t result_of(const struct walk *w, uint32_t graph, uint32_t i) {
  const struct model_graph *g = &w->m->graphs[graph];
  return i < g->n_outputs ? w->m->graph_io[g->outputs + i] : NO_ID;
}

static bool is_result_typed(const struct walk *w, uint32_t graph, uint32_t i) {
  const uint32_t value = result_of(w, graph, i);
  return value != NO_ID && w->s->typed[value];
}

static void enter(struct walk *w, uint32_t graph, uint32_t node, uint32_t attr) {
  *TABLE_PUSH(w, scopes) = (struct scope){w->m->graphs[graph].first_node, node, graph, attr};
}

static void bind_inputs(struct walk *w, uint32_t graph, uint32_t node) {
  const struct model_graph *g = &w->m->graphs[graph];
  const struct model_node *n = &w->m->nodes[node];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t given = i < n->n_in ? model_input(w->m, n, i) : NO_ID;
    set(w, w->m->graph_io[g->inputs + i], given != NO_ID && w->s->typed[given]);
  }
}

// The node's next body from that attribute on; NO_ID: none.
static uint32_t body_from(const struct walk *w, uint32_t node, uint32_t *attr) {
  const struct model_node *n = &w->m->nodes[node];
  for (; *attr < n->n_attrs; ++*attr) {
    const struct model_attr *a = &w->m->attrs[n->attrs + *attr];
    if (!(a->flags & ATTR_DEAD) && a->type == ATTR_GRAPH && a->ref_name == w->m->empty)
      return a->first;
  }
  return NO_ID;
}

// What Loop carries from turn to turn, and all that Scan is given, must have types: else neither has a type.
static bool can_enter(const struct walk *w, enum op op, uint32_t node) {
  if (op == OP_If) return true;
  for (uint32_t i = op == OP_Loop ? 2 : 0; i < w->m->nodes[node].n_in; i++)
    if (!is_fit(w, node, i)) return false;
  return true;
}

// If: both branches must know the type, or neither. Loop, Scan: the body of all of its outputs.
static void settle(struct walk *w, uint32_t node) {
  const struct model_node *n = &w->m->nodes[node];
  const enum op op = kit_op(&w->s->k, node);
  uint32_t attr = 0;
  const uint32_t first = body_from(w, node, &attr), skipped = op == OP_Loop ? 1 : 0;
  attr++;
  const uint32_t other = op == OP_If ? body_from(w, node, &attr) : first;
  bool fits = first != NO_ID && other != NO_ID && can_enter(w, op, node);
  for (uint32_t i = 0; i < n->n_out && fits; i++) {
    const bool a = is_result_typed(w, first, i + skipped),
               b = is_result_typed(w, other, i + skipped);
    fits = op == OP_If ? a == b : a;
  }
  for (uint32_t i = 0; i < n->n_out; i++)
    set(w, model_output(w->m, n, i), fits && is_result_typed(w, first, i + skipped));
}

static void come_back(struct walk *w, const struct scope *from) {
  const struct model_node *n = &w->m->nodes[from->node];
  for (uint32_t i = 0; i < n->n_out; i++)
    set(w, model_output(w->m, n, i), is_result_typed(w, from->graph, i));
}

static bool call(struct walk *w, uint32_t node) {
  const struct model *m = w->m;
  const struct model_node *n = &m->nodes[node];
  const uint32_t function = m->n_functions ? model_calls_callee(&w->calls, node) : NO_ID;
  if (function == NO_ID || m->functions[function].graph == NO_ID) return false;
  if (w->visits > VISITS + (uint64_t)VISITS_EACH * m->n_nodes) {
    for (uint32_t i = 0; i < n->n_out; i++)
      set(w, model_output(m, n, i), true);
    return true;
  }
  bind_inputs(w, m->functions[function].graph, node);
  enter(w, m->functions[function].graph, node, NO_ID);
  return true;
}

static void control(struct walk *w, uint32_t node, uint32_t attr) {
  const enum op op = kit_op(&w->s->k, node);
  const uint32_t body = can_enter(w, op, node) ? body_from(w, node, &attr) : NO_ID;
  if (body == NO_ID) {
    settle(w, node);
    return;
  }
  if (op != OP_If) bind_inputs(w, body, node);
  if (op == OP_Loop && w->m->graphs[body].n_inputs) // counts its turns
    set(w, w->m->graph_io[w->m->graphs[body].inputs], true);
  enter(w, body, node, attr);
}

static void visit(struct walk *w, uint32_t node) {
  const enum op op = kit_op(&w->s->k, node);
  if (model_function_around(w->m, w->m->nodes[node].graph) != NO_ID) w->visits++;
  if (op == OP_If || op == OP_Loop || op == OP_Scan)
    control(w, node, 0);
  else if (is_of_onnx(schema_of_node(&w->names, node)) || !call(w, node))
    apply(w, node);
}

bool static_is_typed(const struct static_run *s, uint32_t value) {
  return value >= s->n_typed || s->typed[value];
}

void static_find_typed(struct static_run *s) {
  struct walk w = {.s = s, .m = s->k.m};
  TABLE_ADD(s, typed, w.m->n_values);
  schema_names_init(&w.names, w.m);
  model_calls_init(&w.calls, w.m);
  for (uint32_t i = 0; i < w.m->n_values; i++)
    set(&w, i, false);
  enter(&w, s->graph, NO_ID, NO_ID);
  while (w.n_scopes) {
    struct scope *top = &w.scopes[w.n_scopes - 1];
    if (top->next != NO_ID) {
      const uint32_t node = top->next;
      top->next = w.m->nodes[node].next;
      visit(&w, node);
      continue;
    }
    const struct scope done = w.scopes[--w.n_scopes];
    if (done.node == NO_ID) break;
    if (done.attr == NO_ID)
      come_back(&w, &done);
    else
      control(&w, done.node, done.attr + 1);
  }
  TABLE_FREE(&w, scopes);
  model_calls_done(&w.calls);
  schema_names_done(&w.names);
}
