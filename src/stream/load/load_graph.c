// Graphs, functions, value infos, and the model around them; and who is told when a message begins
// or ends.
//
// A function body is a graph of kind GRAPH_FUNCTION whose inputs and outputs are bare names.
// Training graphs stand alone. Every graph keeps the order of its parts as items: runs of rows, and
// places of what rows do not hold.
#include "stream/load/inside/loader.h"

#include <assert.h>

// ---- values by name -----------------------------------------------------------------------------

uint32_t load_value(struct loader *l, uint32_t graph, uint32_t name) {
  const uint32_t value = model_value_in(l->m, graph, name);
  return value == NO_ID ? model_add_value(l->m, graph, name) : value;
}

uint32_t load_initializer(struct loader *l, uint32_t tensor) {
  const struct model_tensor *t = &l->m->tensors[tensor];
  const uint32_t value = load_value(l, t->graph, t->name);
  struct model_value *v = &l->m->values[value];
  if (v->kind == VALUE_NODE_OUTPUT || v->kind == VALUE_INITIALIZER) return value;
  v->kind = VALUE_INITIALIZER;
  v->def = tensor;
  return value;
}

// ---- beginnings ---------------------------------------------------------------------------------

static void init_graph(struct loader *l, struct frame *f, uint32_t id, enum graph_kind kind,
                       uint32_t parent) {
  struct model *m = l->m;
  m->graphs[id] = (struct model_graph){.name = m->empty,
                                       .kind = (uint8_t)kind,
                                       .parent = parent,
                                       .owner = NO_ID,
                                       .first_node = NO_ID,
                                       .last_node = NO_ID,
                                       .src = frame_place(f)};
  if (parent != NO_ID) m->graphs[id].depth = (uint16_t)(m->graphs[parent].depth + 1);
  f->row = f->graph = id;
}

static int twice(struct loader *l, const struct frame *f) {
  load_fatal(l, f->start, "%s.%s is given twice (protobuf would merge the two; weir does not)",
             onnx_schema_message(frame_above(l)->message), f->field->name);
  return err_hint(l->err, "loading and saving the model with the onnx package merges them");
}

static int begin_graph(struct loader *l, struct frame *f, const struct wire_field *wf) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  if (load_room(l, m->n_graphs, 1, "graphs")) return -1;
  if (around->message == MESSAGE_ATTRIBUTE) {
    if (load_begin_child(l, f, wf)) return -1;
    if (around->first_child == NO_ID) {
      around->first_child = TABLE_ADD(m, graphs, 1);
      around->reserved_children = 1;
    }
    assert(around->n_children < around->reserved_children);
    init_graph(l, f, around->first_child + around->n_children++, GRAPH_SUB, f->graph);
    return 0;
  }
  const bool is_main = around->message == MESSAGE_MODEL;
  uint32_t *slot = &m->main_graph;
  if (!is_main) {
    struct model_training *t = &m->trainings[around->row];
    slot = f->field->number == ONNX_TRAINING_initialization ? &t->initialization : &t->algorithm;
  }
  if (*slot != NO_ID) return twice(l, f);
  *slot = TABLE_ADD(m, graphs, 1);
  init_graph(l, f, *slot, is_main ? GRAPH_MAIN : GRAPH_TRAINING, NO_ID);
  return 0;
}

static int begin_function(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  if (load_room(l, m->n_graphs, 1, "functions")) return -1;
  const uint32_t graph = TABLE_ADD(m, graphs, 1), id = TABLE_ADD(m, functions, 1);
  init_graph(l, f, graph, GRAPH_FUNCTION, NO_ID);
  m->graphs[graph].owner = id;
  m->functions[id].graph = graph;
  m->functions[id].opsets = l->n_function_opsets;
  f->row = id;
  return 0;
}

int load_begin(struct loader *l, const struct wire_field *wf) {
  struct frame *f = frame_top(l), *above = frame_above(l);
  const enum message around = above->message;
  switch (f->message) {
  case MESSAGE_NODE: return load_begin_node(l, f);
  case MESSAGE_GRAPH: return begin_graph(l, f, wf);
  case MESSAGE_FUNCTION: return begin_function(l, f);
  case MESSAGE_TRAINING:
    if (load_room(l, l->m->n_trainings, 1, "training infos")) return -1;
    f->row = TABLE_ADD(l->m, trainings, 1);
    l->m->trainings[f->row] = (struct model_training){NO_ID, NO_ID, frame_place(f)};
    return 0;
  case MESSAGE_TENSOR:
    if (around == MESSAGE_SPARSE && *load_sparse_part(above, f) != NO_ID) return twice(l, f);
    return around == MESSAGE_ATTRIBUTE ? load_begin_child(l, f, wf) : 0;
  case MESSAGE_SPARSE: return around == MESSAGE_ATTRIBUTE ? load_begin_child(l, f, wf) : 0;
  default: return 0;
  }
}

