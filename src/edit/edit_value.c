// The edits of values, and of the inputs and outputs of graphs.
//
// A value's name is written in many places of the file: its producer, its users (also in the graphs
// inside), its initializer, its declarations. Renaming marks all of them.
//
// Declarations (value_info) follow: when a value dies, its declarations die too. A graph output that
// names another value takes that value's type, and the value loses its own declaration, because the
// output now declares it.
#include "edit/edit_asked.h"
#include "edit/edit_groups.h"
#include "edit/edit_rows.h"

void edit_rename_value(struct edits *e, uint32_t value, struct span name) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_VALUE_RENAME, .value = value, .name = name});
}

void edit_apply_rename_value(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const uint32_t id = model_intern(m, x->name);
  model_rename_value(m, x->value, id);
  const struct model_value *v = &m->values[x->value];
  for (uint32_t u = v->first_use; u != NO_ID; u = m->refs[u].next)
    edit_rows_mark_node(m, m->refs[u].node);
  MODEL_EACH_INFO (m, x->value, i)
    m->infos[i].flags |= INFO_DIRTY;
  if (v->kind == VALUE_NODE_OUTPUT) edit_rows_mark_node(m, v->def);
  const bool io = v->flags & (VALUE_IS_INPUT | VALUE_IS_OUTPUT);
  edit_rows_mark_graph(m, v->graph, io ? GRAPH_IO_DIRTY : 0);
  if (v->kind == VALUE_INITIALIZER) {
    struct model_tensor *t = &m->tensors[v->def];
    t->name = id;
    if (!(t->flags & TENSOR_NEW)) t->flags |= TENSOR_DIRTY;
  }
}

void edit_retype_value(struct edits *e, uint32_t value, enum dtype dtype,
                       const struct model_dim *dims, uint32_t rank) {
  edit_ask(
      e,
      &(struct edit_asked){
          .kind = EDIT_VALUE_RETYPE, .value = value, .dtype = dtype, .dims = dims, .rank = rank});
}

void edit_apply_retype_value(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  bool said = false;
  MODEL_EACH_INFO (m, x->value, i) {
    if (x->dtype != DTYPE_UNDEFINED)
      edit_rows_set_type(m, i, x->dtype, x->dims, x->rank);
    else if (m->infos[i].home == INFO_VALUE)
      m->infos[i].flags |= INFO_DEAD;
    said = true;
  }
  if (!said && x->dtype != DTYPE_UNDEFINED)
    edit_rows_set_type(m, edit_rows_add_info(m, x->value, INFO_VALUE), x->dtype, x->dims, x->rank);
  edit_rows_mark_graph(m, m->values[x->value].graph, GRAPH_DIRTY);
}

void edit_say_range(struct edits *e, uint32_t value, struct span range) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_VALUE_SAY_RANGE, .value = value, .text = range});
}

// A value_info with nothing in it but the name.
static bool says_nothing(const struct model *m, uint32_t info) {
  const struct model_info *i = &m->infos[info];
  uint32_t n;
  return i->home == INFO_VALUE && i->type.len == 0 && !(i->flags & INFO_TYPE) &&
         !model_kept_fields(m, KEPT_INFO, info, &n);
}

void edit_apply_say_range(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  uint32_t range = model_intern(m, x->text);
  MODEL_EACH_INFO (m, x->value, i) {
    struct model_info *info = &m->infos[i];
    if (info->range != range) info->flags |= INFO_DIRTY;
    info->range = range;
    if (range == m->empty && says_nothing(m, i)) info->flags |= INFO_DEAD;
    range = m->empty; // it is said once
  }
  if (range != m->empty) {
    const uint32_t info = edit_rows_add_info(m, x->value, INFO_VALUE);
    m->infos[info].range = range;
  }
  edit_rows_mark_graph(m, m->values[x->value].graph, GRAPH_DIRTY);
}

void edit_replace_uses(struct edits *e, uint32_t from, uint32_t to) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_VALUE_REPLACE_USES, .from = from, .value = to});
}

void edit_apply_replace_uses(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  while (m->values[x->from].first_use != NO_ID) {
    const uint32_t ref = m->values[x->from].first_use;
    model_unlink_use(m, ref);
    m->refs[ref].value = x->value;
    model_link_use(m, ref);
    edit_rows_mark_node(m, m->refs[ref].node);
  }
  edit_rows_forget(m, x->from);
  edit_groups_forwarded(e, x->from, x->value);
}

