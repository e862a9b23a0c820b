// The edits of the model itself: subgraphs, functions, opset imports, IR version, metadata.
//
// Opset rows lie in one table, the model's own first and then each function's run. A new import of
// the model therefore pushes the functions' runs on by one.
//
// What is called "ai.onnx" elsewhere has no name here.
#include "edit/edit_asked.h"
#include "edit/edit_make.h"
#include "edit/edit_rows.h"

#include <assert.h>

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
  struct edit_asked x = {
      .kind = EDIT_SUBGRAPH_ADD, .graph = e->m->n_graphs, .parent = parent, .name = name};
  edit_ask(e, &x);
  return x.graph;
}

void edit_apply_add_subgraph(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  add_graph(m, GRAPH_SUB, model_intern(m, x->name));
  m->graphs[x->graph].parent = x->parent;
  m->graphs[x->graph].depth = (uint16_t)(m->graphs[x->parent].depth + 1);
}

// ---- functions ---------------------------------------------------------------------------------

uint32_t edit_add_function(struct edits *e, struct span domain, struct span name,
                           const struct edit_attr *attrs, uint32_t n_attrs) {
  struct edit_asked x = {.kind = EDIT_FUNCTION_ADD,
                         .function = e->m->n_functions,
                         .graph = e->m->n_graphs,
                         .domain = domain,
                         .name = name,
                         .spec = {.attrs = attrs, .n_attrs = n_attrs}};
  edit_ask(e, &x);
  return x.function;
}

void edit_apply_add_function(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const uint32_t domain = model_intern(m, x->domain), name = model_intern(m, x->name);
  const uint32_t graph = add_graph(m, GRAPH_FUNCTION, name);
  const uint32_t function = TABLE_ADD(m, functions, 1);
  const uint32_t attrs = edit_make_defaults(e, x->spec.attrs, x->spec.n_attrs);
  const uint32_t opsets = TABLE_ADD(m, opsets, m->n_model_opsets);
  for (uint32_t i = 0; i < m->n_model_opsets; i++) {
    m->opsets[opsets + i] = m->opsets[i];
    m->opsets[opsets + i].loaded = 0;
  }
  model_opsets_moved(m, opsets, m->n_model_opsets);
  m->functions[function] = (struct model_function){.name = name,
                                                   .domain = domain,
                                                   .overload = m->empty,
                                                   .graph = graph,
                                                   .opsets = opsets,
                                                   .n_opsets = m->n_model_opsets,
                                                   .attrs = attrs,
                                                   .n_attrs = x->spec.n_attrs,
                                                   .flags = FUNCTION_NEW};
  m->graphs[graph].owner = function;
}

// An edit of a function that is there, with what its line says beside the number.
static struct edit_asked of_function(const struct edits *e, enum edit_kind kind,
                                     uint32_t function) {
  assert(function < e->m->n_functions);
  const struct model_function *f = &e->m->functions[function];
  return (struct edit_asked){.kind = kind,
                             .function = function,
                             .graph = f->graph,
                             .domain = model_name(e->m, f->domain),
                             .name = model_name(e->m, f->name)};
}

void edit_remove_function(struct edits *e, uint32_t function) {
  struct edit_asked x = of_function(e, EDIT_FUNCTION_REMOVE, function);
  edit_ask(e, &x);
}

void edit_apply_remove_function(struct edits *e, struct edit_asked *x) {
  e->m->functions[x->function].flags |= FUNCTION_DEAD;
  edit_kill_graph(e->m, x->graph);
}

// ---- opsets ------------------------------------------------------------------------------------

void edit_set_opset(struct edits *e, struct span domain, int64_t version) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_OPSET, .domain = domain, .number = version});
}

uint32_t edit_opset_row(const struct model *m, uint32_t first, uint32_t n, struct span domain) {
  if (span_is(domain, "ai.onnx")) domain.n = 0;
  const uint32_t name = model_find_name(m, domain);
  uint32_t at = 0;
  while (at < n && m->opsets[first + at].domain != name)
    at++;
  return at;
}

