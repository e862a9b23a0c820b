// A function's body in place of a call.
//
//   function Swish<alpha=1.0>(x) -> y           h = local::Swish<alpha=2.0>(v)      h_a = 2.0
//     a = Constant<value_float=@alpha>()                                       ─▶   h_ax = Mul(h_a, v)
//     ax = Mul(a, x)                                                                h_s = Sigmoid(h_ax)
//     y = Mul(x, Sigmoid(ax))                                                       h = Mul(v, h_s)
//
// Nodes are made anew, in the order of the body, with names that begin with the call's. What the call gives stands for
// the function's inputs, what it leaves out is left out of every node; its attributes stand for references, the
// function's defaults for those that it does not give, and where there is none the attribute goes. The
// body's results are made under the call's outputs; a result that is an input is an Identity.
//
// Constants of the body become initializers of the main graph, once for all calls: a large one is neither
// read nor stored again. Constants that are the call's attributes are the call's own; texts stay Constant nodes, since
// there is no other form that edits make.
//
// Functions are looked at once, before anything changes: what cannot be copied (sparse tensors, inputs of graphs that are no
// tensors, nodes before what makes their inputs) keeps all calls of the function. What depends on the call is asked
// before the call goes. Graphs inside are copied before the node that they hang on, by a stack.
#include "passes/custom_ops/inside/inline_body.h"

#include "base/table.h"
#include "passes/kit/weights.h"

enum { PREFIX_BYTES = 1024 };

// ---- attributes --------------------------------------------------------------------------------

// A Constant that is one: no function of the model has the name.
static bool is_constant_node(const struct inline_body *b, uint32_t node) {
  return model_op_is(b->k->m, node, "Constant") && inline_body_callee(b, node) == NO_ID;
}

// What the attribute says, with nothing that lies in the model. False: no edit makes it. Not for graphs.
static bool copied(struct inline_body *b, const struct model_attr *row, struct edit_attr *out) {
  const struct model *m = b->k->m;
  struct arena *a = &b->arena;
  *out = (struct edit_attr){.name = arena_string(a, model_name(m, row->name)),
                            .type = (enum attr_type)row->type,
                            .n = row->count};
  const bool listed = !model_attr_is_constant(m, row) && (row->count == 0 || row->first != NO_ID);
  const size_t n = row->count;
  switch (out->type) {
  case ATTR_INT: out->i = row->u.i; return true;
  case ATTR_FLOAT: out->f = row->u.f; return true;
  case ATTR_STRING:
    if (row->u.s == NO_ID) return false;
    out->s = model_name(m, row->u.s);
    out->s = span_of(arena_string(a, out->s), out->s.n);
    return true;
  case ATTR_INTS:
    if (listed && n) out->ints = arena_copy(a, m->longs + row->first, n * 8);
    return listed;
  case ATTR_FLOATS:
    if (listed && n) out->floats = arena_copy(a, m->floats + row->first, n * 4);
    return listed;
  case ATTR_STRINGS: {
    struct span *list = arena_alloc(a, (n + 1) * sizeof *list);
    for (size_t i = 0; listed && i < n; i++) {
      const struct span s = model_name(m, m->strings[row->first + i]);
      list[i] = span_of(arena_string(a, s), s.n);
    }
    out->strings = list;
    return listed;
  }
  case ATTR_TENSOR:
    if (row->first == NO_ID || !edit_tensor_readable(b->k->e, row->first)) return false;
    out->recipe = edit_tensor_recipe(b->k->e, row->first);
    return true;
  default: return false;
  }
}

// The elements that a Constant's attribute stands for; NO_ID: texts and the like.
static uint32_t recipe_of(struct inline_body *b, const struct edit_attr *a) {
  struct recipes *r = b->k->r;
  const int64_t n = a->n;
  switch (a->type) {
  case ATTR_INT: return recipe_bytes(r, DTYPE_INT64, NULL, 0, span_of(&a->i, sizeof a->i));
  case ATTR_FLOAT: return recipe_bytes(r, DTYPE_FLOAT, NULL, 0, span_of(&a->f, sizeof a->f));
  case ATTR_INTS: return recipe_bytes(r, DTYPE_INT64, &n, 1, span_of(a->ints, a->n * (size_t)8));
  case ATTR_FLOATS:
    return recipe_bytes(r, DTYPE_FLOAT, &n, 1, span_of(a->floats, a->n * (size_t)4));
  case ATTR_TENSOR: return a->recipe;
  default: return NO_ID;
  }
}