// ---- value infos --------------------------------------------------------------------------------

// The type of a tensor, or of what a sequence or an optional holds. NULL: it is another one; two kinds at once are no type
// either.
static const Pb__TypeTensor *tensor_of(const Pb__Type *type, uint8_t *typed, uint8_t *shaped) {
  if (!type) return NULL;
  const int kinds = !!type->tensor_type + !!type->sequence_type + !!type->map_type +
                    !!type->opaque_type + !!type->sparse_tensor_type + !!type->optional_type;
  const Pb__TypeSequence *holds = type->sequence_type ? type->sequence_type : type->optional_type;
  *typed = type->tensor_type ? INFO_TENSOR : type->sequence_type ? INFO_SEQUENCE : INFO_OPTIONAL;
  *shaped = type->tensor_type ? INFO_SHAPED : INFO_HELD_SHAPED;
  if (kinds != 1) return NULL;
  return holds ? holds->elem_type ? holds->elem_type->tensor_type : NULL : type->tensor_type;
}

static int take_type(struct loader *l, const Pb__Info *d, struct model_info *row) {
  struct model *m = l->m;
  uint8_t typed, shaped;
  const Pb__TypeTensor *tensor = tensor_of(d->type, &typed, &shaped);
  if (!tensor) return 0;
  if (dtype_known(tensor->elem_type)) {
    row->flags |= typed;
    row->dtype = (uint8_t)tensor->elem_type;
  }
  const Pb__Shape *shape = tensor->shape;
  if (!shape) return 0;
  const struct row_name who = {"value", load_text(d->name), row->src.off};
  if (shape->n_dim > RANK_MAX)
    return load_fault(l, FAULT_ERROR, row_place(&who).s,
                      "its type has %zu dims; at most %d are allowed", shape->n_dim, RANK_MAX);
  if (load_room(l, m->n_info_dims, shape->n_dim, "dims")) return -1;
  row->flags |= shaped;
  if (typed != INFO_TENSOR) row->flags |= typed;
  row->rank = (uint16_t)shape->n_dim;
  row->dims = TABLE_ADD(m, info_dims, (uint32_t)shape->n_dim);
  for (size_t i = 0; i < shape->n_dim; i++) {
    const Pb__Dim *dim = shape->dim[i];
    const bool has_value = dim->choice_case == PB__DIM__CHOICE_DIM_VALUE;
    const bool known = has_value && dim->dim_value >= 0;
    const bool named = dim->choice_case == PB__DIM__CHOICE_DIM_PARAM;
    m->info_dims[row->dims + i] = (struct model_dim){
        known ? dim->dim_value : -1, named ? model_intern(m, load_text(dim->dim_param)) : m->empty};
    if (has_value && !known &&
        load_fault(l, FAULT_WARNING, row_place(&who).s,
                   "dim %zu is %s, which is treated as unknown", i, integer(dim->dim_value).s))
      return -1;
  }
  return 0;
}

// Of the metadata of a value its range has a row's member, the rest is kept by its place.
int load_keeps_entry(struct loader *l, struct frame *f, bool *kept) {
  struct frame *around = frame_above(l);
  const Pb__Entry *d = load_decode(l, f, &pb__entry__descriptor);
  if (!d) return -1;
  const struct span value = load_text(d->value);
  *kept = !span_is(load_text(d->key), ONNX_RANGE_KEY) || value.n == 0 || span_has_nul(value) ||
          around->n_entries > 0;
  around->n_entries += !*kept;
  return 0;
}

static enum info_home info_home(const struct frame *f, const struct frame *around) {
  if (around->message == MESSAGE_FUNCTION) return INFO_VALUE;
  return f->field->number == ONNX_GRAPH_input    ? INFO_INPUT
         : f->field->number == ONNX_GRAPH_output ? INFO_OUTPUT
                                                 : INFO_VALUE;
}

