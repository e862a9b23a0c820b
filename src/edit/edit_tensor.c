// The edits of tensors, and the recipes that read them.
//
//   graph or subgraph   a new tensor is an initializer, and the value of its name
//   function body       has no initializers: a Constant node at the body's start makes the value
//
// A tensor that is replaced takes the new recipe's dtype and dims. What it held in the source can
// still be asked for by recipes made before, and by the log, which names it by address: that recipe
// is remembered in `source_of`.
#include "edit.h"
#include "edit_check.h"
#include "edit_groups.h"
#include "edit_line.h"
#include "edit_make.h"
#include "edit_rows.h"

static uint32_t add_initializer(struct edits *e, uint32_t graph, struct span name,
                                uint32_t recipe) {
  struct model *m = e->m;
  const uint32_t id = model_intern(m, name);
  const uint32_t value = model_add_value(m, graph, id);
  const uint32_t tensor = edit_make_tensor(e, graph, id, recipe);
  m->tensors[tensor].home = HOME_INITIALIZER;
  m->tensors[tensor].owner = value;
  m->values[value].kind = VALUE_INITIALIZER;
  m->values[value].def = tensor;
  edit_rows_mark_graph(m, graph, GRAPH_DIRTY);
  return value;
}

static uint32_t add_constant(struct edits *e, uint32_t graph, struct span name, uint32_t recipe) {
  struct model *m = e->m;
  const struct edit_output out = {.value = NO_ID, .name = name};
  const struct edit_attr attr = {.name = "value", .type = ATTR_TENSOR, .recipe = recipe};
  const struct edit_node spec = {.graph = graph,
                                 .before = m->graphs[graph].first_node,
                                 .name = name,
                                 .op_type = span_str("Constant"),
                                 .out = &out,
                                 .n_out = 1,
                                 .attrs = &attr,
                                 .n_attrs = 1};
  const uint32_t node = edit_make_node(e, &spec);
  edit_groups_made(e, node);
  m->tensors[m->attrs[m->nodes[node].attrs].first].name = m->nodes[node].name;
  return model_output(m, &m->nodes[node], 0);
}

uint32_t edit_add_tensor(struct edits *e, uint32_t graph, struct span name, uint32_t recipe) {
  struct err err = {0};
  edit_check_promise(edit_check_add_tensor(e, graph, name, recipe, &err), &err);
  const bool constant = e->m->graphs[graph].kind == GRAPH_FUNCTION;
  const uint32_t value =
      constant ? add_constant(e, graph, name, recipe) : add_initializer(e, graph, name, recipe);
  if (edit_line_begin(e, "tensor.add")) {
    edit_line_value(e, "value", value);
    edit_line_node(e, "node", constant ? e->m->values[value].def : NO_ID);
    edit_line_tensor(e, e->m->n_tensors - 1);
  }
  edit_done(e);
  return value;
}

void edit_stands_for(struct edits *e, uint32_t tensor, uint32_t weight, uint32_t called) {
  const uint32_t before = e->m->tensors[weight].of;
  e->m->tensors[tensor].of = before == e->m->empty ? called : before;
}

uint32_t edit_add_tensor_for(struct edits *e, uint32_t graph, struct span name, uint32_t recipe,
                             uint32_t weight, uint32_t called) {
  const uint32_t value = edit_add_tensor(e, graph, name, recipe);
  edit_stands_for(e, e->m->n_tensors - 1, weight, called);
  return value;
}

// A Constant's value_floats and the like hold no tensor to replace: `value` does.
static void become_value(struct model *m, uint32_t attr) {
  struct model_attr *a = &m->attrs[attr];
  if (!model_attr_is_constant(m, a)) return;
  const uint32_t name = model_intern(m, span_str("value"));
  a->name = name;
  a->type = ATTR_TENSOR;
  a->count = 1;
}

void edit_replace_tensor(struct edits *e, uint32_t tensor, uint32_t recipe) {
  struct err err = {0};
  struct model *m = e->m;
  edit_check_promise(edit_check_replace_tensor(e, tensor, recipe, &err), &err);
  if (!(m->tensors[tensor].flags & (TENSOR_NEW | TENSOR_REPLACED))) {
    const uint32_t source =
        edit_tensor_readable(e, tensor) ? edit_make_source_recipe(e, tensor) + 1 : 0;
    if (tensor >= e->n_source_of) TABLE_ADD(e, source_of, tensor + 1 - e->n_source_of);
    e->source_of[tensor] = source;
    m->tensors[tensor].flags |= TENSOR_REPLACED;
  }
  edit_make_data(e, tensor, recipe);
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->home == HOME_ATTRIBUTE) {
    become_value(m, t->owner);
    edit_rows_mark_attr(m, t->owner);
  } else {
    edit_rows_mark_graph(m, t->graph, GRAPH_DIRTY);
  }
  if (edit_line_begin(e, "tensor.replace")) edit_line_tensor(e, tensor);
  edit_done(e);
}

void edit_remove_tensor(struct edits *e, uint32_t tensor) {
  struct err err = {0};
  edit_check_promise(edit_check_remove_tensor(e, tensor, &err), &err);
  struct model_tensor *t = &e->m->tensors[tensor];
  t->flags |= TENSOR_DEAD;
  edit_rows_release(e->m, t->owner);
  edit_rows_mark_graph(e->m, t->graph, GRAPH_DIRTY);
  if (edit_line_begin(e, "tensor.remove")) edit_line_tensor_address(e, tensor);
  edit_done(e);
}

// ---- recipes of tensors ------------------------------------------------------------------------

bool edit_tensor_readable(const struct edits *e, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  return dtype_bits((enum dtype)t->dtype) > 0 && t->rank <= RECIPE_MAX_RANK &&
         t->encoding != ENCODING_STRINGS;
}

static bool has_own_recipe(const struct model_tensor *t) {
  return t->flags & (TENSOR_NEW | TENSOR_REPLACED);
}

uint32_t edit_tensor_recipe(struct edits *e, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  return has_own_recipe(t) ? t->recipe : edit_make_source_recipe(e, tensor);
}

uint32_t edit_tensor_recipe_as(struct edits *e, uint32_t tensor, const int64_t *dims,
                               uint32_t rank) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  return has_own_recipe(t) ? recipe_reshape(e->r, t->recipe, dims, rank)
                           : edit_make_source_recipe_as(e, tensor, dims, rank);
}
