// Graphs, functions, value infos, and the model around them; and who is told when a message begins
// or ends.
//
// A function body is a graph of kind GRAPH_FUNCTION whose inputs and outputs are bare names.
// Training graphs stand alone. Every graph keeps the order of its parts as items: runs of rows, and
// places of what rows do not hold.
#include "loader.h"

#include <assert.h>

// ---- values by name -----------------------------------------------------------------------------

uint32_t load_value(struct loader *l, uint32_t graph, uint32_t name) {
  const uint32_t value = model_value_in(l->m, graph, name);
  return value == NO_ID ? model_add_value(l->m, graph, name) : value;
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
  return err_hint(l->err, "another program that reads the model and saves it writes it once");
}

static int begin_training_graph(struct loader *l, struct frame *f, uint32_t id) {
  struct model_training *t = &l->m->trainings[frame_above(l)->row];
  uint32_t *slot =
      f->field->number == ONNX_TRAINING_initialization ? &t->initialization : &t->algorithm;
  if (*slot != NO_ID) return twice(l, f);
  *slot = id;
  init_graph(l, f, id, GRAPH_TRAINING, NO_ID);
  return 0;
}

static int begin_subgraph(struct loader *l, struct frame *f, const struct wire_field *wf) {
  struct frame *attr = frame_above(l);
  if (load_begin_child(l, f, wf)) return -1;
  if (attr->first_child == NO_ID) {
    attr->first_child = TABLE_ADD(l->m, graphs, 1);
    attr->reserved_children = 1;
  }
  assert(attr->n_children < attr->reserved_children);
  init_graph(l, f, attr->first_child + attr->n_children++, GRAPH_SUB, f->graph);
  return 0;
}

