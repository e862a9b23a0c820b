// The pass optimize/fold-if: an If whose condition is decided gives way to the branch that is taken, a Loop of
// no or one trip to what it carries or to its body.
//
//   rank = Size(Shape(x)); c = Equal(rank, 2)          u = Unsqueeze(x, 1)
//   y = If(c) { u = Unsqueeze(x, 1); r = Relu(u) }  ─▶  y = Relu(u)
//           else { … }
//
// A graph's nodes cannot move to another graph: they are made anew in front of the node, with their names
// where these are free by then. What the node gave is given by the new nodes under the same names; what
// was nothing but a value from outside is given by an Identity. Initializers of the graph become initializers
// of the graph around, by recipes: nothing is read.
//
// Everything that is needed of the graph is put down first as a list of steps, in which graphs within it
// come before the node that they hang on, since the node's removal takes all of it away. Where something
// cannot be made anew (references to a function's attributes, attributes given twice, strings, sparse tensors, inputs of another kind
// than tensors), nothing happens.
//
// A condition that is not known may still be decided by what stands behind: if an LSTM, which wants 3 dims, would
// be given 5 by one branch, no run that ends without an error takes it. So, where branches give different
// ranks, each is tried in a table of its own: the one with which some node of the same graph could not run gives
// way to the other. Not in bodies of Loops, where it would be said of one trip only.
//
//   y = If(c) { Squeeze(x, -1) } else { x }    x [b,128,t]
//   LSTM(Unsqueeze(y, 0))                      of 4 dims, if c does not hold  ─▶  y = Squeeze(x, -1)
//
// Nor does a run that ends take a branch that has a node which cannot run with its inputs. Such a branch would keep a runtime
// from loading the model once steps behind this one let it know the dims of what the branch is given.
//
// Graphs inside come first, so that what is decided in a branch is folded by the time that the branch moves.
#include "passes/optimize/optimize.h"

#include "base/table.h"
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "passes/questions/name_filter.h"

enum step_kind { STEP_GRAPH, STEP_INPUT, STEP_TENSOR, STEP_NODE, STEP_OUTPUT };

// Ids are those of what is copied; `graph`: the one it lies in.
struct step {
  enum step_kind kind;
  uint32_t graph, value;
  struct span name; // GRAPH, NODE
  uint32_t recipe;  // TENSOR
  enum dtype dtype; // INPUT
  uint32_t rank;
  const struct model_dim *dims;
  struct edit_node node; // NODE: graphs of attributes by their old ids
};

struct frame {
  uint32_t graph, node; // the next node
  uint32_t attr;        // of it: the next attribute
};

struct folder {
  struct kit k;
  const struct name_filter *nodes;
  struct arena arena; // of the node at hand
  TABLE(struct step, steps);
  TABLE(struct frame, stack);
  // By old id: 1 + what stands for it; 0: itself, or nothing yet.
  TABLE(uint32_t, value_of);
  TABLE(uint32_t, graph_of);
  TABLE(uint32_t, seen); // by value: number of the site at which it was put down
  uint32_t site;
  uint32_t trials; // of branches, for conditions that are not known
};

static void cover(struct folder *f) {
  const struct model *m = f->k.m;
  if (f->n_value_of < m->n_values) TABLE_ADD(f, value_of, m->n_values - f->n_value_of);
  if (f->n_seen < m->n_values) TABLE_ADD(f, seen, m->n_values - f->n_seen);
  if (f->n_graph_of < m->n_graphs) TABLE_ADD(f, graph_of, m->n_graphs - f->n_graph_of);
}

// ---- what is decided ---------------------------------------------------------------------------

// A value of one element that is a number in every run.
static bool decided(struct kit *k, uint32_t value, int64_t *out) {
  const struct infer_number *list;
  uint32_t n;
  return value != NO_ID && infer_numbers(k->env->infer, value, &list, &n) && n == 1 &&
         list[0].den == 1 && list[0].num != NO_ID &&
         dims_is_number(infer_dims(k->env->infer), list[0].num, out);
}

static uint32_t output_of(const struct model *m, uint32_t graph, uint32_t i) {
  return i < m->graphs[graph].n_outputs ? m->graph_io[m->graphs[graph].outputs + i] : NO_ID;
}