// The attribute of a Constant that is its value, or NULL.
static const struct model_attr *value_attr(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (!(a->flags & ATTR_DEAD) && strncmp(model_name_str(m, a->name), "value", 5) == 0) return a;
  }
  return NULL;
}

// Elements of a Constant that says them itself; NO_ID: it is copied as a node.
static uint32_t own_elements(struct inline_body *b, uint32_t node) {
  const struct model *m = b->k->m;
  const struct model_attr *a = value_attr(m, node);
  struct edit_attr said;
  if (!a || a->ref_name != m->empty) return NO_ID;
  if (model_attr_is_constant(m, a) && a->type != ATTR_TENSOR)
    return a->first != NO_ID && edit_tensor_readable(b->k->e, a->first)
               ? edit_tensor_recipe(b->k->e, a->first)
               : NO_ID;
  return copied(b, a, &said) ? recipe_of(b, &said) : NO_ID;
}

// ---- a look at a function ----------------------------------------------------------------------

static void cover(struct inline_body *b) {
  const struct model *m = b->k->m;
  if (b->n_value_of < m->n_values) TABLE_ADD(b, value_of, m->n_values - b->n_value_of);
  if (b->n_fresh < m->n_values) TABLE_ADD(b, fresh, m->n_values - b->n_fresh);
  if (b->n_graph_of < m->n_graphs) TABLE_ADD(b, graph_of, m->n_graphs - b->n_graph_of);
  if (b->n_constant_of < m->n_nodes) TABLE_ADD(b, constant_of, m->n_nodes - b->n_constant_of);
}

static void want(struct inline_body *b, enum inline_wants what, uint32_t id) {
  struct inline_function *f = &b->functions[b->function];
  for (uint32_t i = f->wants; i < f->wants + f->n_wants; i++)
    if (b->wants[i].what == what && b->wants[i].id == id) return;
  struct inline_want *w = TABLE_PUSH(b, wants);
  w->what = (unsigned)what;
  w->id = id;
  f->n_wants++;
}

static bool known(const struct inline_body *b, uint32_t value) {
  return b->fresh[value] == b->call;
}

static void note(struct inline_body *b, uint32_t value, uint32_t stands) {
  cover(b);
  b->value_of[value] = stands + 1;
  b->fresh[value] = b->call;
}

// A value that a node uses or a graph gives: it is made already, or is an initializer.
static const char *look_at_value(struct inline_body *b, uint32_t value) {
  const struct model *m = b->k->m;
  if (value == NO_ID || known(b, value)) return NULL;
  const struct model_value *v = &m->values[value];
  if (v->kind != VALUE_INITIALIZER || v->flags & VALUE_IS_INPUT) return "order";
  const struct model_tensor *t = &m->tensors[v->def];
  const bool plain = t->home == HOME_INITIALIZER && !(t->flags & TENSOR_SPARSE);
  return plain && edit_tensor_readable(b->k->e, v->def) ? NULL : "tensor";
}

// The declared type of a graph's input, as far as edits can say it.
static const char *declared(const struct model *m, uint32_t value, struct model_info *out) {
  const uint32_t at = model_info_at(m, value, INFO_INPUT);
  *out = (struct model_info){.dtype = DTYPE_UNDEFINED};
  if (m->values[value].kind != VALUE_INPUT) return "input";
  if (at == NO_ID || (!(m->infos[at].flags & INFO_TYPE) && m->infos[at].type.len == 0)) return NULL;
  *out = m->infos[at];
  return out->flags & INFO_TENSOR ? NULL : "input";
}

