//   node ─┬─ attributes ─ tensors           placed: external ones inline, those of edits by recipe
//         ├─ bodies ─┬─ initializers        likewise
//         │          └─ nodes …
//         └─ function ─ nodes …             once for the part, however many calls
//
// Emission asks a placement and marks of what must be re-encoded, arrays as large as the model. They
// are made once, with nothing placed and nothing marked, and what a part placed and marked is taken
// back behind it, by the list of its tensors: so a part costs its own size. The work list is flat:
// graphs inside wait in a table.
//
// Nodes of a function's body stand in a graph here. One that refers to an attribute of its function
// means something in a call only: such a part cannot be cut.
#include "plan/plan_parts.h"

#include "model/model_calls.h"
#include "model/model_live.h"
#include "plan/emit_parts.h"

#include <assert.h>

enum {
  IR_FREE_INITIALIZERS = 4, // from here on initializers need not be inputs
  IR_FUNCTIONS = 8,
  OPSET_IDENTITY = 13, // where the model imports no operators of ONNX
};
#define ONNX_MAX_BYTES ((uint64_t)INT32_MAX)

struct part_declared {
  uint32_t value;
  enum dtype dtype;
  uint32_t dims, rank; // dims: first in p->dims
};

struct part_output {
  struct part_declared type;
  bool ranked;
  const char *name; // NULL: the value's
};

struct part_constant {
  uint32_t value;
  struct model_constant of;
};

struct plan_parts {
  const struct model *m;
  struct recipes *r;
  struct arena arena; // of the model's size
  struct plan plan;
  struct rope_pool pool;
  struct placement x;
  struct emission e;
  struct model_calls calls;
  bool *called; // by function
  bool *given;  // by value: an input of the part
  // Of the part.
  uint32_t graph;
  uint32_t refers;  // an attribute that refers to one of the function; NO_ID: none
  bool in_function; // what is walked belongs to a function that is called
  struct arena texts;
  TABLE(uint32_t, nodes);
  TABLE(struct part_declared, inputs);
  TABLE(int64_t, dims);
  TABLE(struct part_constant, constants);
  TABLE(struct part_output, outputs);
  TABLE(uint32_t, placed);    // tensors
  TABLE(uint32_t, marked);    // attributes and function graphs, as marks are taken back
  TABLE(uint32_t, functions); // called, in order of meeting
  TABLE(uint32_t, graphs);    // to walk
  const char *data_name;
};

struct plan_parts *plan_parts_new(const struct model *m, struct recipes *r) {
  struct arena arena = {0};
  struct plan_parts *p = arena_zalloc(&arena, sizeof *p);
  p->m = m;
  p->r = r;
  p->plan.recipes = r;
  p->x.of = arena_zalloc(&arena, m->n_tensors + 1);
  p->x.recipe = arena_alloc(&arena, (m->n_tensors + 1) * sizeof *p->x.recipe);
  memset(p->x.recipe, 0xff, (m->n_tensors + 1) * sizeof *p->x.recipe);
  p->x.data = arena_zalloc(&arena, (m->n_tensors + 1) * sizeof *p->x.data);
  p->x.off = arena_zalloc(&arena, (m->n_tensors + 1) * sizeof *p->x.off);
  p->x.graph_dirty = arena_zalloc(&arena, m->n_graphs + 1);
  p->x.attr_dirty = arena_zalloc(&arena, m->n_attrs + 1);
  p->x.node_dirty = arena_zalloc(&arena, m->n_nodes + 1);
  p->x.data_names = &p->data_name;
  p->called = arena_zalloc(&arena, m->n_functions + 1);
  p->pool.plan = &p->plan;
  p->e = (struct emission){.pool = &p->pool, .m = m, .x = &p->x};
  emit_begin(&p->e, &arena);
  p->given = arena_zalloc(&arena, m->n_values + (size_t)1);
  if (m->n_functions > 0) model_calls_init(&p->calls, m);
  p->arena = arena;
  return p;
}