// Rows behind the model's own imports are functions'.
static void drop_opset(struct model *m, uint32_t at) {
  m->n_opsets--;
  m->n_model_opsets--;
  memmove(m->opsets + at, m->opsets + at + 1, (m->n_opsets - at) * sizeof *m->opsets);
  for (uint32_t i = 0; i < m->n_functions; i++)
    if (m->functions[i].opsets > at) m->functions[i].opsets--;
  model_opsets_shifted(m);
  m->dirty |= MODEL_DIRTY_OPSETS;
}

void edit_apply_set_opset(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const uint32_t at = edit_opset_row(m, 0, m->n_model_opsets, x->domain);
  if (x->number == 0) {
    drop_opset(m, at);
    return;
  }
  if (span_is(x->domain, "ai.onnx")) x->domain.n = 0;
  const uint32_t domain = model_intern(m, x->domain);
  if (at == m->n_model_opsets) {
    TABLE_ADD(m, opsets, 1);
    m->n_model_opsets++;
    memmove(m->opsets + at + 1, m->opsets + at, (m->n_opsets - 1 - at) * sizeof *m->opsets);
    for (uint32_t i = 0; i < m->n_functions; i++)
      if (m->functions[i].opsets >= at) m->functions[i].opsets++;
    m->opsets[at].domain = domain;
    model_opsets_shifted(m);
  }
  m->opsets[at].version = x->number;
  m->dirty |= MODEL_DIRTY_OPSETS;
}

void edit_set_function_opset(struct edits *e, uint32_t function, struct span domain,
                             int64_t version) {
  struct edit_asked x = of_function(e, EDIT_FUNCTION_OPSET, function);
  x.import = domain;
  x.number = version;
  edit_ask(e, &x);
}

void edit_apply_set_function_opset(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  struct model_function *f = &m->functions[x->function];
  const uint32_t at = edit_opset_row(m, f->opsets, f->n_opsets, x->import);
  f->flags |= FUNCTION_OPSETS_DIRTY;
  edit_rows_mark_graph(m, f->graph, GRAPH_DIRTY);
  if (x->number == 0) { // its run ends one earlier
    struct model_opset *rows = m->opsets + f->opsets;
    f->n_opsets--;
    memmove(rows + at, rows + at + 1, (f->n_opsets - at) * sizeof *rows);
    model_opsets_shifted(m);
    return;
  }
  if (span_is(x->import, "ai.onnx")) x->import.n = 0;
  const uint32_t domain = model_intern(m, x->import);
  if (at == f->n_opsets) { // the run moves to the end of the table
    const uint32_t first = TABLE_ADD(m, opsets, f->n_opsets + 1);
    memmove(m->opsets + first, m->opsets + f->opsets, f->n_opsets * sizeof *m->opsets);
    f->opsets = first;
    f->n_opsets++;
    m->opsets[first + at].domain = domain;
    model_opsets_moved(m, first, f->n_opsets);
  }
  m->opsets[f->opsets + at].version = x->number;
}

// ---- the rest ----------------------------------------------------------------------------------

void edit_set_ir_version(struct edits *e, int64_t version) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_IR_VERSION, .number = version});
}

void edit_apply_set_ir_version(struct edits *e, struct edit_asked *x) {
  e->m->ir_version = x->number;
  e->m->dirty |= MODEL_DIRTY_IR_VERSION;
}

void edit_set_metadata(struct edits *e, struct span key, struct span value) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_METADATA, .key = key, .text = value});
}

void edit_apply_set_metadata(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const uint32_t key = model_intern(m, x->key), value = model_intern(m, x->text);
  uint32_t at = 0;
  while (at < m->n_metadata && m->metadata[at].key != key)
    at++;
  if (value != m->empty) {
    if (at == m->n_metadata) TABLE_ADD(m, metadata, 1);
    m->metadata[at] = (struct model_metadata){key, value};
  } else if (at < m->n_metadata) {
    m->n_metadata--;
    memmove(m->metadata + at, m->metadata + at + 1, (m->n_metadata - at) * sizeof *m->metadata);
  }
  m->dirty |= MODEL_DIRTY_METADATA;
}