static void push(struct inline_body *b, uint32_t from, uint32_t to) {
  *TABLE_PUSH(b, stack) = (struct inline_frame){from, to, b->k->m->graphs[from].first_node, 0};
}

static uint32_t input_of(const struct model *m, uint32_t graph, uint32_t i) {
  return m->graph_io[m->graphs[graph].inputs + i];
}
static uint32_t output_of(const struct model *m, uint32_t graph, uint32_t i) {
  return m->graph_io[m->graphs[graph].outputs + i];
}

static const char *enter(struct inline_body *b, uint32_t graph) {
  const struct model *m = b->k->m;
  struct model_info type;
  for (uint32_t i = 0; i < m->graphs[graph].n_inputs; i++) {
    const char *why = declared(m, input_of(m, graph, i), &type);
    if (why) return why;
    note(b, input_of(m, graph, i), 0);
  }
  push(b, graph, NO_ID);
  return NULL;
}

static const char *look_at_attr(struct inline_body *b, uint32_t node, const struct model_attr *a) {
  const struct model *m = b->k->m;
  struct edit_attr said;
  const bool constant = is_constant_node(b, node);
  if (a->ref_name != m->empty) {
    if (a->type == ATTR_UNDEFINED || a->type > ATTR_STRINGS || a->type == ATTR_GRAPH)
      return "attribute";
    want(b, constant ? INLINE_VALUE : INLINE_ATTRIBUTE, a->ref_name);
    return NULL;
  }
  if (constant && own_elements(b, node) != NO_ID) return NULL;
  return copied(b, a, &said) ? NULL : "attribute";
}

// The next graph in the attributes of the frame's node; NO_ID: none is left.
static uint32_t next_graph(const struct model *m, struct inline_frame *at) {
  const struct model_node *n = &m->nodes[at->node];
  while (at->attr < n->n_attrs) {
    const struct model_attr *a = &m->attrs[n->attrs + at->attr++];
    if (!(a->flags & ATTR_DEAD) && a->type == ATTR_GRAPH && a->ref_name == m->empty &&
        a->first != NO_ID)
      return a->first;
  }
  return NO_ID;
}

static const char *look_at_node(struct inline_body *b, uint32_t node) {
  const struct model *m = b->k->m;
  const struct model_node *n = &m->nodes[node];
  const struct span domain = model_name(m, n->domain);
  const char *why = model_opset_version(m, n->graph, domain) > 0 ||
                            model_opset_version(m, m->main_graph, domain) > 0
                        ? NULL
                        : "versions"; // whose operator it is nobody says
  for (uint32_t i = 0; i < n->n_in && !why; i++)
    why = look_at_value(b, model_input(m, n, i));
  for (uint32_t i = 0; i < n->n_attrs && !why; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    const bool graph = a->type == ATTR_GRAPH && a->ref_name == m->empty;
    if (a->flags & ATTR_DEAD) continue;
    if (!kit_attr_is_first(m, node, i))
      why = "attribute";
    else if (!graph)
      why = look_at_attr(b, node, a);
  }
  // An initializer takes its place, which has one value.
  if (!why && is_constant_node(b, node) && (n->n_out != 1 || model_output(m, n, 0) == NO_ID))
    why = "outputs";
  for (uint32_t i = 0; i < n->n_out; i++)
    if (model_output(m, n, i) != NO_ID) note(b, model_output(m, n, i), 0);
  b->functions[b->function].nodes++;
  return why;
}

static const char *leave(struct inline_body *b, uint32_t graph) {
  const struct model *m = b->k->m;
  const uint32_t root = m->functions[b->function].graph;
  for (uint32_t i = 0; i < m->graphs[graph].n_outputs; i++) {
    const uint32_t value = output_of(m, graph, i);
    const char *why = look_at_value(b, value);
    if (why) return why;
    if (m->values[value].graph == root && m->values[value].kind == VALUE_INPUT && graph != root)
      want(b, INLINE_INPUT, value);
  }
  b->n_stack--;
  return NULL;
}