void plan_parts_free(struct plan_parts *p) {
  if (!p) return;
  model_calls_done(&p->calls);
  rope_pool_free(&p->pool);
  plan_free(&p->plan);
  TABLES_FREE(p, nodes, inputs, dims, constants, outputs, placed, marked, functions, graphs);
  arena_free(&p->texts);
  struct arena arena = p->arena; // *p lies in it
  arena_free(&arena);
}

// ---- marks -------------------------------------------------------------------------------------

// Marks what holds the tensor, up to what is marked already; or takes the marks back, down from
// where they are gone.
static void mark_around(struct plan_parts *p, uint32_t tensor, bool mark) {
  const struct model *m = p->m;
  const struct model_tensor *t = &m->tensors[tensor];
  uint32_t graph = t->graph;
  uint32_t attr = t->home == HOME_ATTRIBUTE ? t->owner : NO_ID;
  for (;;) {
    if (attr != NO_ID) {
      const uint32_t node = m->attrs[attr].node;
      p->x.attr_dirty[attr] = mark;
      if (node == NO_ID) { // a default of a function
        const uint32_t function = model_live_function(m, &m->attrs[attr]);
        if (function != NO_ID) p->x.graph_dirty[m->functions[function].graph] = mark;
        return;
      }
      p->x.node_dirty[node] = mark;
      graph = m->nodes[node].graph;
    }
    if (graph == NO_ID || p->x.graph_dirty[graph] == mark) return;
    p->x.graph_dirty[graph] = mark;
    if (m->graphs[graph].kind != GRAPH_SUB) return;
    attr = m->graphs[graph].owner;
    if (attr == NO_ID) return;
  }
}

static void take_back(struct plan_parts *p) {
  for (uint32_t i = 0; i < p->n_marked; i++)
    mark_around(p, p->marked[i], false);
  for (uint32_t i = 0; i < p->n_placed; i++) {
    p->x.of[p->placed[i]] = PLACE_COPY;
    p->x.recipe[p->placed[i]] = NO_ID;
  }
  for (uint32_t i = 0; i < p->n_functions; i++)
    p->called[p->functions[i]] = false;
  for (uint32_t i = 0; i < p->n_inputs; i++)
    p->given[p->inputs[i].value] = false;
}

void plan_parts_begin(struct plan_parts *p, uint32_t graph) {
  take_back(p);
  p->n_nodes = p->n_inputs = p->n_dims = p->n_constants = p->n_outputs = 0;
  p->n_placed = p->n_marked = p->n_functions = p->n_graphs = 0;
  p->plan.n_outputs = p->plan.n_segments = 0;
  p->plan.n_literals = 0;
  p->pool.n_parts = 0;
  p->graph = graph;
  p->refers = NO_ID;
  p->in_function = false;
  arena_reset(&p->texts);
}

// ---- what hangs on nodes -----------------------------------------------------------------------

static void place(struct plan_parts *p, uint32_t tensor, enum tensor_place to) {
  const struct model_tensor *t = &p->m->tensors[tensor];
  if (p->x.of[tensor] != PLACE_COPY) return;
  p->x.of[tensor] = (uint8_t)to;
  p->x.recipe[tensor] = t->recipe != NO_ID         ? t->recipe
                        : placement_has_payload(t) ? placement_plain_recipe(p->r, p->m, tensor)
                                                   : NO_ID;
  *TABLE_PUSH(p, placed) = tensor;
}

// A tensor that stays where it hangs.
static void take_tensor(struct plan_parts *p, uint32_t tensor) {
  if (tensor == NO_ID) return;
  const struct model_tensor *t = &p->m->tensors[tensor];
  const bool made = t->flags & (TENSOR_NEW | TENSOR_REPLACED | TENSOR_DIRTY);
  const bool external = t->flags & TENSOR_EXTERNAL && placement_has_payload(t);
  if (t->flags & TENSOR_DEAD || placement_is_list(p->m, t) || (!made && !external)) return;
  place(p, tensor, PLACE_INLINE);
  mark_around(p, tensor, true);
  *TABLE_PUSH(p, marked) = tensor;
}

static void take_sparse(struct plan_parts *p, uint32_t sparse) {
  take_tensor(p, p->m->sparses[sparse].values);
  take_tensor(p, p->m->sparses[sparse].indices);
}