static uint32_t input_of(const struct model *m, uint32_t graph, uint32_t i) {
  return i < m->graphs[graph].n_inputs ? m->graph_io[m->graphs[graph].inputs + i] : NO_ID;
}

// How many trips a Loop makes: 0, 1, or -1 for more or not known.
static int trips_of(struct kit *k, uint32_t node, uint32_t body) {
  const uint32_t most = kit_in(k, node, 0), first = kit_in(k, node, 1);
  int64_t n = INT64_MAX, begins = 1, goes_on;
  const bool counted = most == NO_ID || decided(k, most, &n);
  const bool known = first == NO_ID || decided(k, first, &begins);
  if ((counted && n <= 0) || (known && !begins)) return 0;
  if (!counted || !known) return -1;
  if (n == 1) return 1;
  return decided(k, output_of(k->m, body, 0), &goes_on) && !goes_on ? 1 : -1;
}

// ---- putting down ------------------------------------------------------------------------------

static struct step *push(struct folder *f, enum step_kind kind, uint32_t graph) {
  struct step *s = TABLE_PUSH(f, steps);
  *s = (struct step){.kind = kind, .graph = graph, .value = NO_ID};
  return s;
}

static struct span kept_name(struct folder *f, uint32_t name) {
  const struct span s = model_name(f->k.m, name);
  return span_of(arena_string(&f->arena, s), s.n);
}

// Is the graph one of those that are copied?
static bool is_copied(const struct folder *f, uint32_t graph, uint32_t root) {
  const struct model *m = f->k.m;
  for (; graph != NO_ID; graph = m->graphs[graph].parent)
    if (graph == root) return true;
  return false;
}

// A value that a node uses, or a graph gives: an initializer is put down where it is first met. False: it is
// made later, or nobody can make it.
static bool use(struct folder *f, uint32_t root, uint32_t value) {
  const struct model *m = f->k.m;
  if (value == NO_ID || !is_copied(f, m->values[value].graph, root)) return true;
  if (f->seen[value] == f->site) return true;
  const struct model_value *v = &m->values[value];
  if (v->kind != VALUE_INITIALIZER || v->flags & VALUE_IS_INPUT) return false;
  const struct model_tensor *t = &m->tensors[v->def];
  if (t->home != HOME_INITIALIZER || t->flags & TENSOR_SPARSE ||
      !edit_tensor_readable(f->k.e, v->def))
    return false;
  f->seen[value] = f->site;
  struct step *s = push(f, STEP_TENSOR, v->graph);
  s->value = value;
  s->recipe = edit_tensor_recipe(f->k.e, v->def);
  return true;
}

// One attribute. False: it cannot be copied. `rows` of graphs are walked already.
static bool attribute(struct folder *f, uint32_t node, const struct model_attr *row,
                      struct edit_attr *out) {
  struct kit *k = &f->k;
  struct kit_attr a;
  const char *name = arena_string(&f->arena, model_name(k->m, row->name));
  if (kit_attr(k, node, name, &a) != KIT_GIVEN) return false;
  *out = (struct edit_attr){.name = name, .type = a.type, .i = a.i, .f = a.f, .n = a.n};
  switch (a.type) {
  case ATTR_INT:
  case ATTR_FLOAT: return true;
  case ATTR_STRING: out->s = span_of(arena_string(&f->arena, a.s), a.s.n); return true;
  case ATTR_INTS:
    out->ints = a.n ? arena_copy(&f->arena, a.ints, a.n * sizeof *a.ints) : NULL;
    return true;
  case ATTR_FLOATS:
    out->floats = a.n ? arena_copy(&f->arena, a.floats, a.n * sizeof *a.floats) : NULL;
    return true;
  case ATTR_TENSOR:
    if (!edit_tensor_readable(k->e, a.tensor)) return false;
    out->recipe = edit_tensor_recipe(k->e, a.tensor);
    return true;
  case ATTR_GRAPH: out->graph = a.graph; return true;
  default: return false;
  }
}