static const char *look_at(struct inline_body *b, uint32_t function) {
  const struct model *m = b->k->m;
  const uint32_t root = m->functions[function].graph;
  const char *why = NULL;
  b->n_stack = 0;
  for (uint32_t i = 0; i < m->graphs[root].n_inputs; i++)
    note(b, input_of(m, root, i), 0);
  push(b, root, NO_ID);
  while (b->n_stack > 0 && !why) {
    struct inline_frame *at = &b->stack[b->n_stack - 1];
    if (at->node == NO_ID) {
      why = leave(b, at->from);
      continue;
    }
    const uint32_t inner = next_graph(m, at);
    if (inner != NO_ID) {
      why = enter(b, inner);
      continue;
    }
    const uint32_t node = at->node;
    at->node = m->nodes[node].next;
    at->attr = 0;
    why = look_at_node(b, node);
    arena_reset(&b->arena);
  }
  return why;
}

void inline_body_begin(struct inline_body *b, struct kit *k) {
  const struct model *m = k->m;
  b->k = k;
  model_calls_init(&b->calls, m);
  TABLE_ADD(b, functions, m->n_functions);
  cover(b);
  for (uint32_t f = 0; f < m->n_functions; f++) {
    b->functions[f] = (struct inline_function){.wants = b->n_wants};
    if (m->functions[f].flags & FUNCTION_DEAD) continue;
    b->function = f;
    b->call++;
    b->functions[f].why = look_at(b, f);
  }
}

void inline_body_done(struct inline_body *b) {
  model_calls_done(&b->calls);
  TABLES_FREE(b, functions, wants, stack, value_of, fresh, graph_of, constant_of);
  arena_free(&b->arena);
}

uint32_t inline_body_callee(const struct inline_body *b, uint32_t node) {
  return model_calls_callee(&b->calls, node);
}

// ---- making anew -------------------------------------------------------------------------------

static const uint32_t absent = NO_ID - 1; // stands for what a call leaves out

static struct span called(struct inline_body *b, struct span name) {
  if (b->prefix.n == 0 || name.n == 0) return name;
  return span_str(arena_printf(&b->arena, "%.*s/%.*s", (int)b->prefix.n, (const char *)b->prefix.at,
                               (int)name.n, (const char *)name.at));
}

static struct span free_value(struct inline_body *b, uint32_t value) {
  return kit_names_take(&b->k->names, KIT_VALUES, 0, called(b, model_value_name(b->k->m, value)),
                        &b->arena);
}

// A new initializer of a graph, named after what it stands for.
static uint32_t add_tensor(struct inline_body *b, uint32_t graph, uint32_t like, uint32_t recipe) {
  struct kit *k = b->k;
  if (k->m->ir_version < WEIGHTS_FREE_IR) weights_free_initializers(k->e);
  const struct span name = kit_names_take(&k->names, KIT_EVERYWHERE, graph,
                                          called(b, model_value_name(k->m, like)), &b->arena);
  return edit_add_tensor(k->e, graph, name, recipe);
}

// NO_ID: it is left out.
static uint32_t stands_for(struct inline_body *b, uint32_t value) {
  const struct model *m = b->k->m;
  if (value == NO_ID) return NO_ID;
  if (!known(b, value)) { // an initializer of a graph inside
    const uint32_t graph = b->graph_of[m->values[value].graph] - 1;
    note(b, value, add_tensor(b, graph, value, edit_tensor_recipe(b->k->e, m->values[value].def)));
  }
  const uint32_t stands = b->value_of[value] - 1;
  return stands == absent ? NO_ID : stands;
}

// What the call gives for an attribute of the function, or NULL.
static const struct edit_attr *bound_to(const struct inline_body *b, uint32_t name) {
  for (uint32_t i = 0; i < b->n_bound; i++)
    if (span_is(model_name(b->k->m, name), b->bound[i].name)) return &b->bound[i];
  return NULL;
}