static int begin_graph(struct loader *l, struct frame *f, const struct wire_field *wf) {
  struct model *m = l->m;
  if (load_room(l, m->n_graphs, 1, "graphs")) return -1;
  if (frame_above(l)->message == MESSAGE_ATTRIBUTE) return begin_subgraph(l, f, wf);
  if (frame_above(l)->message == MESSAGE_MODEL && m->main_graph != NO_ID) return twice(l, f);
  const uint32_t id = TABLE_ADD(m, graphs, 1);
  if (frame_above(l)->message == MESSAGE_TRAINING) return begin_training_graph(l, f, id);
  init_graph(l, f, id, GRAPH_MAIN, NO_ID);
  m->main_graph = id;
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

static int begin_training(struct loader *l, struct frame *f) {
  if (load_room(l, l->m->n_trainings, 1, "training infos")) return -1;
  f->row = TABLE_ADD(l->m, trainings, 1);
  l->m->trainings[f->row] = (struct model_training){NO_ID, NO_ID, frame_place(f)};
  return 0;
}

static int begin_sparse_part(struct loader *l, struct frame *f) {
  const struct frame *sparse = frame_above(l);
  return (f->field->number == ONNX_SPARSE_values ? sparse->values : sparse->indices) == NO_ID
             ? 0
             : twice(l, f);
}

int load_begin(struct loader *l, const struct wire_field *wf) {
  struct frame *f = frame_top(l);
  const enum message around = frame_above(l)->message;
  switch (f->message) {
  case MESSAGE_NODE: return load_begin_node(l, f);
  case MESSAGE_GRAPH: return begin_graph(l, f, wf);
  case MESSAGE_FUNCTION: return begin_function(l, f);
  case MESSAGE_TRAINING: return begin_training(l, f);
  case MESSAGE_TENSOR:
    if (around == MESSAGE_SPARSE) return begin_sparse_part(l, f);
    return around == MESSAGE_ATTRIBUTE ? load_begin_child(l, f, wf) : 0;
  case MESSAGE_SPARSE: return around == MESSAGE_ATTRIBUTE ? load_begin_child(l, f, wf) : 0;
  default: return 0;
  }
}

// ---- value infos --------------------------------------------------------------------------------

static int take_dims(struct loader *l, const struct decoded_info *d, struct model_info *row) {
  struct model *m = l->m;
  if (!d->is_shaped) return 0;
  const struct row_name who = {"value", d->name, row->src.off};
  if (d->n_dims > RANK_MAX)
    return load_fault(l, FAULT_ERROR, row_place(&who).s,
                      "its type has %lu dims; at most %d are allowed", d->n_dims, RANK_MAX);
  if (load_room(l, m->n_info_dims, d->n_dims, "dims")) return -1;
  row->flags |= INFO_SHAPED;
  row->rank = (uint16_t)d->n_dims;
  row->dims = TABLE_ADD(m, info_dims, (uint32_t)d->n_dims);
  for (size_t i = 0; i < d->n_dims; i++) {
    const struct decoded_dim *dim = &d->dims[i];
    const bool known = dim->has_value && dim->value >= 0;
    const uint32_t param = known ? m->empty : model_intern(m, dim->param);
    m->info_dims[row->dims + i] = (struct model_dim){known ? dim->value : -1, param};
    if (dim->has_value && !known &&
        load_fault(l, FAULT_WARNING, row_place(&who).s,
                   "dim %lu is %lld, which is taken as unknown", i, (long long)dim->value))
      return -1;
  }
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
  if (v->kind == VALUE_UNDEFINED) {
    v->kind = VALUE_INPUT;
    v->def = around->n_inputs;
  }
  *TABLE_PUSH(around, inputs) = value;
}

static int end_info(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  struct decoded_info d;
  if (!decode_info(&l->scratch, frame_skeleton(f), &d))
    return load_fatal(l, f->start, "the ValueInfoProto does not decode");
  if (load_room(l, m->n_infos, 1, "value infos")) return -1;
  const enum info_home home = info_home(f, around);
  struct model_info row = {.value = model_intern(m, d.name), // a name until load_resolve
                           .next = NO_ID,
                           .home = (uint8_t)home,
                           .src = frame_place(f),
                           .type = f->type};
  if (d.name.n == 0 && load_fault(l, home == INFO_VALUE ? FAULT_WARNING : FAULT_ERROR,
                                  load_place("value info", d.name, f->start).s, "has no name"))
    return -1;
  if (d.is_tensor && dtype_known(d.elem_type)) {
    row.flags |= INFO_TENSOR;
    row.dtype = (uint8_t)d.elem_type;
  }
  if (take_dims(l, &d, &row)) return -1;
  if (d.name.n && home == INFO_INPUT) add_input(l, around, row.value);
  if (d.name.n && home == INFO_OUTPUT) *TABLE_PUSH(around, outputs) = row.value;
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

static int flush_io(struct loader *l, const struct frame *f, struct model_graph *g) {
  struct model *m = l->m;
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
  struct span name;
  if (!decode_graph_name(&l->scratch, frame_skeleton(f), &name))
    return load_fatal(l, f->start, "the GraphProto does not decode");
  g->name = model_intern(l->m, name);
  if (flush_items(l, f, &g->items, &g->n_items)) return -1;
  if (flush_io(l, f, g)) return -1;
  if (frame_above(l)->message == MESSAGE_MODEL) load_add_item(frame_above(l), ITEM_GRAPH, f->graph);
  return 0;
}

static int end_function(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct decoded_function d;
  if (!decode_function(&l->scratch, frame_skeleton(f), &d))
    return load_fatal(l, f->start, "the FunctionProto does not decode");
  struct model_function *function = &m->functions[f->row];
  function->name = model_intern(m, d.name);
  function->domain = model_intern(m, d.domain);
  function->overload = model_intern(m, d.overload);
  function->n_opsets = l->n_function_opsets - function->opsets;
  for (size_t i = 0; i < d.n_in; i++)
    if (d.in[i].n) add_input(l, f, model_intern(m, d.in[i]));
  for (size_t i = 0; i < d.n_out; i++)
    if (d.out[i].n) *TABLE_PUSH(f, outputs) = model_intern(m, d.out[i]);
  struct model_graph *g = &m->graphs[f->graph];
  g->name = function->name;
  if (flush_items(l, f, &g->items, &g->n_items)) return -1;
  if (flush_io(l, f, g)) return -1;
  load_add_item(frame_above(l), ITEM_FUNCTIONS, f->row);
  return load_flush_attrs(l, f, NO_ID);
}

// ---- the model's own parts ----------------------------------------------------------------------

static int end_opset(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  struct decoded_opset d;
  if (!decode_opset(&l->scratch, frame_skeleton(f), &d))
    return load_fatal(l, f->start, "the OperatorSetIdProto does not decode");
  if (load_room(l, (uint64_t)m->n_opsets + l->n_function_opsets, 1, "opset imports")) return -1;
  if (span_is(d.domain, "ai.onnx")) d.domain.n = 0;
  const struct model_opset row = {model_intern(m, d.domain), d.version};
  const bool of_model = around->message == MESSAGE_MODEL;
  if (of_model) {
    const uint32_t id = TABLE_ADD(m, opsets, 1);
    m->opsets[id] = row;
  } else {
    *TABLE_PUSH(l, function_opsets) = row;
  }
  load_add_other(l, around, ITEM_OPSETS, frame_place(f));
  return 0;
}

static int end_metadata(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct decoded_entry d;
  if (!decode_entry(&l->scratch, frame_skeleton(f), &d))
    return load_fatal(l, f->start, "the StringStringEntryProto does not decode");
  if (load_room(l, m->n_metadata, 1, "metadata entries")) return -1;
  const struct model_metadata row = {model_intern(m, d.key), model_intern(m, d.value)};
  const uint32_t id = TABLE_ADD(m, metadata, 1);
  m->metadata[id] = row;
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
  const uint32_t value = load_value(l, f->graph, m->tensors[f->values].name);
  m->tensors[f->values].owner = value;
  if (f->indices != NO_ID) m->tensors[f->indices].owner = value;
  struct model_value *v = &m->values[value];
  if (v->kind == VALUE_NODE_OUTPUT || v->kind == VALUE_INITIALIZER) return 0;
  v->kind = VALUE_INITIALIZER;
  v->def = f->values;
  return 0;
}

static int end_tensor(struct loader *l, struct frame *f) {
  struct frame *around = frame_above(l);
  if (load_end_tensor(l, f)) return -1;
  const uint32_t id = l->m->n_tensors - 1;
  if (around->message == MESSAGE_GRAPH)
    load_add_item(around, ITEM_TENSORS, id);
  else if (around->message == MESSAGE_ATTRIBUTE && around->n_children++ == 0)
    around->first_child = id;
  else if (around->message == MESSAGE_SPARSE)
    *(f->field->number == ONNX_SPARSE_values ? &around->values : &around->indices) = id;
  return 0;
}

static int end_node(struct loader *l, struct frame *f) {
  if (load_end_node(l, f)) return -1;
  load_add_item(frame_above(l), ITEM_NODES, f->row);
  return 0;
}

static int end_attr(struct loader *l, struct frame *f) {
  if (load_end_attr(l, f)) return -1;
  if (frame_above(l)->message == MESSAGE_FUNCTION)
    load_add_other(l, frame_above(l), ITEM_FUNCTION_ATTRS, frame_place(f));
  return 0;
}

static int end_training(struct loader *l, struct frame *f) {
  load_flush_kept_fields(l, f, KEPT_TRAINING, f->row);
  load_add_item(frame_above(l), ITEM_TRAINING, f->row);
  return 0;
}

static int end_model(struct loader *l, struct frame *f) {
  if (!decode_ir_version(&l->scratch, frame_skeleton(f), &l->m->ir_version))
    return load_fatal(l, f->start, "the ModelProto does not decode");
  return flush_items(l, f, &l->m->model_items, &l->m->model_n_items);
}

int load_end(struct loader *l) {
  struct frame *f = frame_top(l);
  switch (f->message) {
  case MESSAGE_MODEL: return end_model(l, f);
  case MESSAGE_GRAPH: return end_graph(l, f);
  case MESSAGE_NODE: return end_node(l, f);
  case MESSAGE_ATTRIBUTE: return end_attr(l, f);
  case MESSAGE_TENSOR: return end_tensor(l, f);
  case MESSAGE_SPARSE: return end_sparse(l, f);
  case MESSAGE_INFO: return end_info(l, f);
  case MESSAGE_FUNCTION: return end_function(l, f);
  case MESSAGE_OPSET: return end_opset(l, f);
  case MESSAGE_ENTRY: return end_metadata(l, f);
  default: assert(f->message == MESSAGE_TRAINING); return end_training(l, f);
  }
}