static bool put_node(struct folder *f, uint32_t root, uint32_t node) {
  const struct model *m = f->k.m;
  const struct model_node *n = &m->nodes[node];
  if (n->overload != m->empty) return false;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (!use(f, root, model_input(m, n, i))) return false;
  struct edit_attr *attrs = arena_alloc(&f->arena, (n->n_attrs + (size_t)1) * sizeof *attrs);
  struct edit_node spec = {.attrs = attrs, .n_in = n->n_in, .n_out = n->n_out};
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *row = &m->attrs[n->attrs + i];
    if (row->flags & ATTR_DEAD) continue;
    if (!kit_attr_is_first(m, node, i)) return false; // nor those without a name
    if (!attribute(f, node, row, &attrs[spec.n_attrs++])) return false;
  }
  // Values by their old ids, inputs before outputs.
  uint32_t *values = arena_alloc(&f->arena, (n->n_in + (size_t)n->n_out + 1) * sizeof *values);
  for (uint32_t i = 0; i < n->n_in + n->n_out; i++)
    values[i] = m->refs[n->refs + i].value;
  for (uint32_t i = n->n_in; i < n->n_in + n->n_out; i++)
    if (values[i] != NO_ID) f->seen[values[i]] = f->site;
  spec.in = values;
  spec.op_type = kept_name(f, n->op_type);
  spec.domain = kept_name(f, n->domain);
  struct step *s = push(f, STEP_NODE, n->graph);
  s->name = kept_name(f, n->name);
  s->node = spec;
  return true;
}

// The inputs of a graph within.
static bool put_inputs(struct folder *f, uint32_t graph) {
  const struct model *m = f->k.m;
  for (uint32_t i = 0; i < m->graphs[graph].n_inputs; i++) {
    const uint32_t value = input_of(m, graph, i);
    if (m->values[value].kind != VALUE_INPUT) return false;
    uint32_t at = model_live_info(m, m->values[value].info);
    while (at != NO_ID && m->infos[at].home != INFO_INPUT)
      at = model_live_info(m, m->infos[at].next);
    struct step *s = push(f, STEP_INPUT, graph);
    s->value = value;
    s->rank = NO_ID;
    f->seen[value] = f->site;
    if (at == NO_ID) continue;
    const struct model_info *info = &m->infos[at];
    if (!(info->flags & INFO_TENSOR)) return false;
    s->dtype = (enum dtype)info->dtype;
    if (!(info->flags & INFO_SHAPED)) continue;
    struct model_dim *dims = arena_alloc(&f->arena, (info->rank + (size_t)1) * sizeof *dims);
    if (info->rank) memcpy(dims, m->info_dims + info->dims, info->rank * sizeof *dims);
    s->rank = info->rank;
    s->dims = dims;
  }
  return true;
}

static bool put_outputs(struct folder *f, uint32_t root, uint32_t graph) {
  const struct model *m = f->k.m;
  for (uint32_t i = 0; i < m->graphs[graph].n_outputs; i++) {
    const uint32_t value = output_of(m, graph, i);
    if (!use(f, root, value)) return false;
    // One that a graph around it makes: no runtime takes such an output.
    if (m->values[value].graph != graph) return false;
    push(f, STEP_OUTPUT, graph)->value = value;
  }
  return true;
}

static void enter(struct folder *f, uint32_t graph) {
  *TABLE_PUSH(f, stack) = (struct frame){graph, f->k.m->graphs[graph].first_node, 0};
}

// The next graph in the attributes of the frame's node; NO_ID: none is left.
static uint32_t next_graph(struct folder *f, struct frame *at) {
  const struct model *m = f->k.m;
  const struct model_node *n = &m->nodes[at->node];
  while (at->attr < n->n_attrs) {
    const struct model_attr *a = &m->attrs[n->attrs + at->attr++];
    if (!(a->flags & ATTR_DEAD) && a->type == ATTR_GRAPH && a->first != NO_ID) return a->first;
  }
  return NO_ID;
}

// All that the graph is made of. False: not all of it can be made anew.
static bool put_down(struct folder *f, uint32_t root) {
  f->n_steps = f->n_stack = 0;
  enter(f, root);
  while (f->n_stack > 0) {
    struct frame *at = &f->stack[f->n_stack - 1];
    if (at->node == NO_ID) {
      const uint32_t graph = at->graph;
      f->n_stack--;
      if (graph != root && !put_outputs(f, root, graph)) return false;
      continue;
    }
    const uint32_t inner = next_graph(f, at);
    if (inner != NO_ID) {
      push(f, STEP_GRAPH, inner)->name = kept_name(f, f->k.m->graphs[inner].name);
      if (!put_inputs(f, inner)) return false;
      enter(f, inner);
      continue;
    }
    const uint32_t node = at->node;
    at->node = f->k.m->nodes[node].next;
    at->attr = 0;
    if (!put_node(f, root, node)) return false;
  }
  for (uint32_t i = 0; i < f->k.m->graphs[root].n_outputs; i++)
    if (!use(f, root, output_of(f->k.m, root, i))) return false;
  return true;
}