// Attributes of a node, graphs as they were copied.
static uint32_t attributes(struct inline_body *b, uint32_t node, struct edit_attr *list) {
  const struct model *m = b->k->m;
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->nodes[node].n_attrs; i++) {
    const struct model_attr *a = &m->attrs[m->nodes[node].attrs + i];
    if (a->flags & ATTR_DEAD) continue;
    if (a->ref_name != m->empty) {
      const struct edit_attr *given = bound_to(b, a->ref_name);
      if (!given) continue;
      list[n] = *given;
      list[n++].name = arena_string(&b->arena, model_name(m, a->name));
    } else if (a->type == ATTR_GRAPH) {
      list[n++] = (struct edit_attr){.name = arena_string(&b->arena, model_name(m, a->name)),
                                     .type = ATTR_GRAPH,
                                     .graph = b->graph_of[a->first] - 1};
    } else {
      n += copied(b, a, &list[n]);
    }
  }
  return n;
}

static void make_node(struct inline_body *b, const struct inline_frame *at, uint32_t node) {
  struct kit *k = b->k;
  const struct model *m = k->m;
  const struct model_node old = m->nodes[node];
  uint32_t *in = arena_alloc(&b->arena, (old.n_in + (size_t)1) * sizeof *in);
  struct edit_output *out = arena_alloc(&b->arena, (old.n_out + (size_t)1) * sizeof *out);
  struct edit_attr *attrs = arena_alloc(&b->arena, (old.n_attrs + (size_t)1) * sizeof *attrs);
  for (uint32_t i = 0; i < old.n_in; i++)
    in[i] = stands_for(b, model_input(m, &old, i));
  for (uint32_t i = 0; i < old.n_out; i++) {
    const uint32_t value = model_output(m, &old, i);
    out[i] = (struct edit_output){NO_ID, span_of("", 0)};
    if (value != NO_ID && known(b, value)) // an output of the call
      out[i].value = b->value_of[value] - 1;
    else if (value != NO_ID)
      out[i].name = free_value(b, value);
  }
  const struct edit_node spec = {.graph = at->to,
                                 .before = at->to == k->graph ? k->before : NO_ID,
                                 .name =
                                     kit_names_free(&k->names, KIT_NODES, at->to,
                                                    called(b, model_name(m, old.name)), &b->arena),
                                 .op_type = model_name(m, old.op_type),
                                 .domain = model_name(m, old.domain),
                                 .overload = model_name(m, old.overload),
                                 .in = in,
                                 .n_in = old.n_in,
                                 .out = out,
                                 .n_out = old.n_out,
                                 .attrs = attrs,
                                 .n_attrs = attributes(b, node, attrs)};
  const uint32_t made = edit_add_node(k->e, &spec);
  cover(b);
  for (uint32_t i = 0; i < old.n_out; i++)
    if (model_output(m, &old, i) != NO_ID)
      note(b, model_output(m, &old, i), model_output(m, &m->nodes[made], i));
}

// A Constant as an initializer. False: it is a text, and copied as it is.
static bool make_constant(struct inline_body *b, uint32_t node) {
  const struct model *m = b->k->m;
  const uint32_t value = model_output(m, &m->nodes[node], 0);
  const struct model_attr *a = value_attr(m, node);
  if (!is_constant_node(b, node) || value == NO_ID || !a) return false;
  if (a->ref_name != m->empty) {
    const struct edit_attr *given = bound_to(b, a->ref_name);
    const uint32_t recipe = given ? recipe_of(b, given) : NO_ID;
    if (recipe == NO_ID) return false;
    note(b, value, add_tensor(b, m->main_graph, value, recipe));
    return true;
  }
  if (b->constant_of[node] == 0) {
    const uint32_t recipe = own_elements(b, node);
    if (recipe == NO_ID) return false;
    const uint32_t made = add_tensor(b, m->main_graph, value, recipe);
    cover(b);
    b->constant_of[node] = made + 1;
  }
  note(b, value, b->constant_of[node] - 1);
  return true;
}