static void take_attr(struct plan_parts *p, uint32_t attr) {
  const struct model_attr *a = &p->m->attrs[attr];
  if (a->flags & ATTR_DEAD) return;
  if (a->ref_name != p->m->empty) {
    const bool own =
        !p->in_function && p->m->graphs[model_root_graph(p->m, p->graph)].kind == GRAPH_FUNCTION;
    if (own && p->refers == NO_ID) p->refers = attr;
    return;
  }
  for (uint32_t i = 0; i < a->count && a->first != NO_ID; i++)
    switch ((enum attr_type)a->type) {
    case ATTR_TENSOR:
    case ATTR_TENSORS: take_tensor(p, a->first + i); break;
    case ATTR_GRAPH:
    case ATTR_GRAPHS: *TABLE_PUSH(p, graphs) = a->first + i; break;
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS: take_sparse(p, a->first + i); break;
    default: break;
    }
}

static void take_node(struct plan_parts *p, uint32_t node) {
  const struct model_node *n = &p->m->nodes[node];
  const uint32_t function = p->m->n_functions > 0 ? model_calls_callee(&p->calls, node) : NO_ID;
  if (function != NO_ID && !p->called[function]) {
    p->called[function] = true;
    *TABLE_PUSH(p, functions) = function;
  }
  for (uint32_t i = 0; i < n->n_attrs; i++)
    take_attr(p, n->attrs + i);
}

static void take_graph(struct plan_parts *p, uint32_t graph) {
  const struct model *m = p->m;
  const struct model_graph *g = &m->graphs[graph];
  for (uint32_t i = g->items; i < g->items + g->n_items; i++) {
    const struct model_item *item = &m->items[i];
    for (uint32_t k = 0; k < item->count; k++)
      if (item->kind == ITEM_TENSORS)
        take_tensor(p, item->first + k);
      else if (item->kind == ITEM_SPARSE)
        take_sparse(p, item->first + k);
  }
  for (uint32_t t = emit_first_made(&p->e, graph); t != NO_ID; t = emit_next_made(&p->e, t))
    take_tensor(p, t);
  for (uint32_t n = g->first_node; n != NO_ID; n = m->nodes[n].next)
    take_node(p, n);
}

static void take_graphs(struct plan_parts *p) {
  while (p->n_graphs > 0)
    take_graph(p, p->graphs[--p->n_graphs]);
}

// Defaults of a function's attributes lie in runs of their own among its items.
static void take_defaults(struct plan_parts *p, uint32_t function) {
  const struct model *m = p->m;
  const struct model_graph *g = &m->graphs[m->functions[function].graph];
  for (uint32_t i = g->items; i < g->items + g->n_items; i++) {
    const struct model_item *item = &m->items[i];
    for (uint32_t k = 0; k < item->count && item->kind == ITEM_FUNCTION_ATTRS; k++) {
      const struct place run = m->others[item->first + k];
      for (uint32_t d = emit_first_default(&p->e, run.off); d < p->e.n_defaults; d++) {
        if (m->attrs[p->e.defaults[d]].src.off - run.off >= run.len) break;
        take_attr(p, p->e.defaults[d]);
      }
    }
  }
}

static void take_functions(struct plan_parts *p) {
  p->in_function = true;
  for (uint32_t i = 0; i < p->n_functions; i++) {
    take_defaults(p, p->functions[i]);
    *TABLE_PUSH(p, graphs) = p->m->functions[p->functions[i]].graph;
    take_graphs(p);
  }
}

// ---- what the caller lists ---------------------------------------------------------------------

void plan_parts_node(struct plan_parts *p, uint32_t node) {
  uint32_t graph = p->graph;
  while (graph != NO_ID && graph != p->m->nodes[node].graph)
    graph = model_graph_around(p->m, graph);
  assert(graph != NO_ID);
  *TABLE_PUSH(p, nodes) = node;
  take_node(p, node);
  take_graphs(p);
}

