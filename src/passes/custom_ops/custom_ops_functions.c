// Functions of onnx_passes.ops, made from their text (custom_ops_text.c) where nodes call them.
//
//   node onnx_passes.ops::Quant ──▶ function Quant ──▶ its nodes, one of which is ops::Round ──▶ function Round
//
// Nodes of new functions stand at the end of the table of nodes, so one walk over it meets what they call in turn.
//
// A function has the opset of the model, since ONNX Runtime puts its nodes into the graph as if they were of
// that opset, whatever the function says. One that needs a newer opset raises the model.
//
// The text is the program's own: what does not fit in it is an assertion.
#include "model/model_calls.h"
#include "passes/custom_ops/custom_ops.h"
#include "passes/custom_ops/inside/custom_ops_inside.h"
#include "passes/kit/weights.h"
#include "passes/opset/opset.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static const char group_name[] = "inject-ops";

enum { GRAPHS = 8, LIST = 16, FUNCTIONS_IR = 8 };

// A graph that is being read, or that waits for its node.
struct block {
  uint32_t graph, parent;
  struct span label;
  const char *outputs;
};

struct reading {
  struct edits *e;
  const char *at; // in the text
  uint32_t root;  // the function's body
  struct block open[GRAPHS], waiting[GRAPHS];
  uint32_t n_open, n_waiting;
  struct arena a; // of a line
};