static void enter_copy(struct inline_body *b, uint32_t graph, uint32_t parent) {
  struct kit *k = b->k;
  const struct model *m = k->m;
  struct model_info type;
  const uint32_t made = edit_add_subgraph(k->e, parent, model_name(m, m->graphs[graph].name));
  cover(b);
  b->graph_of[graph] = made + 1;
  for (uint32_t i = 0; i < m->graphs[graph].n_inputs; i++) {
    const uint32_t value = input_of(m, graph, i);
    declared(m, value, &type);
    const bool shaped = type.flags & INFO_SHAPED;
    struct model_dim *dims = arena_alloc(&b->arena, (type.rank + (size_t)1) * sizeof *dims);
    if (shaped && type.rank) memcpy(dims, m->info_dims + type.dims, type.rank * sizeof *dims);
    note(b, value,
         edit_add_graph_input(k->e, made, free_value(b, value), (enum dtype)type.dtype, dims,
                              shaped ? type.rank : NO_ID));
  }
  push(b, graph, made);
}

// A node that copies a value: into the value `to`, or under a name of its own. Returns what it makes.
static uint32_t put_identity(struct inline_body *b, uint32_t graph, uint32_t in, uint32_t to,
                             uint32_t named) {
  struct kit *k = b->k;
  const struct edit_output out = {.value = to,
                                  .name = to == NO_ID ? free_value(b, named) : span_of("", 0)};
  const struct span name =
      to == NO_ID ? called(b, model_value_name(k->m, named)) : model_value_name(k->m, to);
  const uint32_t node = edit_add_node(
      k->e,
      &(struct edit_node){.graph = graph,
                          .before = graph == k->graph ? k->before : NO_ID,
                          .name = kit_names_free(&k->names, KIT_NODES, graph, name, &b->arena),
                          .op_type = span_str("Identity"),
                          .in = &in,
                          .n_in = 1,
                          .out = &out,
                          .n_out = 1});
  cover(b);
  return kit_out(k, node, 0);
}

// Graphs give values that they make: one from outside, such as a Constant that became an initializer, is copied into one.
static void leave_copy(struct inline_body *b, const struct inline_frame *at) {
  const struct model *m = b->k->m;
  const uint32_t root = m->functions[b->function].graph;
  for (uint32_t i = 0; at->from != root && i < m->graphs[at->from].n_outputs; i++) {
    const uint32_t value = output_of(m, at->from, i);
    uint32_t stands = stands_for(b, value);
    if (m->values[stands].graph != at->to) stands = put_identity(b, at->to, stands, NO_ID, value);
    edit_set_graph_output(b->k->e, at->to, i, stands);
  }
  b->n_stack--;
}

static void make(struct inline_body *b) {
  const struct model *m = b->k->m;
  const uint32_t root = m->functions[b->function].graph;
  b->n_stack = 0;
  push(b, root, b->k->graph);
  while (b->n_stack > 0) {
    struct inline_frame *at = &b->stack[b->n_stack - 1];
    if (at->node == NO_ID) {
      leave_copy(b, &(struct inline_frame){at->from, at->to, 0, 0});
      continue;
    }
    const uint32_t inner = next_graph(m, at);
    if (inner != NO_ID) {
      enter_copy(b, inner, at->to);
      continue;
    }
    const struct inline_frame here = *at;
    at->node = m->nodes[here.node].next;
    at->attr = 0;
    if (!make_constant(b, here.node)) make_node(b, &here, here.node);
  }
}

// ---- a call ------------------------------------------------------------------------------------

// Attributes of the call and defaults of the function. False: one that the function refers to cannot be copied.
static const char *bind_attributes(struct inline_body *b, uint32_t node) {
  const struct model *m = b->k->m;
  const struct inline_function *f = &b->functions[b->function];
  b->bound = arena_alloc(&b->arena, (f->n_wants + (size_t)1) * sizeof *b->bound);
  b->n_bound = 0;
  for (uint32_t i = f->wants; i < f->wants + f->n_wants; i++) {
    const struct inline_want *w = &b->wants[i];
    if (w->what == INLINE_INPUT) continue;
    const struct model_attr *a = model_attr_named(m, node, model_name_str(m, w->id));
    if (!a) a = model_function_default(m, b->function, model_name(m, w->id));
    if (!a && w->what == INLINE_VALUE) return "attribute";
    if (!a) continue;
    if (a->ref_name != m->empty || !copied(b, a, &b->bound[b->n_bound])) return "attribute";
    b->bound[b->n_bound++].name = arena_string(&b->arena, model_name(m, w->id));
  }
  return NULL;
}

