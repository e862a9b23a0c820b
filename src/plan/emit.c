// Graphs, functions and the model as protobuf.
//
// A graph is walked by its items: runs of nodes, tensors, value infos and other fields in source
// order. What is untouched is copied run by run, so that source order, unknown fields and odd
// encodings survive; rows made by edits follow the last run of their kind:
//
//   source items   [name][node 0..9][initializer 0..3][value_info 0..5]
//   emitted        [name][live nodes in list order, new ones in place][0..3 less dead, new ones][…]
//
// Nodes are emitted in the order of the graph's node list: a run takes from the list up to the last
// loaded node that belongs to it, and the last run takes all that is left.
#include "plan/emit_parts.h"

#include <assert.h>

// Rows made by edits, as lists by graph (ids ascending): heads per graph, next per row.
struct emit_new {
  uint32_t *tensor_head, *tensor_next; // initializers; next is indexed by id - loaded
  uint32_t *info_head, *info_next;     // value_infos (not inputs and outputs)
};

// ---- nodes -------------------------------------------------------------------------------------

static void emit_slots(struct emission *e, struct rope *to, uint32_t field, uint32_t ref,
                       uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t value = e->m->refs[ref + i].value;
    rope_bytes_field(e->pool, to, field, model_value_name(e->m, value));
  }
}

void emit_node_again(struct emission *e, struct rope *to, uint32_t field, uint32_t id) {
  const struct model_node *n = &e->m->nodes[id];
  struct rope body = rope_empty();
  emit_slots(e, &body, ONNX_NODE_input, n->refs, n->n_in);
  emit_slots(e, &body, ONNX_NODE_output, n->refs + n->n_in, n->n_out);
  emit_name(e, &body, ONNX_NODE_name, n->name);
  emit_name(e, &body, ONNX_NODE_op_type, n->op_type);
  for (uint32_t i = 0; i < n->n_attrs; i++)
    emit_attr(e, &body, ONNX_NODE_attribute, n->attrs + i);
  emit_kept_fields(e, &body, KEPT_NODE, id);
  emit_name(e, &body, ONNX_NODE_domain, n->domain);
  emit_name(e, &body, ONNX_NODE_overload, n->overload);
  rope_message_field(e->pool, to, field, body);
}

void emit_node(struct emission *e, struct rope *to, uint32_t id) {
  const struct model_node *n = &e->m->nodes[id];
  const bool in_function = e->m->graphs[n->graph].kind == GRAPH_FUNCTION;
  if (!emit_node_changes(e, id))
    rope_copy(e->pool, to, n->src);
  else
    emit_node_again(e, to, in_function ? ONNX_FUNCTION_node : ONNX_GRAPH_node, id);
}

// ---- value infos -------------------------------------------------------------------------------

static struct rope emit_shape(struct emission *e, const struct model_info *info) {
  struct rope shape = rope_empty();
  for (uint32_t i = 0; i < info->rank; i++) {
    struct model_dim d = e->m->info_dims[info->dims + i];
    struct rope dim = rope_empty();
    if (d.value >= 0)
      rope_varint_field(e->pool, &dim, ONNX_DIM_dim_value, (uint64_t)d.value);
    else
      emit_name(e, &dim, ONNX_DIM_dim_param, d.param);
    rope_message_field(e->pool, &shape, ONNX_SHAPE_dim, dim);
  }
  return shape;
}

static struct rope emit_type(struct emission *e, const struct model_info *info) {
  struct rope tensor = rope_empty(), type = rope_empty();
  rope_varint_field(e->pool, &tensor, ONNX_TYPE_TENSOR_elem_type, info->dtype);
  if (info->flags & INFO_SHAPED)
    rope_message_field(e->pool, &tensor, ONNX_TYPE_TENSOR_shape, emit_shape(e, info));
  rope_message_field(e->pool, &type, ONNX_TYPE_tensor_type, tensor);
  return type;
}