// ---- making anew -------------------------------------------------------------------------------

static uint32_t stands_for(const struct folder *f, uint32_t value) {
  return value != NO_ID && value < f->n_value_of && f->value_of[value] ? f->value_of[value] - 1
                                                                       : value;
}

static struct span free_name(struct folder *f, uint32_t value) {
  return kit_names_take(&f->k.names, KIT_VALUES, f->k.graph, model_value_name(f->k.m, value),
                        &f->arena);
}

static void note(struct folder *f, uint32_t old, uint32_t made) {
  cover(f);
  f->value_of[old] = made + 1;
}

static void make_node(struct folder *f, const struct step *s) {
  struct kit *k = &f->k;
  struct edit_node spec = s->node;
  uint32_t *in = arena_alloc(&f->arena, (spec.n_in + (size_t)1) * sizeof *in);
  struct edit_output *out = arena_alloc(&f->arena, (spec.n_out + (size_t)1) * sizeof *out);
  struct edit_attr *attrs = arena_alloc(&f->arena, (spec.n_attrs + (size_t)1) * sizeof *attrs);
  const uint32_t *old = s->node.in + spec.n_in;
  for (uint32_t i = 0; i < spec.n_in; i++)
    in[i] = stands_for(f, s->node.in[i]);
  for (uint32_t i = 0; i < spec.n_out; i++) {
    const uint32_t taken = old[i] == NO_ID ? NO_ID : f->value_of[old[i]];
    out[i] = (struct edit_output){NO_ID, span_of("", 0)};
    if (taken) // an output of the node that went
      out[i].value = taken - 1;
    else if (old[i] != NO_ID)
      out[i].name = free_name(f, old[i]);
    if (old[i] == NO_ID) out[i].value = NO_ID;
  }
  for (uint32_t i = 0; i < spec.n_attrs; i++) {
    attrs[i] = spec.attrs[i];
    if (attrs[i].type == ATTR_GRAPH) attrs[i].graph = f->graph_of[attrs[i].graph] - 1;
  }
  spec.graph = f->graph_of[s->graph] - 1;
  spec.before = spec.graph == k->graph ? k->before : NO_ID;
  spec.name = kit_names_free(&k->names, KIT_NODES, spec.graph, s->name, &f->arena);
  spec.in = in;
  spec.out = out;
  spec.attrs = attrs;
  const uint32_t node = edit_add_node(k->e, &spec);
  for (uint32_t i = 0; i < spec.n_out; i++)
    if (old[i] != NO_ID) note(f, old[i], kit_out(k, node, i));
}

static void make(struct folder *f) {
  struct kit *k = &f->k;
  for (uint32_t i = 0; i < f->n_steps; i++) {
    const struct step *s = &f->steps[i];
    switch (s->kind) {
    case STEP_GRAPH: {
      const uint32_t parent = f->graph_of[k->m->graphs[s->graph].parent] - 1;
      const uint32_t made = edit_add_subgraph(k->e, parent, s->name);
      cover(f);
      f->graph_of[s->graph] = made + 1;
      break;
    }
    case STEP_INPUT:
      note(f, s->value,
           edit_add_graph_input(k->e, f->graph_of[s->graph] - 1, free_name(f, s->value), s->dtype,
                                s->dims, s->rank));
      break;
    case STEP_TENSOR: {
      const uint32_t graph = f->graph_of[s->graph] - 1;
      if (k->m->graphs[graph].kind != GRAPH_FUNCTION && k->m->ir_version < WEIGHTS_FREE_IR)
        weights_free_initializers(k->e);
      note(f, s->value, edit_add_tensor(k->e, graph, free_name(f, s->value), s->recipe));
      break;
    }
    case STEP_NODE: make_node(f, s); break;
    case STEP_OUTPUT: {
      const uint32_t graph = f->graph_of[s->graph] - 1;
      edit_set_graph_output(k->e, graph, k->m->graphs[graph].n_outputs, stands_for(f, s->value));
    }
    }
  }
}

