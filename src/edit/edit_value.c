// The edits of values, and of the inputs and outputs of graphs.
//
// A value's name is written in many places of the file: its producer, its users (in graphs within
// graphs too), its initializer, its declarations. Renaming marks all of them.
//
// Declarations (value_info) follow: those of a value that dies die with it, a graph output that
// names another value takes that value's type, and what was said of it as an inner value goes,
// because the output says it now.
#include "edit.h"
#include "edit_check.h"
#include "edit_groups.h"
#include "edit_line.h"
#include "edit_make.h"
#include "edit_rows.h"

void edit_rename_value(struct edits *e, uint32_t value, struct span name) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_rename_value(e, value, name, &err), &err);
  const uint32_t id = model_intern(m, edit_make_copy(e, name));
  if (edit_line_begin(e, "value.rename")) {
    edit_line_value(e, "value", value);
    edit_line_string(e, "to", model_name(m, id));
  }
  model_rename_value(m, value, id);
  const struct model_value *v = &m->values[value];
  for (uint32_t u = v->first_use; u != NO_ID; u = m->refs[u].next)
    edit_rows_mark_node(m, m->refs[u].node);
  MODEL_EACH_INFO (m, value, i)
    m->infos[i].flags |= INFO_DIRTY;
  if (v->kind == VALUE_NODE_OUTPUT) edit_rows_mark_node(m, v->def);
  const bool io = v->flags & (VALUE_IS_INPUT | VALUE_IS_OUTPUT);
  edit_rows_mark_graph(m, v->graph, io ? GRAPH_IO_DIRTY : 0);
  if (m->values[value].kind == VALUE_INITIALIZER) {
    struct model_tensor *t = &m->tensors[m->values[value].def];
    t->name = id;
    if (!(t->flags & TENSOR_NEW)) t->flags |= TENSOR_DIRTY;
  }
  edit_done(e);
}

static void retype(struct model *m, uint32_t value, enum dtype dtype, const struct model_dim *dims,
                   uint32_t rank) {
  bool said = false;
  MODEL_EACH_INFO (m, value, i) {
    if (dtype != DTYPE_UNDEFINED)
      edit_rows_set_type(m, i, dtype, dims, rank);
    else if (m->infos[i].home == INFO_VALUE)
      m->infos[i].flags |= INFO_DEAD;
    said = true;
  }
  if (!said && dtype != DTYPE_UNDEFINED)
    edit_rows_set_type(m, edit_rows_add_info(m, value, INFO_VALUE), dtype, dims, rank);
  edit_rows_mark_graph(m, m->values[value].graph, GRAPH_DIRTY);
}

// Dims that may lie in the model's own table, copied.
static const struct model_dim *copy_dims(struct edits *e, const struct model_dim *dims,
                                         uint32_t rank) {
  if (rank == NO_ID || rank == 0) return NULL;
  return memcpy(arena_alloc(&e->scratch, rank * sizeof *dims), dims, rank * sizeof *dims);
}

void edit_retype_value(struct edits *e, uint32_t value, enum dtype dtype,
                       const struct model_dim *dims, uint32_t rank) {
  struct err err = {0};
  edit_check_promise(edit_check_retype_value(e, value, dims, rank, &err), &err);
  dims = copy_dims(e, dims, rank);
  retype(e->m, value, dtype, dims, rank);
  if (edit_line_begin(e, "value.retype")) {
    edit_line_value(e, "value", value);
    edit_line_type(e, dtype, dims, rank);
  }
  edit_done(e);
}

void edit_replace_uses(struct edits *e, uint32_t from, uint32_t to) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_replace_uses(e, from, to, &err), &err);
  while (m->values[from].first_use != NO_ID) {
    const uint32_t ref = m->values[from].first_use;
    model_unlink_use(m, ref);
    m->refs[ref].value = to;
    model_link_use(m, ref);
    edit_rows_mark_node(m, m->refs[ref].node);
  }
  edit_rows_forget(m, from);
  edit_groups_forwarded(e, from, to);
  if (edit_line_begin(e, "value.replace_uses")) {
    edit_line_value(e, "from", from);
    edit_line_value(e, "to", to);
  }
  edit_done(e);
}

// ---- inputs and outputs of graphs --------------------------------------------------------------