static uint32_t info_field(const struct emission *e, uint32_t graph, uint32_t home) {
  if (home == INFO_INPUT) return ONNX_GRAPH_input;
  if (home == INFO_OUTPUT) return ONNX_GRAPH_output;
  return e->m->graphs[graph].kind == GRAPH_FUNCTION ? ONNX_FUNCTION_value_info
                                                    : ONNX_GRAPH_value_info;
}

static void emit_info(struct emission *e, struct rope *to, uint32_t id) {
  const struct model_info *info = &e->m->infos[id];
  if (info->flags & INFO_DEAD) return;
  if (!(info->flags & (INFO_DIRTY | INFO_NEW))) {
    rope_copy(e->pool, to, info->src);
    return;
  }
  const struct model_value *v = &e->m->values[info->value];
  struct rope body = rope_empty();
  rope_bytes_field(e->pool, &body, ONNX_INFO_name, model_name(e->m, v->name));
  if (info->type.len)
    rope_copy(e->pool, &body, info->type);
  else if (info->flags & INFO_TENSOR)
    rope_message_field(e->pool, &body, ONNX_INFO_type, emit_type(e, info));
  emit_kept_fields(e, &body, KEPT_INFO, id);
  if (info->range != e->m->empty)
    emit_entry(e, &body, ONNX_INFO_metadata_props, span_str(ONNX_RANGE_KEY),
               model_name(e->m, info->range));
  rope_message_field(e->pool, to, info_field(e, v->graph, info->home), body);
}

// The graph's inputs or outputs in the order that graph_io gives them.
static void emit_io(struct emission *e, struct rope *to, uint32_t graph, enum info_home home) {
  const struct model *m = e->m;
  const struct model_graph *g = &m->graphs[graph];
  uint32_t first = home == INFO_INPUT ? g->inputs : g->outputs;
  uint32_t n = home == INFO_INPUT ? g->n_inputs : g->n_outputs;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t value = m->graph_io[first + i], info = model_info_at(m, value, home);
    if (info != NO_ID) {
      emit_info(e, to, info);
      continue;
    }
    struct rope body = rope_empty();
    rope_bytes_field(e->pool, &body, ONNX_INFO_name, model_value_name(m, value));
    rope_message_field(e->pool, to, info_field(e, graph, home), body);
  }
}

// ---- graphs ------------------------------------------------------------------------------------

// What of a graph has been emitted so far, and which item is the last of its kind.
struct walk {
  uint32_t graph;
  uint32_t node;                // next of the node list
  uint32_t last[ITEM_KINDS];    // items, by kind
  bool inputs, outputs, opsets; // done
};

// Stops before a loaded node that belongs to a later run. item NULL: takes all that is left.
static void walk_nodes(struct emission *e, struct rope *to, struct walk *w,
                       const struct model_item *item) {
  for (; w->node != NO_ID; w->node = e->m->nodes[w->node].next) {
    const bool loaded = !(e->m->nodes[w->node].flags & NODE_NEW);
    if (item && loaded && w->node >= item->first + item->count) return;
    emit_node(e, to, w->node);
  }
}

static void walk_tensors(struct emission *e, struct rope *to, const struct model_item *item) {
  for (uint32_t i = 0; i < item->count; i++)
    if (!(e->m->tensors[item->first + i].flags & TENSOR_DEAD))
      emit_tensor(e, to, ONNX_GRAPH_initializer, item->first + i);
}

static void new_tensors(struct emission *e, struct rope *to, uint32_t graph) {
  for (uint32_t id = emit_first_made(e, graph); id != NO_ID; id = emit_next_made(e, id))
    emit_tensor(e, to, ONNX_GRAPH_initializer, id);
}

static void new_infos(struct emission *e, struct rope *to, uint32_t graph) {
  uint32_t id = e->made->info_head[graph];
  for (; id != NO_ID; id = e->made->info_next[id - e->m->loaded_infos])
    emit_info(e, to, id);
}