// ---- inputs and outputs of graphs --------------------------------------------------------------

uint32_t edit_add_graph_input(struct edits *e, uint32_t graph, struct span name, enum dtype dtype,
                              const struct model_dim *dims, uint32_t rank) {
  struct edit_asked x = {.kind = EDIT_GRAPH_ADD_INPUT,
                         .graph = graph,
                         .name = name,
                         .dtype = dtype,
                         .dims = dims,
                         .rank = rank};
  edit_ask(e, &x);
  return x.value;
}

void edit_apply_add_graph_input(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const uint32_t value = x->value = model_add_value(m, x->graph, model_intern(m, x->name));
  struct model_graph *g = &m->graphs[x->graph];
  m->values[value].kind = VALUE_INPUT;
  m->values[value].flags = VALUE_IS_INPUT;
  edit_rows_append_io(m, &g->inputs, &g->n_inputs, &g->inputs_room, value);
  // Functions declare names only.
  if (g->kind != GRAPH_FUNCTION)
    edit_rows_set_type(m, edit_rows_add_info(m, value, INFO_INPUT), x->dtype, x->dims, x->rank);
  edit_rows_mark_graph(m, x->graph, GRAPH_IO_DIRTY);
}

void edit_remove_graph_input(struct edits *e, uint32_t value) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_GRAPH_REMOVE_INPUT, .value = value});
}

void edit_apply_remove_graph_input(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  struct model_value *v = &m->values[x->value];
  edit_rows_remove_input(m, &m->graphs[v->graph], x->value);
  v->flags &= ~VALUE_IS_INPUT & VALUE_FLAGS;
  MODEL_EACH_INFO (m, x->value, i)
    if (m->infos[i].home == INFO_INPUT) m->infos[i].flags |= INFO_DEAD;
  edit_rows_mark_graph(m, v->graph, GRAPH_IO_DIRTY);
  if (v->kind == VALUE_INPUT) edit_rows_release(m, x->value);
}

// The declaration of the output moves to its new value, and takes what is known of that value.
static void declare_output(struct model *m, uint32_t old, uint32_t value) {
  uint32_t out = old == NO_ID ? NO_ID : model_info_at(m, old, INFO_OUTPUT);
  if (out == NO_ID)
    out = edit_rows_add_info(m, value, INFO_OUTPUT);
  else
    edit_rows_move_info(m, out, value);
  const uint32_t inner = edit_rows_inner_info(m, value);
  if (inner == NO_ID) return;
  const struct model_info known = m->infos[inner];
  struct model_info *o = &m->infos[out];
  o->dims = known.dims;
  o->rank = known.rank;
  o->dtype = known.dtype;
  o->type = known.type;
  if (known.range != m->empty) o->range = known.range;
  o->flags = (uint8_t)((o->flags & ~INFO_TYPE) | INFO_DIRTY | (known.flags & INFO_TYPE));
  m->infos[inner].flags |= INFO_DEAD;
}

void edit_set_graph_output(struct edits *e, uint32_t graph, uint32_t position, uint32_t value) {
  edit_ask(e, &(struct edit_asked){
                  .kind = EDIT_GRAPH_SET_OUTPUT, .graph = graph, .slot = position, .value = value});
}

void edit_apply_set_graph_output(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  struct model_graph *g = &m->graphs[x->graph];
  uint32_t old = NO_ID;
  if (x->slot == g->n_outputs) {
    const uint32_t first = g->outputs;
    edit_rows_append_io(m, &g->outputs, &g->n_outputs, &g->outputs_room, x->value);
    if (g->outputs != first) model_listings_moved(m);
  } else {
    old = m->graph_io[g->outputs + x->slot];
    m->graph_io[g->outputs + x->slot] = x->value;
  }
  if (old == x->value) return;
  model_listing_changes(m, g->outputs + x->slot, old, x->value);
  if (g->kind != GRAPH_FUNCTION) declare_output(m, old, x->value);
  edit_rows_count_output(m, x->value, 1);
  if (old != NO_ID) {
    edit_rows_count_output(m, old, -1);
    edit_rows_forget(m, old);
    edit_groups_forwarded(e, old, x->value);
  }
  edit_rows_mark_graph(m, x->graph, GRAPH_IO_DIRTY);
}