static uint32_t put_dims(struct plan_parts *p, const int64_t *dims, uint32_t rank) {
  const uint32_t at = TABLE_ADD(p, dims, rank);
  for (uint32_t i = 0; i < rank; i++)
    p->dims[at + i] = dims[i];
  return at;
}

void plan_parts_input(struct plan_parts *p, uint32_t value, enum dtype dtype, const int64_t *dims,
                      uint32_t rank) {
  if (p->given[value]) return;
  p->given[value] = true;
  const uint32_t at = put_dims(p, dims, rank);
  *TABLE_PUSH(p, inputs) = (struct part_declared){value, dtype, at, rank};
}

void plan_parts_constant(struct plan_parts *p, uint32_t value,
                         const struct model_constant *constant) {
  *TABLE_PUSH(p, constants) = (struct part_constant){value, *constant};
}

void plan_parts_output(struct plan_parts *p, uint32_t value, const char *name, enum dtype dtype,
                       const int64_t *dims, uint32_t rank) {
  const uint32_t at = dims ? put_dims(p, dims, rank) : 0;
  *TABLE_PUSH(p, outputs) =
      (struct part_output){{value, dtype, at, dims ? rank : 0},
                           dims != NULL,
                           name ? arena_string(&p->texts, span_str(name)) : NULL};
}

// ---- constants ---------------------------------------------------------------------------------

// Strings of a Constant's list have no TensorProto, and no recipe makes one: the node stays.
static bool stays_node(const struct plan_parts *p, const struct part_constant *c) {
  const struct model_tensor *t = &p->m->tensors[c->of.tensor];
  return t->recipe == NO_ID && !placement_has_payload(t) && placement_is_list(p->m, t);
}

static void place_constants(struct plan_parts *p) {
  uint64_t total = 0, end = 0;
  for (uint32_t i = 0; i < p->n_constants; i++)
    total += p->m->tensors[p->constants[i].of.tensor].bytes;
  for (uint32_t i = 0; i < p->n_constants; i++) {
    const uint32_t tensor = p->constants[i].of.tensor;
    const uint64_t bytes = p->m->tensors[tensor].bytes;
    const bool beside = total > PLAN_PARTS_INLINE_BYTES && bytes >= SMALL_ANY_BYTES;
    if (p->x.of[tensor] != PLACE_COPY || stays_node(p, &p->constants[i])) continue;
    place(p, tensor, beside ? PLACE_SIDECAR : PLACE_INLINE);
    if (!beside) continue;
    p->x.off[tensor] = round_up(end, model_data_alignment(bytes));
    end = p->x.off[tensor] + bytes;
  }
}

static void emit_constant_node(struct plan_parts *p, struct rope *to,
                               const struct part_constant *c) {
  const struct model_node *n = &p->m->nodes[c->of.node];
  struct rope body = rope_empty();
  rope_bytes_field(&p->pool, &body, ONNX_NODE_output, model_value_name(p->m, c->value));
  emit_name(&p->e, &body, ONNX_NODE_op_type, n->op_type);
  for (uint32_t i = 0; i < n->n_attrs; i++)
    emit_attr(&p->e, &body, ONNX_NODE_attribute, n->attrs + i);
  rope_message_field(&p->pool, to, ONNX_GRAPH_node, body);
}

// ---- the model ---------------------------------------------------------------------------------

static void emit_declared(struct plan_parts *p, struct rope *to, uint32_t field, struct span name,
                          struct rope type) {
  struct rope body = rope_empty();
  rope_bytes_field(&p->pool, &body, ONNX_INFO_name, name);
  rope_join(&p->pool, &body, type);
  rope_message_field(&p->pool, to, field, body);
}

static struct rope tensor_type(struct plan_parts *p, const struct part_declared *d, bool ranked) {
  struct rope tensor = rope_empty(), type = rope_empty(), field = rope_empty();
  struct rope shape = rope_empty();
  for (uint32_t i = 0; i < d->rank; i++) {
    struct rope dim = rope_empty();
    const int64_t n = p->dims[d->dims + i];
    if (n >= 0) rope_varint_field(&p->pool, &dim, ONNX_DIM_dim_value, (uint64_t)n);
    rope_message_field(&p->pool, &shape, ONNX_SHAPE_dim, dim);
  }
  rope_varint_field(&p->pool, &tensor, ONNX_TYPE_TENSOR_elem_type, d->dtype);
  if (ranked) rope_message_field(&p->pool, &tensor, ONNX_TYPE_TENSOR_shape, shape);
  rope_message_field(&p->pool, &type, ONNX_TYPE_tensor_type, tensor);
  rope_message_field(&p->pool, &field, ONNX_INFO_type, type);
  return field;
}