static bool take(struct reading *r, const char *word) {
  while (*r->at == ' ')
    r->at++;
  const size_t n = strlen(word);
  if (strncmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

static void must(struct reading *r, const char *word) {
  const bool there = take(r, word);
  assert(there);
  (void)there;
}

// Up to one of these characters, without blanks around.
static struct span until(struct reading *r, const char *ends) {
  take(r, "");
  const char *at = r->at;
  size_t n = strcspn(at, ends);
  r->at += n;
  while (n > 0 && at[n - 1] == ' ')
    n--;
  return span_of(at, n);
}

static uint32_t current(const struct reading *r) {
  return r->n_open ? r->open[r->n_open - 1].graph : r->root;
}

// The value of that name as seen from here; NO_ID: there is none.
static uint32_t named(const struct reading *r, struct span name) {
  const uint32_t id = model_find_name(r->e->m, name);
  return id == NO_ID ? NO_ID : model_lookup(r->e->m, current(r), id);
}

// ---- operands ----------------------------------------------------------------------------------

static uint32_t add_node(struct reading *r, uint32_t graph, struct span domain, struct span op,
                         const uint32_t *in, uint32_t n_in, const struct edit_output *out,
                         uint32_t n_out, const struct edit_attr *attrs, uint32_t n_attrs) {
  return edit_add_node(r->e, &(struct edit_node){.graph = graph,
                                                 .before = NO_ID,
                                                 .op_type = op,
                                                 .domain = domain,
                                                 .in = in,
                                                 .n_in = n_in,
                                                 .out = out,
                                                 .n_out = n_out,
                                                 .attrs = attrs,
                                                 .n_attrs = n_attrs});
}

static uint32_t text_constant(struct reading *r, struct span name, struct span text) {
  const struct edit_attr attr = {.name = "value_string", .type = ATTR_STRING, .s = text};
  const struct edit_output out = {NO_ID, name};
  const uint32_t node =
      add_node(r, r->root, span_str(""), span_str("Constant"), NULL, 0, &out, 1, &attr, 1);
  return model_output(r->e->m, &r->e->m->nodes[node], 0);
}

static uint32_t number_constant(struct reading *r, struct span name, const char *text) {
  const bool list = *text == '[';
  const size_t n = strlen(text);
  const int64_t one = 1;
  if (list || (!strpbrk(text, ".dn"))) {
    const int64_t x = strtoll(text + list, NULL, 10);
    return edit_add_tensor(r->e, r->root, name,
                           recipe_bytes(r->e->r, DTYPE_INT64, &one, list, span_of(&x, sizeof x)));
  }
  const double x = strtod(text, NULL);
  const float f = (float)x;
  const bool wide = text[n - 1] == 'd';
  return edit_add_tensor(r->e, r->root, name,
                         recipe_bytes(r->e->r, wide ? DTYPE_DOUBLE : DTYPE_FLOAT, NULL, 0,
                                      wide ? span_of(&x, sizeof x) : span_of(&f, sizeof f)));
}

// What stands for a number or a text, once in a function.
static uint32_t literal(struct reading *r, struct span word) {
  const char *text = arena_string(&r->a, word);
  const char *colon = strchr(text, ':');
  const char *plain = colon ? arena_string(&r->a, span_of(text, (size_t)(colon - text))) : text;
  const bool is_text = *plain == '"';
  const struct span inner = is_text ? span_of(plain + 1, strlen(plain) - 2) : span_str(plain);
  const struct span name = span_str(arena_printf(&r->a, "const_%s", arena_string(&r->a, inner)));
  uint32_t value = named(r, name);
  if (value == NO_ID && is_text)
    value = text_constant(r, name, inner);
  else if (value == NO_ID)
    value = number_constant(r, name, plain);
  if (!colon) return value;
  const struct span typed = span_str(arena_printf(&r->a, "const_%s_%s", plain, colon + 1));
  const uint32_t there = named(r, typed);
  if (there != NO_ID) return there;
  const uint32_t in[2] = {value, named(r, span_str(colon + 1))};
  const struct edit_output out = {NO_ID, typed};
  const uint32_t node =
      add_node(r, r->root, span_str(""), span_str("CastLike"), in, 2, &out, 1, NULL, 0);
  return model_output(r->e->m, &r->e->m->nodes[node], 0);
}

static uint32_t operand(struct reading *r, struct span word) {
  if (word.n == 0) return NO_ID;
  const uint32_t value = named(r, word);
  return value != NO_ID ? value : literal(r, word);
}

// ---- attributes --------------------------------------------------------------------------------

static enum attr_type type_of(struct span word) {
  static const char *const words[] = {
      [ATTR_FLOAT] = "float",   [ATTR_INT] = "int",        [ATTR_STRING] = "string",
      [ATTR_TENSOR] = "tensor", [ATTR_GRAPH] = "graph",    [ATTR_FLOATS] = "floats",
      [ATTR_INTS] = "ints",     [ATTR_STRINGS] = "strings"};
  for (enum attr_type t = ATTR_FLOAT; t <= ATTR_STRINGS; t++)
    if (span_is(word, words[t])) return t;
  assert(false);
  return ATTR_UNDEFINED;
}

static uint32_t waiting_graph(struct reading *r, const char *label) {
  for (uint32_t i = r->n_waiting; i-- > 0;) {
    const struct block b = r->waiting[i];
    if (b.parent != current(r) || !span_is(b.label, label)) continue;
    memmove(&r->waiting[i], &r->waiting[i + 1], (--r->n_waiting - i) * sizeof *r->waiting);
    return b.graph;
  }
  assert(false);
  return NO_ID;
}

// name=value, or a name alone.
static struct edit_attr attribute(struct reading *r) {
  struct edit_attr a = {.name = arena_string(&r->a, until(r, "=,>"))};
  if (!take(r, "=")) return a;
  if (take(r, "@")) {
    a.ref = arena_string(&r->a, until(r, ":"));
    take(r, ":");
    a.type = type_of(until(r, ",>"));
  } else if (take(r, "\"")) {
    a.type = ATTR_STRING;
    a.s = until(r, "\"");
    take(r, "\"");
  } else {
    const char *text = arena_string(&r->a, until(r, ",>"));
    const bool real = strpbrk(text, ".e") && strcmp(text, "graph") != 0;
    a.type = strcmp(text, "graph") == 0 ? ATTR_GRAPH : real ? ATTR_FLOAT : ATTR_INT;
    if (a.type == ATTR_GRAPH) a.graph = waiting_graph(r, a.name);
    if (a.type == ATTR_FLOAT) a.f = strtof(text, NULL);
    if (a.type == ATTR_INT) a.i = strtoll(text, NULL, 10);
  }
  return a;
}

static uint32_t attributes(struct reading *r, struct edit_attr *list) {
  uint32_t n = 0;
  if (!take(r, "<")) return 0;
  while (!take(r, ">")) {
    assert(n < LIST);
    list[n++] = attribute(r);
    take(r, ",");
  }
  return n;
}

// ---- lines -------------------------------------------------------------------------------------

// "(a, i:int64)", as inputs of a graph.
static void inputs(struct reading *r, uint32_t graph) {
  must(r, "(");
  while (!take(r, ")")) {
    const struct span name = until(r, ",:)");
    enum dtype dtype = DTYPE_UNDEFINED;
    if (take(r, ":")) dtype = dtype_by_name(until(r, ",)"));
    edit_add_graph_input(r->e, graph, name, dtype, NULL, dtype == DTYPE_UNDEFINED ? NO_ID : 0);
    take(r, ",");
  }
}

static void open_graph(struct reading *r) {
  assert(r->n_open < GRAPHS);
  struct block b = {.parent = current(r), .label = until(r, " ")};
  b.graph = edit_add_subgraph(r->e, b.parent, b.label);
  inputs(r, b.graph);
  take(r, "->");
  b.outputs = r->at;
  r->open[r->n_open++] = b;
}

static void set_outputs(struct reading *r, uint32_t graph, const char *list) {
  r->at = list;
  for (uint32_t i = 0; *r->at != '\n' && *r->at; i++) {
    const uint32_t value = named(r, until(r, ",\n"));
    assert(value != NO_ID);
    edit_set_graph_output(r->e, graph, i, value);
    take(r, ",");
  }
}

static void end_graph(struct reading *r) {
  const char *at = r->at;
  const struct block b = r->open[r->n_open - 1];
  set_outputs(r, b.graph, b.outputs);
  r->at = at;
  r->n_open--;
  assert(r->n_waiting < GRAPHS);
  r->waiting[r->n_waiting++] = b;
}

static void node(struct reading *r) {
  struct edit_output out[LIST];
  struct edit_attr attrs[LIST];
  uint32_t in[LIST], n_in = 0, n_out = 0;
  while (!take(r, "=")) {
    assert(n_out < LIST);
    out[n_out++] = (struct edit_output){NO_ID, until(r, ",=")};
    take(r, ",");
  }
  const struct span domain = span_str(take(r, "ops::") ? CUSTOM_OPS_DOMAIN : "");
  const struct span op = until(r, "<(");
  const uint32_t n_attrs = attributes(r, attrs);
  must(r, "(");
  while (!take(r, ")")) {
    assert(n_in < LIST);
    in[n_in++] = operand(r, until(r, ",)"));
    take(r, ",");
  }
  add_node(r, current(r), domain, op, in, n_in, out, n_out, attrs, n_attrs);
}

static void line(struct reading *r) {
  if (take(r, "graph "))
    open_graph(r);
  else if (take(r, "end"))
    end_graph(r);
  else
    node(r);
  r->at = strchr(r->at, '\n') + 1;
  arena_reset(&r->a);
}

// ---- a function --------------------------------------------------------------------------------

enum { TEXTS = 32 };

// The text of that name, by its place; NO_ID: there is none.
static uint32_t text_of(struct span name) {
  for (uint32_t i = 0; custom_ops_texts[i]; i++)
    if (span_eq(span_of(custom_ops_texts[i], strcspn(custom_ops_texts[i], " ")), name)) return i;
  return NO_ID;
}

static int64_t since_of(const char *text) {
  return strtoll(strstr(text, "since ") + 6, NULL, 10);
}

static void make(struct edits *e, const char *text) {
  struct reading r = {.e = e, .at = text};
  struct edit_attr attrs[LIST];
  const struct span name = until(&r, " ");
  take(&r, "since ");
  until(&r, "<(");
  const uint32_t n_attrs = attributes(&r, attrs);
  const uint32_t f = edit_add_function(e, span_str(CUSTOM_OPS_DOMAIN), name, attrs, n_attrs);
  r.root = e->m->functions[f].graph;
  assert(model_opset_version(e->m, r.root, span_str("")) >= since_of(text));
  inputs(&r, r.root);
  take(&r, "->");
  const char *outputs = r.at;
  r.at = strchr(r.at, '\n') + 1;
  while (*r.at)
    line(&r);
  assert(r.n_open == 0 && r.n_waiting == 0);
  set_outputs(&r, r.root, outputs);
  arena_free(&r.a);
}

// By text, the model's function of its name, or NO_ID.
static void find_functions(const struct model *m, uint32_t of[TEXTS]) {
  for (uint32_t i = 0; custom_ops_texts[i]; i++) {
    assert(i < TEXTS);
    of[i] = NO_ID;
  }
  for (uint32_t i = 0; i < m->n_functions; i++) {
    const struct model_function *f = &m->functions[i];
    if (f->flags & FUNCTION_DEAD || f->overload != m->empty ||
        !span_is(model_name(m, f->domain), CUSTOM_OPS_DOMAIN))
      continue;
    const uint32_t text = text_of(model_name(m, f->name));
    if (text != NO_ID) of[text] = i;
  }
}

// The text of the function that a node may call; NO_ID: it calls none of them.
static uint32_t called(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  if (n->flags & NODE_DEAD || n->overload != m->empty ||
      !span_is(model_name(m, n->domain), CUSTOM_OPS_DOMAIN))
    return NO_ID;
  return text_of(model_name(m, n->op_type));
}

// A pass made a call of an operator, and the model has another function of its name.
static int check_fits(const struct model *m, uint32_t node, uint32_t function, struct err *err) {
  const struct model_node *n = &m->nodes[node];
  const struct model_function *f = &m->functions[function];
  const uint32_t takes = m->graphs[f->graph].n_inputs;
  if (!(n->flags & NODE_NEW) || n->n_in <= takes) return 0;
  err_fill(err, ERR_MODEL,
           "the model's own function '" CUSTOM_OPS_DOMAIN
           "::%s' has %u inputs, but the operator of that name has %u",
           quote(model_name(m, f->name)).s, takes, n->n_in);
  return err_hint(err, "change the domain of the model's function");
}

static int add(struct pass_env *env, const char *text, struct err *err) {
  struct edits *e = env->edits;
  if (model_opset_version(e->m, e->m->main_graph, span_str("")) < since_of(text) &&
      opset_raise(env, since_of(text), err))
    return -1;
  edit_group(e, group_name, NO_ID, "function");
  if (model_opset_version(e->m, e->m->main_graph, span_str(CUSTOM_OPS_DOMAIN)) < 1)
    edit_set_opset(e, span_str(CUSTOM_OPS_DOMAIN), 1);
  weights_raise_ir(e, FUNCTIONS_IR);
  make(e, text);
  return 0;
}

int custom_ops_complete(struct pass_env *env, uint32_t first, struct err *err) {
  const struct model *m = env->m;
  uint32_t of[TEXTS];
  if (m->main_graph == NO_ID || model_find_name(m, span_str(CUSTOM_OPS_DOMAIN)) == NO_ID) return 0;
  find_functions(m, of);
  for (uint32_t i = first; i < m->n_nodes; i++) {
    const uint32_t text = called(m, i);
    if (text == NO_ID) continue;
    if (of[text] != NO_ID) {
      if (check_fits(m, i, of[text], err)) return -1;
      continue;
    }
    if (add(env, custom_ops_texts[text], err)) return -1;
    of[text] = m->n_functions - 1;
  }
  return 0;
}

// ---- what runs ---------------------------------------------------------------------------------

uint32_t custom_ops_not_runnable(const struct model *m) {
  struct model_calls calls = {0};
  struct arena a = {0};
  bool *called = arena_zalloc(&a, m->n_functions + (size_t)1);
  uint32_t found = NO_ID;
  model_calls_init(&calls, m);
  model_calls_called(&calls, called); // operators of other functions are never run
  for (uint32_t i = 0; i < m->n_nodes && found == NO_ID; i++) {
    const struct span domain = model_name(m, m->nodes[i].domain);
    const struct model_graph *root = &m->graphs[model_root_graph(m, m->nodes[i].graph)];
    if (!(m->nodes[i].flags & NODE_DEAD) && (root->kind != GRAPH_FUNCTION || called[root->owner]) &&
        (custom_ops_is_imported(domain) || span_is(domain, CUSTOM_OPS_DOMAIN)) &&
        model_calls_callee(&calls, i) == NO_ID)
      found = i;
  }
  model_calls_done(&calls);
  arena_free(&a);
  return found;
}

bool custom_ops_makes_runnable(const char *pass) {
  return strcmp(pass, custom_ops_import.name) == 0 || strcmp(pass, group_name) == 0;
}

// ---- the pass ----------------------------------------------------------------------------------

static int run(struct pass_env *env, void *options, struct err *err) {
  (void)options;
  return custom_ops_complete(env, 0, err);
}

const struct pass custom_ops_inject = {
    .name = "inject-ops/InjectCustomOps",
    .summary = "add functions for the operators of onnx_passes.ops that the model uses",
    .about =
        "Adds a function for each operator of the domain onnx_passes.ops that the model uses. The "
        "function expresses the operator in standard ONNX, so that runtimes can load the model. "
        "Passes that create such operators add their functions themselves.",
    .exactness = EXACTNESS_EXACT,
    .run = run,
};
