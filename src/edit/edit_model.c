// The edits of the model itself: subgraphs, functions, opset imports, IR version, metadata.
//
// Opset rows lie in one table, the model's own first and then each function's run. A new import of
// the model therefore pushes the functions' runs on by one.
//
// As everywhere in edit, each edit checks what it was promised, writes its line, and changes the
// rows.
#include "edit.h"
#include "edit_check.h"
#include "edit_line.h"
#include "edit_make.h"
#include "edit_rows.h"

static uint32_t add_graph(struct model *m, enum graph_kind kind, uint32_t name) {
  const uint32_t graph = TABLE_ADD(m, graphs, 1);
  m->graphs[graph] = (struct model_graph){.name = name,
                                          .kind = (uint8_t)kind,
                                          .flags = GRAPH_NEW | GRAPH_DIRTY,
                                          .parent = NO_ID,
                                          .owner = NO_ID,
                                          .first_node = NO_ID,
                                          .last_node = NO_ID};
  return graph;
}

uint32_t edit_add_subgraph(struct edits *e, uint32_t parent, struct span name) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_add_subgraph(e, parent, name, &err), &err);
  const uint32_t graph = add_graph(m, GRAPH_SUB, model_intern(m, name));
  m->graphs[graph].parent = parent;
  m->graphs[graph].depth = (uint16_t)(m->graphs[parent].depth + 1);
  if (edit_line_begin(e, "subgraph.add")) {
    edit_line_graph(e, "graph", graph);
    edit_line_graph(e, "parent", parent);
    edit_line_text(e, "name", model_name(m, m->graphs[graph].name));
  }
  edit_done(e);
  return graph;
}

static void write_function(struct edits *e, uint32_t function) {
  const struct model_function *f = &e->m->functions[function];
  json_put_text(&e->line, "function", arena_printf(&e->scratch, "f%u", function));
  edit_line_graph(e, "graph", f->graph);
  edit_line_string(e, "domain", model_name(e->m, f->domain));
  edit_line_string(e, "name", model_name(e->m, f->name));
}

uint32_t edit_add_function(struct edits *e, struct span domain, struct span name) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_add_function(e, domain, name, &err), &err);
  name = edit_make_copy(e, name); // interning the domain may move the names
  const uint32_t domain_id = model_intern(m, domain);
  const uint32_t name_id = model_intern(m, name);
  const uint32_t graph = add_graph(m, GRAPH_FUNCTION, name_id);
  const uint32_t function = TABLE_ADD(m, functions, 1);
  const uint32_t opsets = TABLE_ADD(m, opsets, m->n_model_opsets);
  for (uint32_t i = 0; i < m->n_model_opsets; i++)
    m->opsets[opsets + i] = m->opsets[i];
  m->functions[function] = (struct model_function){.name = name_id,
                                                   .domain = domain_id,
                                                   .overload = m->empty,
                                                   .graph = graph,
                                                   .opsets = opsets,
                                                   .n_opsets = m->n_model_opsets,
                                                   .flags = FUNCTION_NEW};
  m->graphs[graph].owner = function;
  if (edit_line_begin(e, "function.add")) write_function(e, function);
  edit_done(e);
  return function;
}

void edit_remove_function(struct edits *e, uint32_t function) {
  struct err err = {0};
  edit_check_promise(edit_check_remove_function(e, function, &err), &err);
  e->m->functions[function].flags |= FUNCTION_DEAD;
  edit_kill_graph(e->m, e->m->functions[function].graph);
  if (edit_line_begin(e, "function.remove")) write_function(e, function);
  edit_done(e);
}

static uint32_t add_opset(struct model *m, uint32_t domain) {
  const uint32_t at = m->n_model_opsets++;
  TABLE_ADD(m, opsets, 1);
  memmove(m->opsets + at + 1, m->opsets + at, (m->n_opsets - 1 - at) * sizeof *m->opsets);
  for (uint32_t i = 0; i < m->n_functions; i++)
    if (m->functions[i].opsets >= at) m->functions[i].opsets++;
  m->opsets[at].domain = domain;
  return at;
}

void edit_set_opset(struct edits *e, struct span domain, int64_t version) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_set_opset(e, domain, version, &err), &err);
  if (span_is(domain, "ai.onnx")) domain.n = 0;
  const uint32_t id = model_intern(m, domain);
  uint32_t at = 0;
  while (at < m->n_model_opsets && m->opsets[at].domain != id)
    at++;
  if (at == m->n_model_opsets) at = add_opset(m, id);
  m->opsets[at].version = version;
  m->dirty |= MODEL_DIRTY_OPSETS;
  if (edit_line_begin(e, "opset")) {
    edit_line_string(e, "domain", model_name(m, id));
    edit_line_int(e, "version", version);
  }
  edit_done(e);
}

// A run that gains an import moves to the end of the table.
static uint32_t add_function_opset(struct model *m, uint32_t function, uint32_t domain) {
  const uint32_t first = TABLE_ADD(m, opsets, m->functions[function].n_opsets + 1);
  struct model_function *f = &m->functions[function];
  memmove(m->opsets + first, m->opsets + f->opsets, f->n_opsets * sizeof *m->opsets);
  f->opsets = first;
  m->opsets[first + f->n_opsets].domain = domain;
  return first + f->n_opsets++;
}

void edit_set_function_opset(struct edits *e, uint32_t function, struct span domain,
                             int64_t version) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_set_function_opset(e, function, domain, version, &err), &err);
  if (span_is(domain, "ai.onnx")) domain.n = 0;
  const uint32_t id = model_intern(m, domain);
  uint32_t at = m->functions[function].opsets;
  const uint32_t end = at + m->functions[function].n_opsets;
  while (at < end && m->opsets[at].domain != id)
    at++;
  if (at == end) at = add_function_opset(m, function, id);
  m->opsets[at].version = version;
  m->functions[function].flags |= FUNCTION_OPSETS_DIRTY;
  edit_rows_mark_graph(m, m->functions[function].graph, GRAPH_DIRTY);
  if (edit_line_begin(e, "function.opset")) {
    write_function(e, function);
    edit_line_string(e, "import", model_name(m, id));
    edit_line_int(e, "version", version);
  }
  edit_done(e);
}

void edit_set_ir_version(struct edits *e, int64_t version) {
  struct err err = {0};
  edit_check_promise(edit_check_set_ir_version(e, version, &err), &err);
  e->m->ir_version = version;
  e->m->dirty |= MODEL_DIRTY_IR_VERSION;
  if (edit_line_begin(e, "ir_version")) edit_line_int(e, "version", version);
  edit_done(e);
}

void edit_set_metadata(struct edits *e, struct span key, struct span value) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_set_metadata(e, key, value, &err), &err);
  value = edit_make_copy(e, value);
  const uint32_t key_id = model_intern(m, key), value_id = model_intern(m, value);
  uint32_t at = 0;
  while (at < m->n_metadata && m->metadata[at].key != key_id)
    at++;
  if (value_id != m->empty) {
    if (at == m->n_metadata) TABLE_ADD(m, metadata, 1);
    m->metadata[at] = (struct model_metadata){key_id, value_id};
  } else if (at < m->n_metadata) {
    m->n_metadata--;
    memmove(m->metadata + at, m->metadata + at + 1, (m->n_metadata - at) * sizeof *m->metadata);
  }
  m->dirty |= MODEL_DIRTY_METADATA;
  if (edit_line_begin(e, "metadata")) {
    edit_line_string(e, "key", model_name(m, key_id));
    edit_line_string(e, "value", model_name(m, value_id));
  }
  edit_done(e);
}