// Operands of the call stand for the inputs of the function.
static const char *bind_inputs(struct inline_body *b, uint32_t node) {
  const struct model *m = b->k->m;
  const struct inline_function *f = &b->functions[b->function];
  const uint32_t root = m->functions[b->function].graph;
  const struct model_graph *g = &m->graphs[root];
  if (m->nodes[node].n_in > g->n_inputs) return "inputs";
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t given = model_input(m, &m->nodes[node], i);
    note(b, input_of(m, root, i), given == NO_ID ? absent : given);
  }
  for (uint32_t i = f->wants; i < f->wants + f->n_wants; i++)
    if (b->wants[i].what == INLINE_INPUT && stands_for(b, b->wants[i].id) == NO_ID) return "inputs";
  return NULL;
}

// What becomes of an output of the call.
struct result {
  uint32_t to, from;
  bool taken; // the body's node makes it
};

static const char *find_results(struct inline_body *b, uint32_t node, struct result *list,
                                uint32_t *n) {
  const struct model *m = b->k->m;
  const uint32_t root = m->functions[b->function].graph;
  *n = 0;
  for (uint32_t i = 0; i < m->nodes[node].n_out; i++) {
    const uint32_t to = model_output(m, &m->nodes[node], i);
    if (to == NO_ID || kit_unused(b->k, to)) continue;
    if (i >= m->graphs[root].n_outputs) return "outputs";
    struct result r = {.to = to, .from = output_of(m, root, i)};
    const struct model_value *v = &m->values[r.from];
    if (v->kind == VALUE_INPUT && stands_for(b, r.from) == NO_ID) return "outputs";
    r.taken = v->kind == VALUE_NODE_OUTPUT && v->graph == root && !is_constant_node(b, v->def);
    for (uint32_t p = 0; p < *n; p++)
      r.taken = r.taken && !(list[p].taken && list[p].from == r.from);
    list[(*n)++] = r;
  }
  return NULL;
}

// Its name, or that of its first output: the beginning, as calls in calls in calls give ever longer ones.
static struct span prefix_of(struct inline_body *b, uint32_t node) {
  const struct model *m = b->k->m;
  const struct model_node *n = &m->nodes[node];
  struct span s = model_name(m, n->name);
  for (uint32_t i = 0; s.n == 0 && i < n->n_out; i++)
    s = model_value_name(m, model_output(m, n, i));
  if (s.n > PREFIX_BYTES) { // up to a whole character
    for (s.n = PREFIX_BYTES; s.n > 0 && (s.at[s.n] & 0xC0) == 0x80;)
      s.n--;
  }
  return span_of(arena_string(&b->arena, s), s.n);
}

const char *inline_body_put(struct inline_body *b, uint32_t node, uint32_t function) {
  struct kit *k = b->k;
  const struct model *m = k->m;
  uint32_t n;
  if (b->functions[function].why) return b->functions[function].why;
  arena_reset(&b->arena);
  cover(b);
  b->function = function;
  b->call++;
  b->prefix = prefix_of(b, node);
  struct result *results =
      arena_alloc(&b->arena, (m->nodes[node].n_out + (size_t)1) * sizeof *results);
  const char *why = bind_attributes(b, node);
  if (!why) why = bind_inputs(b, node);
  if (!why) why = find_results(b, node, results, &n);
  if (why) return why;
  kit_site(k, node, "function");
  kit_converted(k, node, "inlined");
  k->before = m->nodes[node].next;
  edit_remove_node(k->e, node);
  for (uint32_t i = 0; i < n; i++)
    if (results[i].taken) note(b, results[i].from, results[i].to);
  make(b);
  for (uint32_t i = 0; i < n; i++)
    if (!results[i].taken)
      put_identity(b, k->graph, stands_for(b, results[i].from), results[i].to, NO_ID);
  return NULL;
}
