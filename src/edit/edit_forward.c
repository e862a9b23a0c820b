// One value in place of another, for all that used it and for the graph's outputs too.
//
//   x ─┬─ Identity ─ y ─▶ users, output "y"          x, now called "y" ─▶ users, output "y"
//      └─▶ users                              ──▶      └─▶ users
//                                                    Identity ─ y_before ─▶ (nothing)
//
// The name of a graph's output is a promise to somebody outside, so there the value that comes takes
// over the name. It can if its own name is promised to nobody, and if the new one means it wherever
// it is used: a graph in between may have a value of that name. All this is looked at before
// anything changes. What the output was declared to be is a promise too, and stays where it says
// dtype and dims: what was declared of the value that comes is then dropped.
#include "edit/edit_asked.h"

// Would `value` of graph `home`, called `name`, be seen by all its users? One graph up to `home` at
// least has no value of the name: home itself may, it is the name's present owner.
static bool users_would_see(const struct model *m, uint32_t value, uint32_t name) {
  const uint32_t home = m->values[value].graph;
  for (uint32_t u = m->values[value].first_use; u != NO_ID; u = m->refs[u].next) {
    uint32_t graph = m->nodes[m->refs[u].node].graph;
    for (; graph != home; graph = model_graph_around(m, graph))
      if (model_value_in(m, graph, name) != NO_ID) return false;
  }
  return true;
}

static bool can_take_name(const struct edits *e, uint32_t from, uint32_t to) {
  const struct model *m = e->m;
  const struct model_value *f = &m->values[from], *t = &m->values[to];
  const uint32_t around = model_graph_around(m, f->graph);
  if (t->graph != f->graph || t->kind != VALUE_NODE_OUTPUT || t->n_graph_outputs > 0) return false;
  if (f->flags & VALUE_IS_INPUT || t->flags & VALUE_IS_INPUT) return false;
  // A name that hides one around it is never given by an edit.
  if (around != NO_ID && model_lookup(m, around, f->name) != NO_ID) return false;
  return users_would_see(m, to, f->name) && model_listed_at_home(e->m, from);
}

bool edit_can_forward(const struct edits *e, uint32_t from, uint32_t to) {
  struct err err = {0};
  if (from == NO_ID || to == NO_ID || from == to) return false;
  if (edit_check_value(e, from, &err) || edit_check_value(e, to, &err)) return false;
  if (e->m->values[from].n_graph_outputs > 0) return can_take_name(e, from, to);
  const struct edit_asked x = {.kind = EDIT_VALUE_REPLACE_USES, .from = from, .value = to};
  return edit_check_replace_uses(e, &x, &err) == 0;
}

// A name that nothing in the model has. In the edits' scratch, which the renaming copies first. An output may be
// forwarded as often as there are nodes: numbers that were tried are not tried again.
static struct span spare_name(struct edits *e, uint32_t value) {
  const struct span name = model_value_name(e->m, value);
  const uint32_t id = e->m->values[value].name;
  char *text = arena_printf(&e->scratch, "%.*s_before", (int)name.n, (const char *)name.at);
  uint32_t i = e->spare_of == id && e->spare_next > 0 ? e->spare_next : 1;
  for (; model_find_name(e->m, span_str(text)) != NO_ID; i++)
    text = arena_printf(&e->scratch, "%.*s_before_%u", (int)name.n, (const char *)name.at, i);
  e->spare_of = id;
  e->spare_next = i;
  return span_str(text);
}

// Of a sequence or an optional the whole type is one piece.
static bool is_declared_whole(const struct model *m, uint32_t value, enum info_home home) {
  const uint32_t id = model_info_at(m, value, home);
  if (id == NO_ID) return false;
  const struct model_info *info = &m->infos[id];
  return info->flags & INFO_TENSOR ? info->flags & INFO_SHAPED : info->type.len > 0;
}

bool edit_forward(struct edits *e, uint32_t from, uint32_t to) {
  const struct model *m = e->m;
  if (!edit_can_forward(e, from, to)) return false;
  const bool output = m->values[from].n_graph_outputs > 0;
  const uint32_t name = m->values[from].name, graph = m->values[from].graph;
  if (output) {
    edit_rename_value(e, from, spare_name(e, from));
    edit_rename_value(e, to, model_name(m, name));
    if (is_declared_whole(m, from, INFO_OUTPUT) && model_info_at(m, to, INFO_VALUE) != NO_ID)
      edit_retype_value(e, to, DTYPE_UNDEFINED, NULL, NO_ID);
  }
  if (m->values[from].first_use != NO_ID) edit_replace_uses(e, from, to);
  while (m->values[from].n_graph_outputs > 0)
    edit_set_graph_output(e, graph, model_next_listing(m, from), to);
  return true;
}