static void emit_inputs(struct plan_parts *p, struct rope *to) {
  for (uint32_t i = 0; i < p->n_inputs; i++)
    emit_declared(p, to, ONNX_GRAPH_input, model_value_name(p->m, p->inputs[i].value),
                  tensor_type(p, &p->inputs[i], true));
}

// What is declared of the value: its element type; whole, if it is no tensor.
static struct rope declared_type(struct plan_parts *p, const struct part_output *o) {
  const struct model *m = p->m;
  struct rope type = rope_empty();
  if (o->type.dtype != DTYPE_UNDEFINED) return tensor_type(p, &o->type, o->ranked);
  MODEL_EACH_INFO (m, o->type.value, i) {
    const struct model_info *info = &m->infos[i];
    if (info->flags & INFO_TENSOR)
      return tensor_type(p, &(struct part_declared){.dtype = (enum dtype)info->dtype}, false);
    if (info->type.len == 0) continue;
    rope_copy(&p->pool, &type, info->type);
    break;
  }
  return type;
}

static bool is_renamed(const struct plan_parts *p, const struct part_output *o) {
  return o->name && !span_is(model_value_name(p->m, o->type.value), o->name);
}

static void emit_outputs(struct plan_parts *p, struct rope *to) {
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    const struct part_output *o = &p->outputs[i];
    emit_declared(p, to, ONNX_GRAPH_output,
                  o->name ? span_str(o->name) : model_value_name(p->m, o->type.value),
                  declared_type(p, o));
  }
}

// Outputs by other names. True if there are any.
static bool emit_identities(struct plan_parts *p, struct rope *to) {
  bool any = false;
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    const struct part_output *o = &p->outputs[i];
    if (!is_renamed(p, o)) continue;
    struct rope body = rope_empty();
    rope_bytes_field(&p->pool, &body, ONNX_NODE_input, model_value_name(p->m, o->type.value));
    rope_bytes_field(&p->pool, &body, ONNX_NODE_output, span_str(o->name));
    rope_bytes_field(&p->pool, &body, ONNX_NODE_op_type, span_str("Identity"));
    rope_message_field(&p->pool, to, ONNX_GRAPH_node, body);
    any = true;
  }
  return any;
}

static struct rope emit_part_graph(struct plan_parts *p, bool *identities) {
  const bool in_function = p->m->graphs[p->graph].kind == GRAPH_FUNCTION;
  struct rope body = rope_empty();
  for (uint32_t i = 0; i < p->n_constants; i++)
    if (stays_node(p, &p->constants[i])) emit_constant_node(p, &body, &p->constants[i]);
  for (uint32_t i = 0; i < p->n_nodes; i++)
    if (in_function)
      emit_node_again(&p->e, &body, ONNX_GRAPH_node, p->nodes[i]);
    else
      emit_node(&p->e, &body, p->nodes[i]);
  *identities = emit_identities(p, &body);
  rope_bytes_field(&p->pool, &body, ONNX_GRAPH_name, span_str("part"));
  for (uint32_t i = 0; i < p->n_constants; i++)
    if (!stays_node(p, &p->constants[i]))
      emit_tensor_as(&p->e, &body, ONNX_GRAPH_initializer, p->constants[i].of.tensor,
                     p->m->values[p->constants[i].value].name);
  emit_inputs(p, &body);
  emit_outputs(p, &body);
  return body;
}

static void emit_import(struct plan_parts *p, struct rope *to, uint32_t domain, int64_t version) {
  struct rope body = rope_empty();
  rope_bytes_field(&p->pool, &body, ONNX_OPSET_domain, model_name(p->m, domain));
  rope_varint_field(&p->pool, &body, ONNX_OPSET_version, (uint64_t)version);
  rope_message_field(&p->pool, to, ONNX_MODEL_opset_import, body);
}