uint32_t edit_add_graph_input(struct edits *e, uint32_t graph, struct span name, enum dtype dtype,
                              const struct model_dim *dims, uint32_t rank) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_add_graph_input(e, graph, name, dims, rank, &err), &err);
  dims = copy_dims(e, dims, rank);
  const uint32_t value = model_add_value(m, graph, model_intern(m, name));
  struct model_graph *g = &m->graphs[graph];
  m->values[value].kind = VALUE_INPUT;
  m->values[value].def = g->n_inputs;
  m->values[value].flags = VALUE_IS_INPUT;
  edit_rows_append_io(m, &g->inputs, &g->n_inputs, &g->inputs_room, value);
  // Functions declare names only.
  if (g->kind != GRAPH_FUNCTION)
    edit_rows_set_type(m, edit_rows_add_info(m, value, INFO_INPUT), dtype, dims, rank);
  edit_rows_mark_graph(m, graph, GRAPH_IO_DIRTY);
  if (edit_line_begin(e, "graph.add_input")) {
    edit_line_graph(e, "graph", graph);
    edit_line_value(e, "value", value);
    edit_line_type(e, dtype, dims, rank);
  }
  edit_done(e);
  return value;
}

void edit_remove_graph_input(struct edits *e, uint32_t value) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_remove_graph_input(e, value, &err), &err);
  struct model_value *v = &m->values[value];
  // In place: a pass may drop one for every initializer.
  struct model_graph *g = &m->graphs[v->graph];
  uint32_t *list = m->graph_io + g->inputs;
  uint32_t at = g->n_inputs - 1;
  while (list[at] != value)
    at--;
  g->n_inputs--;
  for (; at < g->n_inputs; at++) {
    list[at] = list[at + 1];
    struct model_value *later = &m->values[list[at]];
    if (later->kind == VALUE_INPUT) later->def = at;
  }
  v->flags &= (uint8_t)~VALUE_IS_INPUT;
  MODEL_EACH_INFO (m, value, i)
    if (m->infos[i].home == INFO_INPUT) m->infos[i].flags |= INFO_DEAD;
  edit_rows_mark_graph(m, v->graph, GRAPH_IO_DIRTY);
  if (v->kind == VALUE_INPUT) edit_rows_release(m, value);
  if (edit_line_begin(e, "graph.remove_input")) edit_line_value(e, "value", value);
  edit_done(e);
}

// The declaration of the output follows to its new value, and takes over what is known of it.
static void declare_output(struct model *m, uint32_t old, uint32_t value) {
  uint32_t out = old == NO_ID ? NO_ID : model_info_at(m, old, INFO_OUTPUT);
  if (out == NO_ID)
    out = edit_rows_add_info(m, value, INFO_OUTPUT);
  else
    edit_rows_move_info(m, out, value);
  const uint32_t inner = model_info_at(m, value, INFO_VALUE);
  if (inner == NO_ID) return;
  const struct model_info known = m->infos[inner];
  struct model_info *o = &m->infos[out];
  o->dims = known.dims;
  o->rank = known.rank;
  o->dtype = known.dtype;
  o->type = known.type;
  o->flags = (uint8_t)((o->flags & ~(INFO_TENSOR | INFO_SHAPED)) | INFO_DIRTY |
                       (known.flags & (INFO_TENSOR | INFO_SHAPED)));
  m->infos[inner].flags |= INFO_DEAD;
}

static void count_outputs(struct model *m, uint32_t value, int change) {
  struct model_value *v = &m->values[value];
  v->n_graph_outputs = (uint16_t)(v->n_graph_outputs + change);
  v->flags &= (uint8_t)~VALUE_IS_OUTPUT;
  if (v->n_graph_outputs > 0) v->flags |= VALUE_IS_OUTPUT;
}

static void set_output(struct model *m, uint32_t graph, uint32_t position, uint32_t value) {
  struct model_graph *g = &m->graphs[graph];
  uint32_t old = NO_ID;
  if (position == g->n_outputs) {
    edit_rows_append_io(m, &g->outputs, &g->n_outputs, &g->outputs_room, value);
  } else {
    old = m->graph_io[g->outputs + position];
    m->graph_io[g->outputs + position] = value;
  }
  if (old == value) return;
  if (g->kind != GRAPH_FUNCTION) declare_output(m, old, value);
  count_outputs(m, value, 1);
  if (old != NO_ID) {
    count_outputs(m, old, -1);
    edit_rows_forget(m, old);
  }
  edit_rows_mark_graph(m, graph, GRAPH_IO_DIRTY);
}

void edit_set_graph_output(struct edits *e, uint32_t graph, uint32_t position, uint32_t value) {
  struct err err = {0};
  edit_check_promise(edit_check_set_graph_output(e, graph, position, value, &err), &err);
  const struct model_graph *g = &e->m->graphs[graph];
  const uint32_t old = position < g->n_outputs ? e->m->graph_io[g->outputs + position] : value;
  set_output(e->m, graph, position, value);
  if (old != value) edit_groups_forwarded(e, old, value);
  if (edit_line_begin(e, "graph.set_output")) {
    edit_line_graph(e, "graph", graph);
    edit_line_int(e, "position", position);
    edit_line_value(e, "value", value);
  }
  edit_done(e);
}