static void add_input(struct loader *l, struct frame *around, uint32_t name) {
  const uint32_t value = load_value(l, around->graph, name);
  struct model_value *v = &l->m->values[value];
  v->flags |= VALUE_IS_INPUT;
  if (v->kind == VALUE_UNDEFINED) v->kind = VALUE_INPUT;
  *TABLE_PUSH(around, inputs) = value;
}

static int end_info(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  const Pb__Info *d = load_decode(l, f, &pb__info__descriptor);
  if (!d) return -1;
  const struct span name = load_text(d->name);
  if (load_room(l, m->n_infos, 1, "value infos")) return -1;
  const enum info_home home = info_home(f, around);
  struct model_info row = {.value = model_intern(m, name), // a name until load_resolve
                           .next = NO_ID,
                           .home = (uint8_t)home,
                           .range = m->empty,
                           .src = frame_place(f),
                           .type = f->type};
  if (name.n == 0 && load_fault(l, home == INFO_VALUE ? FAULT_WARNING : FAULT_ERROR,
                                load_place("value info", name, f->start).s, "has no name"))
    return -1;
  if (take_type(l, d, &row)) return -1;
  if (d->n_metadata_props) row.range = model_intern(m, load_text(d->metadata_props[0]->value));
  if (name.n && home == INFO_INPUT) add_input(l, around, row.value);
  if (name.n && home == INFO_OUTPUT) *TABLE_PUSH(around, outputs) = row.value;
  const uint32_t id = TABLE_ADD(m, infos, 1);
  m->infos[id] = row;
  load_flush_kept_fields(l, f, KEPT_INFO, id);
  load_add_item(around, ITEM_INFOS, id);
  return 0;
}

// ---- graphs and functions -----------------------------------------------------------------------

static int flush_items(struct loader *l, const struct frame *f, uint32_t *first, uint32_t *n) {
  struct model *m = l->m;
  if (load_room(l, m->n_items, f->n_items, "parts")) return -1;
  *n = f->n_items;
  *first = TABLE_ADD(m, items, f->n_items);
  if (*n) memcpy(m->items + *first, f->items, *n * sizeof *m->items);
  return 0;
}

static int flush_graph(struct loader *l, const struct frame *f, struct model_graph *g) {
  struct model *m = l->m;
  if (flush_items(l, f, &g->items, &g->n_items)) return -1;
  if (load_room(l, m->n_graph_io, (uint64_t)f->n_inputs + f->n_outputs, "graph inputs")) return -1;
  g->n_inputs = f->n_inputs;
  g->inputs = TABLE_ADD(m, graph_io, f->n_inputs);
  g->n_outputs = f->n_outputs;
  g->outputs = TABLE_ADD(m, graph_io, f->n_outputs);
  if (f->n_inputs) memcpy(m->graph_io + g->inputs, f->inputs, f->n_inputs * sizeof(uint32_t));
  if (f->n_outputs) memcpy(m->graph_io + g->outputs, f->outputs, f->n_outputs * sizeof(uint32_t));
  return 0;
}

static int end_graph(struct loader *l, struct frame *f) {
  struct model_graph *g = &l->m->graphs[f->graph];
  const Pb__Graph *d = load_decode(l, f, &pb__graph__descriptor);
  if (!d) return -1;
  g->name = model_intern(l->m, load_text(d->name));
  if (flush_graph(l, f, g)) return -1;
  if (frame_above(l)->message == MESSAGE_MODEL) load_add_item(frame_above(l), ITEM_GRAPH, f->graph);
  return 0;
}

static int end_function(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  const Pb__Function *d = load_decode(l, f, &pb__function__descriptor);
  if (!d) return -1;
  struct model_function *function = &m->functions[f->row];
  function->name = model_intern(m, load_text(d->name));
  function->domain = model_intern(m, load_text(d->domain));
  function->overload = model_intern(m, load_text(d->overload));
  function->n_opsets = l->n_function_opsets - function->opsets;
  for (size_t i = 0; i < d->n_input; i++)
    if (d->input[i].len) add_input(l, f, model_intern(m, load_text(d->input[i])));
  for (size_t i = 0; i < d->n_output; i++)
    if (d->output[i].len) *TABLE_PUSH(f, outputs) = model_intern(m, load_text(d->output[i]));
  struct model_graph *g = &m->graphs[f->graph];
  g->name = function->name;
  if (flush_graph(l, f, g)) return -1;
  load_add_item(frame_above(l), ITEM_FUNCTIONS, f->row);
  m->functions[f->row].attrs = m->n_attrs;
  m->functions[f->row].n_attrs = f->n_attrs;
  return load_flush_attrs(l, f, NO_ID);
}