// ---- one node ----------------------------------------------------------------------------------

// What becomes of an output of the node.
struct result {
  uint32_t to;   // the value
  uint32_t from; // of the graph, or around it
  bool stacks;   // one slice of it along a new first axis
  bool taken;    // the node that makes `from` gives it
};

static void give(struct folder *f, const struct result *r) {
  struct kit *k = &f->k;
  const struct edit_output out = {.value = r->to};
  uint32_t in[2] = {stands_for(f, r->from)};
  const int64_t axes[1] = {0};
  const struct edit_attr attr = {.name = "axes", .type = ATTR_INTS, .ints = axes, .n = 1};
  struct edit_node spec = {.graph = k->graph, .before = k->before, .in = in, .n_in = 1};
  spec.out = &out;
  spec.n_out = 1;
  spec.op_type = span_str(r->stacks ? "Unsqueeze" : "Identity");
  if (r->stacks && kit_opset(k, k->graph) >= 13) {
    in[1] = kit_new_ints(k, "axes", axes, 1);
    spec.n_in = 2;
  } else if (r->stacks) {
    spec.attrs = &attr;
    spec.n_attrs = 1;
  }
  spec.name = // the value's own where it is free: names move when one is made
      kit_names_free(&k->names, KIT_NODES, k->graph, model_value_name(k->m, r->to), &f->arena);
  edit_add_node(k->e, &spec);
}

// The results that anybody wants. Of a value that the graph makes, the first one takes its place.
static struct result *results_of(struct folder *f, uint32_t node, uint32_t root, uint32_t first,
                                 uint32_t carried, uint32_t *n) {
  struct kit *k = &f->k;
  const struct model *m = k->m;
  const uint32_t n_out = m->nodes[node].n_out;
  struct result *list = arena_alloc(&f->arena, (n_out + (size_t)1) * sizeof *list);
  *n = 0;
  for (uint32_t i = 0; i < n_out; i++) {
    const uint32_t to = model_output(m, &m->nodes[node], i), from = output_of(m, root, first + i);
    if (to == NO_ID || kit_unused(k, to)) continue;
    struct result r = {.to = to, .from = from, .stacks = i >= carried};
    const bool made = m->values[from].graph == root && m->values[from].kind == VALUE_NODE_OUTPUT;
    r.taken = made && !r.stacks;
    for (uint32_t p = 0; p < *n; p++)
      r.taken = r.taken && !(list[p].taken && list[p].from == from);
    list[(*n)++] = r;
  }
  return list;
}

// The graph takes the node's place; what its inputs are is in value_of already.
static void inline_graph(struct folder *f, uint32_t node, uint32_t root,
                         const struct result *results, uint32_t n) {
  struct kit *k = &f->k;
  f->graph_of[root] = k->graph + 1;
  k->before = k->m->nodes[node].next;
  edit_remove_node(k->e, node);
  for (uint32_t i = 0; i < n; i++)
    if (results[i].taken) f->value_of[results[i].from] = results[i].to + 1;
  make(f);
  for (uint32_t i = 0; i < n; i++)
    if (!results[i].taken) give(f, &results[i]);
}

static uint32_t graph_named(struct kit *k, uint32_t node, const char *name) {
  uint32_t graph;
  return kit_attr_graph(k, node, name, &graph) ? graph : NO_ID;
}

static void begin(struct folder *f) {
  arena_reset(&f->arena);
  cover(f);
  f->site++;
}

// Does every run of the graph run each of its nodes once, in any number of Ifs?
static bool runs_once(struct kit *k, uint32_t graph) {
  for (; k->m->graphs[graph].kind == GRAPH_SUB; graph = k->m->graphs[graph].parent)
    if (kit_op(k, model_graph_node(k->m, graph)) != OP_If) return false;
  return k->m->graphs[graph].kind == GRAPH_MAIN;
}

static bool other_ranks(struct kit *k, uint32_t node) {
  const uint32_t then = graph_named(k, node, "then_branch");
  const uint32_t other = graph_named(k, node, "else_branch");
  struct infer_type a, b;
  for (uint32_t i = 0; then != NO_ID && other != NO_ID && i < k->m->nodes[node].n_out; i++) {
    const uint32_t x = output_of(k->m, then, i), y = output_of(k->m, other, i);
    if (x != NO_ID && y != NO_ID && infer_type_of(k->env->infer, x, &a) &&
        infer_type_of(k->env->infer, y, &b) && a.ranked && b.ranked && a.rank != b.rank)
      return true;
  }
  return false;
}