static void walk_io(struct emission *e, struct rope *to, struct walk *w, enum info_home home) {
  bool *done = home == INFO_INPUT ? &w->inputs : &w->outputs;
  if (!*done) emit_io(e, to, w->graph, home);
  *done = true;
}

static void walk_infos(struct emission *e, struct rope *to, struct walk *w,
                       const struct model_item *item) {
  bool io_dirty = e->m->graphs[w->graph].flags & GRAPH_IO_DIRTY;
  for (uint32_t i = 0; i < item->count; i++) {
    uint32_t id = item->first + i;
    if (e->m->infos[id].home == INFO_VALUE || !io_dirty)
      emit_info(e, to, id);
    else
      walk_io(e, to, w, (enum info_home)e->m->infos[id].home);
  }
}

static void copy_others(struct emission *e, struct rope *to, const struct model_item *item) {
  for (uint32_t i = 0; i < item->count; i++)
    rope_copy(e->pool, to, e->m->others[item->first + i]);
}

static void emit_function_io(struct emission *e, struct rope *to, const struct model_graph *g) {
  for (uint32_t i = 0; i < g->n_inputs; i++)
    rope_bytes_field(e->pool, to, ONNX_FUNCTION_input,
                     model_value_name(e->m, e->m->graph_io[g->inputs + i]));
  for (uint32_t i = 0; i < g->n_outputs; i++)
    rope_bytes_field(e->pool, to, ONNX_FUNCTION_output,
                     model_value_name(e->m, e->m->graph_io[g->outputs + i]));
}

static void walk_function_io(struct emission *e, struct rope *to, struct walk *w,
                             const struct model_item *item) {
  const struct model_graph *g = &e->m->graphs[w->graph];
  if (!(g->flags & GRAPH_IO_DIRTY))
    copy_others(e, to, item);
  else if (!w->inputs)
    emit_function_io(e, to, g);
  w->inputs = true;
}

// The first of the defaults that lies at or behind `off`.
uint32_t emit_first_default(const struct emission *e, uint64_t off) {
  uint32_t i;
  BISECT(i, e->n_defaults, e->m->attrs[e->defaults[i]].src.off < off);
  return i;
}

// Defaults of a function's attributes: a run of attributes that hang on no node.
static void walk_function_attrs(struct emission *e, struct rope *to,
                                const struct model_item *item) {
  const struct model *m = e->m;
  for (uint32_t i = 0; i < item->count; i++) {
    struct place run = m->others[item->first + i];
    for (uint32_t k = emit_first_default(e, run.off); k < e->n_defaults; k++) {
      if (m->attrs[e->defaults[k]].src.off - run.off >= run.len) break;
      emit_attr(e, to, ONNX_FUNCTION_attribute_proto, e->defaults[k]);
    }
  }
}

void emit_opset(struct emission *e, struct rope *to, uint32_t field, uint32_t id) {
  const struct model_opset *o = &e->m->opsets[id];
  struct rope body = rope_empty();
  rope_bytes_field(e->pool, &body, ONNX_OPSET_domain, model_name(e->m, o->domain));
  rope_varint_field(e->pool, &body, ONNX_OPSET_version, (uint64_t)o->version);
  if (o->loaded) emit_kept_fields(e, &body, KEPT_OPSET, o->loaded - 1);
  rope_message_field(e->pool, to, field, body);
}

// All imports of a function, in place of its items.
static void emit_function_opsets(struct emission *e, struct rope *to,
                                 const struct model_function *f) {
  for (uint32_t i = 0; i < f->n_opsets; i++)
    emit_opset(e, to, ONNX_FUNCTION_opset_import, f->opsets + i);
}