// What holds in the graph that the nodes lie in, and what else the part needs.
static void emit_imports(struct plan_parts *p, struct rope *to, bool identities) {
  const struct model *m = p->m;
  const uint32_t root = model_root_graph(m, p->graph);
  uint32_t first = 0, n = m->n_model_opsets;
  if (m->graphs[root].kind == GRAPH_FUNCTION) {
    first = m->functions[m->graphs[root].owner].opsets;
    n = m->functions[m->graphs[root].owner].n_opsets;
  }
  for (uint32_t i = first; i < first + n; i++)
    emit_opset(&p->e, to, ONNX_MODEL_opset_import, i);
  if (identities && model_opset_version(m, root, span_str("")) == 0)
    emit_import(p, to, m->empty, OPSET_IDENTITY);
  for (uint32_t i = 0; i < p->n_functions; i++) {
    const uint32_t domain = m->functions[p->functions[i]].domain;
    bool there = model_opset_version(m, root, model_name(m, domain)) != 0;
    for (uint32_t k = 0; k < i && !there; k++)
      there = m->functions[p->functions[k]].domain == domain;
    if (!there) emit_import(p, to, domain, 1);
  }
}

static struct rope emit_part(struct plan_parts *p) {
  struct rope head = rope_empty(), imports = rope_empty(), functions = rope_empty();
  bool identities;
  struct rope graph = emit_part_graph(p, &identities);
  emit_imports(p, &imports, identities);
  for (uint32_t i = 0; i < p->n_functions; i++)
    emit_function(&p->e, &functions, p->functions[i]);
  int64_t ir = p->n_functions > 0 ? IR_FUNCTIONS : IR_FREE_INITIALIZERS;
  if (p->m->ir_version > ir) ir = p->m->ir_version;
  rope_varint_field(&p->pool, &head, ONNX_MODEL_ir_version, (uint64_t)ir);
  rope_message_field(&p->pool, &head, ONNX_MODEL_graph, graph);
  rope_join(&p->pool, &head, imports);
  rope_join(&p->pool, &head, functions);
  return head;
}

// ---- segments ----------------------------------------------------------------------------------

static void add_data(struct plan_parts *p) {
  struct plan *plan = &p->plan;
  const uint32_t first = plan->n_segments;
  uint64_t end = 0;
  for (uint32_t i = 0; i < p->n_placed; i++) {
    const uint32_t tensor = p->placed[i];
    if (p->x.of[tensor] != PLACE_SIDECAR) continue;
    const uint64_t off = p->x.off[tensor], bytes = p->m->tensors[tensor].bytes;
    if (off > end) *TABLE_PUSH(plan, segments) = (struct segment){.off = end, .len = off - end};
    *TABLE_PUSH(plan, segments) = (struct segment){
        .off = off, .len = bytes, .ref = p->x.recipe[tensor], .kind = SEGMENT_RECIPE};
    end = off + bytes;
  }
  if (end > 0) rope_end_output(plan, first, p->data_name, end);
}

int plan_parts_end(struct plan_parts *p, const char *name, const struct plan **plan,
                   struct err *err) {
  take_functions(p);
  if (p->refers != NO_ID) {
    const struct model_attr *a = &p->m->attrs[p->refers];
    return err_set(err, ERR_FAIL, "%s gets its attribute '%s' from the call of its function",
                   model_node_words(p->m, a->node).s, quote(model_name(p->m, a->name)).s);
  }
  name = arena_string(&p->texts, span_str(name));
  p->data_name = arena_printf(&p->texts, "%s.data", name);
  place_constants(p);
  const struct rope body = emit_part(p);
  if (body.len > ONNX_MAX_BYTES)
    return err_set(err, ERR_FAIL, "it has %s bytes without its constants; the limit is %s",
                   decimal(body.len).s, decimal(ONNX_MAX_BYTES).s);
  add_data(p);
  rope_output(&p->pool, name, body);
  *plan = &p->plan;
  return 0;
}