static bool contradicts(const struct model *m, uint32_t value, bool is) {
  struct infer *in = infer_new(m, NULL);
  infer_assume(in, value, is);
  infer_all(in, NULL);
  const bool found = infer_contradicted(in);
  infer_free(in);
  return found;
}

// Is there a node in the graph that every run which enters it stops at?
static bool stops(struct kit *k, uint32_t graph) {
  if (graph == NO_ID) return false;
  for (uint32_t n = k->m->graphs[graph].first_node; n != NO_ID; n = k->m->nodes[n].next)
    if (infer_cannot_run(k->env->infer, n) && kit_out(k, n, 0) != NO_ID &&
        !kit_unused(k, kit_out(k, n, 0)))
      return true;
  return false;
}

// In a function it would have to hold of all calls.
static bool only_one_ends(struct kit *k, uint32_t node, int64_t *taken) {
  if (model_function_around(k->m, k->m->nodes[node].graph) != NO_ID) return false;
  const bool not_then = stops(k, graph_named(k, node, "then_branch")),
             not_else = stops(k, graph_named(k, node, "else_branch"));
  *taken = not_else;
  return not_then != not_else;
}

// Which branch no run can do without. Every trial infers the whole model: there are few, over few nodes.
static bool forced(struct folder *f, uint32_t node, int64_t *taken) {
  enum { TRIALS = 16, NODES = 100000 };
  struct kit *k = &f->k;
  const uint32_t c = kit_in(k, node, 0);
  if (f->trials >= TRIALS || k->m->n_nodes > NODES || c == NO_ID ||
      k->m->values[c].kind != VALUE_NODE_OUTPUT ||
      k->m->values[c].graph != k->m->nodes[node].graph || !other_ranks(k, node) ||
      !runs_once(k, k->m->nodes[node].graph))
    return false;
  f->trials++;
  const bool not_else = contradicts(k->m, c, false), not_then = contradicts(k->m, c, true);
  *taken = not_else;
  return not_else != not_then;
}

static bool fold_if(struct folder *f, uint32_t node) {
  struct kit *k = &f->k;
  const char *why = "decided";
  int64_t taken;
  uint32_t n;
  if (!decided(k, kit_in(k, node, 0), &taken)) {
    if (!only_one_ends(k, node, &taken) && !forced(f, node, &taken)) return false;
    why = "forced";
  }
  const uint32_t root = graph_named(k, node, taken ? "then_branch" : "else_branch");
  if (root == NO_ID || k->m->graphs[root].n_inputs > 0 ||
      k->m->graphs[root].n_outputs < k->m->nodes[node].n_out)
    return false;
  begin(f);
  if (!put_down(f, root)) return false;
  const struct result *results = results_of(f, node, root, 0, UINT32_MAX, &n);
  kit_begin(k, node, why);
  inline_graph(f, node, root, results, n);
  return true;
}

// A number of the rank that the body's input has: 0, but 1 where it is declared so.
static uint32_t number(struct folder *f, const char *what, uint32_t input, enum dtype dtype) {
  struct kit *k = &f->k;
  const int64_t one = 1, zero = 0;
  uint32_t rank = 0;
  if (!kit_rank(k, input, &rank) || rank > 1) rank = 0;
  const struct span raw = dtype == DTYPE_BOOL ? span_of("\1", 1) : span_of(&zero, sizeof zero);
  return kit_new_tensor(k, what, recipe_bytes(k->r, dtype, &one, rank, raw));
}