// The imports of a function that an edit changed are written whole at the first item.
static void walk_function_opsets(struct emission *e, struct rope *to, struct walk *w,
                                 const struct model_item *item) {
  const struct model_function *f = &e->m->functions[e->m->graphs[w->graph].owner];
  if (!(f->flags & FUNCTION_OPSETS_DIRTY)) {
    copy_others(e, to, item);
    return;
  }
  if (!w->opsets) emit_function_opsets(e, to, f);
  w->opsets = true;
}

// Graphs nest no deeper than the border allows (100), so this recursion through emit_attr is
// bounded.
struct rope emit_graph_body(struct emission *e, uint32_t graph) {
  const struct model_graph *g = &e->m->graphs[graph];
  struct walk w = {.graph = graph, .node = g->first_node};
  struct rope body = rope_empty();
  memset(w.last, 0xff, sizeof w.last);
  for (uint32_t i = g->items; i < g->items + g->n_items; i++)
    w.last[e->m->items[i].kind] = i;
  if (g->n_items == 0 && g->kind != GRAPH_FUNCTION) emit_name(e, &body, ONNX_GRAPH_name, g->name);
  for (uint32_t i = 0; i < g->n_items; i++) {
    const uint32_t at = g->items + i;
    const struct model_item *item = &e->m->items[at];
    switch ((enum item_kind)item->kind) {
    case ITEM_NODES: walk_nodes(e, &body, &w, at == w.last[ITEM_NODES] ? NULL : item); break;
    case ITEM_TENSORS: walk_tensors(e, &body, item); break;
    case ITEM_INFOS: walk_infos(e, &body, &w, item); break;
    case ITEM_SPARSE:
      for (uint32_t k = 0; k < item->count; k++)
        emit_sparse(e, &body, ONNX_GRAPH_sparse_initializer, item->first + k);
      break;
    case ITEM_FUNCTION_IO: walk_function_io(e, &body, &w, item); break;
    case ITEM_FUNCTION_ATTRS: walk_function_attrs(e, &body, item); break;
    case ITEM_OPSETS: walk_function_opsets(e, &body, &w, item); break;
    default: copy_others(e, &body, item);
    }
    if (at == w.last[ITEM_TENSORS]) new_tensors(e, &body, w.graph);
    if (at == w.last[ITEM_INFOS]) new_infos(e, &body, w.graph);
  }
  walk_nodes(e, &body, &w, NULL);
  if (w.last[ITEM_TENSORS] == NO_ID) new_tensors(e, &body, graph);
  if (g->kind == GRAPH_FUNCTION) {
    if (g->flags & GRAPH_IO_DIRTY && !(g->flags & GRAPH_NEW) && !w.inputs)
      emit_function_io(e, &body, g);
    const struct model_function *f = &e->m->functions[g->owner];
    if (f->flags & FUNCTION_OPSETS_DIRTY && !(g->flags & GRAPH_NEW) && !w.opsets)
      emit_function_opsets(e, &body, f);
  } else if (g->flags & GRAPH_IO_DIRTY) {
    walk_io(e, &body, &w, INFO_INPUT);
    walk_io(e, &body, &w, INFO_OUTPUT);
  }
  if (w.last[ITEM_INFOS] == NO_ID) new_infos(e, &body, graph);
  return body;
}

static void emit_graph(struct emission *e, struct rope *to, uint32_t field, uint32_t graph) {
  if (emit_graph_changes(e, graph))
    rope_message_field(e->pool, to, field, emit_graph_body(e, graph));
  else
    rope_copy(e->pool, to, e->m->graphs[graph].src);
}

// ---- functions and the model -------------------------------------------------------------------

// Attributes of a function that an edit made: names alone, and those with defaults.
static void emit_new_attrs(struct emission *e, struct rope *to, const struct model_function *f) {
  for (uint32_t i = f->attrs; i < f->attrs + f->n_attrs; i++)
    if (e->m->attrs[i].type == ATTR_UNDEFINED)
      rope_bytes_field(e->pool, to, ONNX_FUNCTION_attribute, model_name(e->m, e->m->attrs[i].name));
    else
      emit_attr(e, to, ONNX_FUNCTION_attribute_proto, i);
}