// ---- the model's own parts ----------------------------------------------------------------------

static int end_opset(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  const Pb__Opset *d = load_decode(l, f, &pb__opset__descriptor);
  if (!d) return -1;
  if (load_room(l, (uint64_t)m->n_opsets + l->n_function_opsets, 1, "opset imports")) return -1;
  const struct span domain = load_text(d->domain);
  const uint32_t id = m->n_opsets + l->n_function_opsets;
  const struct model_opset row = {span_is(domain, "ai.onnx") ? m->empty : model_intern(m, domain),
                                  d->version, id + 1};
  load_flush_kept_fields(l, f, KEPT_OPSET, id);
  if (around->message == MESSAGE_MODEL)
    *TABLE_PUSH(m, opsets) = row;
  else
    *TABLE_PUSH(l, function_opsets) = row;
  load_add_other(l, around, ITEM_OPSETS, frame_place(f));
  return 0;
}

static int end_metadata(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  const Pb__Entry *d = load_decode(l, f, &pb__entry__descriptor);
  if (!d) return -1;
  if (load_room(l, m->n_metadata, 1, "metadata entries")) return -1;
  const uint32_t id = TABLE_ADD(m, metadata, 1);
  m->metadata[id].key = model_intern(m, load_text(d->key));
  m->metadata[id].value = model_intern(m, load_text(d->value));
  load_add_other(l, frame_above(l), ITEM_METADATA, frame_place(f));
  return 0;
}

static int end_sparse(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  if (load_room(l, m->n_sparses, 1, "sparse tensors")) return -1;
  if ((f->values == NO_ID || f->indices == NO_ID) &&
      load_fault(l, FAULT_ERROR, load_place("sparse tensor", span_of(NULL, 0), f->start).s,
                 "has no %s", f->values == NO_ID ? "values" : "indices"))
    return -1;
  const uint32_t id = TABLE_ADD(m, sparses, 1);
  m->sparses[id] = (struct model_sparse){f->values, f->indices, frame_place(f)};
  load_flush_kept_fields(l, f, KEPT_SPARSE, id);
  if (around->message == MESSAGE_ATTRIBUTE) {
    if (around->n_children++ == 0) around->first_child = id;
    return 0;
  }
  load_add_item(around, ITEM_SPARSE, id);
  // A sparse initializer makes the value that its `values` are named after.
  if (f->values == NO_ID) return 0;
  const struct place_text place = load_place("sparse initializer", span_of(NULL, 0), f->start);
  if (m->tensors[f->values].name == m->empty)
    return load_fault(l, FAULT_ERROR, place.s, "its values need a name");
  const uint32_t value = load_initializer(l, f->values);
  m->tensors[f->values].owner = value;
  if (f->indices != NO_ID) m->tensors[f->indices].owner = value;
  return 0;
}

static int end_model(struct loader *l, struct frame *f) {
  const Pb__Model *d = load_decode(l, f, &pb__model__descriptor);
  if (!d) return -1;
  l->m->ir_version = d->ir_version;
  return flush_items(l, f, &l->m->model_items, &l->m->model_n_items);
}

int load_end(struct loader *l) {
  struct frame *f = frame_top(l);
  switch (f->message) {
  case MESSAGE_MODEL: return end_model(l, f);
  case MESSAGE_GRAPH: return end_graph(l, f);
  case MESSAGE_NODE: return load_end_node(l, f);
  case MESSAGE_ATTRIBUTE: return load_end_attr(l, f);
  case MESSAGE_TENSOR: return load_end_tensor(l, f);
  case MESSAGE_SPARSE: return end_sparse(l, f);
  case MESSAGE_INFO: return end_info(l, f);
  case MESSAGE_FUNCTION: return end_function(l, f);
  case MESSAGE_OPSET: return end_opset(l, f);
  case MESSAGE_ENTRY: return end_metadata(l, f);
  default:
    assert(f->message == MESSAGE_TRAINING);
    load_flush_kept_fields(l, f, KEPT_TRAINING, f->row);
    load_add_item(frame_above(l), ITEM_TRAINING, f->row);
    return 0;
  }
}