static bool one_trip(struct folder *f, uint32_t node, uint32_t body) {
  struct kit *k = &f->k;
  const struct model *m = k->m;
  const uint32_t carried = kit_n_in(k, node) > 2 ? kit_n_in(k, node) - 2 : 0;
  uint32_t n;
  if (m->graphs[body].n_inputs != carried + 2 ||
      m->graphs[body].n_outputs < 1 + m->nodes[node].n_out)
    return false;
  begin(f);
  for (uint32_t i = 0; i < carried + 2; i++) {
    const uint32_t input = input_of(m, body, i), given = kit_in(k, node, i);
    if (m->values[input].kind != VALUE_INPUT) return false;
    if (i >= 2 && (given == NO_ID || kit_may_be_left_out(m, given))) return false;
    f->seen[input] = f->site;
  }
  if (!put_down(f, body)) return false;
  const struct result *results = results_of(f, node, body, 1, carried, &n);
  kit_begin(k, node, "one_trip");
  for (uint32_t i = 0; i < carried; i++)
    f->value_of[input_of(m, body, i + 2)] = kit_in(k, node, i + 2) + 1;
  const uint32_t trip = input_of(m, body, 0), goes_on = input_of(m, body, 1);
  if (!kit_unused(k, trip)) note(f, trip, number(f, "trip", trip, DTYPE_INT64));
  if (!kit_unused(k, goes_on)) note(f, goes_on, number(f, "goes_on", goes_on, DTYPE_BOOL));
  inline_graph(f, node, body, results, n);
  return true;
}

// Nothing runs: what is carried comes out. Of what is stacked there is nothing, whose dims nobody knows.
static bool no_trip(struct folder *f, uint32_t node) {
  struct kit *k = &f->k;
  const struct model *m = k->m;
  const uint32_t carried = kit_n_in(k, node) > 2 ? kit_n_in(k, node) - 2 : 0;
  const uint32_t n_out = m->nodes[node].n_out;
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_out; i++) {
    const uint32_t to = model_output(m, &m->nodes[node], i);
    if (to == NO_ID || kit_unused(k, to)) continue;
    if (i >= carried || kit_in(k, node, i + 2) == NO_ID ||
        kit_may_be_left_out(m, kit_in(k, node, i + 2)))
      return false;
  }
  begin(f);
  struct result *results = arena_alloc(&f->arena, (n_out + (size_t)1) * sizeof *results);
  for (uint32_t i = 0; i < n_out; i++) {
    const uint32_t to = model_output(m, &m->nodes[node], i);
    if (to == NO_ID || kit_unused(k, to)) continue;
    results[n++] = (struct result){.to = to, .from = kit_in(k, node, i + 2)};
  }
  kit_begin(k, node, "no_trip");
  k->before = m->nodes[node].next;
  edit_remove_node(k->e, node);
  for (uint32_t i = 0; i < n; i++)
    give(f, &results[i]);
  return true;
}

static bool fold_loop(struct folder *f, uint32_t node) {
  struct kit *k = &f->k;
  const uint32_t body = graph_named(k, node, "body");
  if (body == NO_ID) return false;
  const int trips = trips_of(k, node, body);
  return trips == 0 ? no_trip(f, node) : trips == 1 && one_trip(f, node, body);
}

static void walk(struct folder *f, uint32_t graph) {
  struct kit *k = &f->k;
  for (uint32_t n = k->m->graphs[graph].first_node, next; n != NO_ID; n = next) {
    next = k->m->nodes[n].next;
    const enum op op = kit_op(k, n);
    if (op != OP_If && op != OP_Loop) continue;
    if (name_filter_refuses(f->nodes, model_name_str(k->m, k->m->nodes[n].name))) continue;
    if (op == OP_If)
      fold_if(f, n);
    else
      fold_loop(f, n);
  }
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct folder f = {.nodes = with};
  kit_init(&f.k, env, env->pass->name);
  kit_infer(&f.k);
  name_filter_warn(&f.nodes, 1, env);
  for (uint32_t g = env->m->n_graphs; g-- > 0;)
    if (!(env->m->graphs[g].flags & GRAPH_DEAD) && !weights_in_training(env->m, g)) walk(&f, g);
  TABLES_FREE(&f, steps, stack, value_of, graph_of, seen);
  arena_free(&f.arena);
  return kit_done(&f.k, err);
}

const struct pass optimize_fold_if = {
    .name = "optimize/fold-if",
    .summary = "replace Ifs by the branch that is always taken, and Loops that run at most once",
    .about =
        "Replaces an If by one of its branches, if inference knows the condition or if a node "
        "after the If could not run with the other branch. Replaces a Loop that runs once by its "
        "body, and a Loop that never runs by the initial values that it carries.",
    .exactness = EXACTNESS_EXACT,
    NAME_FILTER_ALONE,
    .run = run,
};