void emit_function(struct emission *e, struct rope *to, uint32_t id) {
  const struct model_function *f = &e->m->functions[id];
  const struct model_graph *g = &e->m->graphs[f->graph];
  struct rope body = rope_empty();
  if (f->flags & FUNCTION_DEAD) return;
  if (!(g->flags & GRAPH_NEW) && !emit_graph_changes(e, f->graph)) {
    rope_copy(e->pool, to, g->src);
    return;
  }
  if (g->flags & GRAPH_NEW) { // loaded ones have their head among their items
    emit_name(e, &body, ONNX_FUNCTION_name, f->name);
    emit_function_io(e, &body, g);
    emit_new_attrs(e, &body, f);
    emit_function_opsets(e, &body, f);
    emit_name(e, &body, ONNX_FUNCTION_domain, f->domain);
    emit_name(e, &body, ONNX_FUNCTION_overload, f->overload);
  }
  rope_join(e->pool, &body, emit_graph_body(e, f->graph));
  rope_message_field(e->pool, to, ONNX_MODEL_functions, body);
}

static void emit_training(struct emission *e, struct rope *to, uint32_t id) {
  const struct model_training *t = &e->m->trainings[id];
  bool a = t->initialization != NO_ID && emit_graph_changes(e, t->initialization);
  bool b = t->algorithm != NO_ID && emit_graph_changes(e, t->algorithm);
  if (!a && !b) {
    rope_copy(e->pool, to, t->src);
    return;
  }
  struct rope body = rope_empty();
  if (t->initialization != NO_ID)
    emit_graph(e, &body, ONNX_TRAINING_initialization, t->initialization);
  if (t->algorithm != NO_ID) emit_graph(e, &body, ONNX_TRAINING_algorithm, t->algorithm);
  emit_kept_fields(e, &body, KEPT_TRAINING, id);
  rope_message_field(e->pool, to, ONNX_MODEL_training_info, body);
}

// What an edit changed of the model itself is written whole, at its first item or behind all of them.
static void emit_changed(struct emission *e, struct rope *to, uint32_t parts) {
  const struct model *m = e->m;
  if (parts & MODEL_DIRTY_OPSETS)
    for (uint32_t i = 0; i < m->n_model_opsets; i++)
      emit_opset(e, to, ONNX_MODEL_opset_import, i);
  if (parts & MODEL_DIRTY_METADATA)
    for (uint32_t i = 0; i < m->n_metadata; i++)
      emit_entry(e, to, ONNX_MODEL_metadata_props, model_name(m, m->metadata[i].key),
                 model_name(m, m->metadata[i].value));
  if (parts & MODEL_DIRTY_IR_VERSION)
    rope_varint_field(e->pool, to, ONNX_MODEL_ir_version, (uint64_t)m->ir_version);
}

static void emit_model_item(struct emission *e, struct rope *to, uint32_t *changed,
                            const struct model_item *item) {
  uint32_t part = 0;
  switch ((enum item_kind)item->kind) {
  case ITEM_GRAPH: emit_graph(e, to, ONNX_MODEL_graph, item->first); return;
  case ITEM_FUNCTIONS:
    for (uint32_t i = 0; i < item->count; i++)
      emit_function(e, to, item->first + i);
    return;
  case ITEM_TRAINING:
    for (uint32_t i = 0; i < item->count; i++)
      emit_training(e, to, item->first + i);
    return;
  case ITEM_OPSETS: part = MODEL_DIRTY_OPSETS; break;
  case ITEM_METADATA: part = MODEL_DIRTY_METADATA; break;
  case ITEM_IR_VERSION: part = MODEL_DIRTY_IR_VERSION; break;
  default: break;
  }
  if (!(e->m->dirty & part)) copy_others(e, to, item);
  emit_changed(e, to, *changed & part);
  *changed &= ~part;
}

// ---- rows made by edits ------------------------------------------------------------------------

// Lists rows of `count` new ids by graph; wants(id) gives the graph or NO_ID.
static void list_by_graph(const struct model *m, uint32_t loaded, uint32_t end, uint32_t **head,
                          uint32_t **next, uint32_t (*wants)(const struct model *, uint32_t),
                          struct arena *scratch) {
  *head = arena_alloc(scratch, (m->n_graphs + 1) * sizeof **head);
  *next = arena_alloc(scratch, (size_t)(end - loaded + 1) * sizeof **next);
  memset(*head, 0xff, (m->n_graphs + 1) * sizeof **head);
  for (uint32_t id = end; id-- > loaded;) {
    uint32_t graph = wants(m, id);
    if (graph == NO_ID) continue;
    (*next)[id - loaded] = (*head)[graph];
    (*head)[graph] = id;
  }
}

static uint32_t new_initializer_graph(const struct model *m, uint32_t id) {
  const struct model_tensor *t = &m->tensors[id];
  return t->home == HOME_INITIALIZER && !(t->flags & TENSOR_DEAD) ? t->graph : NO_ID;
}

static uint32_t new_info_graph(const struct model *m, uint32_t id) {
  const struct model_info *i = &m->infos[id];
  return i->home == INFO_VALUE && !(i->flags & INFO_DEAD) ? m->values[i->value].graph : NO_ID;
}

// Rows that an edit moved are left behind dead, and hang on no node either; functions that edits made
// name theirs.
static bool is_default(const struct model_attr *a) {
  return a->node == NO_ID && !(a->flags & (ATTR_DEAD | ATTR_NEW));
}

static void list_defaults(struct emission *e, struct arena *scratch) {
  const struct model *m = e->m;
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_attrs; i++)
    n += is_default(&m->attrs[i]);
  uint32_t *list = arena_alloc(scratch, n * sizeof *list + 1);
  for (uint32_t i = 0; i < m->n_attrs; i++)
    if (is_default(&m->attrs[i])) list[e->n_defaults++] = i;
  e->defaults = list;
}

void emit_begin(struct emission *e, struct arena *a) {
  const struct model *m = e->m;
  struct emit_new *made = arena_alloc(a, sizeof *made);
  list_by_graph(m, m->loaded_tensors, m->n_tensors, &made->tensor_head, &made->tensor_next,
                new_initializer_graph, a);
  list_by_graph(m, m->loaded_infos, m->n_infos, &made->info_head, &made->info_next, new_info_graph,
                a);
  e->made = made;
  list_defaults(e, a);
}

uint32_t emit_first_made(const struct emission *e, uint32_t graph) {
  return e->made->tensor_head[graph];
}

uint32_t emit_next_made(const struct emission *e, uint32_t tensor) {
  return e->made->tensor_next[tensor - e->m->loaded_tensors];
}

struct rope emit_model(struct rope_pool *pool, const struct model *m, const struct placement *x) {
  struct arena scratch = {0};
  struct emission e = {.pool = pool, .m = m, .x = x};
  emit_begin(&e, &scratch);
  struct rope body = rope_empty();
  uint32_t changed =
      m->dirty & (MODEL_DIRTY_OPSETS | MODEL_DIRTY_METADATA | MODEL_DIRTY_IR_VERSION);
  for (uint32_t i = 0; i < m->model_n_items; i++)
    emit_model_item(&e, &body, &changed, &m->items[m->model_items + i]);
  emit_changed(&e, &body, changed);
  // Functions that edits made follow the loaded ones in the table.
  for (uint32_t i = 0; i < m->n_functions; i++)
    if (m->graphs[m->functions[i].graph].flags & GRAPH_NEW) emit_function(&e, &body, i);
  arena_free(&scratch);
  return body;
}
